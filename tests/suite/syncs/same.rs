//! Both backends say the same of a program.

use std::fs;

use serde_json::{Value, to_value};

use super::{check, git_commit, replace, sqlite, syncs_of, verdict};
use crate::harness::{BACKENDS, Program, TestDir, binary, program, python, shell, zctrace};
use zctrace::durable::SyncVerdict::{InOrder, NotSynced, Unknown};

/// What a report says of syncs, without times and without names that a program makes up.
fn comparable(value: Value, made_up: &dyn Fn(&str) -> bool) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(name, _)| !name.ends_with("ns"))
            .map(|(name, value)| (name, comparable(value, made_up)))
            .collect(),
        Value::Array(values) => {
            let values = values.into_iter();
            let mut values: Vec<_> = values.map(|value| comparable(value, made_up)).collect();
            // Names that a program makes up decide their order.
            values.sort_by_key(ToString::to_string);
            values.into()
        }
        Value::String(text) if made_up(&text) => "made up".into(),
        other => other,
    }
}

#[track_caller]
fn assert_same(program: &Program, made_up: &dyn Fn(&str) -> bool) {
    // In a new directory, strace also shows which files an open creates.
    let renew = shell("rmdir data && mkdir data && sync . && exec \"$@\"").arg("sh");
    let program = &renew.args(program.words());
    let [strace, ebpf] = ["--backend=strace", "--backend=ebpf"].map(|backend| {
        let syncs = to_value(syncs_of(program, backend)).expect("is JSON");
        comparable(syncs, made_up)
    });
    let [ebpf, strace] = [ebpf, strace].map(|syncs| format!("{syncs:#}"));
    let lines = ebpf.lines().zip(strace.lines());
    let differing: Vec<_> = lines.filter(|(ebpf, strace)| ebpf != strace).collect();
    let words = program.words();
    assert!(ebpf == strace, "{words:?}: eBPF, strace: {differing:#?}");
}

#[track_caller]
fn assert_all_same(programs: impl IntoIterator<Item = Program>) {
    for program in programs {
        assert_same(&program, &|_| false);
    }
}

#[test]
fn of_files_that_are_replaced() {
    let syncs = ["none", "file", "directory", "file and directory"];
    assert_all_same(syncs.map(replace));
    let scripts = [
        "cd data; echo a>a; echo b>b; mv a c; mv b c; ln c d; ln -s c e; rm d; mkdir k; mv c k/c; rmdir k; sync",
        "mkdir data/d; cd data/d; echo a > a; cd ..; mv d e; echo b > e/b; sync e/a; sync e",
        "mkdir data/d; ln -s d data/l; echo a > data/l/f; sync data/d/f; sync data/l; sync data",
        "echo a>data/a; sync; sed -i s/a/b/ data/a",
        "echo a>data/a; sync -f data; touch data/a; sync data/a; sync data/a",
        "exec >data/out; echo a; echo b; exec 1>&2; echo c",
        "echo a; echo b; echo c > data/a",
        "dd if=/dev/zero bs=4k count=3 status=none of=data/a oflag=dsync; sync data",
    ];
    assert_all_same(scripts.map(shell));
}

#[test]
fn of_databases() {
    for journal in ["delete", "wal"] {
        assert_all_same(["off", "full", "extra"].map(|level| sqlite(journal, level)));
    }
}

#[test]
fn of_commits() {
    // Objects have the time in their names.
    let is_made_up = |text: &str| text.contains("objects/");
    for fsync in ["all", "none"] {
        assert_same(&git_commit(fsync), &is_made_up);
    }
}

/// Programs in Python that begin like this.
const BEGIN: &str = "
import ctypes, mmap, os, socket, threading, time
def new(name, flags=0): return os.open('data/' + name, os.O_RDWR | os.O_CREAT | os.O_EXCL | flags)
def sync_directory(): os.fsync(os.open('data', os.O_RDONLY))
libc = ctypes.CDLL(None)
def wait_for_splice():
    number = {'x86_64': '275 ', 'aarch64': '76 '}[os.uname().machine]
    calls = lambda: [open(f'/proc/self/task/{tid}/syscall').read() for tid in os.listdir('/proc/self/task')]
    while not any(call.startswith(number) for call in calls()): time.sleep(0.01)
";

#[test]
fn of_calls_by_descriptors() {
    let programs = [
        // O_TMPFILE and linkat
        "
f = os.open('data', os.O_WRONLY | os.O_TMPFILE)
os.write(f, b'x')
os.fsync(f)
os.link('/proc/self/fd/%d' % f, 'data/n', src_dir_fd=0, follow_symlinks=True)
sync_directory()
",
        // Several descriptors and names of one file, and fork.
        "
f = new('a')
os.link('data/a', 'data/b')
g = os.open('data/b', os.O_WRONLY)
if os.fork() == 0:
    os.write(f, b'x')
    os._exit(0)
os.wait()
os.fsync(g)
sync_directory()
os.write(os.dup(g), b'y')
",
        // Paths that begin in open directories.
        "
d = os.open('data', 0)
os.mkdir('s', dir_fd=d)
e = os.open('s', 0, dir_fd=d)
f = os.open('q', os.O_WRONLY | os.O_CREAT, dir_fd=e)
os.write(f, b'a')
os.rename('q', 'r', src_dir_fd=e, dst_dir_fd=d)
os.unlink('r', dir_fd=d)
os.fsync(d)
",
        // A path through a symbolic link that no call made.
        "
f = new('x')
os.write(f, b'x')
os.fsync(f)
os.close(os.open('to-data/x', os.O_RDONLY))
os.rename('to-data/x', 'to-data/y')
sync_directory()
",
        // RENAME_EXCHANGE
        "
for name in 'ab':
    f = new(name)
    os.write(f, b'x')
    os.fsync(f)
sync_directory()
libc.renameat2(-100, b'data/a', -100, b'data/b', 2)
",
        "
for name in 'abc':
    f = new(name)
    os.write(f, b'x')
    os.fsync(f)
sync_directory()
os.truncate('data/a', 0)
os.posix_fallocate(f, 0, 10000)
os.fdatasync(f)
open('data/b', 'w').close()
",
        "
os.write(new('a'), b'x')
a, b = socket.socketpair()
s = socket.socket()
s.bind(('127.0.0.1', 0))
s.listen()
c = socket.create_connection(s.getsockname())
a.send(b'x')
c.sendall(b'y')
os.write(c.fileno(), b'z')
os.path.exists('/zctrace/mark/end')
",
        "
f, g = new('a'), new('b', os.O_DSYNC)
for _ in range(1000):
    os.write(f, b'x' * 100)
    os.write(g, b'y' * 10)
os.fsync(f)
for _ in range(1000): os.write(f, b'x' * 100)
os.fdatasync(f)
os.pwrite(f, b'z', 0)
for _ in range(10): os.write(f, b'x' * 100)
",
    ];
    assert_all_same(programs.map(|script| python(&format!("{BEGIN}{script}"))));
}

#[test]
fn of_mappings_and_of_calls_at_the_same_time() {
    let programs = [
        "
f, g = new('a'), new('b')
for file in (f, g):
    os.ftruncate(file, 8192)
    os.fsync(file)
sync_directory()
m, n = mmap.mmap(f, 8192), mmap.mmap(g, 8192)
m[0] = n[0] = 1
m.flush()
",
        // A shared mapping that becomes writable.
        "
f, g = new('a'), new('b')
libc.mmap.restype = ctypes.c_void_p
maps = []
for file in (f, g):
    os.ftruncate(file, 8192)
    os.fsync(file)
    maps.append(ctypes.c_void_p(libc.mmap(None, 8192, mmap.PROT_READ, mmap.MAP_SHARED, file, 0)))
    libc.mprotect(maps[-1], 8192, mmap.PROT_READ | mmap.PROT_WRITE)
sync_directory()
libc.msync(maps[0], 8192, 4)
",
        // The same in a child.
        "
f = new('a')
libc.mmap.restype = ctypes.c_void_p
os.ftruncate(f, 4096)
address = ctypes.c_void_p(libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_SHARED, f, 0))
os.fsync(f)
sync_directory()
if os.fork() == 0:
    libc.mprotect(address, 4096, mmap.PROT_READ | mmap.PROT_WRITE)
    os._exit(0)
os.wait()
",
        // A sync while a write is under way: what it moves from a pipe comes later.
        "
f = new('a')
os.fsync(f)
sync_directory()
r, w = os.pipe()
thread = threading.Thread(target=lambda: libc.splice(r, None, f, None, 100, 0))
thread.start()
wait_for_splice()
os.fsync(f)
os.write(w, b'x')
thread.join()
os.fsync(f)
os.fsync(f)
",
    ];
    assert_all_same(programs.map(|script| python(&format!("{BEGIN}{script}"))));
}

#[test]
fn of_changes_that_a_sync_does_not_cover() {
    let new = "
f = new('a')
os.ftruncate(f, 8192)
os.fsync(f)
sync_directory()
";
    let programs = [
        (
            "
libc.mmap.restype = ctypes.c_void_p
m = ctypes.c_void_p(libc.mmap(None, 8192, mmap.PROT_READ, mmap.MAP_SHARED, f, 0))
assert libc.pkey_mprotect(m, 8192, mmap.PROT_READ | mmap.PROT_WRITE, -1) == 0
ctypes.memset(m, 1, 1)
",
            Unknown,
        ),
        // msync of one page, of the other page, of nothing, and of both.
        (
            "
m = mmap.mmap(f, 8192)
m[4096] = 1
m.flush(0, 4096)
",
            Unknown,
        ),
        (
            "
m = mmap.mmap(f, 8192)
m[0] = 1
m.flush(4096, 4096)
",
            Unknown,
        ),
        (
            "
m = mmap.mmap(f, 8192)
m[0] = 1
m.flush(0, 0)
",
            Unknown,
        ),
        (
            "
m = mmap.mmap(f, 8192)
m[0] = 1
m.flush(0, 5000)
",
            InOrder,
        ),
    ];
    for (script, expected) in programs {
        let program = python(&format!("{BEGIN}{new}{script}"));
        assert_same(&program, &|_| false);
        check(&program, &[("data/a", expected)]);
    }
    // strace does not show which file this empties.
    let script = "
handle, mount = ctypes.create_string_buffer(b'\\x80', 136), ctypes.c_int()
assert libc.name_to_handle_at(-100, b'data/a', handle, ctypes.byref(mount), 0) == 0
assert libc.open_by_handle_at(os.open('data', 0), handle, os.O_WRONLY | os.O_TRUNC) >= 0
";
    let program = python(&format!("{BEGIN}{new}{script}"));
    for (backend, expected) in BACKENDS.into_iter().zip([NotSynced, Unknown]) {
        let syncs = syncs_of(&program, backend);
        assert_eq!(verdict(&syncs, "data/a"), expected, "{backend}: {syncs:#?}");
    }
}

/// Before the run, a file has got two names, and a directory two paths.
#[test]
fn of_files_with_two_paths() {
    const PREPARE: &str = "mkdir data other && mount --bind data other && echo x >data/a &&
ln data/a data/b && exec \"$@\"";
    let by_descriptor = "
f = os.open('data/a', os.O_WRONLY)
os.write(f, b'x')
os.fsync(os.open('data/b', os.O_RDONLY))
";
    let by_path = "
os.truncate('data/a', 1)
os.fsync(os.open('data/b', os.O_RDONLY))
";
    let by_mount = "
os.fsync(new('n'))
os.fsync(os.open('other', os.O_RDONLY))
";
    for (script, path, expected) in [
        // The kernel side tells files apart.
        (by_descriptor, "data/a", [InOrder, Unknown]),
        (by_path, "data/a", [Unknown, Unknown]),
        (by_mount, "data/n", [Unknown, Unknown]),
    ] {
        for (backend, expected) in BACKENDS.into_iter().zip(expected) {
            let directory = TestDir::new();
            let zctrace = zctrace().option("--syncs").option(backend);
            let zctrace = zctrace.through(&["unshare", "--mount", "sh", "-c", PREPARE, "sh"]);
            let program = python(&format!("{BEGIN}{script}"));
            let run = zctrace.dir(directory.path()).run(&program);
            let syncs = run.report.syncs.expect("it was asked for");
            assert_eq!(verdict(&syncs, path), expected, "{backend}: {syncs:#?}");
        }
    }
}

/// The file has something to sync after each write, and counts as output, not as changed.
#[test]
fn of_a_file_that_is_stdout() {
    for backend in BACKENDS {
        let directory = TestDir::new();
        let zctrace = binary();
        let script = "echo a; sync out; echo b; sync out; sync out";
        let command = format!(
            "{} --syncs {backend} --format json -o report sh -c '{script}' >out",
            zctrace.display()
        );
        let words = ["-c", &command];
        let run = program("sh").args(&words).dir(directory.path()).finish();
        run.successful();
        let report = fs::read(directory.join("report")).expect("was written");
        let report: Value = serde_json::from_slice(&report).expect("is JSON");
        let syncs = &report["syncs"];
        let found = [
            &syncs["changed"],
            &syncs["sums"]["count"],
            &syncs["sums"]["wasted"],
        ];
        assert_eq!(found, [0, 3, 1], "{backend}: {syncs:#}");
    }
}
