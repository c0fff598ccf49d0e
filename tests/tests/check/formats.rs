//! The formats of the results, as other programs read them.

use std::{fs, path::Path, process::Command};

use crate::harness::TestDir;

use super::{dir_with, run_in};

const TWO: &str = r#"
[[check]]
name = "holds # not \\ <this> | \"that\""
command = ["true"]
expect = ["exit.code == 0"]
[[check]]
name = "fails"
command = "echo 'bad, \"luck\" <&>' >&2; exit 1"
expect = ["exit.code == 0", "write.calls == 0"]
"#;

/// Runs a program on a file: whether it succeeded, and what it printed.
fn read_by(program: &[&str], file: &Path) -> (bool, String) {
    let output = Command::new(program[0])
        .args(&program[1..])
        .arg(file)
        .output()
        .expect("it is installed");
    (
        output.status.success(),
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr),
    )
}

/// Writes the results of two checks, one of which fails, to a file.
fn written(format: &str) -> (TestDir, std::path::PathBuf) {
    let dir = dir_with(TWO);
    let file = dir.join("results");
    let finished = run_in(dir.path(), &["--format", format, "--output=results"]);
    assert_eq!(
        (finished.code, finished.text()),
        (Some(1), ""),
        "{}",
        finished.stderr
    );
    (dir, file)
}

#[test]
fn junitparser_reads_the_junit_output() {
    let (_dir, file) = written("junit");
    // The module is a Debian package, so it takes Debian's Python.
    let script = "import sys, junitparser
for suite in junitparser.JUnitXml.fromfile(sys.argv[1]):
    print(suite.tests, suite.failures, suite.errors)
    for case in suite: print(case.name, [(type(result).__name__, result.message) for result in case.result])";
    let (read, said) = read_by(&["/usr/bin/python3", "-c", script], &file);
    assert!(read, "{said}");
    let failed = "[('Failure', 'fails: exit.code == 0; fails: write.calls == 0')]";
    assert_eq!(
        said,
        format!("2 1 0\nholds # not \\ <this> | \"that\" []\nfails {failed}\n")
    );
}

#[test]
fn several_formats_can_be_exported_at_once() {
    let dir = dir_with(TWO);
    let options = [
        "--export", "junit", "j.xml", "--export", "markdown", "m.md", "--export", "json", "r.json",
    ];
    let finished = run_in(dir.path(), &options);
    assert_eq!(finished.code, Some(1));
    assert!(
        finished.text().ends_with("2 checks: 1 passed, 1 failed\n"),
        "{}",
        finished.text()
    );
    let read = |name: &str| dir.read(name);
    assert!(
        read("j.xml").starts_with("<?xml") && read("m.md").contains("| fails | ❌ failed |"),
        "{}",
        read("m.md")
    );
    let results: serde_json::Value = serde_json::from_str(&read("r.json")).expect("JSON");
    assert_eq!(
        (&results["schema"], &results["checks"][1]["status"]),
        (&1.into(), &"failed".into())
    );
    assert_eq!(results["checks"][1]["stderr"][0], "bad, \"luck\" <&>");
}

#[test]
fn a_failed_export_does_not_hide_a_failed_check() {
    let dir = dir_with(TWO);
    let full = crate::harness::full(dir.path());
    let full = full.to_str().expect("text");
    let failed = run_in(
        dir.path(),
        &["--export", "json", full, "--export", "markdown", "r.md"],
    );
    assert_eq!(failed.code, Some(1));
    assert!(
        failed.text().ends_with("2 checks: 1 passed, 1 failed\n"),
        "{}",
        failed.text()
    );
    assert!(
        failed
            .stderr
            .starts_with(&format!("zctrace: cannot write the report to '{full}': ")),
        "{}",
        failed.stderr
    );
    assert!(dir.join("r.md").exists());
    let passed = run_in(dir.path(), &["--export", "json", full, "holds*"]);
    assert_eq!(passed.code, Some(2), "{}", passed.text());
}

#[test]
fn the_github_step_summary_is_appended_to() {
    let dir = dir_with(TWO);
    let summary = dir.join("summary.md");
    fs::write(&summary, "from the step before\n").expect("it belongs to the test");
    let options = ["--export", "markdown", "summary.md", "--output=log"];
    let check = super::check(&options)
        .env("GITHUB_STEP_SUMMARY", "summary.md")
        .env("GITHUB_ACTIONS", "true");
    let finished = check.dir(dir.path()).launch().finish();
    let text = fs::read_to_string(&summary).expect("is there");
    assert!(
        text.starts_with("from the step before\n### zctrace: 2 checks"),
        "{text}"
    );
    // The annotations go to stdout, where GitHub looks for them, not to the file.
    assert!(
        finished.text().starts_with("::error file=/")
            && finished.text().contains("title=check 'fails' failed::"),
        "{}",
        finished.text()
    );
    assert!(!dir.read("log").contains("::error"));
}

#[test]
fn annotations_are_written_for_github_actions() {
    let dir = dir_with(TWO);
    let run = |variable: &str| {
        super::check(&[])
            .env("GITHUB_ACTIONS", variable)
            .dir(dir.path())
            .launch()
            .finish()
    };
    let annotated = run("true");
    let last = annotated.text().lines().last().expect("lines").to_owned();
    let file = fs::canonicalize(dir.join("zctrace.toml")).expect("is there");
    let expected = format!("::error file={},line=", file.display());
    assert!(
        last.starts_with(&expected)
            && last.contains(",title=check 'fails' failed::fails: exit.code == 0%0A"),
        "{last}"
    );
    assert!(!run("").text().contains("::error"));
}
