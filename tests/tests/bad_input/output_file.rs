//! Files that the report cannot be written to: told before the command runs.

use std::fs;

use crate::harness::{full, program, zctrace};

#[test]
fn in_a_directory_that_is_missing() {
    let refusal = zctrace().option("--output=missing/report.json").refuses();
    refusal.with_status(125).saying("'missing/report.json'").saying("No such file or directory");
}

#[test]
fn a_directory() {
    zctrace().option("--output=.").refuses().with_status(125).saying("'.'").saying("Is a directory");
    let dir = tempfile::tempdir().expect("a directory");
    zctrace().option("--output").option(dir.path()).refuses().with_status(125).saying("Is a directory");
}

#[test]
fn below_a_file() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    zctrace().option("--output").option(file.path().join("report")).refuses().with_status(125).saying("Not a directory");
}

#[test]
fn an_empty_name() {
    zctrace().option("--output=").refuses().with_status(125);
}

#[test]
fn a_full_device() {
    // Only the end of the run can tell.
    let dir = tempfile::tempdir().expect("a directory");
    let finished = zctrace().option("--output").option(full(dir.path())).show(&program("true"));
    assert_eq!(finished.code, Some(125));
    assert!(finished.stderr.contains("No space left on device"), "{}", finished.stderr);
    assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
}

#[test]
fn an_old_report_survives_a_run_that_fails() {
    let dir = tempfile::tempdir().expect("a directory");
    let report = dir.path().join("report.json");
    fs::write(&report, "old").expect("ours");
    let output = || zctrace().option("--output").option(&report);
    output().refuses_to_run(&program("no-such-command")).with_status(127);
    output().ebpf().env("ZCTRACE_BTF", "/nonexistent").refuses().with_status(125);
    assert_eq!(fs::read_to_string(&report).expect("still there"), "old");
    assert_eq!(fs::read_dir(dir.path()).expect("ours").count(), 1, "nothing beside it");
}
