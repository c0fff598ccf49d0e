//! Usage errors: each is one line that says what to do, has the right exit status, and leaves
//! nothing behind.

use std::fs;

use crate::harness::{TestDir, Zctrace, full, program, zctrace};

#[test]
fn an_unknown_system_call_is_refused_with_a_suggestion() {
    zctrace()
        .option("--syscalls=raed")
        .refuses()
        .with_status(125)
        .saying("unknown system call 'raed'")
        .saying("'read'");
    zctrace()
        .option("-e=write,sendfiel")
        .refuses()
        .with_status(125)
        .saying("'sendfiel'")
        .saying("'sendfile'");
}

#[test]
fn an_unknown_class_of_calls_is_refused_with_a_suggestion() {
    zctrace()
        .option("--syscalls=%netwerk")
        .refuses()
        .with_status(125)
        .saying("'%netwerk'")
        .saying("%network");
}

#[test]
fn a_call_name_that_resembles_no_other_is_refused() {
    zctrace()
        .option("--syscalls=xyzzyplugh")
        .refuses()
        .with_status(125)
        .saying("'xyzzyplugh'")
        .saying("%data");
}

#[test]
fn an_empty_selection_of_calls_is_refused() {
    zctrace().option("--syscalls=").refuses().with_status(125);
    zctrace().option("--syscalls=,").refuses().with_status(125);
}

#[test]
fn an_unknown_option_is_refused() {
    zctrace()
        .option("--no-such-option")
        .refuses()
        .with_status(125)
        .saying("'--no-such-option'")
        .saying("--help");
}

#[test]
fn a_misspelled_option_is_refused_with_a_suggestion() {
    zctrace()
        .option("--al-processes")
        .refuses()
        .with_status(125)
        .saying("--all-processes");
}

#[test]
fn an_invalid_option_value_is_refused() {
    zctrace()
        .option("--format=jsn")
        .refuses()
        .with_status(125)
        .saying("'jsn'")
        .saying("json");
    zctrace()
        .option("--max-rows=many")
        .refuses()
        .with_status(125)
        .saying("--max-rows");
    zctrace()
        .option("--max-rows=0")
        .refuses()
        .with_status(125)
        .saying("0");
    zctrace()
        .option("--sort=speed")
        .refuses()
        .with_status(125)
        .saying("'speed'");
}

#[test]
fn a_command_line_without_a_command_is_refused_with_an_example() {
    zctrace()
        .refuses_words(&[])
        .with_status(125)
        .saying("no command")
        .saying("zctrace cp a b");
    zctrace()
        .refuses_words(&["--"])
        .with_status(125)
        .saying("no command");
}

#[test]
fn a_subcommand_after_options_is_refused() {
    zctrace()
        .refuses_words(&["--by=total", "check"])
        .with_status(125)
        .saying("'check' comes first")
        .saying("zctrace -- check");
}

#[test]
fn a_missing_command_whose_name_is_close_to_a_subcommand_gets_a_suggestion() {
    let refused = |words: &[&str]| {
        zctrace()
            .refuses_words(words)
            .with_status(127)
            .saying("No such file or directory")
    };
    refused(&["chek", "x.toml"])
        .saying("'chek'")
        .saying("did you mean the subcommand 'check'?");
    refused(&["--by=total", "dcotor"]).saying("did you mean the subcommand 'doctor'?");
    for words in [
        ["--", "chek"],
        ["run", "chek"],
        ["--by=total", "no-such-command"],
    ] {
        let finished = zctrace().launch_with(&words).finish();
        assert!(
            finished.code == Some(127) && !finished.stderr.contains("did you mean"),
            "{words:?}: {}",
            finished.stderr
        );
    }
}

#[test]
fn an_unknown_user_is_refused() {
    zctrace()
        .option("--user=nobody-of-this-name")
        .refuses()
        .with_status(125)
        .saying("'nobody-of-this-name'");
    zctrace()
        .option("--user=12x")
        .refuses()
        .with_status(125)
        .saying("'12x'");
}

#[test]
fn help_and_version_succeed_and_write_to_stdout() {
    for words in [["--help"], ["-h"], ["--version"]] {
        let finished = zctrace().launch_with(&words).finish();
        assert!(
            finished.successful().contains("zctrace"),
            "{}",
            finished.text()
        );
        assert!(finished.stderr.is_empty(), "{}", finished.stderr);
    }
}

#[test]
fn a_missing_command_ends_with_127() {
    let refusal = zctrace().refuses_to_run(&program("no-such-command"));
    refusal
        .with_status(127)
        .saying("'no-such-command'")
        .saying("No such file or directory");
    zctrace()
        .refuses_to_run(&program("/no/such/command"))
        .with_status(127)
        .saying("No such file or directory");
}

#[test]
fn an_empty_command_name_ends_with_127() {
    zctrace().refuses_to_run(&program("")).with_status(127);
}

#[test]
fn a_file_without_execute_permission_ends_with_126() {
    let dir = TestDir::new();
    let refusal = zctrace().refuses_to_run(&program(dir.write_with_mode(
        "command",
        "#!/bin/sh\n",
        0o644,
    )));
    refusal.with_status(126).saying("Permission denied");
}

#[test]
fn a_directory_as_the_command_ends_with_126() {
    zctrace()
        .refuses_to_run(&program("/etc"))
        .with_status(126)
        .saying("'/etc'")
        .saying("Is a directory");
}

#[test]
fn a_command_below_a_regular_file_ends_with_126() {
    zctrace()
        .refuses_to_run(&program("/etc/passwd/x"))
        .with_status(126)
        .saying("Not a directory");
}

#[test]
fn a_script_with_a_missing_interpreter_ends_with_127() {
    let dir = TestDir::new();
    let refusal = zctrace().refuses_to_run(&program(dir.write_with_mode(
        "command",
        "#!/no/such/interpreter\n",
        0o755,
    )));
    refusal.with_status(127).saying("No such file or directory");
}

#[test]
fn a_command_that_is_not_on_the_path_ends_with_127() {
    zctrace()
        .env("PATH", "/nonexistent")
        .refuses_to_run(&program("touch"))
        .with_status(127);
}

#[test]
fn an_output_file_in_a_missing_directory_is_refused() {
    let refusal = zctrace().option("--output=missing/report.json").refuses();
    refusal
        .with_status(125)
        .saying("'missing/report.json'")
        .saying("No such file or directory");
}

#[test]
fn a_directory_as_the_output_file_is_refused() {
    zctrace()
        .option("--output=.")
        .refuses()
        .with_status(125)
        .saying("'.'")
        .saying("Is a directory");
    let dir = TestDir::new();
    zctrace()
        .option("--output")
        .option(dir.path())
        .refuses()
        .with_status(125)
        .saying("Is a directory");
}

#[test]
fn an_output_file_below_a_regular_file_is_refused() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    zctrace()
        .option("--output")
        .option(file.path().join("report"))
        .refuses()
        .with_status(125)
        .saying("Not a directory");
}

#[test]
fn an_empty_output_name_is_refused() {
    zctrace().option("--output=").refuses().with_status(125);
}

#[test]
fn a_full_device_fails_at_the_end_of_the_run() {
    // zctrace notices it only when it writes the report.
    let dir = TestDir::new();
    let finished = zctrace()
        .option("--output")
        .option(full(dir.path()))
        .show(&program("true"));
    assert_eq!(finished.code, Some(125));
    assert!(
        finished.stderr.contains("No space left on device"),
        "{}",
        finished.stderr
    );
    assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
}

#[test]
fn a_failed_run_keeps_the_old_report() {
    let dir = TestDir::with("report.json", "old");
    let output = || zctrace().option("--output").option(dir.join("report.json"));
    output()
        .refuses_to_run(&program("no-such-command"))
        .with_status(127);
    output()
        .ebpf()
        .env("ZCTRACE_BTF", "/nonexistent")
        .refuses()
        .with_status(125);
    assert_eq!(dir.read("report.json"), "old");
    dir.assert_has_only(&["report.json"]);
}

/// A zctrace that is started by this script of bash.
fn started_by(script: &str) -> Zctrace {
    zctrace().through(&["bash", "-c", script, "bash"])
}

#[test]
fn a_closed_or_read_only_stream_is_refused() {
    for redirection in [">&-", "1</dev/null"] {
        let refusal = started_by(&format!(r#"exec "$@" {redirection}"#))
            .option("--output=-")
            .refuses();
        refusal
            .with_status(125)
            .saying("cannot write the report to stdout");
    }
    let dir = TestDir::new();
    for redirection in ["2>&-", "2</dev/null"] {
        let finished = started_by(&format!(r#"exec "$@" {redirection}"#))
            .dir(dir.path())
            .show(&program("touch").arg("it-ran"));
        assert_eq!(finished.code, Some(125), "{redirection}");
    }
    dir.assert_empty();
    let doctor = started_by(r#"exec "$@" >&-"#)
        .launch_with(&["doctor"])
        .finish();
    assert_eq!(doctor.code, Some(125), "{}", doctor.stderr);
}

#[test]
fn a_file_size_limit_leaves_no_partial_report() {
    let dir = TestDir::new();
    let report = dir.join("report.json");
    // Messages go through a pipe, because the limit also holds for the files that collect the
    // output of tests.
    let limited = || {
        started_by(r#"(ulimit -f 0; "$@" 2>&1) | cat >&2; exit ${PIPESTATUS[0]}"#)
            .option("--output")
            .option(&report)
    };
    let finished = limited().show(&program("true"));
    assert_eq!(finished.code, Some(125), "{}", finished.stderr);
    assert!(
        finished.stderr.contains("File too large") && finished.stderr.lines().count() == 1,
        "{}",
        finished.stderr
    );
    dir.assert_empty();
    // The command still gets the signal.
    let killed = limited().show(&program("dd").args(&[
        "if=/dev/zero",
        "of=/var/tmp/zctrace-test-xfsz",
        "count=1",
    ]));
    let _ = fs::remove_file("/var/tmp/zctrace-test-xfsz");
    assert!(
        !killed.stderr.contains("records out"),
        "SIGXFSZ ended it: {}",
        killed.stderr
    );
}
