//! `--html`: the page of a run and of a saved report, and what happens if it cannot be written.

use crate::harness::{TestDir, program, shell, zctrace};

#[track_caller]
fn assert_is_page(text: &str, words: &[&str]) {
    let is_page = text.starts_with("<!DOCTYPE html>\n") && text.ends_with("</html>\n");
    assert!(is_page, "{text}");
    for word in words {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
}

#[test]
fn a_run_writes_its_page_beside_the_report() {
    let dir = TestDir::with("in", "x".repeat(100_000));
    let zctrace = zctrace().options(&["--html=page.html", "--histogram"]);
    let zctrace = zctrace.dir(dir.path());
    let shown = zctrace.show(&program("cp").arg("in").arg("<b>&"));
    // The report is where it always is.
    shown.exits(0).prints_only("").says("\nTRANSFERS, 1\n");
    // mmap moves no data by itself.
    let latency = shown.stderr.split("\nLATENCY ").nth(1).expect("is there");
    let latency = latency.split("\n\n").next().unwrap_or_default();
    assert!(latency.contains("  copy_file_range ") && !latency.contains("mmap"));
    let words = [
        "&lt;b&gt;&amp;",
        "97.7 KiB",
        "LATENCY",
        "<svg class=\"flow\"",
    ];
    assert_is_page(&dir.read("page.html"), &words);
    dir.assert_has_only(&["<b>&", "in", "page.html"]);
}

#[test]
fn the_page_draws_when_files_were_changed_and_synced() {
    let dir = TestDir::new();
    let zctrace = zctrace().options(&["--syncs", "--html=page.html"]);
    let script = "echo x >t; sync t; mv t f; [ -e /zctrace/mark/commit ]; sync .; echo y >>f";
    zctrace.dir(dir.path()).show(&shell(script)).exits(0);
    let page = dir.read("page.html");
    assert_is_page(&page, &["<svg class=\"times\"", "mark &quot;commit&quot;"]);
    let picture = page.split("<svg class=\"times\"").nth(1);
    let picture = picture.and_then(|rest| rest.split("</svg>").next());
    let picture = picture.expect("it is drawn");
    // The file and its directory were synced, and the file was changed once more.
    for (words, count) in [
        ("class=\"sync\"", 2),
        ("class=\"dirty\"", 2),
        ("class=\"open\"", 1),
        ("class=\"mark\"", 1),
        ("<title>made, ", 1),
        ("<title>moved, ", 1),
    ] {
        assert_eq!(
            picture.matches(words).count(),
            count,
            "{words} in {picture}"
        );
    }
}

#[test]
fn the_page_of_a_saved_report_is_that_of_its_run() {
    let dir = TestDir::new();
    let saved = dir.join("r.json");
    let zctrace_to = zctrace().json_to(&saved).option("--html");
    let zctrace_to = zctrace_to.option(dir.join("run.html"));
    zctrace_to.show(&program("true")).exits(0);
    let report = |options: &[&str]| {
        let zctrace = zctrace().dir(dir.path()).option("report");
        zctrace.options(options).finish_with(&["r.json"])
    };
    report(&["--html=report.html", "-o", "table"]).successful();
    assert_eq!(dir.read("report.html"), dir.read("run.html"));
    let shown = report(&["--html=-", "-o", "table"]);
    shown.exits(0).prints_only(&dir.read("run.html"));
    let refused = report(&["--html=-"]);
    refused
        .exits(125)
        .says("name the same file")
        .prints_only("");
    report(&["--html=./new", "-o", "new"]).exits(125);
    assert!(!dir.join("new").exists());
}

#[test]
fn a_page_that_cannot_be_written_is_an_error_before_the_run() {
    let dir = TestDir::new();
    let missing = dir.join("missing/page.html");
    let path = missing.display();
    let expected = format!("cannot write the report to '{path}': No such file or directory");
    let zctrace_to = zctrace().option("--html").option(&missing);
    zctrace_to.refuses().exits(125).says(&expected);
    let saved = dir.write("r.json", "{}");
    let report = zctrace().option("report").option("--html").option(&missing);
    let shown = report.finish_with(&[saved]);
    shown.exits(125).says(&expected).prints_only("");
}

#[test]
fn a_failed_write_of_the_page_keeps_the_report_and_the_old_page() {
    let dir = TestDir::with("page.html", "old");
    let zctrace = zctrace().option("--html").option(dir.join("page.html"));
    let limited = zctrace.by_script("ulimit -f 4; exec \"$@\"");
    let shown = limited.show(&program("true"));
    let shown = shown.exits(125).says("zctrace: true\n");
    shown.says("cannot write the report to");
    assert_eq!(dir.read("page.html"), "old");
    dir.assert_has_only(&["page.html"]);
}
