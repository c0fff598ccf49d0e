//! The command's stdin, stdout and stderr are its own.

use std::{fs::File, io, process::Stdio};

use rustix::pipe::{PipeFlags, pipe_with};

use crate::harness::{Group, Zctrace, program, shell, zctrace};

/// Every byte there is, many times over.
fn every_byte() -> Vec<u8> {
    (0..100_000_u32).map(|number| number.to_le_bytes()[usize::from(number % 3 == 0)]).collect()
}

#[test]
fn stdin_goes_to_the_command_and_its_stdout_comes_back_byte_by_byte() {
    let bytes = every_byte();
    let shown = zctrace().input(&bytes).show(&program("cat"));
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    assert!(shown.stdout == bytes, "{} of {} bytes", shown.stdout.len(), bytes.len());
}

#[test]
fn nothing_but_the_report_is_added_and_it_goes_to_stderr() {
    let shown = zctrace().show(&shell("echo out; echo err >&2"));
    assert_eq!(shown.successful(), "out\n");
    let report = shown.stderr.strip_prefix("err\n").expect("the command's own line comes first");
    assert!(report.starts_with("zctrace: sh -c "), "{report}");
}

#[test]
fn with_the_report_elsewhere_stderr_is_the_commands_alone() {
    let run = zctrace().run(&shell("echo err >&2"));
    run.finished.successful();
    assert_eq!(run.finished.stderr, "err\n");
}

#[test]
fn input_that_the_command_leaves_is_left_for_the_next() {
    let script = r#"read first; "$@"; read third; echo "$third""#;
    let through = ["sh", "-c", script, "sh"];
    let run = zctrace().through(&through).input(b"1\n2\n3\n").run(&shell(r#"read second; echo "$second""#));
    assert_eq!(run.finished.successful(), "2\n3\n");
}

/// Runs it with one of its streams a pipe that nobody reads: its exit status, and what it wrote to stderr.
fn unread(zctrace: Zctrace, script: &str, is_stdout: bool) -> Option<i32> {
    let (reader, unread) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    drop(reader);
    let null = || File::options().write(true).open("/dev/null").expect("there is one");
    let mut command = zctrace.launch_of(&shell(script)).command();
    let (stdout, stderr) = if is_stdout { (unread, null().into()) } else { (null().into(), unread) };
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    Group::start(&mut command).wait()
}

#[test]
fn a_reader_that_has_gone_is_no_failure() {
    for format in ["--format=json", "--format=table"] {
        assert_eq!(unread(zctrace().option(format).option("--output=-"), "exit 7", true), Some(7), "{format} to stdout");
        assert_eq!(unread(zctrace().option(format), "exit 7", false), Some(7), "{format} to stderr");
    }
}

#[test]
fn a_failure_that_nobody_reads_keeps_its_status() {
    assert_eq!(unread(zctrace().option("--syscalls=raed"), "exit 7", false), Some(125));
    let missing = |zctrace: Zctrace| zctrace.option("--output=/nonexistent/report");
    assert_eq!(unread(missing(zctrace()), "exit 7", false), Some(125));
}

#[test]
fn a_reader_that_leaves_early_ends_the_pipeline() {
    let through = ["sh", "-c", r#""$@" | head -c 10"#, "sh"];
    let finished = zctrace().option("--format=json").option("--output=-").through(&through).show(&program("true"));
    assert_eq!(finished.successful().len(), 10);
    assert_eq!(finished.stderr, "");
}

#[test]
fn closed_streams_stay_usable() -> io::Result<()> {
    // Without stdin, stdout and stderr, files must not take their places.
    let dir = tempfile::tempdir()?;
    let report = dir.path().join("report.json");
    let through = ["sh", "-c", r#"exec "$@" <&- >&- 2>&-"#, "sh"];
    let zctrace = zctrace().through(&through).option("--format=json").option("--output").option(&report);
    assert_eq!(zctrace.show(&shell("echo unheard; exit 5")).code, Some(5));
    let report: zctrace::report::Report = serde_json::from_str(&std::fs::read_to_string(report)?)?;
    assert!(report.exact);
    Ok(())
}
