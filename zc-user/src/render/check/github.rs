//! Results as annotations of GitHub Actions: what is wrong, one command of its runner for each problem.

use super::problems;
use crate::check::{CheckResult, Results, Status};

/// The commands; none for what passed.
pub(super) fn render(results: &Results) -> String {
    let wrong = results.checks.iter().filter(|check| check.status != Status::Passed);
    wrong.map(annotation).collect()
}

/// One check. A warning is what is not known.
fn annotation(check: &CheckResult) -> String {
    let level = if check.status == Status::Inconclusive { "warning" } else { "error" };
    let title = property(&format!("check '{}' {}", check.name, verb(check.status)));
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
