//! Results as annotations of GitHub Actions: what is wrong, one command of its runner for each problem.

use super::problems;
use crate::{
    check::{CheckResult, Results, Status},
    render::text::escape,
};

/// The commands; none for what passed.
pub(super) fn render(results: &Results) -> String {
    let wrong = results.checks.iter().filter(|check| check.status != Status::Passed);
    wrong.map(annotation).collect()
}

/// Text for the log of GitHub Actions, in which no line is a command of its runner. That takes `::` for one at the beginning of a line,
/// spaces aside, and `##[` wherever it stands (actions/runner, `src/Runner.Common/ActionCommand.cs`).
pub(super) fn defused(text: &str) -> String {
    let line = |line: &str| match line.trim_start().strip_prefix("::") {
        Some(rest) => format!("{}: :{rest}", &line[..line.len() - line.trim_start().len()]),
        None => line.to_owned(),
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n").replace("##[", "## [")
}

/// One check. A warning is what is not known.
fn annotation(check: &CheckResult) -> String {
    let level = if check.status == Status::Inconclusive { "warning" } else { "error" };
    let title = property(&format!("check '{}' {}", escape(&check.name), verb(check.status)));
    format!("::{level} title={title}::{}\n", data(&problems::text(check)))
}

const fn verb(status: Status) -> &'static str {
    match status {
        Status::Inconclusive => "is inconclusive",
        status => status.name(),
    }
}

/// Text as the runner reads it back.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// The same of a property, which ends at these.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
