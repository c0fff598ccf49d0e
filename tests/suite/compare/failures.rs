//! Comparisons that fail, most of them before a command runs, and comparisons that a signal ends.
//! Nothing is left behind.

use rustix::process::Signal;

use super::compare;
use crate::harness::{BACKENDS, Conversation, Terminal, TestDir, exists, full, wait_until, words};

const TRESPASS: &str = "touch it-ran";

#[test]
fn a_command_or_a_preparation_that_fails_ends_the_comparison() {
    // It fails if it has a tracer, which is strace.
    let only_untraced = "grep -q '^TracerPid:.0$' /proc/$$/status";
    let unprepared = "the --prepare command 'exit 4' failed with exit status 4";
    for (options, command, said) in [
        (
            &["--name=mine"][..],
            "exit 3",
            "'mine' failed with exit status 3 in run 1",
        ),
        (
            &["--warmup=2"],
            "kill -SEGV $$",
            "was killed by SIGSEGV in warm-up run 1",
        ),
        (&["--backend=strace"], only_untraced, "in the traced run"),
        (&["--prepare=exit 4"], "true", unprepared),
        // The shell reports it.
        (&[], "no-such-program; exit $?", "exit status 127"),
    ] {
        let refused = compare(options)
            .option("--runs=3")
            .refuses_words(&[command]);
        let cure = if options == ["--prepare=exit 4"] {
            "|| true"
        } else {
            "--ignore-failure"
        };
        refused.exits(125).says_all(&[said, cure]);
    }
}

#[test]
fn what_cannot_be_compared_is_refused_before_the_first_run() {
    for (options, commands, status, said) in [
        (
            &["-N"][..],
            &[TRESPASS, "no-such-program x"][..],
            127,
            "'no-such-program'",
        ),
        (
            &[],
            &[TRESPASS, "no-such-program x"],
            127,
            "'no-such-program'",
        ),
        (&["-N"], &[TRESPASS, "/etc/passwd"], 126, "'/etc/passwd'"),
        (&["-N"], &[TRESPASS, "echo 'a"], 125, "quote"),
        (&[], &[], 125, "no command to compare"),
        (
            &["--name=a", "--name=b"],
            &[TRESPASS],
            125,
            "2 names for 1 commands",
        ),
        (&["--runs=0"], &[TRESPASS], 125, "--runs"),
        (
            &["--bogus"],
            &[TRESPASS],
            125,
            "(see zctrace compare --help)",
        ),
        (
            &["--export", "json", "no/file"],
            &[TRESPASS],
            125,
            "'no/file': No such file",
        ),
        (&["--export", "yaml", "file"], &[TRESPASS], 125, "'yaml'"),
    ] {
        let refused = compare(options).refuses_words(commands);
        refused.exits(status).says(said);
    }
    let without_btf = compare(&["--backend=ebpf"]).env("ZCTRACE_BTF", "/nonexistent");
    let refused = without_btf.refuses_words(&[TRESPASS]);
    refused.exits(125).says("/nonexistent");
}

#[test]
fn a_failed_export_does_not_stop_the_others_and_a_failed_comparison_keeps_the_old_file() {
    let dir = TestDir::new();
    full(dir.path());
    let exports = words("-N --runs=1 --export json full --export markdown b.md");
    let failed = compare(&exports).dir(dir.path()).finish_with(&["true"]);
    let error = "zctrace: cannot write the report to 'full': No space left on device\n";
    failed.exits(125).says_only(error).prints("counted calls");
    assert!(dir.read("b.md").starts_with("| command |"));
    let exports = ["--export", "markdown", "b.md"];
    let failed = compare(&exports).dir(dir.path()).finish_with(&["exit 1"]);
    failed.exits(125);
    assert!(dir.read("b.md").starts_with("| command |"));
    dir.assert_has_only(&["b.md", "full"]);
}

/// A command that writes its process id to the file `said` and then waits.
const WAITS: &str = "echo $$ >said; exec sleep 100";
/// A command whose child waits; it writes the child's id.
const CHILD_WAITS: &str = "sleep 100 & echo $! >said; wait";

/// Does this only when it is traced, which is in the second run.
fn in_traced_run(script: &str) -> String {
    format!("if test -e timed; then rm timed; {script}; else touch timed; fi")
}

/// A comparison in a directory of its own, once its command waits, and the id of what waits. It
/// would write a file at the end.
fn started(options: &[&str], command: &str) -> (Conversation, TestDir, String) {
    let dir = TestDir::new();
    let options = [options, &["--runs=1", "--export", "json", "out.json"]].concat();
    let comparison = compare(&options).dir(dir.path()).launch_with(&[command]);
    let zctrace = comparison.start();
    let pid = dir.wait_for_line("said");
    (zctrace, dir, pid)
}

/// Makes sure that the signal ends a comparison with a message, and that neither the command nor a
/// file is left.
#[track_caller]
fn assert_ends(options: &[&str], command: &str, signal: Signal, name: &str) {
    let (zctrace, dir, pid) = started(options, command);
    zctrace.signal(signal);
    assert_eq!(zctrace.wait(), Some(128 + signal.as_raw()));
    assert!(!exists(pid), "still running");
    dir.assert_has_only(&["said"]);
    let message = format!("zctrace: interrupted by {name}\n");
    assert_eq!(zctrace.stderr(), message);
}

#[test]
fn a_signal_ends_a_timed_run() {
    let clinging = "trap '' INT TERM HUP; echo $$ >said; while :; do sleep 1; done";
    for (signal, name) in [
        (Signal::INT, "SIGINT"),
        (Signal::TERM, "SIGTERM"),
        (Signal::HUP, "SIGHUP"),
    ] {
        for command in [WAITS, CHILD_WAITS, clinging] {
            assert_ends(&[], command, signal, name);
        }
    }
}

#[test]
fn a_signal_ends_a_preparation_and_a_traced_run() {
    let prepare = format!("--prepare={CHILD_WAITS}");
    assert_ends(&[&prepare], "true", Signal::TERM, "SIGTERM");
    for backend in BACKENDS {
        let command = in_traced_run(CHILD_WAITS);
        assert_ends(&[backend], &command, Signal::TERM, "SIGTERM");
    }
}

#[test]
fn a_killed_zctrace_leaves_no_command_running() {
    for backend in BACKENDS {
        for command in [CHILD_WAITS, &in_traced_run(CHILD_WAITS)] {
            let (zctrace, dir, pid) = started(&[backend], command);
            zctrace.signal(Signal::KILL);
            assert_eq!(zctrace.wait(), None, "killed");
            wait_until("the command's child is gone", || !exists(&pid));
            dir.assert_has_only(&["said"]);
        }
    }
}

#[test]
fn ctrl_c_ends_the_comparison_and_its_processes() {
    let dir = TestDir::new();
    let options = ["--runs=2", "--export", "json", "out.json"];
    let comparison = compare(&options)
        .dir(dir.path())
        .launch_with(&[CHILD_WAITS]);
    let mut terminal = Terminal::start(80, &comparison);
    let pid = dir.wait_for_line("said");
    terminal.type_in("\x03");
    let (code, shown) = terminal.finish();
    assert_eq!(code, Some(130), "{shown}");
    assert!(shown.contains("zctrace: interrupted by SIGINT"), "{shown}");
    assert!(!exists(pid), "still running");
    dir.assert_has_only(&["said"]);
}
