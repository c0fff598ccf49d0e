//! Which file a call was on: paths as the process sees them, several names of one file, descriptors
//! that change, files without a path.

use zctrace::report::{Api, FileTotals};

use super::{BYTES, file, files, input, traced, traced_odd, written};
use crate::harness::{
    ReportRows, TestDir, Transfers as _, Zctrace, each_backend, python, shell, zctrace,
};

/// The options of every `dd`.
const DD: &str = "bs=4k status=none";

/// A script that may mount something, the arguments of the `sh` that then copies `in`, and the
/// paths of both ends as the process sees them.
const PATHS: [[&str; 4]; 4] = [
    [
        "mkdir sub",
        "cd sub && exec dd if=../in of=out",
        "in",
        "sub/out",
    ],
    [
        "mkdir mnt && mount -t tmpfs none mnt && mkdir mnt/deep",
        "exec dd if=in of=mnt/deep/out",
        "in",
        "mnt/deep/out",
    ],
    [
        "mkdir a b && mount --bind a b",
        "exec dd if=in of=b/out",
        "in",
        "b/out",
    ],
    [
        "mkdir -p root/usr root/proc && for name in bin lib lib64; do cp -a /$name root; done && \
         mount --bind /usr root/usr && cp in root",
        "exec chroot root dd if=/in of=/out",
        "/in",
        "/out",
    ],
];

#[test]
fn paths_are_those_that_the_process_sees_from_where_the_command_was_launched() {
    for [mount, command, from, to] in PATHS {
        let directory = input();
        let zctrace = zctrace().dir(directory.path()).with_mounts(mount);
        let run = zctrace.run_exactly(&shell(&format!("{command} {DD}")));
        run.finished.successful();
        let transfer = run.report.transfer("in", "out");
        let paths = (transfer.from.path.as_deref(), transfer.to.path.as_deref());
        assert_eq!(paths, (Some(from), Some(to)), "{command}");
        assert_eq!(transfer.bytes, Some(BYTES), "{command}");
        let is_on_tmpfs = transfer.to.fs.as_deref() == Some("tmpfs");
        assert!(is_on_tmpfs || !mount.contains("tmpfs"), "{transfer:?}");
    }
}

/// A script that uses files in a way that is easily mistaken; and for each of its files by the name
/// that it was first seen by, how many calls and bytes were written to it.
type FileScript = (&'static str, &'static [(&'static str, u64, u64)]);

const SCRIPTS: [FileScript; 6] = [
    (
        "exec 3>one; ln one two; printf %100s >&3; printf %200s >>two",
        &[("one", 2, 300)],
    ),
    (
        "exec 3>before; printf %10s >&3; mv before after; printf %20s >&3",
        &[("before", 2, 30)],
    ),
    (
        "exec 3>gone; rm gone; printf %40s >gone; printf %60s >&3",
        &[("gone", 1, 40), ("gone (deleted)", 1, 60)],
    ),
    (
        "printf %50s >\"$(printf 'caf\\351')\"",
        &[(r"caf\xe9", 1, 50)],
    ),
    // Always the same descriptor: opened anew, and replaced by dup2.
    (
        "for i in 1 2 3 4 5; do printf 1 >a; printf 22 >b; done",
        &[("a", 5, 5), ("b", 5, 10)],
    ),
    (
        "exec 4>a 5>b; for i in 1 2 3 4 5; do exec 3>&4; printf 1 >&3; exec 3>&5; printf 22 >&3; done",
        &[("a", 5, 5), ("b", 5, 10)],
    ),
];

#[test]
fn a_file_is_the_same_under_each_of_its_names_and_another_behind_the_same_descriptor() {
    for (script, expected) in SCRIPTS {
        let run = traced(&input(), &shell(script));
        for &(name, calls, bytes) in expected {
            let found = written(&run.report, name);
            assert_eq!(found, (calls, Some(bytes)), "{name}: {script}");
        }
        for other in ["two", "after"] {
            assert!(files(&run.report, other).is_empty(), "{other}: {script}");
        }
    }
}

/// Writes to three files, each opened in another way.
const OPENED: &str = "
import os
for name, flags in (('plain', 0), ('log', os.O_DSYNC), ('data', os.O_SYNC)):
    descriptor = os.open(name, os.O_CREAT | os.O_WRONLY | flags)
    os.write(descriptor, b'x' * 20000 if name == 'log' else b'')
";

#[test]
fn flags_that_change_what_a_write_costs_are_with_the_file() {
    let directory = input();
    let program = python(OPENED);
    let expected: [(&str, &[&str]); 3] =
        [("plain", &[]), ("log", &["O_DSYNC"]), ("data", &["O_SYNC"])];
    for zctrace in each_backend() {
        let run = zctrace
            .dir(directory.path())
            .option("--files")
            .run_exactly(&program);
        for (name, flags) in expected {
            assert_eq!(file(&run.report, name).file.open_flags, flags, "{name}");
        }
    }
    let shown = zctrace()
        .dir(directory.path())
        .option("--files")
        .show(&program);
    for expected in ["\n  data (O_SYNC) ", " to log (O_DSYNC)\n"] {
        assert!(shown.stderr.contains(expected), "{expected}: {shown}");
    }
}

/// Tries `copy_file_range`, and then copies with `sendfile`.
const COPY_AFTER_AN_ATTEMPT: &str = "
import os
source, target = os.open('in', os.O_RDONLY), os.open('out', os.O_CREAT | os.O_WRONLY)
try: os.copy_file_range(source, target, 20000)
except OSError: os.sendfile(target, source, None, 20000)
";

#[test]
fn a_copy_between_layers_of_one_overlay_names_its_attempt_and_no_two_filesystems() {
    let overlay = "mkdir lower upper merged && mount -t tmpfs one lower && mount -t tmpfs two upper \
                   && mkdir upper/files upper/work && head -c 20000 /dev/urandom >lower/in \
                   && mount -t overlay -o lowerdir=lower,upperdir=upper/files,workdir=upper/work \
                   overlay merged && cd merged";
    for zctrace in each_backend() {
        let directory = TestDir::new();
        let zctrace = zctrace
            .dir(directory.path())
            .option("--files")
            .with_mounts(overlay);
        let report = zctrace.clone().run(&python(COPY_AFTER_AN_ATTEMPT)).report;
        let transfer = report.transfer("in", "out");
        assert_eq!((transfer.api, transfer.bytes), (Api::Sendfile, Some(20000)));
        let [attempt] = transfer.attempts.as_slice() else {
            panic!("{transfer:?}");
        };
        let failed = (
            attempt.syscall.as_str(),
            attempt.errno.as_str(),
            attempt.calls,
        );
        assert_eq!(failed, ("copy_file_range", "EXDEV", 1));
        let filesystems = [&transfer.from, &transfer.to].map(|end| end.fs.as_deref());
        if report.backend == "ebpf" {
            assert_eq!(filesystems, [Some("overlay"); 2]);
        }
        let why = "does not work between these two filesystems, or layers of one overlay";
        assert!(transfer.verdict.ends_with(why), "{}", transfer.verdict);
        let calls = |name| {
            let found = file(&report, name);
            (found.reads, found.writes, found.errors)
        };
        assert_eq!((calls("in"), calls("out")), ((1, 0, 1), (0, 1, 1)));
    }
}

/// Writes 60 bytes to a file whose path is longer than a call can take.
const VERY_LONG: &str = r#"
import os
for _ in range(30):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
os.write(os.open("deep", os.O_CREAT | os.O_WRONLY), b"l" * 60)
"#;

#[test]
fn a_path_that_is_too_long_is_marked_as_cut() {
    let run = traced(&input(), &python(VERY_LONG));
    let deep = run.report.files.iter().find(|totals| {
        totals
            .file
            .path
            .as_deref()
            .is_some_and(|path| path.ends_with("/deep"))
    });
    let deep = deep.expect("it is listed");
    assert_eq!((deep.writes, deep.bytes_written), (1, Some(60)));
    let path = deep.file.path.as_deref().unwrap_or_default();
    assert!(path.starts_with("…/ddd") && path.len() > 3000, "{path}");
}

/// Creates, writes and deletes twenty files in turn, with 1, 2, ... 20 bytes. Prints how many inode
/// numbers they had.
const TWENTY_FILES: &str = "i=1; while [ $i -le 20 ]; do \
    printf %${i}s >again; stat -c %i again; rm again; i=$((i+1)); done | sort -u | wc -l";

/// Makes sure that twenty files, each deleted before the next is created, are twenty files. Returns
/// how many inode numbers they had.
#[track_caller]
fn inode_numbers_of_twenty(zctrace: Zctrace, directory: &TestDir) -> u32 {
    let zctrace = zctrace.option("--files").dir(directory.path());
    let run = zctrace.run_exactly(&shell(TWENTY_FILES));
    let again = files(&run.report, "again");
    let mut bytes: Vec<_> = again
        .iter()
        .map(|totals| (totals.writes, totals.bytes_written))
        .collect();
    bytes.sort_unstable();
    let expected: Vec<_> = (1..=20).map(|bytes| (1, Some(bytes))).collect();
    assert_eq!(bytes, expected);
    let numbers = run.finished.successful().trim().parse();
    numbers.expect("a number of inode numbers")
}

#[test]
fn a_file_with_the_inode_number_of_a_deleted_one_is_another_file() {
    inode_numbers_of_twenty(zctrace(), &input());
    inode_numbers_of_twenty(zctrace(), &TestDir::inside("/dev/shm"));
    // ext4 reuses a number at once.
    let ext4 = "truncate -s 64M image && mkfs.ext4 -q image && mkdir mnt && mount -o loop image mnt && cd mnt";
    let zctrace = zctrace().with_mounts(ext4);
    assert_eq!(inode_numbers_of_twenty(zctrace, &input()), 1);
}

#[test]
fn another_thread_can_replace_the_file_of_a_descriptor() {
    let run = traced_odd("replaced-by-thread");
    assert_eq!(written(&run.report, "a"), (100, Some(100)));
    assert_eq!(written(&run.report, "b"), (100, Some(200)));
}

#[test]
fn io_uring_can_replace_the_file_of_a_descriptor() {
    let run = traced_odd("ring-replaced");
    let read = |name| {
        let file = file(&run.report, name);
        (file.reads, file.bytes_read)
    };
    assert_eq!((read("a"), read("b")), ((1, Some(1)), (1, Some(2))));
}

/// A child receives a descriptor of `passed` through a socket and writes 500 bytes to it.
const PASSED: &str = r#"
import os, socket
ours, theirs = socket.socketpair()
if os.fork() == 0:
    _, [received], *_ = socket.recv_fds(theirs, 1, 1)
    os.write(received, b"p" * 500)
    os._exit(0)
socket.send_fds(ours, [b"!"], [os.open("passed", os.O_CREAT | os.O_WRONLY)])
assert os.wait()[1] == 0
"#;

#[test]
fn a_descriptor_received_over_a_socket_is_the_senders_file() {
    let run = traced(&input(), &python(PASSED));
    assert_eq!(written(&run.report, "passed"), (1, Some(500)));
    let [child] = run.descendants()[..] else {
        panic!("one child, not {:?}", run.descendants().len())
    };
    let writes = ReportRows::of_process(child).row("write");
    assert_eq!((writes.calls, writes.bytes), (1, Some(500)));
}

/// The two ends of a connection: first the one that wrote, then the one that read.
#[track_caller]
fn ends(mut both: Vec<&FileTotals>, bytes: u64) -> [&FileTotals; 2] {
    both.sort_by_key(|totals| totals.reads);
    let [writer, reader] = both
        .try_into()
        .unwrap_or_else(|both| panic!("two ends, not {both:?}"));
    assert_eq!(
        (writer.bytes_written, reader.bytes_read),
        (Some(bytes), Some(bytes))
    );
    [writer, reader]
}

/// One `write` and one `read` of so many bytes.
const SEND: &str = r#"
import os, socket
def send(to, source, count):
    os.write(to, b"s" * count)
    assert len(os.read(source, count)) == count
"#;

/// Connects through a Unix socket with a path, and by TCP over IPv4 and IPv6, and sends 11, 44 and
/// 66 bytes to the listening side. Prints its TCP ports.
const SOCKETS: &str = r#"
for family, address, count in [
    (socket.AF_UNIX, "listening", 11),
    (socket.AF_INET, ("127.0.0.1", 0), 44),
    (socket.AF_INET6, ("::1", 0), 66),
]:
    listening, near = socket.socket(family), socket.socket(family)
    listening.bind(address)
    listening.listen()
    near.connect(listening.getsockname())
    far, _ = listening.accept()
    send(near.fileno(), far.fileno(), count)
    if family != socket.AF_UNIX:
        print(listening.getsockname()[1])
"#;

#[test]
fn sockets_are_shown_with_their_addresses() {
    let run = traced(&input(), &python(&format!("{SEND}{SOCKETS}")));
    ends(files(&run.report, "listening"), 11);
    let ports: Vec<&str> = run.finished.text().split_ascii_whitespace().collect();
    for (host, port, bytes) in [("127.0.0.1", ports[0], 44), ("[::1]", ports[1], 66)] {
        let listening = format!("{host}:{port}");
        let address = |address: &Option<String>| address.as_ref() == Some(&listening);
        let both = run
            .report
            .files
            .iter()
            .filter(|totals| address(&totals.file.local) || address(&totals.file.peer))
            .collect();
        let [client, server] = ends(both, bytes);
        assert_eq!(
            (client.file.kind.as_deref(), server.file.kind.as_deref()),
            (Some("tcp"), Some("tcp"))
        );
        assert_eq!(
            (&client.file.local, &client.file.peer),
            (&server.file.peer, &server.file.local)
        );
        assert_eq!(server.file.local, Some(listening));
    }
}

/// Writes 21, 22, 23 and 8 bytes to a socket pair, a pipe, a memfd and an eventfd.
const NAMELESS: &str = r#"
one, other = socket.socketpair()
send(one.fileno(), other.fileno(), 21)
reader, writer = os.pipe()
send(writer, reader, 22)
os.write(os.memfd_create("zc-memory"), b"m" * 23)
os.eventfd_write(os.eventfd(0), 1)
"#;

#[test]
fn files_without_a_name_have_a_kind() {
    let run = traced(&input(), &python(&format!("{SEND}{NAMELESS}")));
    ends(files(&run.report, "unix-stream"), 21);
    let pipes: Vec<_> = files(&run.report, "pipe")
        .into_iter()
        .filter(|totals| totals.reads > 0)
        .collect();
    let [pipe] = pipes[..] else {
        panic!("one pipe, not {pipes:?}")
    };
    assert_eq!((pipe.bytes_written, pipe.bytes_read), (Some(22), Some(22)));
    for (name, kind, bytes) in [
        ("memfd:zc-memory", "memfd", 23),
        ("anon_inode:[eventfd]", "eventfd", 8),
    ] {
        assert_eq!(written(&run.report, name), (1, Some(bytes)));
        let kind_of_file = file(&run.report, name).file.kind.as_deref();
        assert_eq!(kind_of_file, Some(kind));
    }
}

/// Files that get another name, or seem to.
const RENAMED: &str = "
import os
def write(name):
    with open(name, 'wb') as file: file.write(bytes(9000))
write('new.tmp'); os.rename('new.tmp', 'new')
write('again.tmp'); os.rename('again.tmp', 'again'); write('again.tmp')
write('gone.tmp'); os.unlink('gone.tmp'); write('later')
write('two.tmp'); os.link('two.tmp', 'one'); os.rename('two.tmp', 'two')
os.mkdir('folder'); write('away.tmp'); os.rename('away.tmp', 'folder/away')
";

#[test]
fn a_file_that_was_renamed_in_its_directory_has_its_name_at_the_end() {
    // Not every filesystem tells a file from a later one with its inode number.
    let ext4 = "truncate -s 64M image && mkfs.ext4 -q image && mkdir mnt && mount -o loop image mnt && cd mnt";
    let directory = TestDir::new();
    let zctrace = zctrace().ebpf().dir(directory.path()).with_mounts(ext4);
    let run = zctrace.run(&python(RENAMED));
    run.finished.successful();
    let written = run.root().destinations.iter();
    let files = written.filter_map(|one| one.file.as_ref());
    let names = files.map(|file| {
        let name = |path: &Option<String>| path.clone().unwrap_or_default();
        (name(&file.path), name(&file.path_at_end))
    });
    let mut found: Vec<(String, String)> = names.collect();
    found.sort();
    let expected = [
        ("again.tmp", ""),
        ("again.tmp", "again"),
        ("away.tmp", ""),
        ("gone.tmp", ""),
        ("later", ""),
        ("new.tmp", "new"),
        ("two.tmp", ""),
    ];
    assert_eq!(
        found,
        expected.map(|(first, last)| (first.to_owned(), last.to_owned()))
    );
}
