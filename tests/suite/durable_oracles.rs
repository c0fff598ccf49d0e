//! `--syncs` on bugs that others found: logs of strace from public issues, and programs that make the
//! calls of known bugs, before and after the fix.

use std::fs;

use zctrace::{
    durable::{
        SyncVerdict::{self, InOrder, NotSynced},
        Syncs,
    },
    expect::ExpectError,
};

use crate::{
    durable_truth::in_memory,
    harness::{TestDir, each_backend, python, zctrace},
};

/// What `zctrace report --syncs` says of a log.
#[track_caller]
fn report(log: &str) -> Syncs {
    let directory = TestDir::with("log", log);
    let words = ["report", "--syncs", "--format=json", "log"];
    let finished = zctrace().dir(directory.path()).finish_with(&words);
    finished.report().syncs.expect("it was asked for")
}

#[track_caller]
fn assert_verdicts(syncs: &Syncs, expected: &[(&str, SyncVerdict)]) {
    for (path, verdict) in expected {
        let file = syncs.files.iter().find(|file| file.path == *path);
        let found = file.map(|file| file.verdict);
        assert_eq!(found, Some(*verdict), "{path}: {:#?}", syncs.files);
    }
}

/// quickwit-oss/tantivy#1223: a document is added and committed. The log was cut by hand: without the
/// ids of threads and without writes.
const TANTIVY: &str = r#"
 getcwd( <unfinished ...>
 <... getcwd resumed>"/home/u/flush", 512) = 14 <0.000022>
 openat(AT_FDCWD, "/home/u/flush/./idx/.tmp1", O_RDWR|O_CREAT|O_EXCL|O_CLOEXEC, 0600) = 4 <0.000088>
 close(4)                    = 0 <0.000021>
 rename("/home/u/flush/./idx/.tmp1", "./idx/.managed.json") = 0 <0.000147>
 openat(AT_FDCWD, "./idx", O_RDONLY|O_CLOEXEC) = 4 <0.000019>
 fsync(4 <unfinished ...>
 <... fsync resumed>)        = 0 <0.000814>
 close(4)                    = 0 <0.000017>
 openat(AT_FDCWD, "./idx/9b.store", O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC, 0666) = 4 <0.000034>
 openat(AT_FDCWD, "./idx", O_RDONLY|O_CLOEXEC) = 5 <0.000018>
 fsync(5)                    = 0 <0.000720>
 close(5)                    = 0 <0.000106>
 getcwd("/home/u/flush", 512) = 14 <0.000018>
 openat(AT_FDCWD, "/home/u/flush/./idx/.tmp2", O_RDWR|O_CREAT|O_EXCL|O_CLOEXEC, 0600) = 5 <0.000048>
 close(5)                    = 0 <0.000018>
 rename("/home/u/flush/./idx/.tmp2", "./idx/.managed.json") = 0 <0.000147>
"#;

/// stratis-storage/stratisd#1235: what the fix made of it. Here its mount is `/mnt`.
const STRATISD: &str = r#"
openat(AT_FDCWD, "/mnt/filesystems/26.temp", O_WRONLY|O_CREAT|O_CLOEXEC, 0666) = 9
write(9, "{\"name\":\"fs10\",\"uuid\":\"26\"}", 113) = 113
fsync(9)                                = 0
close(9)                                = 0
rename("/mnt/filesystems/26.temp", "/mnt/filesystems/26.json") = 0
write(2, "DEBUG"..., 151) = 151
openat(AT_FDCWD, "/mnt/filesystems", O_RDONLY|O_CLOEXEC) = 9
fsync(9)                                = 0
close(9)                                = 0
"#;

/// mongodb-partners/mongo-rocks#35: `MongoDB` on `RocksDB` starts, and stores a document. The directory
/// of the journal is never synced, which the issue says loses the document.
const MONGO_ROCKS: &str = r#"
openat(AT_FDCWD, "/data/db/000004.sst", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3
write(3, "x", 1) = 1
fdatasync(3) = 0
openat(AT_FDCWD, "/data/db/MANIFEST-000005", O_RDWR|O_CREAT|O_TRUNC, 0644) = 4
write(4, "x", 1) = 1
fdatasync(4) = 0
openat(AT_FDCWD, "/data/db/000005.dbtmp", O_RDWR|O_CREAT|O_TRUNC, 0644) = 5
write(5, "x", 1) = 1
fdatasync(5) = 0
rename("/data/db/000005.dbtmp", "/data/db/CURRENT") = 0
unlink("/data/db/MANIFEST-000001") = 0
openat(AT_FDCWD, "/data/db/journal/000006.log", O_RDWR|O_CREAT|O_EXCL, 0644) = 6
unlink("/data/db/journal/000003.log") = 0
openat(AT_FDCWD, "/data/db", O_RDONLY) = 7
fsync(7) = 0
write(6, "document", 8) = 8
fdatasync(6) = 0
"#;

#[test]
fn logs_of_public_issues_say_what_their_readers_said() {
    let tantivy = report(TANTIVY);
    let managed = "/home/u/flush/idx/.managed.json";
    let store = "/home/u/flush/idx/9b.store";
    // The excerpt ends before the sync of the last rename.
    assert_verdicts(&tantivy, &[(managed, NotSynced), (store, InOrder)]);
    assert_eq!((tantivy.sums.count, tantivy.sums.wasted), (2, 0));
    assert_eq!(tantivy.sums.ns, Some(720_000 + 814_000));
    assert_verdicts(&report(STRATISD), &[("/mnt/filesystems/26.json", InOrder)]);
    assert_verdicts(
        &report(MONGO_ROCKS),
        &[
            ("/data/db/000004.sst", InOrder),
            ("/data/db/CURRENT", InOrder),
            ("/data/db/journal/000006.log", NotSynced),
            ("/data/db/journal/000003.log", NotSynced),
        ],
    );
}

/// How each of these bugs begins: the calls of the program, up to where the fix syncs the directory.
const BUGS: [(&str, &str, &str); 3] = [
    // SpacetimeDB#5785: a new segment of the log is renamed into place; then what is appended to it is
    // synced and acknowledged.
    (
        "durable(\"data/**\") before write(stdout)",
        "segment = os.open('data/.tmp', os.O_RDWR | os.O_CREAT | os.O_EXCL)
os.write(segment, b'header')
os.fsync(segment)
os.rename('data/.tmp', 'data/0.log')",
        "os.write(segment, b'transaction')
os.fdatasync(segment)
os.write(1, b'acknowledged')",
    ),
    // litestream#1344: a restored database is renamed into place.
    (
        "durable(\"data/**\")",
        "file = os.open('data/db.tmp', os.O_RDWR | os.O_CREAT | os.O_EXCL)
os.write(file, b'database')
os.fsync(file)
os.close(file)
os.rename('data/db.tmp', 'data/db')",
        "",
    ),
    // redb#203: a database is created and synced, without its directory.
    (
        "durable(\"data/**\")",
        "file = os.open('data/db.redb', os.O_RDWR | os.O_CREAT | os.O_EXCL)
os.ftruncate(file, 4096)
os.pwrite(file, b'header', 0)",
        "os.fsync(file)",
    ),
];

#[test]
fn known_bugs_are_found_and_their_fixes_are_enough() {
    const FIX: &str = "
directory = os.open('data', os.O_RDONLY)
os.fsync(directory)
os.close(directory)
";
    for (expectation, calls, rest) in BUGS {
        for (fix, zctrace) in ["", FIX]
            .into_iter()
            .flat_map(|fix| each_backend().map(|one| (fix, one)))
        {
            let directory = in_memory();
            fs::create_dir(directory.join("data")).expect("room");
            let script = format!("import os\n{calls}\n{fix}\n{rest}");
            let zctrace = zctrace.option("--syncs").dir(directory.path());
            let run = zctrace.run(&python(&script));
            run.finished.exits(0);
            match (fix, run.report.expect(expectation)) {
                ("", Err(ExpectError::Fails(_))) | (FIX, Ok(())) => {}
                (_, found) => panic!("{script}\n{found:?}"),
            }
        }
    }
}
