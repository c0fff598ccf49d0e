//! Comparisons that fail, most of them before a command runs, and comparisons that a signal ends.
//! Nothing is left behind.

use rustix::process::Signal;

use super::{compare, compared, heard};
use crate::harness::{Conversation, TestDir, Zctrace, exists, fifo, full, wait_until};

/// A `zctrace compare` that must be refused. `--output=null` keeps the harness from adding the
/// `--output` of a report.
fn refused(options: &[&str]) -> Zctrace {
    compare(options).option("--output=null")
}

const TRESPASS: &str = "touch it-ran";

#[test]
fn a_failing_command_ends_the_comparison() {
    let refusal = refused(&["--name=mine", "--runs=3"]).refuses_words(&["exit 3"]);
    refusal
        .with_status(125)
        .saying("'mine' failed with exit status 3 in run 1")
        .saying("--ignore-failure (-i)");
    let refusal = refused(&["--warmup=2"]).refuses_words(&["kill -SEGV $$"]);
    refusal
        .with_status(125)
        .saying("was killed by SIGSEGV in warm-up run 1");
}

#[test]
fn a_command_that_fails_only_when_traced_ends_the_comparison() {
    // This command fails if it has a tracer, which is strace.
    let script = "grep -q '^TracerPid:.0$' /proc/$$/status";
    refused(&["--runs=1", "--backend=strace"])
        .refuses_words(&[script])
        .with_status(125)
        .saying("in the traced run");
}

#[test]
fn failures_can_be_ignored() {
    let found = compared(&["--runs=2", "--ignore-failure"], &["exit 3"]);
    assert_eq!(found["commands"][0]["runs"][1]["exit"]["code"], 3);
    let page = compare(&["-i", "--runs=2"])
        .launch_with(&["exit 3"])
        .finish();
    assert!(
        page.successful()
            .contains("warning: exit 3: 2 of 2 runs failed"),
        "{}",
        page.text()
    );
}

#[test]
fn a_failing_preparation_ends_the_comparison() {
    for option in ["--prepare", "--conclude", "--setup", "--cleanup"] {
        let refusal = refused(&["--runs=1", &format!("{option}=exit 4")]).refuses_words(&["true"]);
        refusal
            .with_status(125)
            .saying(&format!(
                "the {option} command 'exit 4' failed with exit status 4"
            ))
            .saying("|| true");
    }
}

#[test]
fn a_missing_program_is_refused_before_the_first_run() {
    refused(&["-N"])
        .refuses_words(&[TRESPASS, "no-such-program x"])
        .with_status(127)
        .saying("'no-such-program'");
    refused(&["-N"])
        .refuses_words(&[TRESPASS, "/etc/passwd"])
        .with_status(126)
        .saying("'/etc/passwd'");
    refused(&["--shell=no-such-shell"])
        .refuses_words(&[TRESPASS])
        .with_status(127)
        .saying("'no-such-shell'");
    // In a shell, the shell reports it.
    refused(&[])
        .refuses_words(&["no-such-program"])
        .with_status(125)
        .saying("exit status 127");
}

#[test]
fn a_shell_that_fails_is_refused() {
    refused(&["--shell=false"])
        .refuses_words(&[TRESPASS])
        .with_status(125)
        .saying("the shell failed")
        .saying("--shell");
}

#[test]
fn a_command_line_that_cannot_be_split_is_refused() {
    refused(&["-N"])
        .refuses_words(&[TRESPASS, "echo 'a"])
        .with_status(125)
        .saying("echo 'a")
        .saying("quote");
    refused(&["-N"])
        .refuses_words(&[TRESPASS, ""])
        .with_status(125)
        .saying("names no program");
}

#[test]
fn a_comparison_without_commands_is_refused() {
    refused(&[])
        .refuses_words(&[])
        .with_status(125)
        .saying("no command to compare")
        .saying("zctrace compare '");
}

#[test]
fn options_that_do_not_match_the_commands_are_refused() {
    refused(&["--reference=c", "--name=a"])
        .refuses_words(&[TRESPASS, "b"])
        .with_status(125)
        .saying("'c'")
        .saying("'a', 'b'");
    refused(&["--name=a", "--name=b"])
        .refuses_words(&[TRESPASS])
        .with_status(125)
        .saying("2 names for 1 commands");
    let refusal = refused(&["--prepare=a", "--prepare=b"]).refuses_words(&[TRESPASS, "b", "c"]);
    refusal
        .with_status(125)
        .saying("--prepare is given 2 times")
        .saying("each of the 3");
    refused(&["--min-runs=5", "--max-runs=4"])
        .refuses_words(&[TRESPASS])
        .with_status(125)
        .saying("--min-runs 5");
    refused(&["--runs=0"])
        .refuses_words(&[TRESPASS])
        .with_status(125)
        .saying("--runs");
    refused(&["--runs=3", "--max-runs=3"])
        .refuses_words(&[TRESPASS])
        .with_status(125)
        .saying("--runs");
    refused(&["--no-such-option"])
        .refuses_words(&[TRESPASS])
        .with_status(125)
        .saying("(see zctrace compare --help)");
}

#[test]
fn streams_that_cannot_be_opened_are_refused() {
    refused(&["--input=no-such-file"])
        .refuses_words(&[TRESPASS])
        .with_status(125)
        .saying("'no-such-file'");
    compare(&["--output=./missing/file"])
        .refuses_words(&[TRESPASS])
        .with_status(125)
        .saying("'./missing/file'");
    compare(&["--output=nul"])
        .refuses_words(&[TRESPASS])
        .with_status(125)
        .saying("'nul'")
        .saying("./nul");
}

#[test]
fn a_fifo_as_input_or_output_is_refused() {
    let dir = TestDir::new();
    fifo(dir.path());
    for option in ["--input=./fifo", "--output=./fifo"] {
        let finished = compare(&["-N", "--runs=1", option])
            .dir(dir.path())
            .launch_with(&["true"])
            .finish();
        assert_eq!(finished.code, Some(125), "{}", finished.text());
        assert!(
            finished.stderr.contains("'./fifo'") && finished.stderr.contains("a FIFO"),
            "{}",
            finished.stderr
        );
    }
}

#[test]
fn an_export_file_that_cannot_be_written_is_refused_before_the_first_run() {
    let export = |path| {
        refused(&["--export", "json", path])
            .refuses_words(&[TRESPASS])
            .with_status(125)
    };
    export("missing/file.json")
        .saying("'missing/file.json'")
        .saying("No such file or directory");
    export(".").saying("Is a directory");
    refused(&["--export", "yaml", "file"])
        .refuses_words(&[TRESPASS])
        .with_status(125)
        .saying("'yaml'")
        .saying("markdown");
}

#[test]
fn a_full_device_fails_the_export() {
    let dir = TestDir::new();
    let device = full(dir.path());
    let finished = compare(&["-N", "--runs=1", "--export", "csv"])
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
    let refusal = refused(&["--backend=ebpf"])
        .env("ZCTRACE_BTF", "/nonexistent")
        .refuses_words(&[TRESPASS]);
    refusal.with_status(125).saying("/nonexistent");
}

/// A command that prints its process id and then waits.
const WAITS: &str = "echo $$; exec sleep 100";
/// A command whose child waits; it prints the child's id.
const CHILD_WAITS: &str = "sleep 100 & echo $!; wait";

/// Starts a comparison in a directory of its own. It would write a file at the end.
fn started(options: &[&str], command: &str) -> (Conversation, TestDir) {
    let dir = TestDir::new();
    let options = [options, &["--runs=1", "--export", "json", "out.json"]].concat();
    (heard(&options, command).dir(dir.path()).start(), dir)
}

/// Makes sure that the signal ends zctrace with a message, and that neither the command nor a file
/// is left.
#[track_caller]
fn assert_ends(mut zctrace: Conversation, dir: &TestDir, signal: Signal, name: &str) {
    let pid = zctrace.hear();
    zctrace.signal(signal);
    assert_eq!(zctrace.wait(), Some(128 + signal.as_raw()));
    assert!(!exists(&pid), "still running");
    dir.assert_empty();
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
    let (zctrace, dir) = started(&[], "trap '' INT TERM; echo $$; while :; do sleep 1; done");
    assert_ends(zctrace, &dir, Signal::TERM, "SIGTERM");
}

#[test]
fn a_killed_zctrace_leaves_no_command_running() {
    let traced = format!("if test -e timed; then rm timed; {WAITS}; else touch timed; fi");
    for command in [WAITS, &traced] {
        let (mut zctrace, dir) = started(&["--backend=ebpf"], command);
        let pid = zctrace.hear();
        zctrace.signal(Signal::KILL);
        assert_eq!(zctrace.wait(), None, "killed");
        wait_until("the command is gone", || !exists(&pid));
        dir.assert_empty();
    }
}
