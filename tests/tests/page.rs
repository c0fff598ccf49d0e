//! `--html`: the page of a run and of a saved report, and what happens if it cannot be written.

use std::fs;

use crate::harness::{TestDir, program, zctrace};

#[track_caller]
fn assert_is_page(text: &str, words: &[&str]) {
    assert!(
        text.starts_with("<!DOCTYPE html>\n") && text.ends_with("</html>\n"),
        "{text}"
    );
    for word in words {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
}

#[test]
fn a_run_writes_its_page_beside_the_report() {
    let dir = TestDir::with("in", "x".repeat(100_000));
    let shown = zctrace()
        .option("--html=page.html")
        .dir(dir.path())
        .show(&program("cp").arg("in").arg("<b>&"));
    assert_eq!(shown.successful(), "");
    assert!(
        shown.stderr.contains("\nTRANSFERS, 1\n"),
        "the report is where it always is: {}",
        shown.stderr
    );
    assert_is_page(
        &dir.read("page.html"),
        &["&lt;b&gt;&amp;", "97.7 KiB", "Latency", "class=\"band "],
    );
    dir.assert_has_only(&["<b>&", "in", "page.html"]);
}

#[test]
fn the_page_of_a_saved_report_is_that_of_its_run() {
    let dir = TestDir::new();
    let saved = dir.join("r.json");
    zctrace()
        .json_to(&saved)
        .option("--html")
        .option(dir.join("run.html"))
        .show(&program("true"))
        .successful();
    let report = |options: &[&str]| {
        let words = ["report"]
            .iter()
            .chain(options)
            .copied()
            .chain(["r.json"])
            .collect::<Vec<_>>();
        zctrace().dir(dir.path()).launch_with(&words).finish()
    };
    report(&["--html=report.html", "-o", "table"]).successful();
    assert_eq!(dir.read("report.html"), dir.read("run.html"));
    let shown = report(&["--html=-", "-o", "table"]);
    assert_eq!(shown.successful(), dir.read("run.html"));
    let refused = report(&["--html=-"]);
    assert_eq!(
        (refused.code, refused.stdout.as_slice()),
        (Some(125), b"".as_slice())
    );
    assert!(
        refused.stderr.contains("go to the same place"),
        "{}",
        refused.stderr
    );
    let refused = report(&["--html=./new", "-o", "new"]);
    assert!(
        refused.code == Some(125) && !dir.join("new").exists(),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_page_that_cannot_be_written_is_an_error_before_the_run() {
    let dir = TestDir::new();
    let missing = dir.join("missing/page.html");
    let shown = zctrace()
        .option("--html")
        .option(&missing)
        .show(&program("touch").arg(dir.join("ran")));
    assert_eq!(
        (shown.code, shown.stderr.lines().count()),
        (Some(125), 1),
        "{}",
        shown.stderr
    );
    let expected = format!(
        "cannot write the report to '{}': No such file or directory",
        missing.display()
    );
    assert!(shown.stderr.contains(&expected), "{}", shown.stderr);
    dir.assert_has_only(&[]);
    let saved = dir.write("r.json", "{}");
    let shown = zctrace()
        .launch_with(&[
            "report",
            "--html",
            &missing.to_string_lossy(),
            &saved.to_string_lossy(),
        ])
        .finish();
    assert_eq!(
        (shown.code, shown.stdout.as_slice()),
        (Some(125), b"".as_slice())
    );
    assert!(shown.stderr.contains(&expected), "{}", shown.stderr);
}

#[test]
fn a_failed_write_of_the_page_keeps_the_report_and_the_old_page() {
    let dir = TestDir::with("page.html", "old");
    let limited = ["sh", "-c", "ulimit -f 8; exec \"$@\"", "sh"];
    let shown = zctrace()
        .option("--html")
        .option(dir.join("page.html"))
        .through(&limited)
        .show(&program("true"));
    assert_eq!(shown.code, Some(125), "{}", shown.stderr);
    assert!(
        shown.stderr.contains("zctrace: true\n")
            && shown.stderr.contains("cannot write the report to"),
        "{}",
        shown.stderr
    );
    assert_eq!(
        fs::read_to_string(dir.join("page.html")).expect("still there"),
        "old"
    );
    dir.assert_has_only(&["page.html"]);
}

#[test]
fn the_histogram_follows_the_locale() {
    let bars = |locale: &str| {
        let shown = zctrace()
            .option("--histogram")
            .env("LC_ALL", locale)
            .show(&program("cat").arg("/etc/passwd"));
        assert!(
            shown
                .stderr
                .contains("\nLATENCY of the calls that move data\n"),
            "{}",
            shown.stderr
        );
        shown.stderr
    };
    assert!(bars("C.UTF-8").contains('█'));
    let ascii = bars("C");
    assert!(!ascii.contains('█') && ascii.contains('@'), "{ascii}");
}
