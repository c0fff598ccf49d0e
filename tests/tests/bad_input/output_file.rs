//! Files that the report cannot be written to: told before the command runs.

use std::fs;

use crate::harness::{Zctrace, full, program, zctrace};

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

/// A zctrace started by a shell that does this first.
fn after(shell: &str) -> Zctrace {
    zctrace().through(&["bash", "-c", shell, "bash"])
}

#[test]
fn a_stream_that_is_closed_or_only_for_reading() {
    for redirection in [">&-", "1</dev/null"] {
        let refusal = after(&format!(r#"exec "$@" {redirection}"#)).option("--output=-").refuses();
        refusal.with_status(125).saying("cannot write the report to stdout");
    }
    let dir = tempfile::tempdir().expect("a directory");
    for redirection in ["2>&-", "2</dev/null"] {
        let finished = after(&format!(r#"exec "$@" {redirection}"#)).dir(dir.path()).show(&program("touch").arg("it-ran"));
        assert_eq!(finished.code, Some(125), "{redirection}");
    }
    assert_eq!(fs::read_dir(dir.path()).expect("ours").count(), 0, "the command did not run");
    let doctor = after(r#"exec "$@" >&-"#).launch_with(&["doctor"]).finish();
    assert_eq!(doctor.code, Some(125), "{}", doctor.stderr);
}

#[test]
fn a_file_that_may_not_grow_leaves_nothing_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    let report = dir.path().join("report.json");
    // What is said goes through a pipe: the files that the tests collect it in may not grow either.
    let limited = || after(r#"(ulimit -f 0; "$@" 2>&1) | cat >&2; exit ${PIPESTATUS[0]}"#).option("--output").option(&report);
    let finished = limited().show(&program("true"));
    assert_eq!(finished.code, Some(125), "{}", finished.stderr);
    assert!(finished.stderr.contains("File too large") && finished.stderr.lines().count() == 1, "{}", finished.stderr);
    assert_eq!(fs::read_dir(dir.path()).expect("ours").count(), 0, "nothing is left");
    // The command has the signal as ever.
    let killed = limited().show(&program("dd").args(&["if=/dev/zero", "of=/var/tmp/zctrace-test-xfsz", "count=1"]));
    let _ = fs::remove_file("/var/tmp/zctrace-test-xfsz");
    assert!(!killed.stderr.contains("records out"), "SIGXFSZ ended it: {}", killed.stderr);
}
