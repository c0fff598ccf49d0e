//! Renderers: a [`Report`] as text, one file for each format. Pure: width and colour are options, nothing is printed here.

mod check;
mod columns;
mod compare;
mod comparison;
mod csv;
mod doctor;
mod end;
mod files;
mod gfm;
mod header;
mod json;
mod markdown;
mod openmetrics;
mod page;
mod ruled;
mod section;
mod table;
mod text;
mod transfers;

use clap::ValueEnum;
use serde::Serialize;

pub use check::{CheckFormat, annotations, check, defused};
pub use compare::{CompareFormat, compare};
pub use text::{command_line, escape};

use crate::{doctor::Diagnosis, report::Report, units, verify::Comparison};

/// A format of reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for a person.
    #[default]
    Table,
    /// The whole report, with a versioned schema.
    Json,
    /// A line for each call of each process (with --by thread, of each thread); times in ns, sizes in bytes.
    Csv,
    /// GitHub's Markdown, for a comment or the summary of a job.
    Markdown,
    /// Sums over all processes, for Prometheus and its textfile collector.
    Openmetrics,
}

/// A format of what is no table of figures: what two backends agree on, what a machine can do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum PlainFormat {
    /// Text for a person.
    #[default]
    Table,
    /// Everything.
    Json,
}

impl Format {
    /// The same for what is no report; `None` if there is no such thing.
    pub const fn plain(self) -> Option<PlainFormat> {
        match self {
            Self::Table => Some(PlainFormat::Table),
            Self::Json => Some(PlainFormat::Json),
            Self::Csv | Self::Markdown | Self::Openmetrics => None,
        }
    }
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
        Format::Csv => csv::render(report),
        Format::Markdown => markdown::render(report, options),
        Format::Openmetrics => openmetrics::render(report),
    }
}

/// The comparison of two backends in this format, with a newline at its end.
pub fn comparison(comparison: &Comparison, format: PlainFormat, options: &Options) -> String {
    match format {
        PlainFormat::Table => comparison::render(comparison, options),
        PlainFormat::Json => json::render(comparison),
    }
}

/// Any model as JSON, with a newline at its end.
pub fn json(model: &impl Serialize) -> String {
    json::render(model)
}

/// What this machine can do in this format, with a newline at its end.
pub fn diagnosis(diagnosis: &Diagnosis, format: PlainFormat, options: &Options) -> String {
    match format {
        PlainFormat::Table => doctor::render(diagnosis, options),
        PlainFormat::Json => json::render(diagnosis),
    }
}

#[cfg(test)]
mod tests;
