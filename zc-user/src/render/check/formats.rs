//! Results of checks for CI: `JUnit`'s XML, the Test Anything Protocol, annotations of GitHub Actions, Markdown, CSV.

use std::{fmt::Write as _, time::Duration};

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use serde::Serialize;

use super::{problem_text, problems};
use crate::{
    check::{CheckResult, Results, Status},
    expect::Finding,
    render::{
        markdown::{cell, escape_markdown, table_row},
        text::escape,
        units,
    },
};

/// `JUnit`'s XML: a case for each check.
pub(super) fn junit(results: &Results) -> String {
    let mut suite = TestSuite::new("zctrace check");
    suite.add_test_cases(results.checks.iter().map(case));
    suite.set_time(results.checks.iter().map(time).sum());
    let mut report = Report::new("zctrace");
    report.set_time(results.checks.iter().map(time).sum());
    report.add_test_suite(suite);
    let mut text = report.to_string().expect("memory takes it");
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn time(check: &CheckResult) -> Duration {
    Duration::from_nanos(check.duration_ns)
}

fn case(check: &CheckResult) -> TestCase {
    let status = match check.status {
        Status::Passed => TestCaseStatus::success(),
        Status::Failed => non_success(NonSuccessKind::Failure, check),
        // An unknown result is not a failure of the command.
        Status::CouldNotRun | Status::Inconclusive => non_success(NonSuccessKind::Error, check),
    };
    let mut case = TestCase::new(escape(&check.name), status);
    case.set_classname("zctrace").set_time(time(check));
    case
}

fn non_success(kind: NonSuccessKind, check: &CheckResult) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    let titles: Vec<String> = problems(check).into_iter().map(|problem| problem.title).collect();
    status.set_message(titles.join("; ")).set_type(check.status.name()).set_description(problem_text(check));
    status
}

/// The Test Anything Protocol, version 14 (testanything.org): a test point for each check.
pub(super) fn tap(results: &Results) -> String {
    let mut text = format!("TAP version 14\n1..{}\n", results.checks.len());
    for (number, check) in (1..).zip(&results.checks) {
        test_point(&mut text, number, check).expect("memory takes it");
    }
    if let Some(signal) = &results.interrupted {
        writeln!(text, "Bail out! interrupted by {signal}").expect("memory takes it");
    }
    text
}

fn test_point(text: &mut String, number: usize, check: &CheckResult) -> std::fmt::Result {
    let ok = if check.status == Status::Passed { "ok" } else { "not ok" };
    writeln!(text, "{ok} {number} - {}", description(&check.name))?;
    if check.status == Status::Passed {
        return Ok(());
    }
    // A literal block of YAML: its text needs no escaping.
    writeln!(text, "  ---\n  status: {}\n  message: |", check.status.name())?;
    problem_text(check).lines().try_for_each(|line| writeln!(text, "    {line}"))?;
    writeln!(text, "  ...")
}

/// A name on one line, in which nothing is taken for a directive.
fn description(name: &str) -> String {
    escape(name).replace('\\', r"\\").replace('#', r"\#")
}

/// Annotations that GitHub Actions shows beside the log: a workflow command for each check that did not pass.
pub fn annotations(results: &Results) -> String {
    let wrong = results.checks.iter().filter(|check| check.status != Status::Passed);
    wrong.map(annotation).collect()
}

/// Text for the log of GitHub Actions in which no line is a workflow command. The runner takes `::` after leading spaces for one, and `##[`
/// anywhere in a line (actions/runner, `src/Runner.Common/ActionCommand.cs`).
pub fn escape_workflow_commands(text: &str) -> String {
    let line = |line: &str| match line.trim_start().strip_prefix("::") {
        Some(rest) => format!("{}: :{rest}", &line[..line.len() - line.trim_start().len()]),
        None => line.to_owned(),
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n").replace("##[", "## [")
}

/// The annotation of one check. An inconclusive one is a warning.
fn annotation(check: &CheckResult) -> String {
    let level = if check.status == Status::Inconclusive { "warning" } else { "error" };
    let title = property(&format!("check '{}' {}", escape(&check.name), verb(check.status)));
    format!("::{level} title={title}::{}\n", data(&problem_text(check)))
}

const fn verb(status: Status) -> &'static str {
    match status {
        Status::Inconclusive => "is inconclusive",
        status => status.name(),
    }
}

/// Escapes the message of a workflow command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property of a workflow command, which ends at a colon or a comma.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// GitHub's Markdown: a table of all checks, then the problems.
pub(super) fn markdown(results: &Results) -> String {
    let mut lines = vec![format!("### zctrace: {}", escape_markdown(&results.summary())), String::new()];
    if !results.checks.is_empty() {
        lines.push(table_row("check", ["result", "expectations", "time"].map(str::to_owned).into_iter()));
        lines.push(table_row("---", ["---", "---:", "---:"].map(str::to_owned).into_iter()));
        lines.extend(results.checks.iter().map(row));
    }
    lines.extend(results.checks.iter().filter(|check| check.status != Status::Passed).map(section));
    lines.join("\n") + "\n"
}

/// A coloured symbol for a status.
const fn mark(status: Status) -> &'static str {
    match status {
        Status::Passed => "✅",
        Status::Failed => "❌",
        Status::CouldNotRun => "💥",
        Status::Inconclusive => "❔",
    }
}

fn row(check: &CheckResult) -> String {
    let result = format!("{} {}", mark(check.status), check.status.name());
    let cells = [result, check.expectations.len().to_string(), units::seconds(check.duration_ns)];
    table_row(&cell(&escape_markdown(&escape(&check.name))), cells.into_iter())
}

fn section(check: &CheckResult) -> String {
    format!("\n**{}**\n\n{}", escape_markdown(&escape(&check.name)), fenced(&problem_text(check)))
}

/// A code block. The fence has more backticks than any run of them in the text.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{text}\n{fence}\n")
}

/// A line of CSV. The fields are the columns.
#[derive(Serialize)]
struct CsvLine<'a> {
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

/// CSV: a line for each expectation, and one for each check without expectations.
pub(super) fn csv(results: &Results) -> String {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    for line in results.checks.iter().flat_map(csv_lines) {
        writer.serialize(line).expect("a line is flat, and memory takes it");
    }
    let bytes = writer.into_inner().expect("memory takes it");
    String::from_utf8(bytes).expect("made of text")
}

fn csv_lines(check: &CheckResult) -> Vec<CsvLine<'_>> {
    let line = || CsvLine {
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
    let of = check.expectations.iter().map(|result| CsvLine {
        expectation: &result.outcome.expectation,
        verdict: result.outcome.verdict.name(),
        found: result.outcome.findings.iter().map(|finding: &Finding| finding.found.as_str()).collect::<Vec<_>>().join("; "),
        run: Some(result.run),
        ..line()
    });
    of.collect()
}
