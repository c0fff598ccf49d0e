//! What a comparison writes: exported files and the page on a terminal; and the standard streams of
//! its commands.

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
    let files = [
        "--export", "json", "a.json", "--export", "csv", "b.csv", "--export", "markdown", "c.md",
    ];
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

    let mut csv = csv::Reader::from_path(dir.join("b.csv")).expect("CSV");
    let titles = csv.headers().expect("titles").clone();
    let lines: Vec<csv::StringRecord> = csv.records().collect::<Result<_, _>>().expect("lines");
    let cell = |line: usize, title: &str| {
        lines[line]
            .get(
                titles
                    .iter()
                    .position(|found| found == title)
                    .expect("a column"),
            )
            .expect("a cell")
    };
    assert_eq!(lines.len(), 2);
    assert_eq!((cell(0, "name"), cell(1, "name")), (NAME, "true"));
    assert_eq!(
        (
            cell(0, "syscalls"),
            cell(0, "bytes_per_call"),
            cell(0, "api")
        ),
        ("30", "11.0", "")
    );
    let mean: f64 = cell(0, "time_mean_s").parse().expect("a number");
    assert_eq!(
        json["commands"][0]["time_s"]["mean"],
        json!(mean),
        "the same in every format"
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
        "-N", "--runs=1", "--export", "json", "full", "--export", "csv", "b.csv",
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
    assert!(dir.read("b.csv").starts_with("name,"));
}

#[test]
fn hyperfines_option_names_are_accepted() {
    let dir = TestDir::new();
    let options = [
        "-N",
        "--runs=1",
        "--export-json=j",
        "--export-csv=c",
        "--export-markdown=m",
        "--command-name=x",
    ];
    compare(&options)
        .dir(dir.path())
        .launch_with(&["true"])
        .finish()
        .successful();
    assert!(dir.read("j").starts_with('{'));
    assert!(dir.read("c").starts_with("name,"));
    assert!(dir.read("m").starts_with("| command |"));
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
    assert!(
        shown("json").starts_with("{\n")
            && shown("csv").starts_with("name,")
            && shown("markdown").starts_with("| command |")
    );
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
fn output_to_a_pipe_is_read_to_its_end() {
    assert_succeeds(
        &["--output=pipe"],
        "test -p /dev/stdout && head -c 1000000 /dev/zero",
    );
}

#[test]
fn each_run_reads_the_input_file_from_its_start() {
    let dir = TestDir::new();
    let path = dir.write("in", "first\nsecond\n");
    assert_succeeds(
        &["--input", path.to_str().expect("text")],
        "read line && test $line = first",
    );
}

#[test]
fn the_output_file_has_what_the_last_run_wrote() {
    let dir = TestDir::new();
    let path = dir.join("out");
    assert_succeeds(&["--output", path.to_str().expect("text")], "echo once");
    assert_eq!(dir.read("out"), "once\n");
}

#[test]
fn inherited_output_is_shown() {
    let finished = compare(&["--runs=1", "--output=inherit"])
        .launch_with(&["echo hello; echo there >&2"])
        .finish();
    assert_eq!(
        finished.successful().matches("hello\n").count(),
        2,
        "timed and traced: {}",
        finished.text()
    );
    assert_eq!(finished.stderr, "there\nthere\n");
}

#[test]
fn a_closed_stdout_is_not_an_error() {
    let dir = TestDir::new();
    let (reader, unread) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    drop(reader);
    let export = compare(&["-N", "--runs=1", "--export", "csv", "out.csv"]).dir(dir.path());
    let mut command = export.launch_with(&["true"]).command();
    let stderr = File::options()
        .write(true)
        .open("/dev/null")
        .expect("there is one");
    command.stdin(Stdio::null()).stdout(unread).stderr(stderr);
    assert_eq!(Group::start(&mut command).wait(), Some(0));
    assert!(dir.read("out.csv").starts_with("name,"));
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
            compare(&["--runs=2", "-i"]),
            &["sleep 0.02", "exit 1", "cat /etc/passwd"],
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
    let stages = ["timing the shell", "warming up", "timing  ", "tracing"];
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
