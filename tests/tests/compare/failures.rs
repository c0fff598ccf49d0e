//! Comparisons that fail, most of them before a command runs, and comparisons that a signal ends.
//! Nothing is left behind.

use rustix::process::Signal;

use super::compare;
use crate::harness::{Conversation, TestDir, exists, full, wait_until};

const TRESPASS: &str = "touch it-ran";

#[test]
fn a_failing_command_ends_the_comparison() {
    let refusal = compare(&["--name=mine", "--runs=3"]).refuses_words(&["exit 3"]);
    refusal
        .with_status(125)
        .saying("'mine' failed with exit status 3 in run 1")
        .saying("append `|| true`");
    let refusal = compare(&["--warmup=2"]).refuses_words(&["kill -SEGV $$"]);
    refusal
        .with_status(125)
        .saying("was killed by SIGSEGV in warm-up run 1");
}

#[test]
fn a_command_that_fails_only_when_traced_ends_the_comparison() {
    // This command fails if it has a tracer, which is strace.
    let script = "grep -q '^TracerPid:.0$' /proc/$$/status";
    compare(&["--runs=1", "--backend=strace"])
        .refuses_words(&[script])
        .with_status(125)
        .saying("in the traced run");
}

#[test]
fn a_failing_preparation_ends_the_comparison() {
    compare(&["--runs=1", "--prepare=exit 4"])
        .refuses_words(&["true"])
        .with_status(125)
        .saying("the --prepare command 'exit 4' failed with exit status 4")
        .saying("|| true");
}

#[test]
fn a_missing_program_is_refused_before_the_first_run() {
    compare(&["-N"])
        .refuses_words(&[TRESPASS, "no-such-program x"])
        .with_status(127)
        .saying("'no-such-program'");
    compare(&["-N"])
        .refuses_words(&[TRESPASS, "/etc/passwd"])
        .with_status(126)
        .saying("'/etc/passwd'");
    // In a shell, the shell reports it.
    compare(&[])
        .refuses_words(&["no-such-program"])
        .with_status(125)
        .saying("exit status 127");
}

#[test]
fn a_command_line_that_cannot_be_split_is_refused() {
    compare(&["-N"])
        .refuses_words(&[TRESPASS, "echo 'a"])
        .with_status(125)
        .saying("echo 'a")
        .saying("quote");
    compare(&["-N"])
        .refuses_words(&[TRESPASS, ""])
        .with_status(125)
        .saying("names no program");
}

#[test]
fn a_comparison_without_commands_is_refused() {
    compare(&[])
        .refuses_words(&[])
        .with_status(125)
        .saying("no command to compare")
        .saying("zctrace compare '");
}

#[test]
fn options_that_do_not_match_the_commands_are_refused() {
    compare(&["--name=a", "--name=b"])
        .refuses_words(&[TRESPASS])
        .with_status(125)
        .saying("2 names for 1 commands");
    let refusal = compare(&["--prepare=a", "--prepare=b"]).refuses_words(&[TRESPASS, "b", "c"]);
    refusal
        .with_status(125)
        .saying("--prepare is given 2 times")
        .saying("each of the 3");
    compare(&["--runs=0"])
        .refuses_words(&[TRESPASS])
        .with_status(125)
        .saying("--runs");
    compare(&["--no-such-option"])
        .refuses_words(&[TRESPASS])
        .with_status(125)
        .saying("(see zctrace compare --help)");
}

#[test]
fn an_export_file_that_cannot_be_written_is_refused_before_the_first_run() {
    let export = |path| {
        compare(&["--export", "json", path])
            .refuses_words(&[TRESPASS])
            .with_status(125)
    };
    export("missing/file.json")
        .saying("'missing/file.json'")
        .saying("No such file or directory");
    export(".").saying("Is a directory");
    compare(&["--export", "yaml", "file"])
        .refuses_words(&[TRESPASS])
        .with_status(125)
        .saying("'yaml'")
        .saying("markdown");
}

#[test]
fn a_full_device_fails_the_export() {
    let dir = TestDir::new();
    let device = full(dir.path());
    let finished = compare(&["-N", "--runs=1", "--export", "json"])
        .option(device)
        .launch_with(&["true"])
        .finish();
    assert_eq!(finished.code, Some(125));
    assert!(
        finished.stderr.contains("No space left on device"),
        "{}",
        finished.stderr
    );
}

#[test]
fn a_backend_that_cannot_run_is_refused_before_the_first_run() {
    let refusal = compare(&["--backend=ebpf"])
        .env("ZCTRACE_BTF", "/nonexistent")
        .refuses_words(&[TRESPASS]);
    refusal.with_status(125).saying("/nonexistent");
}

/// A command that writes its process id to the file `said` and then waits.
const WAITS: &str = "echo $$ >said; exec sleep 100";
/// A command whose child waits; it writes the child's id.
const CHILD_WAITS: &str = "sleep 100 & echo $! >said; wait";

/// Starts a comparison in a directory of its own. It would write a file at the end.
fn started(options: &[&str], command: &str) -> (Conversation, TestDir) {
    let dir = TestDir::new();
    let options = [options, &["--runs=1", "--export", "json", "out.json"]].concat();
    let comparison = compare(&options).launch_with(&[command]);
    (comparison.dir(dir.path()).start(), dir)
}

/// Waits for the process id in the file `said`.
fn said(dir: &TestDir) -> String {
    let text = || std::fs::read_to_string(dir.join("said")).unwrap_or_default();
    wait_until("the command runs", || text().ends_with('\n'));
    text().trim_end().to_owned()
}

/// Makes sure that the signal ends zctrace with a message, and that neither the command nor a file
/// is left.
#[track_caller]
fn assert_ends(zctrace: Conversation, dir: &TestDir, signal: Signal, name: &str) {
    let pid = said(dir);
    zctrace.signal(signal);
    assert_eq!(zctrace.wait(), Some(128 + signal.as_raw()));
    assert!(!exists(&pid), "still running");
    dir.assert_has_only(&["said"]);
    assert_eq!(
        zctrace.into_stderr(),
        format!("zctrace: interrupted by {name}\n")
    );
}

#[test]
fn a_signal_ends_a_timed_run() {
    for (signal, name) in [
        (Signal::INT, "SIGINT"),
        (Signal::TERM, "SIGTERM"),
        (Signal::HUP, "SIGHUP"),
    ] {
        for command in [WAITS, CHILD_WAITS] {
            let (zctrace, dir) = started(&[], command);
            assert_ends(zctrace, &dir, signal, name);
        }
    }
}

#[test]
fn a_signal_ends_a_preparation() {
    let (zctrace, dir) = started(&[&format!("--prepare={CHILD_WAITS}")], "true");
    assert_ends(zctrace, &dir, Signal::TERM, "SIGTERM");
}

#[test]
fn a_signal_ends_a_traced_run() {
    for backend in ["--backend=ebpf", "--backend=strace"] {
        // The second run is the traced one.
        let command =
            format!("if test -e timed; then rm timed; {CHILD_WAITS}; else touch timed; fi");
        let (zctrace, dir) = started(&[backend], &command);
        assert_ends(zctrace, &dir, Signal::TERM, "SIGTERM");
    }
}

#[test]
fn a_command_that_ignores_signals_is_ended_too() {
    let (zctrace, dir) = started(
        &[],
        "trap '' INT TERM; echo $$ >said; while :; do sleep 1; done",
    );
    assert_ends(zctrace, &dir, Signal::TERM, "SIGTERM");
}

#[test]
fn a_killed_zctrace_leaves_no_command_running() {
    let traced = format!("if test -e timed; then rm timed; {WAITS}; else touch timed; fi");
    for command in [WAITS, &traced] {
        let (zctrace, dir) = started(&["--backend=ebpf"], command);
        let pid = said(&dir);
        zctrace.signal(Signal::KILL);
        assert_eq!(zctrace.wait(), None, "killed");
        wait_until("the command is gone", || !exists(&pid));
        dir.assert_has_only(&["said"]);
    }
}
