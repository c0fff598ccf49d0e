//! Exit statuses and commands that cannot be started: as without zctrace.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use tempfile::{TempDir, tempdir};

use super::{assert_empty, strace, strace_with_own_tmp};
use crate::harness::{program, workload};

/// An executable file with this content.
fn executable(content: &str) -> (TempDir, PathBuf) {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("command");
    fs::write(&path, content).and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755))).expect("ours");
    (dir, path)
}

#[test]
fn the_exit_status_is_the_commands_own() {
    for (words, status, code, signal) in [
        (["exit-code", "0"], 0, Some(0), None),
        (["exit-code", "7"], 7, Some(7), None),
        (["exit-code", "255"], 255, Some(255), None),
        (["kill-self", "TERM"], 143, None, Some(15)),
        (["kill-self", "KILL"], 137, None, Some(9)),
        (["kill-self", "SEGV"], 139, None, Some(11)),
    ] {
        let run = strace().run(&workload(words[0]).arg(words[1]));
        assert_eq!(run.finished.code, Some(status), "{words:?}");
        assert_eq!((run.report.exit.code, run.report.exit.signal), (code, signal), "{words:?}");
        run.assert_exact();
    }
}

#[test]
fn not_found() {
    let refusal = strace().refuses_to_run(&program("no-such-command"));
    refusal.with_status(127).saying("'no-such-command'").saying("No such file or directory");
}

#[test]
fn not_executable() {
    let (_dir, path) = executable("#!/bin/sh\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("ours");
    strace().refuses_to_run(&program(path)).with_status(126).saying("Permission denied");
}

#[test]
fn a_directory() {
    strace().refuses_to_run(&program("/etc")).with_status(126).saying("'/etc'").saying("Is a directory");
}

#[test]
fn a_script_without_its_interpreter() {
    let (_dir, path) = executable("#!/no/such/interpreter\n");
    let (zctrace, tmp) = strace_with_own_tmp();
    let finished = zctrace.show(&program(&path));
    assert_eq!(finished.code, Some(127), "{}", finished.stderr);
    assert!(finished.stderr.ends_with("No such file or directory\n"), "{}", finished.stderr);
    assert!(finished.stderr.lines().any(|line| line.starts_with("zctrace: cannot run '")), "{}", finished.stderr);
    assert_empty(tmp.path());
}

#[test]
fn a_script_without_its_interpreter_in_one_line() {
    let (_dir, path) = executable("#!/no/such/interpreter\n");
    strace().refuses_to_run(&program(path)).with_status(127).saying("No such file or directory");
}

#[test]
fn a_script_that_names_no_interpreter_is_for_the_shell() {
    // As `execvp` does it, so as `env` and the other backend do.
    let (_dir, path) = executable("echo hello; exit 4\n");
    let run = strace().show(&program(path));
    assert_eq!((run.code, run.text()), (Some(4), "hello\n"), "{}", run.stderr);
}
