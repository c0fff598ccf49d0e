//! What a comparison writes: exported files and the page on a terminal.

use std::{fs::File, process::Stdio};

use rustix::pipe::{PipeFlags, pipe_with};
use serde_json::{Value, json};

use super::{compare, compared, line};
use crate::harness::{BACKENDS, Group, Terminal, TestDir, Zctrace, exists, full, workload};

/// A name that every format has to quote.
const NAME: &str = "it's \"a\", b | c\nd";

#[test]
fn all_formats_can_be_exported_at_once() {
    let dir = TestDir::new();
    let write = line(&workload("write").arg("30").arg("11"));
    let options = ["-N", "--runs=3", "--syscalls=write", "--name", NAME];
    let files = ["--export", "json", "a.json", "--export", "markdown", "c.md"];
    let finished = compare(&options)
        .options(&files)
        .dir(dir.path())
        .launch_with(&[&write, "true"])
        .finish();
    assert!(
        finished.successful().contains("counted calls"),
        "{}",
        finished.text()
    );

    let json: Value = serde_json::from_str(&dir.read("a.json")).expect("JSON");
    assert_eq!(
        (&json["schema"], &json["commands"][0]["name"]),
        (&json!(1), &json!(NAME))
    );
    assert_eq!(json["commands"][0]["command"], json!(write));
    assert_eq!(
        json["commands"][0]["runs"].as_array().map(Vec::len),
        Some(3)
    );

    let traced = &json["commands"][0]["traced"];
    assert_eq!(
        (
            &traced["syscalls"],
            &traced["bytes_per_call"],
            &traced["apis"]
        ),
        (&json!(30), &Value::Null, &Value::Null)
    );

    let markdown = dir.read("c.md");
    let table: Vec<&str> = markdown
        .lines()
        .take_while(|line| !line.is_empty())
        .collect();
    assert_eq!(table.len(), 4, "{markdown}");
    let columns = |line: &str| line.replace(r"\|", "").matches('|').count();
    assert!(
        table.iter().all(|line| columns(line) == columns(table[0])),
        "{markdown}"
    );
}

#[test]
fn a_failed_export_does_not_stop_the_others() {
    let dir = TestDir::new();
    full(dir.path());
    let options = [
        "-N", "--runs=1", "--export", "json", "full", "--export", "markdown", "b.md",
    ];
    let finished = compare(&options)
        .dir(dir.path())
        .launch_with(&["true"])
        .finish();
    assert_eq!(finished.code, Some(125), "{}", finished.text());
    assert_eq!(
        finished.stderr,
        "zctrace: cannot write the report to 'full': No space left on device (os error 28)\n"
    );
    assert!(
        finished.text().contains("counted calls"),
        "{}",
        finished.text()
    );
    assert!(dir.read("b.md").starts_with("| command |"));
}

#[test]
fn a_failed_comparison_keeps_the_old_file() {
    let dir = TestDir::new();
    dir.write("old.json", "old");
    let finished = compare(&["--export", "json", "old.json"])
        .dir(dir.path())
        .launch_with(&["exit 1"])
        .finish();
    assert_eq!(
        (finished.code, dir.read("old.json").as_str()),
        (Some(125), "old")
    );
    dir.assert_has_only(&["old.json"]);
}

#[test]
fn stdout_has_the_requested_format() {
    let shown = |format: &str| {
        let finished = compare(&["-N", "--runs=1", "--format", format])
            .launch_with(&["true"])
            .finish();
        finished.successful().to_owned()
    };
    assert!(shown("json").starts_with("{\n") && shown("markdown").starts_with("| command |"));
}

#[track_caller]
fn assert_succeeds(options: &[&str], command: &str) {
    for backend in BACKENDS {
        compared(&[&["--runs=2", backend], options].concat(), &[command]);
    }
}

#[test]
fn standard_streams_are_dev_null_by_default() {
    assert_succeeds(&[], "! read line && echo nobody hears && echo this >&2");
    assert_succeeds(
        &[],
        "test /dev/null -ef /dev/stdin && test /dev/null -ef /dev/stdout && test /dev/null -ef /dev/stderr",
    );
}

#[test]
fn a_closed_stdout_is_not_an_error() {
    let dir = TestDir::new();
    let (reader, unread) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    drop(reader);
    let export = compare(&["-N", "--runs=1", "--export", "json", "out.json"]).dir(dir.path());
    let mut command = export.launch_with(&["true"]).command();
    let stderr = File::options()
        .write(true)
        .open("/dev/null")
        .expect("there is one");
    command.stdin(Stdio::null()).stdout(unread).stderr(stderr);
    assert_eq!(Group::start(&mut command).wait(), Some(0));
    assert!(dir.read("out.json").starts_with('{'));
}

/// Compares on a terminal of this width: the exit status, and what was shown.
fn on_terminal(columns: u16, zctrace: Zctrace, commands: &[&str]) -> (Option<i32>, String) {
    Terminal::start(columns, &zctrace.launch_with(commands)).finish()
}

#[test]
fn the_page_fits_the_terminal_and_omits_nothing() {
    for columns in [40, 60, 100] {
        let (code, shown) = on_terminal(
            columns,
            compare(&["--runs=2"]),
            &["sleep 0.02", "exit 0", "cat /etc/passwd"],
        );
        assert_eq!(code, Some(0), "{shown}");
        let widest = shown
            .lines()
            .map(|line| line.trim_end().chars().count())
            .max();
        assert!(
            widest <= Some(columns.into()),
            "{widest:?} of {columns} columns:\n{shown}"
        );
        for words in [
            "peak memory",
            "involuntary switches",
            "API",
            "cat /etc/passwd",
        ] {
            assert!(
                shown.contains(words),
                "no {words:?} in {columns} columns:\n{shown}"
            );
        }
    }
}

#[test]
fn progress_is_shown_only_on_terminals_that_can_erase_it() {
    let stages = ["warming up", "timing  ", "tracing"];
    let shown_as = |term| {
        on_terminal(
            80,
            compare(&["--runs=2", "--warmup=1"]).env("TERM", term),
            &["true"],
        )
        .1
    };
    let (erasable, dumb) = (shown_as("xterm"), shown_as("dumb"));
    for stage in stages {
        assert!(erasable.contains(stage), "no {stage:?}: {erasable}");
        assert!(!dumb.contains(stage), "{stage:?}: {dumb}");
    }
    // Elsewhere stderr stays empty.
    let finished = compare(&["--runs=2"])
        .env("TERM", "xterm")
        .launch_with(&["true"])
        .finish();
    assert_eq!(finished.stderr, "");
}

#[test]
fn ctrl_c_ends_the_comparison_and_its_processes() {
    let dir = TestDir::new();
    let zctrace = compare(&["--runs=2", "--export", "json", "out.json"]).dir(dir.path());
    let command = "sleep 100 & echo $! > /dev/tty; wait";
    let mut terminal = Terminal::start(80, &zctrace.launch_with(&[command]));
    terminal.wait_for("\n");
    terminal.type_in("\x03");
    let (code, shown) = terminal.finish();
    assert_eq!(code, Some(130), "{shown}");
    assert!(shown.contains("zctrace: interrupted by SIGINT"), "{shown}");
    let pid = shown
        .lines()
        .find_map(|line| line.trim().parse::<u32>().ok())
        .expect("the command's child");
    assert!(!exists(pid.to_string()), "still running");
    dir.assert_empty();
}
