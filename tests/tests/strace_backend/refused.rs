//! No strace, or none that may trace: one line, the remedy, never a hang.

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::{assert_empty, strace, strace_with_own_tmp};
use crate::harness::{program, zctrace};

#[test]
fn without_strace_it_names_the_package() {
    let refusal = strace().env("PATH", "/nonexistent").refuses_to_run(&program("/bin/true"));
    refusal.with_status(125).saying("strace is not installed").saying("package 'strace'");
}

#[test]
fn ebpf_needs_no_strace() {
    let run = zctrace().env("PATH", "/nonexistent").run(&program("/bin/true"));
    run.finished.successful();
    assert_eq!((run.report.backend.as_str(), run.report.notes.len()), ("ebpf", 0));
}

#[test]
fn a_strace_that_fails_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let fake = dir.path().join("strace");
    fs::write(&fake, "#!/bin/sh\nexit 3\n").expect("ours");
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).expect("ours");
    strace().env("PATH", dir.path()).refuses_to_run(&program("/bin/true")).with_status(125).saying("exit status 3");
}

#[test]
fn a_process_that_is_traced_already() {
    // A tracee cannot be traced by another: strace under strace is refused.
    let (zctrace, tmp) = strace_with_own_tmp();
    let dir = tempfile::tempdir().expect("a directory");
    let finished = zctrace.dir(dir.path()).through(&["strace", "-f", "-o/dev/null"]).show(&program("touch").arg("it-ran"));
    assert_empty(dir.path());
    assert_empty(tmp.path());
    assert_eq!(finished.code, Some(125), "{}", finished.stderr);
    // What strace itself says may stand above.
    let last = finished.stderr.lines().last().expect("a line");
    assert!(last.starts_with("zctrace: ") && last.contains("trace"), "{}", finished.stderr);
}
