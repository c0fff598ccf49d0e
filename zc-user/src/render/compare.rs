//! Commands side by side: as a page for a person, as JSON, as CSV, as a Markdown table.

mod csv;
mod figures;
mod markdown;
mod page;
#[cfg(test)]
mod tests;
mod wrap;

use clap::ValueEnum;

use super::{Options, json};
use crate::compare::Comparison;

/// A format of comparisons.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    /// A table for a person.
    #[default]
    Table,
    /// Everything, every run included; times in seconds.
    Json,
    /// A line for each command; times in seconds, sizes in bytes.
    Csv,
    /// A table for a web page.
    Markdown,
}

/// The comparison in this format, with a newline at its end.
pub fn compare(comparison: &Comparison, format: CompareFormat, options: &Options) -> String {
    match format {
        CompareFormat::Table => page::render(comparison, options),
        CompareFormat::Json => json::render(comparison),
        CompareFormat::Csv => csv::render(comparison),
        CompareFormat::Markdown => markdown::render(comparison),
    }
}
