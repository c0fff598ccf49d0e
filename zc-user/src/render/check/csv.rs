//! Results as CSV: a line for each expectation, and one for each check without any result.

use serde::Serialize;

use crate::{
    check::{CheckResult, Results},
    expect::Finding,
};

/// A line, with the names of the columns.
#[derive(Serialize)]
struct Line<'a> {
    check: &'a str,
    status: &'static str,
    expectation: &'a str,
    verdict: &'static str,
    found: String,
    error: &'a str,
    backend: &'a str,
    run: Option<usize>,
    runs: usize,
    duration_ns: u64,
}

/// The whole file.
pub(super) fn render(results: &Results) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for line in results.checks.iter().flat_map(lines) {
        writer.serialize(line).expect("a line is flat, and memory takes it");
    }
    let bytes = writer.into_inner().expect("memory takes it");
    String::from_utf8(bytes).expect("made of text")
}

fn lines(check: &CheckResult) -> Vec<Line<'_>> {
    let line = || Line {
        check: &check.name,
        status: check.status.name(),
        expectation: "",
        verdict: "",
        found: String::new(),
        error: check.error.as_deref().unwrap_or_default(),
        backend: check.backend.as_deref().unwrap_or_default(),
        run: None,
        runs: check.runs,
        duration_ns: check.duration_ns,
    };
    if check.expectations.is_empty() {
        return vec![line()];
    }
    let of = check.expectations.iter().map(|result| Line {
        expectation: &result.outcome.expectation,
        verdict: result.outcome.verdict.name(),
        found: result.outcome.findings.iter().map(|finding: &Finding| finding.found.as_str()).collect::<Vec<_>>().join("; "),
        run: Some(result.run),
        ..line()
    });
    of.collect()
}
