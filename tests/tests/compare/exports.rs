//! Files: whole, readable by other programs, beside what is shown.

use std::{fs, path::Path};

use serde_json::{Value, json};
use tempfile::tempdir;

use super::{compare, line};
use crate::harness::{full, workload};

/// A name that every format has to quote.
const NAME: &str = "it's \"a\", b | c\nd";

#[track_caller]
fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("it was written")
}

#[test]
fn every_format_at_once_and_the_page_too() {
    let dir = tempdir().expect("a directory");
    let write = line(&workload("write").arg("30").arg("11"));
    let options = ["-N", "--runs=3", "--syscalls=write", "--name", NAME];
    let files = ["--export", "json", "a.json", "--export", "csv", "b.csv", "--export", "markdown", "c.md"];
    let launch = compare(&options).dir(dir.path());
    let launch = files.iter().fold(launch, |zctrace, &word| zctrace.option(word));
    let finished = launch.launch_with(&[&write, "true"]).finish();
    assert!(finished.successful().contains("counted calls"), "{}", finished.text());

    let json: Value = serde_json::from_str(&text(&dir.path().join("a.json"))).expect("JSON");
    assert_eq!((&json["schema"], &json["commands"][0]["name"]), (&json!(1), &json!(NAME)));
    assert_eq!(json["commands"][0]["command"], json!(write));
    assert_eq!(json["commands"][0]["runs"].as_array().map(Vec::len), Some(3));

    let mut csv = csv::Reader::from_path(dir.path().join("b.csv")).expect("CSV");
    let titles = csv.headers().expect("titles").clone();
    let lines: Vec<csv::StringRecord> = csv.records().collect::<Result<_, _>>().expect("lines");
    let cell = |line: usize, title: &str| {
        lines[line].get(titles.iter().position(|found| found == title).expect("a column")).expect("a cell")
    };
    assert_eq!(lines.len(), 2);
    assert_eq!((cell(0, "name"), cell(1, "name")), (NAME, "true"));
    assert_eq!((cell(0, "syscalls"), cell(0, "bytes_per_call"), cell(0, "api")), ("30", "11.0", ""));
    let mean: f64 = cell(0, "time_mean_s").parse().expect("a number");
    assert_eq!(json["commands"][0]["time_s"]["mean"], json!(mean), "the same in every format");

    let markdown = text(&dir.path().join("c.md"));
    let table: Vec<&str> = markdown.lines().take_while(|line| !line.is_empty()).collect();
    assert_eq!(table.len(), 4, "{markdown}");
    let columns = |line: &str| line.replace(r"\|", "").matches('|').count();
    assert!(table.iter().all(|line| columns(line) == columns(table[0])), "{markdown}");
}

#[test]
fn one_that_cannot_be_written_is_not_the_end_of_the_others() {
    let dir = tempdir().expect("a directory");
    full(dir.path());
    let options = ["-N", "--runs=1", "--export", "json", "full", "--export", "csv", "b.csv"];
    let finished = compare(&options).dir(dir.path()).launch_with(&["true"]).finish();
    assert_eq!(finished.code, Some(125), "{}", finished.text());
    assert_eq!(finished.stderr, "zctrace: cannot write the report to 'full': No space left on device (os error 28)\n");
    assert!(finished.text().contains("counted calls"), "{}", finished.text());
    assert!(text(&dir.path().join("b.csv")).starts_with("name,"));
}

#[test]
fn hyperfines_names_of_the_options_do_too() {
    let dir = tempdir().expect("a directory");
    let options = ["-N", "--runs=1", "--export-json=j", "--export-csv=c", "--export-markdown=m", "--command-name=x"];
    compare(&options).dir(dir.path()).launch_with(&["true"]).finish().successful();
    assert!(text(&dir.path().join("j")).starts_with('{'));
    assert!(text(&dir.path().join("c")).starts_with("name,"));
    assert!(text(&dir.path().join("m")).starts_with("| command |"));
}

#[test]
fn an_old_file_survives_a_comparison_that_fails() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("old.json");
    fs::write(&path, "old").expect("ours");
    let finished = compare(&["--export", "json", "old.json"]).dir(dir.path()).launch_with(&["exit 1"]).finish();
    assert_eq!((finished.code, text(&path).as_str()), (Some(125), "old"));
    assert_eq!(fs::read_dir(dir.path()).expect("ours").count(), 1, "nothing beside it");
}

#[test]
fn stdout_has_the_form_that_is_asked_for() {
    let shown = |format: &str| {
        let finished = compare(&["-N", "--runs=1", "--format", format]).launch_with(&["true"]).finish();
        finished.successful().to_owned()
    };
    assert!(
        shown("json").starts_with("{\n") && shown("csv").starts_with("name,") && shown("markdown").starts_with("| command |")
    );
}
