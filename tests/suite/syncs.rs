//! `--syncs`: what real programs sync, by each backend and by strace's logs.

mod kernel;
mod same;

use std::{fs, os::unix::fs::symlink};

use zctrace::durable::{
    SyncVerdict::{self, InOrder, NotSynced, Unknown},
    Syncs,
};

use crate::harness::{BACKENDS, Program, TestDir, python, shell, zctrace};

/// What a program leaves in a directory of its own, which has the directory `data` and a symbolic link
/// to that.
#[track_caller]
fn syncs_of(program: &Program, backend: &str) -> Syncs {
    let directory = TestDir::new();
    fs::create_dir(directory.join("data")).expect("can be made");
    symlink("data", directory.join("to-data")).expect("can be made");
    let zctrace = zctrace().option("--syncs").option(backend);
    let run = zctrace.dir(directory.path()).run(program);
    run.report.syncs.expect("it was asked for")
}

/// The verdict on a file.
#[track_caller]
fn verdict(syncs: &Syncs, path: &str) -> SyncVerdict {
    let file = syncs.files.iter().find(|file| file.path == path);
    file.unwrap_or_else(|| panic!("no {path} in {:?}", syncs.files))
        .verdict
}

/// Checks the verdicts on some files: `data/a in order`.
#[track_caller]
fn check(program: &Program, expected: &[(&str, SyncVerdict)]) {
    for backend in BACKENDS {
        let syncs = syncs_of(program, backend);
        for (path, expected) in expected {
            let found = verdict(&syncs, path);
            assert_eq!(found, *expected, "{backend}: {path}: {syncs:#?}");
        }
    }
}

#[test]
fn a_file_needs_a_sync_of_its_data_and_of_its_directory() {
    let dd = "dd if=/dev/zero bs=4k count=2 status=none of=data/a";
    check(&shell(dd), &[("data/a", NotSynced)]);
    // strace does not show whether dd created the file: it may have been there before.
    let expected = [[NotSynced, InOrder], [Unknown; 2]];
    for (backend, expected) in BACKENDS.into_iter().zip(expected) {
        for (rest, expected) in ["conv=fsync", "oflag=dsync; sync data"]
            .iter()
            .zip(expected)
        {
            let syncs = syncs_of(&shell(&format!("{dd} {rest}")), backend);
            assert_eq!(verdict(&syncs, "data/a"), expected, "{backend}: {syncs:#?}");
        }
    }
    let new = format!("mkdir data/d; {dd}; cp data/a data/d/b");
    check(
        &shell(&format!("{new}; sync data/d/b")),
        &[("data/d/b", NotSynced)],
    );
    let whole = format!("{new}; sync data/d/b data/d data");
    check(
        &shell(&whole),
        &[("data/d/b", InOrder), ("data/d", InOrder)],
    );
}

/// Replaces a file as Python programs do, with these syncs.
fn replace(syncs: &str) -> Program {
    let script = "
import os
f = os.open('data/x.tmp', os.O_WRONLY | os.O_CREAT | os.O_EXCL)
os.write(f, b'hello')
if 'file' in SYNCS: os.fsync(f)
os.replace('data/x.tmp', 'data/x')
if 'directory' in SYNCS:
    d = os.open('data', os.O_RDONLY)
    os.fsync(d)
";
    python(&script.replace("SYNCS", &format!("'{syncs}'")))
}

#[test]
fn a_file_that_is_replaced_needs_both_syncs() {
    check(&replace("none"), &[("data/x", NotSynced)]);
    check(&replace("file"), &[("data/x", NotSynced)]);
    check(&replace("directory"), &[("data/x", NotSynced)]);
    check(&replace("file and directory"), &[("data/x", InOrder)]);
}

/// Two transactions on a database.
fn sqlite(journal: &str, synchronous: &str) -> Program {
    python(&format!(
        "
import sqlite3
c = sqlite3.connect('data/a.db')
c.execute('pragma journal_mode={journal}')
c.execute('pragma synchronous={synchronous}')
c.execute('create table t(a)')
for number in range(2):
    c.execute('insert into t values(?)', [number])
    c.commit()
c.close()
"
    ))
}

#[test]
fn sqlite_syncs_its_database_unless_it_is_told_not_to() {
    for journal in ["delete", "wal"] {
        check(&sqlite(journal, "off"), &[("data/a.db", NotSynced)]);
        check(&sqlite(journal, "full"), &[("data/a.db", InOrder)]);
    }
    // The journal is removed, and that is synced with `extra` alone.
    check(
        &sqlite("delete", "full"),
        &[("data/a.db-journal", NotSynced)],
    );
    for backend in BACKENDS {
        let extra = syncs_of(&sqlite("delete", "extra"), backend);
        assert_eq!(extra.in_order, extra.changed, "{backend}: {extra:#?}");
    }
}

#[test]
fn a_log_says_what_the_live_run_says() {
    let directory = TestDir::new();
    for (options, replaced) in [
        (&["-f", "-yy", "-ttt", "-T"][..], NotSynced),
        (&["-f"], NotSynced),
    ] {
        fs::create_dir_all(directory.join("data")).expect("can be made");
        replace("file").log_in(&directory, options);
        let report = zctrace().option("--syncs").report_on_log(&directory);
        let syncs = report.syncs.expect("it was asked for");
        let whole = directory.word("data/x");
        let path = if options.len() > 1 { &whole } else { "data/x" };
        assert_eq!(verdict(&syncs, path), replaced, "{options:?}: {syncs:#?}");
    }
}
