//! Results as the Test Anything Protocol, version 14 (testanything.org): a point for each check.

use std::fmt::Write as _;

use super::problems;
use crate::check::{CheckResult, Results, Status};

/// The whole stream.
pub(super) fn render(results: &Results) -> String {
    let mut text = format!("TAP version 14\n1..{}\n", results.checks.len());
    for (number, check) in (1..).zip(&results.checks) {
        point(&mut text, number, check).expect("memory takes it");
    }
    if let Some(signal) = &results.interrupted {
        writeln!(text, "Bail out! interrupted by {signal}").expect("memory takes it");
    }
    text
}

fn point(text: &mut String, number: usize, check: &CheckResult) -> std::fmt::Result {
    let ok = if check.status == Status::Passed { "ok" } else { "not ok" };
    writeln!(text, "{ok} {number} - {}", description(&check.name))?;
    if check.status == Status::Passed {
        return Ok(());
    }
    // A block of YAML, in which text stands as it is.
    writeln!(text, "  ---\n  status: {}\n  message: |", check.status.name())?;
    problems::text(check).lines().try_for_each(|line| writeln!(text, "    {line}"))?;
    writeln!(text, "  ...")
}

/// A name in which nothing is a directive, on one line.
fn description(name: &str) -> String {
    super::super::text::escape(name).replace('\\', r"\\").replace('#', r"\#")
}
