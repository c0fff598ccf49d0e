//! Usage errors: each is one line that says what to do, has the right exit status, and leaves
//! nothing behind.

use std::fs;

use crate::harness::{TestDir, Zctrace, full, program, zctrace};

#[test]
fn options_are_refused_with_what_is_wrong_and_what_would_be_right() {
    for (option, said) in [
        (
            "--syscalls=raed",
            &["unknown system call 'raed'", "'read'"][..],
        ),
        ("-e=write,sendfiel", &["'sendfiel'", "'sendfile'"]),
        ("--syscalls=%netwerk", &["'%netwerk'", "%network"]),
        ("--syscalls=xyzzyplugh", &["'xyzzyplugh'", "%data"]),
        ("--syscalls=", &[]),
        ("--syscalls=,", &[]),
        ("--no-such-option", &["'--no-such-option'", "--help"]),
        ("--al-processes", &["--all-processes"]),
        ("--format=jsn", &["'jsn'", "json"]),
        ("--max-rows=many", &["--max-rows"]),
        ("--max-rows=0", &["0"]),
        ("--sort=speed", &["'speed'"]),
        ("--user=nobody-of-this-name", &["'nobody-of-this-name'"]),
        ("--user=12x", &["'12x'"]),
        ("--output=", &[]),
        ("--output=.", &["'.'", "Is a directory"]),
        ("--output=/etc", &["Is a directory"]),
        ("--output=/etc/passwd/report", &["Not a directory"]),
        (
            "--output=missing/report.json",
            &["'missing/report.json'", "No such file or directory"],
        ),
    ] {
        println!("{option}");
        zctrace()
            .option(option)
            .refuses()
            .with_status(125)
            .saying_all(said);
    }
}

#[test]
fn a_command_line_without_a_command_is_refused_with_an_example() {
    let refused = |words: &[&str]| zctrace().refuses_words(words).with_status(125);
    refused(&[]).saying_all(&["no command", "zctrace cp a b"]);
    refused(&["--"]).saying("no command");
    refused(&["--by=total", "check"]).saying_all(&["'check' comes first", "zctrace -- check"]);
}

#[test]
fn a_missing_command_whose_name_is_close_to_a_subcommand_gets_a_suggestion() {
    let missing = "No such file or directory";
    let refused = |words: &[&str]| {
        zctrace()
            .refuses_words(words)
            .with_status(127)
            .saying(missing)
    };
    refused(&["chek", "x.toml"]).saying_all(&["'chek'", "did you mean the subcommand 'check'?"]);
    refused(&["--by=total", "dcotor"]).saying("did you mean the subcommand 'doctor'?");
    for words in [
        ["--", "chek"],
        ["run", "chek"],
        ["--by=total", "no-such-command"],
    ] {
        let finished = zctrace().launch_with(&words).finish();
        finished.exits(127).never_says("did you mean");
    }
}

#[test]
fn help_and_version_succeed_and_write_to_stdout() {
    for words in [["--help"], ["-h"], ["--version"]] {
        let finished = zctrace().launch_with(&words).finish();
        assert!(finished.successful().contains("zctrace"), "{words:?}");
        assert_eq!(finished.stderr, "");
    }
}

#[test]
fn a_command_that_cannot_be_run_ends_with_127_or_126() {
    let dir = TestDir::new();
    let not_executable = dir.write_with_mode("plain", "#!/bin/sh\n", 0o644);
    let no_interpreter = dir.executable("command", "#!/no/such/interpreter\n");
    for (command, status, said) in [
        (
            "no-such-command",
            127,
            &["'no-such-command'", "No such file or directory"][..],
        ),
        ("/no/such/command", 127, &["No such file or directory"]),
        ("", 127, &[]),
        (
            no_interpreter.to_str().expect("text"),
            127,
            &["No such file or directory"],
        ),
        (
            not_executable.to_str().expect("text"),
            126,
            &["Permission denied"],
        ),
        ("/etc", 126, &["'/etc'", "Is a directory"]),
        ("/etc/passwd/x", 126, &["Not a directory"]),
    ] {
        println!("{command}");
        let refusal = zctrace().refuses_to_run(&program(command));
        refusal.with_status(status).saying_all(said);
    }
    let without_path = zctrace().env("PATH", "/nonexistent");
    without_path
        .refuses_to_run(&program("touch"))
        .with_status(127);
}

#[test]
fn a_full_device_fails_at_the_end_of_the_run() {
    // zctrace notices it only when it writes the report.
    let dir = TestDir::new();
    let to_full = zctrace().option("--output").option(full(dir.path()));
    let finished = to_full.show(&program("true"));
    finished
        .exits(125)
        .says("No space left on device")
        .in_one_line();
}

#[test]
fn a_failed_run_keeps_the_old_report() {
    let dir = TestDir::with("report.json", "old");
    let output = || zctrace().option("--output").option(dir.join("report.json"));
    output()
        .refuses_to_run(&program("no-such-command"))
        .with_status(127);
    let without_btf = output().ebpf().env("ZCTRACE_BTF", "/nonexistent");
    without_btf.refuses().with_status(125);
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
        let script = format!(r#"exec "$@" {redirection}"#);
        let refusal = started_by(&script).option("--output=-").refuses();
        refusal
            .with_status(125)
            .saying("cannot write the report to stdout");
    }
    let dir = TestDir::new();
    for redirection in ["2>&-", "2</dev/null"] {
        let zctrace = started_by(&format!(r#"exec "$@" {redirection}"#)).dir(dir.path());
        zctrace.show(&program("touch").arg("it-ran")).exits(125);
    }
    dir.assert_empty();
    let doctor = started_by(r#"exec "$@" >&-"#).launch_with(&["doctor"]);
    doctor.finish().exits(125);
}

#[test]
fn a_file_size_limit_leaves_no_partial_report() {
    let dir = TestDir::new();
    // Messages go through a pipe, because the limit also holds for the files that collect the
    // output of tests.
    let script = r#"(ulimit -f 0; "$@" 2>&1) | cat >&2; exit ${PIPESTATUS[0]}"#;
    let limited = || {
        started_by(script)
            .option("--output")
            .option(dir.join("report.json"))
    };
    let finished = limited().show(&program("true"));
    finished.exits(125).says("File too large").in_one_line();
    dir.assert_empty();
    // The command still gets the signal.
    let file = "/var/tmp/zctrace-test-xfsz";
    let to_file = format!("of={file}");
    let killed = limited().show(&program("dd").args(&["if=/dev/zero", &to_file, "count=1"]));
    let _ = fs::remove_file(file);
    killed.never_says("records out");
}
