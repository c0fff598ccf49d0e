//! `--syncs` counts exactly, however many calls there are, and its memory grows with the files alone.

use std::{fmt::Write as _, fs};

use zctrace::durable::{FileSyncs, SyncVerdict, Syncs};

use crate::{
    durable_truth::in_memory,
    harness::{TestDir, each_backend, python, zctrace},
};

/// Runs a program, and writes to stderr how many KiB of memory it took at most.
const MEASURE: &str = "
import os, sys
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
print(usage.ru_maxrss, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
";

/// What a log says, and how many KiB of memory that takes.
#[track_caller]
fn read(log: &str) -> (Syncs, u64) {
    let directory = TestDir::with("log", log);
    let measured = zctrace().through(&["/usr/bin/python3", "-I", "-S", "-c", MEASURE]);
    let words = ["report", "--syncs", "--format=json", "log"];
    let finished = measured.dir(directory.path()).finish_with(&words);
    let kib = finished.stderr.trim().parse().expect("a number alone");
    (finished.report().syncs.expect("it was asked for"), kib)
}

fn file<'a>(syncs: &'a Syncs, path: &str) -> &'a FileSyncs {
    let found = syncs.files.iter().find(|file| file.path == path);
    found.unwrap_or_else(|| panic!("no {path}"))
}

/// A log with this number of writes between two syncs.
fn writes(count: u64) -> String {
    let create = "openat(AT_FDCWD, \"a\", O_WRONLY|O_CREAT|O_EXCL, 0600) = 3\nfsync(3) = 0\n";
    let write = "write(3, \"x\", 1) = 1\n".repeat(usize::try_from(count).expect("fits"));
    let directory = "openat(AT_FDCWD, \".\", O_RDONLY|O_DIRECTORY) = 9\nfsync(9) = 0\n";
    format!("{create}{write}fsync(3) = 0\n{directory}")
}

/// A log in which this number of files is written and synced.
fn files(count: u64) -> String {
    let mut log = String::new();
    for number in 0..count {
        let open = format!("openat(AT_FDCWD, \"{number}\", O_WRONLY|O_CREAT|O_EXCL, 0600) = 3");
        writeln!(
            log,
            "{open}\nwrite(3, \"x\", 1) = 1\nfsync(3) = 0\nclose(3) = 0"
        )
        .expect("room");
    }
    log + "openat(AT_FDCWD, \".\", O_RDONLY|O_DIRECTORY) = 9\nfsync(9) = 0\n"
}

#[test]
fn memory_grows_with_files_and_not_with_writes() {
    const MAX_KIB_FOR_WRITES: u64 = 2048;
    const MAX_KIB_FOR_A_FILE: u64 = 4;
    let (_, few_kib) = read(&writes(1_000));
    let (many, many_kib) = read(&writes(200_000));
    let a = file(&many, "a");
    assert_eq!((a.calls, a.bytes), (200_000, 200_000));
    assert_eq!(a.verdict, SyncVerdict::InOrder);
    assert_eq!((many.sums.count, many.sums.wasted), (3, 1));
    assert!(
        many_kib < few_kib + MAX_KIB_FOR_WRITES,
        "{few_kib} {many_kib}"
    );
    let (all, kib) = read(&files(20_000));
    assert_eq!(
        (all.changed, all.in_order, all.sums.count),
        (20_000, 20_000, 20_001)
    );
    assert!(
        kib < few_kib + 20_000 * MAX_KIB_FOR_A_FILE,
        "{few_kib} {kib}"
    );
}

#[test]
fn many_writes_and_files_are_counted_exactly_while_they_happen() {
    let script = "
import os
a = os.open('data/a', os.O_WRONLY | os.O_CREAT | os.O_EXCL)
for number in range(3000): os.write(a, b'x')
os.fsync(a)
for number in range(300):
    f = os.open(f'data/{number}', os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(f, b'x')
    os.fsync(f)
    os.close(f)
os.fsync(os.open('data', os.O_RDONLY))
";
    for zctrace in each_backend() {
        let directory = in_memory();
        fs::create_dir(directory.join("data")).expect("room");
        let zctrace = zctrace.option("--syncs").dir(directory.path());
        let run = zctrace.run(&python(script));
        run.finished.exits(0);
        let syncs = run.report.syncs.expect("it was asked for");
        assert_eq!((syncs.changed, syncs.in_order), (301, 301));
        assert_eq!((syncs.sums.count, syncs.sums.wasted), (302, 0));
        assert_eq!(file(&syncs, "data/a").calls, 3000);
    }
}
