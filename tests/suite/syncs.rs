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

/// Checks that this is expected of a command that runs in a directory with `data`, under any
/// backend.
#[track_caller]
fn assert_check(command: &Program, expectation: &str, status: i32, said: &str) {
    let directory = TestDir::new();
    fs::create_dir(directory.join("data")).expect("can be made");
    let zctrace = zctrace().dir(directory.path());
    let finished = zctrace.check(expectation, command);
    finished.exits(status).prints(said);
}

#[test]
fn a_check_records_what_its_expectations_need() {
    let (good, bad) = (replace("file and directory"), replace("file"));
    let why = "data/x: not synced: its directory was not synced after rename";
    assert_check(&good, r#"durable("data/**")"#, 0, "1 passed");
    assert_check(&bad, r#"durable("data/**")"#, 1, why);
    let cure = "the whole report: zctrace --syncs -- ";
    assert_check(&bad, r#"durable("data/**")"#, 1, cure);
    assert_check(&good, r#"syncs("data/**").wasted == 0"#, 0, "1 passed");
    assert_check(
        &good,
        r#"durable("dta/**")"#,
        3,
        "matches no file that was changed",
    );
    assert_check(
        &sqlite("delete", "full"),
        r#"durable("data/*.db")"#,
        0,
        "1 passed",
    );
    assert_check(
        &sqlite("delete", "off"),
        r#"durable("data/*.db")"#,
        1,
        "pwrite64",
    );
}

#[test]
fn a_mark_and_a_write_say_when_files_must_be_synced() {
    let program = |order: [&str; 3]| {
        let script = "
import os
f = os.open('data/x', os.O_WRONLY | os.O_CREAT | os.O_EXCL)
os.write(f, b'hello')
def sync():
    os.fsync(f)
    os.fsync(os.open('data', os.O_RDONLY))
def mark(): os.path.exists('/zctrace/mark/commit')
def tell(): os.write(1, b'saved')
";
        python(&format!(
            "{script}{}()\n{}()\n{}()\n",
            order[0], order[1], order[2]
        ))
    };
    let (at, before) = (
        r#"durable("data/**") at mark("commit")"#,
        r#"durable("data/**") before write(stdout)"#,
    );
    let early = program(["mark", "sync", "tell"]);
    assert_check(&early, r#"durable("data/**")"#, 0, "1 passed");
    assert_check(&early, at, 1, "data/x: not synced");
    assert_check(&early, before, 0, "1 passed");
    let late = program(["tell", "sync", "mark"]);
    assert_check(&late, at, 0, "1 passed");
    assert_check(&late, before, 1, "data/x: not synced");
}

#[test]
fn the_recipes_of_the_page_survive() {
    const PAGE: &str = include_str!("../../docs/durability.md");
    let block = |language: &str| {
        let (_, rest) = PAGE
            .split_once(&format!("```{language}\n"))
            .expect("is there");
        let (block, _) = rest.split_once("```").expect("it ends");
        block.to_owned()
    };
    let in_shell = shell(&format!("content=hello\n{}", block("sh")));
    let in_python = python(&format!("{}\nsave('data/state', b'x')", block("python")));
    for program in [in_shell, in_python] {
        check(&program, &[("data/state", InOrder)]);
    }
}
