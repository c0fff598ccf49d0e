//! `--paths`, `touches(...)` and `[to=...]`: what real programs touch, against the file system and
//! strace.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::{TcpListener, UdpSocket},
    os::unix::fs::{MetadataExt as _, symlink},
    path::{Path, PathBuf},
};

use zctrace::touched::{TouchAction, TouchKind, Touched};

use crate::copiers::{copy, in_rust};
use crate::harness::{
    BACKENDS, Program, TestDir, c, each_backend, program, python, shell, zctrace,
};

#[track_caller]
fn touched_in(directory: &TestDir, program: &Program, backend: &str) -> Touched {
    let zctrace = zctrace().option("--paths").option(backend);
    let run = zctrace.dir(directory.path()).run(program);
    run.report.touched.expect("it was asked for")
}

/// The paths that were touched so.
fn paths(touched: &Touched, kind: TouchKind) -> BTreeSet<String> {
    let is_such = |action: TouchAction, done: u64| kind.includes(action) && done > 0;
    let paths = touched.paths.iter().filter(|path| {
        let mut all = path.touches.iter();
        all.any(|touch| is_such(touch.action, touch.done()))
    });
    paths.map(|path| path.path.clone()).collect()
}

/// What is known of each file below a directory: its inode, and when it changed. Of a directory, the
/// inode alone: it changes with each name in it.
fn state(root: &Path, below: &Path, found: &mut BTreeMap<String, (u64, i64, i64)>) {
    for entry in fs::read_dir(below).expect("can be listed") {
        let path = entry.expect("can be read").path();
        let about = path.symlink_metadata().expect("is there");
        let name = path.strip_prefix(root).expect("is below");
        let changed = if about.is_dir() {
            (about.ino(), 0, 0)
        } else {
            (about.ino(), about.ctime(), about.ctime_nsec())
        };
        found.insert(name.to_str().expect("UTF-8").to_owned(), changed);
        if about.is_dir() {
            state(root, &path, found);
        }
    }
}

fn state_of(directory: &TestDir) -> BTreeMap<String, (u64, i64, i64)> {
    let mut found = BTreeMap::new();
    state(directory.path(), directory.path(), &mut found);
    found
}

const GIT: &str = "git -c user.name=n -c user.email=e@x -c init.defaultBranch=main";

/// Commands of others, each after the one before it in one directory.
fn commands() -> [String; 9] {
    [
        format!("{GIT} init -q r && cd r && echo x > f && {GIT} add f && {GIT} commit -qm m"),
        format!("cd r && {GIT} mv f g && {GIT} commit -qm n && {GIT} gc -q"),
        "cp -a r s && tar cf r.tar r && rm -r r && tar xf r.tar".to_owned(),
        "printf 'import os\\nx = 1\\n' > m.py && python3 -m py_compile m.py".to_owned(),
        "sed -i s/x/y/ m.py && chmod 600 m.py && ln -sf m.py l && ln m.py h && mv h i".to_owned(),
        "printf 'all: a\\na: m.py\\n\\tcat m.py > a\\n' > Makefile && make -s".to_owned(),
        "python3 -c 'import sqlite3; sqlite3.connect(\"d\").execute(\"create table t(a)\")'"
            .to_owned(),
        "touch t && truncate -s 5 t && mkfifo p && install -m 755 t u && rmdir -p v/w || mkdir -p v/w"
            .to_owned(),
        "find s -name '*.sample' -delete; gzip -k t; dd if=t of=t conv=notrunc status=none"
            .to_owned(),
    ]
}

#[test]
fn what_changed_in_the_file_system_was_written_and_nothing_else_was_created() {
    BACKENDS.into_iter().for_each(check_what_changed);
}

fn check_what_changed(backend: &str) {
    let directory = TestDir::new();
    for command in commands() {
        let before = state_of(&directory);
        let touched = touched_in(&directory, &shell(&command), backend);
        let after = state_of(&directory);
        assert_eq!(touched.doubts, [""; 0], "{command}");
        let written = paths(&touched, TouchKind::Write);
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        let changed: BTreeSet<String> = names
            .into_iter()
            .filter(|name| before.get(*name) != after.get(*name))
            .cloned()
            .collect();
        let moved = paths(&touched, TouchKind::Rename);
        let is_below_moved =
            |name: &String| moved.iter().any(|path| Path::new(name).starts_with(path));
        let unseen: Vec<&String> = changed
            .difference(&written)
            .filter(|name| !is_below_moved(name))
            .collect();
        assert_eq!(unseen, [""; 0], "{command}: {written:#?}");
        assert!(!changed.is_empty(), "{command}");
        // What was removed is gone, unless it was made again, perhaps as it was before.
        for path in paths(&touched, TouchKind::Remove).difference(&written) {
            assert!(!after.contains_key(path), "{command}: {path}");
        }
    }
}

#[test]
fn a_path_through_a_symbolic_link_is_that_behind_it() {
    BACKENDS.into_iter().for_each(check_links);
}

fn check_links(backend: &str) {
    let directory = TestDir::new();
    let outside = TestDir::new();
    symlink(outside.path(), directory.join("link")).expect("can be made");
    outside.write("f", "x");
    outside.write("g", "x");
    let touched = touched_in(
        &directory,
        &shell("chmod 600 link/f; rm link/g; mkdir link/d"),
        backend,
    );
    let written = paths(&touched, TouchKind::Write);
    for name in ["f", "g", "d"] {
        assert!(written.contains(&outside.word(name)), "{written:#?}");
    }
    let programs = paths(&touched, TouchKind::Exec);
    let chmod = PathBuf::from("/bin/chmod")
        .canonicalize()
        .expect("is there");
    assert!(
        programs.contains(chmod.to_str().expect("UTF-8")),
        "{programs:#?}"
    );
}

#[test]
fn a_link_that_the_run_made_or_put_in_place_of_a_directory_is_followed_as_it_was_then() {
    BACKENDS.into_iter().for_each(check_links_of_the_run);
}

fn check_links_of_the_run(backend: &str) {
    let directory = TestDir::new();
    let outside = TestDir::new();
    for name in ["a", "b", "f"] {
        outside.write(name, "x");
    }
    let (a, b, out) = (outside.word("a"), outside.word("b"), outside.word(""));
    let script = format!(
        "import os\nos.symlink({a:?}, 's')\nos.truncate('s', 0)\nos.unlink('s')\n\
         os.symlink({b:?}, 'kept')\nos.truncate('kept', 0)\n\
         os.mkdir('d')\nopen('d/f', 'w').close()\nos.chmod('d/f', 0o600)\n\
         os.rename('d', 'd2')\nos.symlink({out:?}, 'd')\nos.chmod('d/f', 0o600)\n"
    );
    let touched = touched_in(&directory, &python(&script), backend);
    assert_eq!(touched.doubts, [""; 0]);
    let written = paths(&touched, TouchKind::Write);
    let behind = outside.word("f");
    let expected = [&a, &b, &behind, "s", "kept", "d", "d/f", "d2"].map(str::to_owned);
    assert_eq!(written, BTreeSet::from(expected));
}

#[test]
fn what_may_have_led_elsewhere_is_doubted() {
    let outside = TestDir::new();
    for script in [
        "os.chmod('old', 0o600); os.unlink('old')",
        "os.unlink('link/g'); os.unlink('link')",
        "os.chmod('/proc/self/cwd/g', 0o600)",
        "os.chmod('here/g', 0o600)",
        "os.truncate('next', 0); os.unlink('old')",
        "os.chmod('link/../' + os.path.basename(os.readlink('link')) + '/g', 0o600)",
        "import ctypes, socket; s = socket.socket(2, 2); to = bytes([0, 0, 0, 9, 127, 0, 0, 1]) + bytes(8); ctypes.CDLL(None).sendto(s.fileno(), b'x', 1, 0, to, 16)",
        "m = os.memfd_create('m', 0); os.sendfile(m, os.open('/bin/true', 0), 0, 1 << 24); os.execve(m, ['m'], {})",
    ] {
        for backend in BACKENDS {
            let directory = TestDir::new();
            outside.write("g", "x");
            symlink(outside.word("g"), directory.join("old")).expect("can be made");
            symlink(outside.path(), directory.join("link")).expect("can be made");
            symlink("old", directory.join("next")).expect("can be made");
            symlink("/proc/self/cwd", directory.join("here")).expect("can be made");
            directory.write("g", "x");
            let program = python(&format!("import os\n{script}\n"));
            let touched = touched_in(&directory, &program, backend);
            assert_eq!(touched.doubts.len(), 1, "{backend} {script}: {touched:#?}");
        }
    }
}

/// The path without the number of a process in it.
fn without_pid(path: &str) -> String {
    let parts = path.split('/').enumerate();
    let is_pid = |at, part: &str| at == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = parts.map(|(at, part)| if is_pid(at, part) { "PID" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

/// The paths that a log of `strace -yy` has of calls that opened a file for reading, by its text.
fn opened_for_reading(log: &str) -> BTreeSet<String> {
    let lines = log.lines().filter(|line| line.contains("openat("));
    let lines = lines.filter(|line| !line.contains("O_WRONLY") && !line.contains("O_PATH"));
    let result = |line: &str| {
        let (_, result) = line.rsplit_once(") = ")?;
        let path = result.split_once('<')?.1.rsplit_once('>')?.0;
        let path = path.split('<').next()?;
        path.starts_with('/').then(|| without_pid(path))
    };
    lines.filter_map(result).collect()
}

#[test]
fn a_log_and_a_live_run_say_the_same_as_the_text_of_the_log() {
    let directory = TestDir::new();
    fs::create_dir(directory.join("in")).expect("can be made");
    directory.write("in/a", "x");
    directory.write("in/b", "y");
    let script = "cat in/* > /dev/null; wc -c < in/a; grep -r x in; id -un > /dev/null";
    let live = touched_in(&directory, &shell(script), "--backend=strace");
    let log = shell(script).log_in(&directory, &["-f", "-yy"]);
    let report = zctrace().option("--paths").report_on_log(&directory);
    let of_log = report.touched.expect("it was asked for");
    let absolute = |found: BTreeSet<String>| -> BTreeSet<String> {
        let whole = |path: String| without_pid(directory.join(path).to_str().expect("UTF-8"));
        found.into_iter().map(whole).collect()
    };
    let read = absolute(paths(&of_log, TouchKind::Read));
    assert_eq!(absolute(paths(&live, TouchKind::Read)), read);
    let opened = opened_for_reading(&log);
    assert!(opened.contains("/etc/passwd") && opened.contains(&directory.word("in/a")));
    assert_eq!(opened.difference(&read).collect::<Vec<_>>(), [""; 0]);
    for kind in [TouchKind::Write, TouchKind::Lookup] {
        assert_eq!(absolute(paths(&live, kind)), absolute(paths(&of_log, kind)));
    }
    // A log does not say where symbolic links lead.
    assert_eq!(
        paths(&live, TouchKind::Exec).len(),
        paths(&of_log, TouchKind::Exec).len()
    );
    let connected = paths(&live, TouchKind::Connect);
    // The log does not show links behind which a socket is.
    assert_eq!(connected.len(), paths(&of_log, TouchKind::Connect).len());
    assert_eq!(log.contains("connect("), !connected.is_empty());
}

/// Checks that this is expected of a command in a directory, under both backends.
#[track_caller]
fn assert_check(directory: &TestDir, script: &str, expectation: &str, status: i32, said: &str) {
    for zctrace in each_backend() {
        let zctrace = zctrace.dir(directory.path());
        let finished = zctrace.check(expectation, &shell(script));
        finished.exits(status).prints(said);
    }
}

#[test]
fn addresses_are_those_that_calls_named_whatever_came_of_it() {
    let directory = TestDir::new();
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let port = |address: std::io::Result<std::net::SocketAddr>| address.expect("has one").port();
    let (tcp, udp) = (port(tcp.local_addr()), port(udp.local_addr()));
    let script = format!(
        "
import socket
socket.create_connection(('127.0.0.1', {tcp}))
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.sendto(b'x', ('127.0.0.1', {udp}))
for _ in range(2):
    try: socket.socket(socket.AF_UNIX).connect('none')
    except OSError: pass
socket.socket(socket.AF_UNIX).bind('made')
"
    );
    for backend in BACKENDS {
        let touched = touched_in(&directory, &python(&script), backend);
        check_addresses(&touched, tcp, udp);
        fs::remove_file(directory.join("made")).expect("it was made");
    }
    directory.write("s.py", script.replace("bind('made')", "bind('again')"));
    let run = "rm -f again; python3 s.py";
    assert_check(
        &directory,
        run,
        r#"connect[to="unix:none"].errors.ENOENT == 2"#,
        0,
        "passed",
    );
    let nobody = r#"connect[to="tcp:*"].calls == 0"#;
    assert_check(&directory, run, nobody, 1, "connected by python3");
    assert_check(&directory, "true", nobody, 0, "passed");
}

#[track_caller]
fn check_addresses(touched: &Touched, tcp: u16, udp: u16) {
    let connected = paths(touched, TouchKind::Connect);
    for address in [
        format!("tcp:127.0.0.1:{tcp}"),
        format!("udp:127.0.0.1:{udp}"),
        "unix:none".to_owned(),
    ] {
        assert!(connected.contains(&address), "{address}: {connected:#?}");
    }
    assert!(paths(touched, TouchKind::Bind).contains("unix:made"));
    assert!(paths(touched, TouchKind::Write).contains("made"));
}

#[test]
fn a_path_outside_is_named_with_the_function_that_made_the_first_call() {
    let directory = TestDir::new();
    directory.write(
        "m.c",
        "#include <fcntl.h>\n\
         int make_first(const char *p) { return open(p, O_CREAT | O_WRONLY, 0600); }\n\
         int make_again(const char *p) { return open(p, O_CREAT | O_WRONLY, 0600); }\n\
         int main(void) {\n\
             const char *names[] = { \"a\", \"b\", \"c\", \"d\" };\n\
             for (int i = 0; i < 8; i++)\n\
                 if (i < 4) make_first(names[i]); else make_again(names[i - 4]);\n\
             return 0;\n\
         }\n",
    );
    let words = ["-g", "-O0", "-o", "m", "m.c"];
    let compile = program("gcc").args(&words).dir(directory.path());
    compile.finish().successful();
    let allow = "touches(write) within []";
    let words = ["check", "--callers", "--expect", allow, "--", "./m"];
    let finished = zctrace().dir(directory.path()).finish_with(&words);
    let printed = String::from_utf8_lossy(&finished.stdout);
    // Only some calls of a name are sampled, but each first touch.
    for name in ["a", "b", "c", "d"] {
        let said = format!("\"{name}\": written by m, first by openat after ");
        let lines = printed.lines();
        let line = lines.map(str::trim).find(|line| line.starts_with(&said));
        let line = line.unwrap_or_else(|| panic!("{name}: {printed}"));
        assert!(
            line.ends_with("2 calls, caller: make_first (m.c:2)"),
            "{line}"
        );
    }
    finished.exits(1);
}

/// A path, what was done with it, and the call.
type TouchRowKey = (String, TouchAction, String);

/// How many calls, their errors, and the bytes that they moved.
type TouchRow = (u64, BTreeMap<String, u64>, u64);

/// What was done with each path, whatever temporary names and processes were called. A lookup may be
/// told by the name of a symbolic link on its way, or by that of its target.
fn rows(touched: &Touched, directory: &TestDir) -> BTreeMap<TouchRowKey, TouchRow> {
    let mut rows: BTreeMap<TouchRowKey, TouchRow> = BTreeMap::new();
    let own = directory.path().to_str().expect("UTF-8");
    for path in &touched.paths {
        let name = general(&real(&path.path).replace(own, "DIR"));
        for touch in &path.touches {
            let key = (name.clone(), touch.action, touch.call.clone());
            let (calls, errors, bytes) = rows.entry(key).or_default();
            *calls += touch.calls;
            *bytes += touch.bytes;
            for (errno, count) in &touch.errors {
                *errors.entry(errno.clone()).or_default() += count;
            }
        }
    }
    rows
}

/// An absolute path without symbolic links, if it is there.
fn real(path: &str) -> String {
    let found = Path::new(path).canonicalize().ok();
    // A link in /proc leads each process elsewhere.
    let found = found.filter(|_| path.starts_with('/') && !path.starts_with("/proc/"));
    found.map_or(path.to_owned(), |found| {
        found.to_str().expect("UTF-8").to_owned()
    })
}

/// A path with one name for all that begin like a temporary one.
fn general(path: &str) -> String {
    const STARTS: [&str; 8] = [
        "/tmp/cc",
        "sed",
        "tmp_obj_",
        "refs_",
        "/.tmp-",
        "/tmp_pack_",
        "/tmp_idx_",
        ".pyc.",
    ];
    let path = without_pid(path);
    let found = STARTS
        .into_iter()
        .find_map(|start| Some((start, path.find(start)?)));
    match found {
        Some((start, at)) if start != "sed" || at == 0 => format!("{}*", &path[..at + start.len()]),
        _ => path,
    }
}

/// Real programs, each with what makes its directory.
const PROGRAMS: [(&str, &str); 13] = [
    (
        "mkdir p; echo 'import os' > p/m.py",
        "/usr/bin/python3 -m compileall -q p",
    ),
    (
        "mkdir -p r/d; cp /etc/*.conf r; ln -s x r/l",
        "cp -a r s && tar cf t r && rm -r r && tar xf t",
    ),
    (
        "printf 'm: m.c\\n\\tgcc -o m m.c\\n' > Makefile; echo 'int main(){}' > m.c",
        "make -s",
    ),
    (
        "git init -q r; echo x > r/f; touch -d 2001-01-01 r/f",
        "cd r && git add f && git commit -qm m && git log",
    ),
    (
        "mkdir -p s/a; touch s/a/x.c s/y; cp /etc/services t",
        "find s -name '*.c' -delete; gzip -k t; dd if=t of=u bs=10 status=none",
    ),
    (
        "echo x > m",
        "sed -i s/x/y/ m && chmod 600 m && ln -sf m l && ln m h && mv h i && install -m 755 m j",
    ),
    (
        "true",
        "mkdir a; cd a; echo > x; cd ..; mv a b; cd b; cat x; cd ../b/.; rm x; cd ..; rmdir b; mkfifo p; truncate -s 5 t",
    ),
    (
        "true",
        "/usr/bin/python3 -c 'import sqlite3; c = sqlite3.connect(\"d\"); c.execute(\"create table t(a)\"); c.execute(\"insert into t values(1)\"); c.commit()'",
    ),
    (
        "mkdir in; echo x > in/a; echo y > in/b",
        "cat in/* > /dev/null; wc -c < in/a; grep -r x in; id -un > /dev/null; ls -la in",
    ),
    ("true", "/usr/bin/python3 -m venv --without-pip v"),
    (
        "true",
        "perl -e 'mkdir \"x\"; open(F, \">x/f\"); print F 1; close F; utime(1, 2, \"x/f\"); unlink \"x/f\"; chdir \"x\"; rename \"../x\", \"../y\"; stat \".\"'",
    ),
    (
        "touch -d 2001-01-01 f",
        "rsync --version > /dev/null 2>&1; cmp f /dev/null; stat f; readlink -f f; test -e none || getfacl f; date -r f; sort f",
    ),
    (
        "true",
        "cd /tmp && /usr/bin/python3 -c 'import os; os.close(1); d = os.open(\".\", 0); os.stat(\"none\", dir_fd=d) if 0 else os.scandir(d); os.fchdir(d); os.access(\"x\", 0); os.readlink(\"/proc/self/exe\")'",
    ),
];

#[test]
fn both_backends_list_the_same() {
    for (before, command) in PROGRAMS {
        let [ebpf, strace] = BACKENDS.map(|backend| {
            let directory = TestDir::new();
            let set_up = shell(before).dir(directory.path());
            set_up.finish().successful();
            let command = format!("HOME=/none; export HOME; {GIT_ENVIRONMENT}; {command}");
            let touched = touched_in(&directory, &shell(&command), backend);
            assert_eq!(
                (&touched.doubts, touched.left_out),
                (&vec![], 0),
                "{command}"
            );
            rows(&touched, &directory)
        });
        let names = ebpf.keys().chain(strace.keys()).collect::<BTreeSet<_>>();
        let differing = names
            .into_iter()
            .filter(|name| ebpf.get(*name) != strace.get(*name));
        let differing: Vec<_> = differing
            .map(|name| (name, ebpf.get(name), strace.get(name)))
            .collect();
        assert_eq!(differing, [], "{command}");
    }
}

/// What makes each commit the same.
const GIT_ENVIRONMENT: &str = "export GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=e GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=e GIT_AUTHOR_DATE=2001-01-01T00:00Z GIT_COMMITTER_DATE=2001-01-01T00:00Z";

#[test]
fn further_calls_on_a_path_are_counted_exactly() {
    let directory = TestDir::new();
    let script = "
import os
f = os.open('f', os.O_RDWR | os.O_CREAT)
for i in range(20000):
    os.write(f, b'xyz')
    os.stat('f')
    try: os.stat('none')
    except OSError: pass
";
    let touched = touched_in(&directory, &python(script), "--backend=ebpf");
    assert_eq!(touched.doubts, [""; 0]);
    let rows = rows(&touched, &directory);
    let found = |path: &str, action, call: &str| {
        let (calls, errors, bytes) = &rows[&(path.to_owned(), action, call.to_owned())];
        (*calls, errors.values().sum(), *bytes)
    };
    let written = found("f", TouchAction::Written, "write");
    assert_eq!(written, (20_000, 0, 60_000));
    let stat = |path| found(path, TouchAction::LookedUp, "newfstatat");
    assert_eq!(stat("f"), (20_000, 0, 0));
    assert_eq!(stat("none"), (20_000, 20_000, 0));
}

#[test]
fn operations_of_a_ring_are_unseen() {
    for backend in BACKENDS {
        let directory = TestDir::new();
        directory.write("in", "x");
        let program = copy(&in_rust(), "io-uring", "in", "out");
        let touched = touched_in(&directory, &program, backend);
        let doubt = "the command may have submitted operations to io_uring";
        let mut doubts = touched.doubts.iter();
        assert!(doubts.any(|why| why.starts_with(doubt)), "{touched:#?}");
    }
}

#[test]
fn what_could_hide_a_path_makes_the_list_incomplete() {
    let directory = TestDir::new();
    symlink("real", directory.join("link")).expect("can be made");
    let listener = std::os::unix::net::UnixListener::bind(directory.join("real"));
    let _listener = listener.expect("can be made");
    let connects = "import socket; socket.socket(socket.AF_UNIX).connect('link')";
    let queue = "import ctypes; ctypes.CDLL('librt.so.1').mq_unlink(b'/zctrace-no-such'); \
                 q = ctypes.CDLL('librt.so.1').mq_open(b'/zctrace-test', 0o102, 0o600, None); \
                 ctypes.CDLL('librt.so.1').mq_unlink(b'/zctrace-test')";
    let root = "open('/proc/self/root/etc/hosts').read()";
    for backend in BACKENDS {
        let touched = touched_in(&directory, &python(connects), backend);
        assert!(
            paths(&touched, TouchKind::Connect).contains("unix:real"),
            "{touched:?}"
        );
        for (script, word) in [(queue, "message queue"), (root, "/proc")] {
            let touched = touched_in(&directory, &python(script), backend);
            let mut doubts = touched.doubts.iter();
            assert!(
                doubts.any(|why| why.contains(word)),
                "{backend}: {touched:?}"
            );
        }
    }
}

#[test]
fn threads_share_a_directory_whatever_became_of_the_flags_of_clone3() {
    for backend in BACKENDS {
        let directory = TestDir::new();
        let touched = touched_in(&directory, &c("overwritten-flags"), backend);
        assert_eq!(touched.doubts, [""; 0], "{backend}");
    }
}
