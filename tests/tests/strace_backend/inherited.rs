//! The standard streams and the user of a command with strace around it.

use super::{assert_empty, strace, strace_with_own_tmp};
use crate::harness::{program, shell};

#[test]
fn stdin_and_stdout_are_the_commands_alone() {
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let (zctrace, tmp) = strace_with_own_tmp();
    let run = zctrace.input(&bytes).run(&program("cat"));
    assert_eq!(run.finished.code, Some(0));
    assert!(run.finished.stdout == bytes, "what cat read");
    assert_eq!(run.finished.stderr, "");
    assert_empty(tmp.path());
}

#[test]
fn stderr_is_the_commands_and_then_the_report() {
    let finished = strace().show(&shell("echo 'write(1, \"x\", 1) = 1' >&2"));
    assert!(finished.stderr.starts_with("write(1, \"x\", 1) = 1\nzctrace: sh "), "{}", finished.stderr);
    assert!(!finished.stderr.contains("strace:"), "{}", finished.stderr);
}

#[test]
fn another_user() {
    let run = strace().option("--user=65534:65533").run(&program("id"));
    let id = run.finished.successful();
    assert!(id.contains("uid=65534") && id.contains("gid=65533") && !id.contains("=0("), "{id}");
    run.assert_exact();
}
