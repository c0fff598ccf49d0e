//! Users who may not do what zctrace needs.

use std::{fs, os::unix::fs::PermissionsExt as _};

use tempfile::TempDir;
use zctrace::report::Report;

use crate::harness::{Zctrace, binary, copy_program, program, shell, zctrace};

/// A zctrace run by nobody in particular, from where everybody can reach it.
fn unprivileged() -> (Zctrace, TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let copy = dir.path().join("zctrace");
    copy_program(&binary(), &copy);
    for path in [dir.path(), &copy] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("ours");
    }
    let setpriv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    (zctrace().through(&setpriv).binary(copy), dir)
}

#[test]
fn without_privileges_it_says_which_are_needed() {
    let (zctrace, _dir) = unprivileged();
    let refusal = zctrace.ebpf().refuses().with_status(125);
    refusal.saying("not allowed").saying("sudo").saying("CAP_BPF").saying("CAP_PERFMON");
}

#[test]
fn without_privileges_strace_takes_over_unless_told_otherwise() {
    let (zctrace, _dir) = unprivileged();
    let shown = zctrace.option("--format=json").show(&shell("exit 3"));
    assert_eq!(shown.code, Some(3));
    let report: Report = serde_json::from_str(&shown.stderr).expect("a report alone");
    assert_eq!(report.backend, "strace");
    assert!(report.notes.iter().any(|note| note.contains("not allowed")), "it says why: {:?}", report.notes);
}

#[test]
fn mistakes_are_told_without_privileges_too() {
    let (zctrace, dir) = unprivileged();
    zctrace.clone().option("--syscalls=raed").refuses().with_status(125).saying("'read'");
    zctrace.option("--output").option(dir.path().join("report.json")).refuses().with_status(125).saying("Permission denied");
}

#[test]
fn the_command_can_run_as_somebody_else() {
    let run = zctrace().option("--user=65534:65533").run(&program("id"));
    let id = run.finished.successful();
    assert!(id.contains("uid=65534") && id.contains("gid=65533") && !id.contains("=0("), "{id}");
    run.assert_exact();
}

#[test]
fn a_command_that_somebody_else_may_not_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let secret = dir.path().join("secret");
    copy_program("/bin/true".as_ref(), &secret);
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).expect("ours");
    zctrace().option("--user=65534").refuses_to_run(&program(&secret)).with_status(126).saying("Permission denied");
}
