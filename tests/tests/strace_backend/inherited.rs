//! What a command inherits: the same with and without strace around it.

use super::{assert_empty, strace, strace_with_own_tmp};
use crate::harness::{Launch, Program, program, shell};

/// Makes sure that the program prints the same with and without zctrace, when started through these words.
#[track_caller]
fn assert_same(through: &[&str], program: &Program) {
    let without = Launch::default().words(through).words(program.words()).finish();
    let with = strace().through(through).run(program).finished;
    assert!(!without.successful().is_empty(), "it prints something");
    assert_eq!(without.text(), with.successful(), "without zctrace (left) and with it");
}

#[test]
fn open_files() {
    assert_same(&[], &program("ls").arg("/proc/self/fd"));
}

#[test]
fn open_files_beyond_the_standard_streams() {
    assert_same(&["sh", "-c", r#"exec "$@" 7</dev/null 9>/dev/null"#, "sh"], &program("ls").arg("/proc/self/fd"));
}

#[test]
fn signals() {
    let masks = program("grep").args(&["-E", "^(Sig|Shd)(Pnd|Blk|Ign|Cgt)", "/proc/self/status"]);
    assert_same(&[], &masks);
    assert_same(&["env", "--ignore-signal=HUP", "--ignore-signal=INT", "--ignore-signal=TERM"], &masks);
    assert_same(&["env", "--block-signal=USR1", "--block-signal=TERM"], &masks);
}

#[test]
fn environment_and_limits() {
    assert_same(&["env", "-i", "PATH=/bin:/usr/bin", "A=b", "LC_ALL=C", "EMPTY="], &program("env"));
    assert_same(&["sh", "-c", r#"ulimit -S -n 200; ulimit -S -c 0; exec "$@""#, "sh"], &program("cat").arg("/proc/self/limits"));
    assert_same(&["sh", "-c", r#"umask 027; exec nice -n 5 "$@""#, "sh"], &shell("nice; umask; pwd"));
}

#[test]
fn arguments_as_they_are() {
    let words = ["--", "-o", "", "a b", "$HOME", "*", "\u{e9}", "--help"];
    let run = strace().run(&program("printf").arg("%s|").args(&words));
    assert_eq!(run.finished.successful(), words.join("|") + "|");
    assert_eq!(run.report.command[2..], words);
}

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
