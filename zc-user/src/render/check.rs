//! What came of checks: for a person, and for what runs tests.

mod csv;
mod github;
mod junit;
mod markdown;
mod problems;
mod tap;
#[cfg(test)]
mod tests;
mod text;

use clap::ValueEnum;

use super::{Options, json};
use crate::check::Results;

/// A format of the results of checks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum CheckFormat {
    /// For a person.
    #[default]
    Text,
    /// Everything, with a versioned schema.
    Json,
    /// `JUnit`'s XML, as GitLab and Jenkins read it.
    Junit,
    /// The Test Anything Protocol, version 14.
    Tap,
    /// Annotations of GitHub Actions; added to text there without being asked for.
    Github,
    /// For a comment on a pull request, or a job's summary.
    Markdown,
    /// A line for each expectation.
    Csv,
}

/// The results in this format, with a newline at its end.
pub fn check(results: &Results, format: CheckFormat, options: &Options) -> String {
    match format {
        CheckFormat::Text => text::render(results, options),
        CheckFormat::Json => json::render(results),
        CheckFormat::Junit => junit::render(results),
        CheckFormat::Tap => tap::render(results),
        CheckFormat::Github => github::render(results),
        CheckFormat::Markdown => markdown::render(results),
        CheckFormat::Csv => csv::render(results),
    }
}

/// Results for the log of GitHub Actions: nothing that a command said is an order to its runner.
pub fn defused(text: &str) -> String {
    github::defused(text)
}

/// The annotations that GitHub Actions shows beside the log; empty if everything passed.
pub fn annotations(results: &Results) -> String {
    github::render(results)
}
