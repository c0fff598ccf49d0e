//! Calls that fail, by the path that they were given.

use std::collections::{BTreeMap, BTreeSet};

use zctrace::report::{FailedPath, PathBase, Place, Report};

use crate::harness::{BACKENDS, TestDir, c, each_backend, program, python, shell, words, zctrace};

/// The failed calls of a report.
#[track_caller]
fn failed(report: &Report) -> &[FailedPath] {
    let failed = report.totals.failed_paths.as_deref();
    failed.expect("they are known")
}

/// The only failed calls on paths that begin like this.
#[track_caller]
fn failed_on<'a>(report: &'a Report, start: &str) -> &'a FailedPath {
    let path = |one: &FailedPath| one.path.clone().unwrap_or_default();
    let mut found: Vec<_> = failed(report).iter().collect();
    found.retain(|one| path(one).starts_with(start));
    assert_eq!(found.len(), 1, "{start} in {:?}", failed(report));
    found[0]
}

/// Those of the program `failed-paths`; the loader's are left out.
fn stated(report: &Report) -> Vec<String> {
    let is_meant = |path: &String| path == "/" || (path.contains("zc-none") && path.len() < 100);
    let all = failed(report).iter();
    let meant = all.filter(|one| one.path.as_ref().is_none_or(is_meant));
    let mut found: Vec<String> = meant
        .map(|one| {
            let paths = one.path.iter().chain(&one.second_path).cloned();
            let paths = paths.collect::<Vec<_>>().join(" -> ");
            let (call, abi, errno) = (&one.syscall, &one.abi, &one.errno);
            format!("{} x {call} {abi} {errno} {paths}", one.calls)
        })
        .collect();
    found.sort_unstable();
    found
}

#[test]
fn failed_calls_are_counted_by_path_under_both_backends() {
    let mut expected: Vec<String> = [
        "1 x connect NATIVE ENOENT /zc-none/socket",
        "1 x execve NATIVE ENOENT /zc-none/program",
        "1 x linkat NATIVE ENOENT /zc-none/from -> /zc-none/to",
        "1 x mkdirat NATIVE EEXIST /",
        "1 x openat NATIVE EBADF zc-none",
        "1 x openat NATIVE EFAULT ",
        "4 x openat NATIVE ENOENT /zc-none/a",
        "1 x openat NATIVE ENOENT /zc-none/b \"ä\"",
        "1 x openat NATIVE ENOENT /zc-none/below",
        "1 x renameat2 NATIVE ENOENT /zc-none/from -> /zc-none/to",
        "1 x symlinkat NATIVE ENOENT /zc-none/link",
        "1 x open i386 ENOENT /zc-none/32",
    ]
    .map(|line| line.replace("NATIVE", std::env::consts::ARCH))
    .into();
    if cfg!(not(target_arch = "x86_64")) {
        expected.retain(|line| !line.contains("i386"));
    }
    expected.sort_unstable();
    for zctrace in each_backend() {
        let run = zctrace.run(&c("failed-paths"));
        run.finished.successful();
        assert_eq!(stated(&run.report), expected, "{}", run.report.backend);
        assert!(run.report.totals.failed_paths_complete);
    }
}

#[test]
fn of_a_long_path_the_kernel_side_keeps_the_beginning() {
    for (zctrace, (is_cut, bytes)) in each_backend().into_iter().zip([(true, 239), (false, 1023)]) {
        let report = zctrace.run(&c("failed-paths")).report;
        let long = failed_on(&report, "/zc-none/xxx");
        let length = long.path.as_ref().map(String::len);
        assert_eq!(
            (long.path_cut, long.calls, length),
            (is_cut, 1, Some(bytes))
        );
    }
}

#[test]
fn where_a_relative_path_starts_is_known_unless_a_process_changed_its_directory() {
    for zctrace in each_backend() {
        for (program, relative) in [
            (
                program("cat").args(&["zc-none", "/zc-none"]),
                PathBase::Directory,
            ),
            (
                shell("cd /; cat zc-none /zc-none; exit 0"),
                PathBase::Unknown,
            ),
        ] {
            let report = zctrace.clone().run(&program).report;
            let found = ["zc-none", "/zc-none"].map(|path| failed_on(&report, path).base);
            assert_eq!(found, [relative, PathBase::Root], "{}", report.backend);
        }
        // One of its calls names a directory by a descriptor that is not open.
        let report = zctrace.run(&c("failed-paths")).report;
        assert_eq!(failed_on(&report, "zc-none").base, PathBase::Descriptor);
    }
}

/// Whether a call takes a path.
fn takes_path(name: &str) -> bool {
    zctrace::syscalls::Spec::named(name).takes_path()
}

/// The failed calls by name.
fn failed_sums(report: &Report) -> BTreeMap<&str, u64> {
    sums(failed(report).iter().map(|one| (&one.syscall, one.calls)))
}

/// Calls by name.
fn sums<'a>(calls: impl Iterator<Item = (&'a String, u64)>) -> BTreeMap<&'a str, u64> {
    let mut sums = BTreeMap::new();
    for (name, calls) in calls {
        *sums.entry(name.as_str()).or_default() += calls;
    }
    sums
}

#[test]
fn every_failed_call_that_takes_a_path_is_in_the_list_whether_it_has_a_row_or_not() {
    let script = "cat /zc-none/1 /zc-none/2; test -e /zc-none/3; ls /zc-none/4; cd /zc-none/5; \
                  /zc-none/6; mkdir /; exit 0";
    for zctrace in each_backend() {
        let with_rows = zctrace.clone().syscalls("all").run(&shell(script)).report;
        let rows = with_rows.totals.syscalls.iter();
        let failing = rows.filter(|call| takes_path(&call.name) && call.errors > 0);
        let rows = sums(failing.map(|call| (&call.name, call.errors)));
        assert!(rows.len() > 3 && rows.values().sum::<u64>() > 5, "{rows:?}");
        assert_eq!(failed_sums(&with_rows), rows);
        let without_rows = zctrace.run(&shell(script)).report;
        assert_eq!(failed_sums(&without_rows), rows, "{}", without_rows.backend);
    }
}

#[test]
fn a_full_list_is_a_lower_bound_and_counts_stay_exact() {
    let script = shell("cat /zc-none/1 /zc-none/2 /zc-none/3; exit 0");
    let zctrace = zctrace().option("--max-files=1");
    let report = zctrace.run_exactly(&script).report;
    assert!(!report.totals.failed_paths_complete);
    assert_eq!(failed(&report).len(), 1, "{:?}", failed(&report));
    let says_so = |note: &String| note.contains("the paths of") && note.contains("--max-files");
    assert!(report.notes.iter().any(says_so), "{:?}", report.notes);
}

/// Stats 300 paths, and 100 others later.
const EVER_NEW: &str = "
import os, time
for path in range(300): os.path.exists(f'/zc-none/{path}')
time.sleep(1.5)
for path in range(300, 400): os.path.exists(f'/zc-none/{path}')
";

#[test]
fn a_full_list_has_room_again_while_the_process_lives() {
    let zctrace = zctrace().option("--max-files=256");
    let report = zctrace.run_exactly(&python(EVER_NEW)).report;
    let paths = failed(&report).iter().filter_map(|one| one.path.as_deref());
    let listed: BTreeSet<&str> = paths.filter(|path| path.starts_with("/zc-none/")).collect();
    assert!(listed.len() < 400, "there was no room for the first ones");
    for path in 300..400 {
        assert!(listed.contains(&*format!("/zc-none/{path}")), "{path}");
    }
    assert!(!report.totals.failed_paths_complete);
}

#[test]
fn expectations_hold_or_fail_by_path() {
    let failed = r#"openat "/zc-none/1": 1 call failed (ENOENT)"#;
    // The paths of calls that succeed are recorded if an expectation is about them. The loader
    // opened libraries.
    let opened = r#"openat "/etc/ld.so.cache": 2 calls succeeded"#;
    for backend in BACKENDS {
        for (expectation, status, said) in [
            (r#"openat[path="/zc-none/**"].errors == 1"#, 0, ""),
            (r#"openat[path="/zc-none/**"].errors == 0"#, 1, failed),
            (r#"openat[path="/etc/shadow"].calls == 0"#, 0, ""),
            (r#"openat[path="/etc/ld.so.cache"].calls == 0"#, 1, opened),
        ] {
            let expect = format!("--expect={expectation}");
            let check = zctrace().options(&["check", backend, &expect]);
            let finished = check.show(&shell("cat /zc-none/1; exit 0"));
            finished.exits(status).prints(said);
        }
    }
}

#[test]
fn paths_of_calls_that_succeed_are_recorded_only_if_asked_for_and_then_every_call_has_one() {
    let script = shell("cat /dev/null; cat /zc-none/1; exec true");
    for zctrace in each_backend() {
        let totals = zctrace.clone().run(&script).report.totals;
        assert_eq!(totals.succeeded_paths, None);
        let zctrace = zctrace
            .syscalls("all")
            .option("--recorded=rows,times,histograms,others,files,pairing,paths");
        let report = zctrace.run(&script).report;
        let totals = &report.totals;
        assert!(totals.failed_paths_complete);
        let succeeded = totals.succeeded_paths.as_deref().expect("was asked for");
        let opened = |path: &str| {
            let mut opened = succeeded.iter().filter(|one| one.syscall == "openat");
            let found = opened.find(|one| one.path.as_deref() == Some(path));
            found.map(|one| one.calls)
        };
        assert_eq!(opened("/dev/null"), Some(1), "{succeeded:?}");
        assert_eq!(opened("/zc-none/1"), None);
        let rows = totals.syscalls.iter().filter(|call| takes_path(&call.name));
        let returned = sums(rows.map(|call| (&call.name, call.calls)));
        let succeeded = succeeded.iter().map(|one| (&one.syscall, one.calls));
        let failed = failed(&report).iter().map(|one| (&one.syscall, one.calls));
        assert_eq!(sums(succeeded.chain(failed)), returned);
    }
}

#[test]
fn what_explains_a_failure_comes_first_and_searches_are_only_counted() {
    for zctrace in each_backend() {
        // A command that succeeded did without what it did not find.
        for (script, errno, place) in [
            (
                "LD_PRELOAD=libzc-none.so env; exit 1",
                "ENOENT",
                "libzc-none.so in",
            ),
            ("zc-none-program", "ENOENT", "zc-none-program in"),
            (
                "cat /zc-none; echo >/dev/full; exit 0",
                "ENOSPC",
                "/dev/full",
            ),
            (
                "BIG=$(head -c 140000 /dev/zero | tr '\\0' x); export BIG; true; ls /; exit 0",
                "E2BIG",
                "/bin/ls",
            ),
        ] {
            let report = zctrace.clone().run(&shell(script)).report;
            let failures = report.failures();
            let first = failures.groups.first().or(failures.last_missing.as_ref());
            let first = first.expect("a failure");
            let shown = match first.place {
                Place::Path(path) => path.to_owned(),
                Place::Nowhere(name, directories, _) => format!("{name} in {directories}"),
                other => format!("{other:?}"),
            };
            let is_right = first.errno == errno && shown.contains(place);
            assert!(is_right, "{script}: {:?}", failures.groups);
        }
    }
}

/// Commands that fail, each with the error and the name that explain why.
const CAUSES: [(&str, &str, &str); 24] = [
    ("cp nofile out", "ENOENT", "nofile"),
    ("cp out /nosuchdir/out", "ENOENT", "/nosuchdir/out"),
    ("cp out ro/copy", "EROFS", "ro/copy"),
    ("cat nofile", "ENOENT", "nofile"),
    ("cat directory", "EISDIR", "directory"),
    ("ls nofile", "ENOENT", "nofile"),
    ("tar xf nofile", "ENOENT", "nofile"),
    ("touch ro/x", "EROFS", "ro/x"),
    ("dd if=uses.c of=/dev/full", "ENOSPC", "/dev/full"),
    ("mkdir directory", "EEXIST", "directory"),
    ("rmdir directory", "ENOTEMPTY", "directory"),
    ("ln -s nofile out", "EEXIST", "out"),
    (
        "setpriv --reuid=65534 cat /etc/shadow",
        "EACCES",
        "/etc/shadow",
    ),
    ("gcc nosuch.c", "ENOENT", "nosuch.c"),
    ("gcc -c includes.c", "ENOENT", "nosuch.h"),
    ("make -f uses-tool", "ENOENT", "nosuchtool"),
    ("perl -MNosuch -e1", "ENOENT", "Nosuch.pm"),
    ("/usr/bin/python3 reads.py", "ENOENT", "/nosuch/input.csv"),
    ("git clone /nosuch copy", "ENOENT", "/nosuch"),
    ("env nosuchprogram", "ENOENT", "nosuchprogram"),
    ("bash -c nosuchprogram", "ENOENT", "nosuchprogram"),
    ("bash -c ./out", "EACCES", "./out"),
    (
        "bash -c true</dev/tcp/127.0.0.1/1",
        "ECONNREFUSED",
        "127.0.0.1",
    ),
    ("./needs-library", "ENOENT", "libgone.so"),
];

/// What these commands need. The mount stays in the namespace of the run.
const NEEDED: &str = "
mkdir -p directory ro && touch directory/file out && mount -t tmpfs -o ro none ro &&
echo '#include \"nosuch.h\"' >includes.c && echo 'int main( {' >broken.c &&
printf 'all:\n\tnosuchtool x\n' >uses-tool && echo 'open(\"/nosuch/input.csv\")' >reads.py &&
echo 'int gone(void) { return 0; }' >gone.c && echo 'int gone(void); int main(void) { return gone(); }' >uses.c &&
gcc -shared -o libgone.so gone.c && gcc -o needs-library uses.c -L. -lgone && rm libgone.so";

#[test]
fn the_first_failure_is_what_the_program_itself_gives_as_its_reason() {
    let dir = TestDir::new();
    for zctrace in each_backend() {
        let zctrace = zctrace.dir(dir.path()).with_mounts(NEEDED);
        for (line, errno, name) in CAUSES {
            let [first, arguments @ ..] = &words(line)[..] else {
                unreachable!()
            };
            let run = zctrace.clone().run(&program(*first).args(arguments));
            run.finished.says(name);
            let failures = run.report.failures();
            let first = failures.groups.first();
            let is_right = first.is_some_and(|first| {
                first.errno == errno && format!("{:?}", first.place).contains(name)
            });
            assert!(is_right, "{line}: {:?}", failures.groups);
        }
    }
}

/// Commands that fail without a failed call that has to do with it.
const NO_CAUSE: [&str; 5] = [
    "false",
    "grep zzz out",
    "/usr/bin/python3 -c import\tnosuch",
    "/usr/bin/python3 -c raise\tSystemExit(3)",
    "gcc -c broken.c",
];

#[test]
fn of_a_command_that_failed_for_another_reason_no_call_is_the_cause() {
    let dir = TestDir::new();
    for zctrace in each_backend() {
        let zctrace = zctrace.dir(dir.path()).with_mounts(NEEDED);
        for line in NO_CAUSE {
            let [first, arguments @ ..] = &words(line)[..] else {
                unreachable!()
            };
            let shown = zctrace.clone().show(&program(*first).args(arguments));
            shown.says("\nfailed: no cause found");
        }
    }
}

/// Connects to a port where nobody listens, waiting for the answer and not.
const NOBODY: &str = "
import socket, sys
listener = socket.socket()
listener.bind(('127.0.0.1', 0))
address = listener.getsockname()
print(address[1])
for blocks in (True, False):
    client = socket.socket()
    client.setblocking(blocks)
    client.connect_ex(address)
v6 = socket.socket(socket.AF_INET6)
v6.connect_ex(('::1', address[1]))
sys.exit(1)
";

#[test]
fn a_connection_that_fails_is_told_with_its_address() {
    for zctrace in each_backend() {
        let run = zctrace.run(&python(NOBODY));
        let port = run.finished.text().trim().to_owned();
        let failed = failed(&run.report).iter();
        let connects = failed.filter(|one| one.syscall == "connect" && one.path.is_some());
        let connects = connects.filter(|one| one.base == PathBase::Root);
        let found: BTreeSet<(&str, &str)> = connects
            .map(|one| (one.errno.as_str(), one.path.as_deref().unwrap_or_default()))
            .filter(|(_, path)| path.ends_with(&port))
            .collect();
        let [v4, v6] = ["127.0.0.1", "[::1]"].map(|host| format!("{host}:{port}"));
        let has = |errno, path: &str| found.contains(&(errno, path));
        assert!(
            has("ECONNREFUSED", &v4) && has("EINPROGRESS", &v4),
            "{found:?}"
        );
        // A machine may be without version 6.
        assert!(found.iter().any(|(_, path)| *path == v6), "{found:?}");
        let failures = run.report.failures();
        assert_eq!(failures.groups[0].place, Place::Path(&v6));
    }
}

/// Connects without waiting to a port at which nobody listens, and asks for the outcome.
const ASKED: &str = "
import select, socket
listener = socket.socket()
listener.bind(('127.0.0.1', 0))
client = socket.socket()
client.setblocking(False)
client.connect_ex(listener.getsockname())
select.select([], [client], [])
asked = [client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) for _ in range(3)]
listener.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
raise SystemExit(asked == [111, 0, 0])
";

#[test]
fn the_outcome_of_a_connection_is_told_if_the_program_asks_for_it() {
    let [ebpf, strace] = each_backend();
    let with_rows = ebpf.clone().syscalls("all");
    for zctrace in [ebpf, with_rows, strace] {
        let run = zctrace.run(&python(ASKED));
        run.finished.exits(1);
        let without_path = run.report.totals.failed_without_path.iter();
        let told = without_path.filter(|one| one.syscall == "getsockopt");
        let found: Vec<_> = told.map(|one| (one.errno.as_str(), one.calls)).collect();
        assert_eq!(found, [("ECONNREFUSED", 1)], "{}", run.report.backend);
        let groups = run.report.failures().groups;
        assert!(groups.iter().any(|group| group.errno == "ECONNREFUSED"));
    }
}

/// Two refusals of calls that take no path, and an answer that is none: `/dev/null` is no terminal.
const REFUSED: &str = "
import os, socket
listener, second, client = (socket.socket(socket.AF_UNIX) for _ in range(3))
listener.bind(b'\\0zc-refused-%d' % os.getpid())
for refused in (
    lambda: second.bind(listener.getsockname()),
    lambda: client.connect(b'\\0zc-nobody-%d' % os.getpid()),
):
    try: refused()
    except OSError: pass
os.isatty(os.open('/dev/null', os.O_RDONLY))
";

#[test]
fn calls_without_a_path_that_are_refused_are_named_with_rows_and_without() {
    let [ebpf, strace] = each_backend();
    let with_rows = ebpf.clone().syscalls("all");
    for zctrace in [ebpf, with_rows, strace.syscalls("all")] {
        let report = zctrace.run(&python(REFUSED)).report;
        let failed = report.totals.failed_without_path.iter();
        let found = ["bind", "connect", "ioctl"].map(|name| {
            let of_call = failed.clone().filter(|one| one.syscall == name);
            of_call
                .map(|one| (one.errno.as_str(), one.path.as_deref()))
                .collect::<Vec<_>>()
        });
        let expected = [("EADDRINUSE", None), ("ECONNREFUSED", None)];
        assert_eq!(
            found[..2],
            expected.map(|one| vec![one]),
            "{}",
            report.backend
        );
        assert!(found[2].iter().all(|(errno, _)| *errno == "ENOTTY"));
        let groups = report.failures().groups;
        let named = |errno| groups.iter().any(|group| group.errno == errno);
        let shown = ["EADDRINUSE", "ECONNREFUSED", "ENOTTY"].map(named);
        assert_eq!(shown, [true, true, false], "{groups:?}");
    }
}

/// Writes from an odd place into a file opened with `O_DIRECT`, and opens files until it may not.
const MEANT: &str = "
import os, resource
direct = os.open('direct', os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
try: os.pwrite(direct, b'x' * 100, 1)
except OSError: pass
resource.setrlimit(resource.RLIMIT_NOFILE, (6, 6))
try:
    while True: os.open('/', os.O_RDONLY)
except OSError: pass
";

#[test]
fn errors_have_the_meaning_that_they_have_of_their_call() {
    // A tmpfs does not mind unaligned writes.
    let ext4 = "truncate -s 64M image && mkfs.ext4 -q image && mkdir mnt && mount -o loop image mnt && cd mnt";
    let program = python(MEANT);
    for zctrace in each_backend() {
        let directory = TestDir::new();
        let run = zctrace
            .dir(directory.path())
            .with_mounts(ext4)
            .run(&program);
        let without_path = &run.report.totals.failed_without_path;
        let all = failed(&run.report).iter().chain(without_path);
        let meanings: BTreeMap<&str, &str> = all
            .filter_map(|one| Some((one.errno.as_str(), one.meaning.as_deref()?)))
            .collect();
        assert!(meanings["EINVAL"].contains("O_DIRECT"), "{meanings:?}");
        assert!(meanings["EMFILE"].contains("RLIMIT_NOFILE"), "{meanings:?}");
    }
}
