//! `zctrace report` shows saved reports again, and reads strace logs.

use std::{
    fs,
    path::{Path, PathBuf},
};

use zc_tests::Figure;
use zctrace::{
    render::{self, Format},
    report::{Report, SCHEMA},
};

use crate::harness::{
    Finished, Launch, Program, Rows, TestDir, Zctrace, program, workload, zctrace,
};

/// `zctrace report` of these files.
fn report_of(files: &[impl AsRef<Path>]) -> Zctrace {
    files
        .iter()
        .fold(zctrace().option("report"), |zctrace, file| {
            zctrace.option(file.as_ref())
        })
}

/// Runs zctrace without further words.
fn show(zctrace: Zctrace) -> Finished {
    zctrace.launch().finish()
}

/// The report as JSON.
#[track_caller]
fn read(files: &[impl AsRef<Path>]) -> Report {
    Report::from_json(show(report_of(files).option("--format=json")).successful())
        .expect("a report")
}

/// A report of a workload, saved by this backend.
fn saved(backend: &str) -> (TestDir, PathBuf) {
    let dir = TestDir::new();
    let path = dir.join("report.json");
    zctrace()
        .by_thread()
        .backend(backend)
        .json_to(&path)
        .show(&workload("known"))
        .successful();
    (dir, path)
}

#[test]
fn a_saved_report_is_the_same_when_shown_again() {
    for backend in ["ebpf", "strace"] {
        let (dir, path) = saved(backend);
        let text = dir.read("report.json");
        let again = show(report_of(&[&path]).option("--format=json"));
        assert_eq!(
            (again.successful(), again.stderr.as_str()),
            (text.as_str(), ""),
            "{backend}"
        );
    }
}

#[test]
fn a_saved_report_has_the_same_table_as_its_run() {
    for backend in ["ebpf", "strace"] {
        let (dir, path) = saved(backend);
        let report = Report::from_json(&dir.read("report.json")).expect("a report");
        let table = render::render(&report, Format::Table, &render::Options::default());
        assert_eq!(show(report_of(&[&path])).successful(), table, "{backend}");
    }
}

#[test]
fn a_report_or_a_log_is_read_from_stdin() {
    let (dir, _) = saved("strace");
    let from = |redirection: &str| {
        let script = format!(r#"exec "$@" {redirection}"#);
        zctrace()
            .dir(dir.path())
            .through(&["bash", "-c", &script, "bash"])
            .option("report")
            .option("-")
            .option("--format=json")
    };
    assert_eq!(
        show(from("<report.json")).successful(),
        dir.read("report.json")
    );
    let log = dir.join("log");
    record(&["-f", "-T"], &log, &workload("known"));
    let piped = Report::from_json(show(from("< <(cat log)")).successful()).expect("a report");
    assert_eq!(piped, read(&[&log]));
    let refused = |zctrace: Zctrace, words: &str| {
        let finished = show(zctrace);
        assert!(
            finished.code == Some(125) && finished.stderr == format!("zctrace: {words}\n"),
            "{}",
            finished.stderr
        );
    };
    refused(from("</dev/null"), "stdin has no line of strace");
    refused(from("<."), "cannot read stdin: it is a directory");
    refused(
        from("<report.json").option("-"),
        "stdin can be read only once; give '-' once",
    );
}

#[test]
fn a_saved_report_can_be_sorted_again_and_written_to_a_file() {
    let (dir, path) = saved("ebpf");
    let output = dir.join("sorted.json");
    let finished = show(
        report_of(&[&path])
            .option("--format=json")
            .option("--sort=bytes")
            .option("-o")
            .option(&output),
    );
    assert_eq!(finished.successful(), "");
    let sorted = Report::from_json(&dir.read("sorted.json")).expect("a report");
    let bytes: Vec<_> = sorted
        .totals
        .syscalls
        .iter()
        .map(|call| call.bytes)
        .collect();
    assert!(
        bytes.len() > 10 && bytes.is_sorted_by(|one, next| one >= next),
        "{bytes:?}"
    );
}

/// Records a log of a program with strace itself.
fn record(options: &[&str], log: &Path, program: &Program) {
    let strace = Launch::default()
        .words(&["strace"])
        .words(options)
        .words(&["-o".as_ref(), log.as_os_str()]);
    strace
        .words(&["--"])
        .words(program.words())
        .finish()
        .successful();
}

#[test]
fn an_strace_log_in_one_file_is_read() {
    let dir = TestDir::new();
    for options in [
        ["-f", "-T"].as_slice(),
        &["-f"],
        &["-f", "-ttt", "-T", "-yy"],
        &["-f", "-C"],
        &["-f", "-X", "raw", "-r"],
    ] {
        let log = dir.join("log");
        record(options, &log, &workload("exec-thread").args(&["70", "30"]));
        let report = read(&[log]);
        assert!(report.exact, "{options:?}: {:?}", report.losses);
        assert_eq!(
            (
                report.backend.as_str(),
                report.exit.code,
                report.totals.processes
            ),
            ("strace", Some(0), 1),
            "{options:?}"
        );
        let write = Rows::new("all", &report.totals.syscalls).row("write");
        assert_eq!(write, Figure::of_calls(70, 30), "{options:?}");
    }
}

#[test]
fn an_strace_log_in_many_files_is_read() {
    let dir = TestDir::new();
    record(
        &["-ff", "-T"],
        &dir.join("log"),
        &workload("fork-storm").arg("20"),
    );
    let mut files: Vec<_> = fs::read_dir(dir.path())
        .expect("it belongs to the test")
        .map(|entry| entry.expect("a file").path())
        .collect();
    files.sort();
    assert_eq!(files.len(), 21);
    let report = read(&files);
    assert!(report.exact, "{:?}", report.losses);
    assert_eq!(report.totals.processes, 21);
    assert_eq!(
        Rows::new("all", &report.totals.syscalls).row("write").calls,
        61
    );
}

#[test]
fn an_strace_log_has_the_counts_of_an_ebpf_run() {
    let dir = TestDir::new();
    let log = dir.join("log");
    let quiet = program("dd").args(&[
        "if=/dev/zero",
        "of=/dev/null",
        "bs=4k",
        "count=500",
        "status=none",
    ]);
    record(&["-f", "-T"], &log, &quiet);
    let run = zctrace().ebpf().syscalls("all").run(&quiet);
    let report = read(&[log]);
    assert_eq!(
        Rows::new("the log", &report.totals.syscalls).figures(),
        run.totals().figures(),
        "the log (left) and eBPF"
    );
}

#[test]
fn only_selected_calls_of_a_log_are_shown() {
    let dir = TestDir::new();
    let log = dir.join("log");
    record(&["-f"], &log, &workload("write").args(&["5", "10"]));
    let finished = show(report_of(&[log]).option("--format=json").syscalls("write"));
    let report = Report::from_json(finished.successful()).expect("a report");
    let rows = Rows::new("the log", &report.totals.syscalls).figures();
    assert_eq!(rows, [("write".to_owned(), Figure::of_calls(5, 10))].into());
}

/// Makes sure that a file with this content is refused with these words.
#[track_caller]
fn assert_refused(content: &str, words: &str) {
    let dir = TestDir::with("file", content);
    report_of(&[dir.join("file")])
        .refuses_words(&[])
        .with_status(125)
        .saying("file'")
        .saying(words);
}

#[test]
fn a_file_that_is_neither_a_report_nor_a_log_is_refused() {
    assert_refused("", "no line of strace");
    assert_refused("hello\nworld\n", "no line of strace");
    assert_refused("{}", "is not a report of zctrace");
    let head = format!("{{\"schema\": {SCHEMA}");
    assert_refused(&format!("{head}}}"), "is not a report of zctrace");
    assert_refused(&format!("{head}, \"tool\""), "is not a report of zctrace");
}

/// The report on a copy of a file, saved in a directory.
fn saved_copy() -> (TestDir, PathBuf) {
    let dir = TestDir::with("in", "some bytes\n");
    let path = dir.join("copy.json");
    let copy = program("cp").args(&["--reflink=never", "in", "out"]);
    zctrace()
        .dir(dir.path())
        .json_to(&path)
        .show(&copy)
        .successful();
    (dir, path)
}

#[test]
fn a_saved_report_by_total_keeps_its_transfers() {
    let (_dir, path) = saved_copy();
    let finished = show(report_of(&[&path]).options(&["--by=total", "--format=json"]));
    let report = Report::from_json(finished.successful()).expect("a report");
    assert_eq!((report.processes.len(), report.transfers.len()), (0, 1));
    assert_eq!(report.transfers, read(&[&path]).transfers);
}

#[test]
fn a_report_that_refers_to_a_missing_transfer_is_refused_in_one_line() {
    let (dir, _) = saved_copy();
    let mut json: serde_json::Value = serde_json::from_str(&dir.read("copy.json")).expect("JSON");
    json["processes"][0]["transfers"] = serde_json::json!([9]);
    assert_refused(
        &json.to_string(),
        "it refers to transfer 9, but has only 1 (counted from 0)",
    );
}

#[test]
fn a_report_with_another_schema_is_refused() {
    assert_refused(
        "{\"schema\": 99, \"more\": []}",
        &format!("it has schema 99; this zctrace reads schema {SCHEMA}"),
    );
}

#[test]
fn files_that_cannot_be_read_are_refused() {
    let dir = TestDir::new();
    let missing = dir.join("missing");
    report_of(&[missing])
        .refuses_words(&[])
        .with_status(125)
        .saying("missing'")
        .saying("No such file or directory");
    report_of(&[dir.path()])
        .refuses_words(&[])
        .with_status(125)
        .saying("is a directory");
    zctrace()
        .option("report")
        .refuses_words(&[])
        .with_status(125);
}

#[test]
fn several_reports_at_once_are_refused() {
    let (_dir, path) = saved("ebpf");
    report_of(&[&path, &path])
        .refuses_words(&[])
        .with_status(125)
        .saying("one at a time");
}
