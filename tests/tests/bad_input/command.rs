//! Commands that cannot be started: 127 if there is none, 126 if it cannot be run, with the errno's own message.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use crate::harness::{program, zctrace};

/// Makes a file with these permissions.
fn file(dir: &Path, content: &str, mode: u32) -> std::path::PathBuf {
    let path = dir.join("command");
    fs::write(&path, content).and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(mode))).expect("ours");
    path
}

#[test]
fn not_found() {
    let refusal = zctrace().refuses_to_run(&program("no-such-command"));
    refusal.with_status(127).saying("'no-such-command'").saying("No such file or directory");
    zctrace().refuses_to_run(&program("/no/such/command")).with_status(127).saying("No such file or directory");
}

#[test]
fn an_empty_name() {
    zctrace().refuses_to_run(&program("")).with_status(127);
}

#[test]
fn not_executable() {
    let dir = tempfile::tempdir().expect("a directory");
    let refusal = zctrace().refuses_to_run(&program(file(dir.path(), "#!/bin/sh\n", 0o644)));
    refusal.with_status(126).saying("Permission denied");
}

#[test]
fn a_directory() {
    zctrace().refuses_to_run(&program("/etc")).with_status(126).saying("'/etc'").saying("Is a directory");
}

#[test]
fn below_something_that_is_no_directory() {
    zctrace().refuses_to_run(&program("/etc/passwd/x")).with_status(126).saying("Not a directory");
}

#[test]
fn a_script_whose_interpreter_is_missing() {
    let dir = tempfile::tempdir().expect("a directory");
    let refusal = zctrace().refuses_to_run(&program(file(dir.path(), "#!/no/such/interpreter\n", 0o755)));
    refusal.with_status(127).saying("No such file or directory");
}

#[test]
fn not_found_in_a_path_that_has_it_nowhere() {
    zctrace().env("PATH", "/nonexistent").refuses_to_run(&program("touch")).with_status(127);
}
