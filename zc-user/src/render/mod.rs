//! Renderers: a [`Report`] as text, one file for each format. Pure: width and colour are options, nothing is printed here.

mod check;
mod columns;
mod compare;
mod comparison;
mod doctor;
mod end;
mod files;
mod gfm;
mod header;
mod json;
mod page;
mod ruled;
mod section;
mod table;
mod text;
mod transfers;

use clap::ValueEnum;

pub use check::{CheckFormat, annotations, check};
pub use compare::{CompareFormat, compare};
pub use text::command_line;

use crate::{doctor::Diagnosis, report::Report, units, verify::Comparison};

/// A format of reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for a person.
    #[default]
    Table,
    /// The whole report, with a versioned schema.
    Json,
}

/// How a report is shown. A format ignores what does not concern it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Columns of the terminal; `None` without a limit.
    pub width: Option<usize>,
    /// Whether to colour, with ANSI escapes.
    pub colour: bool,
    /// Show every process, not only those with the most calls.
    pub all_processes: bool,
    /// Show every transfer and every file, not only those with the most bytes.
    pub all_transfers: bool,
}

/// The report in this format, with a newline at its end.
pub fn render(report: &Report, format: Format, options: &Options) -> String {
    match format {
        Format::Table => table::render(report, options),
        Format::Json => json::render(report),
    }
}

/// The comparison of two backends in this format, with a newline at its end.
pub fn comparison(comparison: &Comparison, format: Format, options: &Options) -> String {
    match format {
        Format::Table => comparison::render(comparison, options),
        Format::Json => json::render(comparison),
    }
}

/// What this machine can do in this format, with a newline at its end.
pub fn diagnosis(diagnosis: &Diagnosis, format: Format, options: &Options) -> String {
    match format {
        Format::Table => doctor::render(diagnosis, options),
        Format::Json => json::render(diagnosis),
    }
}

#[cfg(test)]
mod tests;
