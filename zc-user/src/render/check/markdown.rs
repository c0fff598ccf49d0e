//! Results as GitHub's Markdown: a table of all checks, then what is wrong.

use super::problems;
use crate::{
    check::{CheckResult, Results, Status},
    render::{
        gfm::{cell, line, plain},
        text::escape,
        units,
    },
};

/// The whole text.
pub(super) fn render(results: &Results) -> String {
    let mut lines = vec![format!("### zctrace: {}", plain(&results.summary())), String::new()];
    if !results.checks.is_empty() {
        lines.push(line("check", ["result", "expectations", "time"].map(str::to_owned).into_iter()));
        lines.push(line("---", ["---", "---:", "---:"].map(str::to_owned).into_iter()));
        lines.extend(results.checks.iter().map(row));
    }
    lines.extend(results.checks.iter().filter(|check| check.status != Status::Passed).map(section));
    lines.join("\n") + "\n"
}

/// What stands before a status, for those who look at colours.
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
    line(&cell(&plain(&escape(&check.name))), cells.into_iter())
}

fn section(check: &CheckResult) -> String {
    format!("\n**{}**\n\n{}", plain(&escape(&check.name)), fenced(&problems::text(check)))
}

/// Text as it is, between more backticks than it has in a row.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{text}\n{fence}\n")
}
