//! `zctrace report` shows saved reports again, and reads strace logs.

use std::path::{Path, PathBuf};

use zc_tests::Figure;
use zctrace::{
    render::{self, Format},
    report::{Report, SCHEMA},
};

use crate::harness::{
    BACKENDS, Program, ReportRows, TestDir, Zctrace, untraced, words, workload, zctrace,
};

/// `zctrace report` of these files.
fn report_of(files: &[impl AsRef<Path>]) -> Zctrace {
    let report = zctrace().option("report");
    let files = files.iter();
    files.fold(report, |report, file| report.option(file.as_ref()))
}

/// The report as JSON.
#[track_caller]
fn read(files: &[impl AsRef<Path>]) -> Report {
    let finished = report_of(files).option("--format=json").finish();
    finished.exits(0).says_only("").report()
}

/// A report of a workload, saved by this backend.
fn saved(backend: &str) -> (TestDir, PathBuf) {
    let dir = TestDir::new();
    let path = dir.join("report.json");
    let saving = zctrace().by_thread().backend(backend).json_to(&path);
    saving.show(&workload("known")).exits(0);
    (dir, path)
}

#[test]
fn a_saved_report_is_the_same_when_shown_again_and_has_the_same_table() {
    for backend in ["ebpf", "strace"] {
        let (dir, path) = saved(backend);
        let text = dir.read("report.json");
        let again = report_of(&[&path]).option("--format=json").finish();
        again.exits(0).says_only("").prints_only(&text);
        let report = Report::from_json(&text).expect("a report");
        let table = render::render(&report, Format::Table, &render::Options::default());
        report_of(&[&path]).finish().exits(0).prints_only(&table);
    }
}

#[test]
fn a_report_or_a_log_is_read_from_stdin() {
    let (dir, _) = saved("strace");
    let from = |redirection: &str| {
        let script = format!(r#"exec "$@" {redirection}"#);
        let zctrace = zctrace().dir(dir.path());
        let zctrace = zctrace.by_script(&script);
        zctrace.options(&["report", "-", "--format=json"])
    };
    let report = from("<report.json").finish();
    report.exits(0).prints_only(&dir.read("report.json"));
    let log = dir.join("log");
    record(&["-f", "-T"], &log, &workload("known"));
    assert_eq!(from("< <(cat log)").finish().report(), read(&[&log]));
    for (zctrace, said) in [
        (from("</dev/null"), "cannot read stdin: the log is empty"),
        (from("<."), "cannot read stdin: it is a directory"),
        (
            from("<report.json").option("-"),
            "stdin can be read only once; give '-' once",
        ),
    ] {
        let finished = zctrace.finish();
        finished.exits(125).says_only(&format!("zctrace: {said}\n"));
    }
}

#[test]
fn a_saved_report_can_be_sorted_again_and_written_to_a_file() {
    let (dir, path) = saved("ebpf");
    let sorting = report_of(&[&path]).option("--sort=bytes");
    let sorting = sorting.json_to(dir.join("sorted.json"));
    sorting.finish().exits(0).prints_only("");
    let sorted = Report::from_json(&dir.read("sorted.json")).expect("a report");
    let calls = &sorted.totals.syscalls;
    assert!(calls.len() > 10 && calls.is_sorted_by(|one, next| one.bytes >= next.bytes));
}

/// Records a log of a program with strace itself.
fn record(options: &[&str], log: &Path, program: &Program) {
    let strace = crate::harness::program("strace").args(options);
    let strace = untraced(&strace.arg("-o").arg(log).arg("--"));
    strace.args(program.words()).finish().exits(0);
}

#[test]
fn an_strace_log_in_one_file_is_read() {
    let dir = TestDir::new();
    let writes = workload("exec-thread").args(&["70", "30"]);
    for options in ["-f -T", "-f", "-f -ttt -T -yy", "-f -C", "-f -X raw -r"] {
        let log = dir.join("log");
        record(&words(options), &log, &writes);
        let report = read(&[log]);
        assert!(report.exact, "{options:?}: {:?}", report.losses);
        let found = (report.exit.code, report.totals.processes);
        assert_eq!(found, (Some(0), 1), "{options:?}");
        assert_eq!(report.backend, "strace");
        let write = ReportRows::new("all", &report.totals.syscalls).row("write");
        assert_eq!(write, Figure::of_calls(70, 30), "{options:?}");
    }
}

#[test]
fn an_strace_log_in_many_files_is_read() {
    let dir = TestDir::new();
    let storm = workload("fork-storm").arg("20");
    record(&["-ff", "-T"], &dir.join("log"), &storm);
    let files = dir.names();
    assert_eq!(files.len(), 21);
    let report = read(&files.iter().map(|name| dir.join(name)).collect::<Vec<_>>());
    assert!(report.exact, "{:?}", report.losses);
    assert_eq!(report.totals.processes, 21);
    let write = ReportRows::new("all", &report.totals.syscalls).row("write");
    assert_eq!(write.calls, 61);
}

#[test]
fn only_selected_calls_of_a_log_are_shown() {
    let dir = TestDir::new();
    let log = dir.join("log");
    record(&["-f"], &log, &workload("write").args(&["5", "10"]));
    let shown = report_of(&[log]).option("--format=json").syscalls("write");
    let report = shown.finish().report();
    let rows = ReportRows::new("the log", &report.totals.syscalls);
    rows.assert_equal(&[("write".to_owned(), Figure::of_calls(5, 10))].into());
}

#[test]
fn what_is_neither_a_report_nor_a_log_is_refused() {
    let dir = TestDir::new();
    for (content, said) in [
        ("", "the log is empty"),
        (
            "hello\nworld\n",
            "no line of the log is from strace; the first that cannot be parsed is line 1: hello",
        ),
        ("__libc_start_main(0x80486d4, 1) = 0\n", "output of ltrace"),
        ("\0\0\0\n", "binary file"),
        ("{}", "is not a report of zctrace"),
        ("{\"schema\": 1, \"tool\"", "is not a report of zctrace"),
        (
            "{\"schema\": 99, \"more\": []}",
            &format!("it has schema 99; this zctrace reads schema {SCHEMA}"),
        ),
    ] {
        let refused = report_of(&[dir.write("file", content)]).refuses_words(&[]);
        refused.exits(125).says_all(&["file'", said]);
    }
    let log = dir.write("log.bz2", "BZh91AY&SY");
    let refused = report_of(&[&log]).refuses_words(&[]);
    refused.exits(125).says(&format!(
        "the log is compressed: bzcat '{}' | zctrace report -",
        log.display()
    ));
    let log = dir.write("log", "10 getpid() = 10\n");
    let refused = report_of(&[&log, &log]).refuses_words(&[]);
    refused.exits(125).says("log' is given twice");
    let refused = report_of(&[dir.join("missing")]).refuses_words(&[]);
    refused
        .exits(125)
        .says("missing': No such file or directory");
    let refused = report_of(&[dir.path()]).refuses_words(&[]);
    refused.exits(125).says("is a directory");
    let (_dir, path) = saved("ebpf");
    let refused = report_of(&[&path, &path]).refuses_words(&[]);
    refused.exits(125).says("one at a time");
    let nothing = zctrace().option("report").refuses_words(&[]);
    nothing.exits(125);
}

#[test]
fn a_byte_order_mark_is_skipped_and_utf_16_is_named() {
    let dir = TestDir::new();
    let saving = zctrace().json_to(dir.join("report.json"));
    saving.show(&workload("write")).exits(0);
    let text = dir.read("report.json");
    let marked = dir.write("marked.json", format!("\u{feff}{text}"));
    report_of(&[marked]).finish().exits(0);
    let log = dir.write(
        "marked.log",
        "\u{feff}1 close(3) = 0\n1 +++ exited with 0 +++\n",
    );
    report_of(&[log]).finish().exits(0).says_only("");
    let units = text.encode_utf16();
    let little: Vec<u8> = [0xfeff]
        .into_iter()
        .chain(units)
        .flat_map(u16::to_le_bytes)
        .collect();
    for bytes in [&little[..], &little[2..]] {
        let refused = report_of(&[dir.write("wide.json", bytes)]).finish();
        refused.exits(125).says("is in UTF-16: iconv");
    }
}

#[test]
fn a_small_stack_is_enough() {
    let dir = TestDir::new();
    let path = dir.join("report.json");
    zctrace().json_to(&path).show(&workload("write")).exits(0);
    let small = |options: &[&str]| {
        let zctrace = zctrace().by_script(r#"ulimit -s 128; exec "$@""#);
        zctrace
            .options(options)
            .dir(dir.path())
            .finish()
            .exits(0)
            .text()
            .len()
    };
    assert!(small(&["report", "report.json"]) > 0);
    assert!(small(&["man"]) > 0);
    for backend in BACKENDS {
        assert!(small(&[backend, "--output=-", "true"]) > 0);
    }
    assert!(small(&["check", "--expect=write.calls == 0", "--", "true"]) > 0);
    assert!(small(&["compare", "--runs=1", "true", "true"]) > 0);
}
