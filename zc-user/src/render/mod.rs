//! Renderers: a [`Report`] and the results of the other subcommands as text. They are pure: width
//! and colour are options, and nothing is printed here.
//!
//! - Reports: `document.rs` makes one document (`part.rs`) of a report, with `head.rs`, `flow_line.rs`,
//!   `calls.rs`, `programs.rs`, `paths.rs`, `transfers.rs`, `latency.rs`, `spans.rs`, `syncs.rs` and
//!   `caller_lines.rs`. `terminal.rs` and `markdown.rs` write it; `html.rs` with `html/` writes it with
//!   pictures. `csv.rs`, `ndjson.rs`, `bencher.rs` and `firefox.rs`, a profile, are of figures alone.
//!   JSON is the model.
//! - `check_results.rs`, `comparison.rs`, `diff_page.rs`, `doctor.rs`: what these subcommands show, and
//!   `--verify`, which is a diff.
//! - `page.rs`, `table.rs`, `text.rs`: what pages and tables are made of.

mod bencher;
mod busiest;
mod call_rows;
mod caller_lines;
mod calls;
mod check_results;
mod comparison;
mod csv;
mod diff_page;
mod doctor;
mod document;
mod firefox;
mod flow_line;
mod head;
mod html;
mod latency;
mod left_open;
mod losses;
mod markdown;
mod ndjson;
mod page;
mod part;
mod paths;
mod pipes;
mod programs;
mod slow_calls;
mod spans;
mod syncs;
mod table;
mod terminal;
mod text;
mod transfers;
mod volumes;

use clap::ValueEnum;

pub use check_results::{CheckFormat, annotations, check, escape_workflow_commands};
pub use comparison::{CompareFormat, compare};
pub use page::Options;
pub use text::{command_line, escape, json, json_line};
pub(crate) use {
    text::{shorten, width as text_width},
    transfers::end_label,
};

use document::document;

use crate::{diff::Diff, doctor::Diagnosis, profile::written, report::Report, trace::Trace};

/// A format of reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables.
    #[default]
    Table,
    /// The whole report (see `zctrace schema`).
    Json,
    /// A line for each call of each process or thread (--by); times in ns, sizes in bytes.
    Csv,
    /// GitHub Markdown, for a comment or a job summary.
    Markdown,
    /// Bencher Metric Format; of several runs, the median, minimum and maximum.
    Bencher,
    /// A JSON line for the run and each process, program and call.
    Ndjson,
    /// With --callers: a line for each stack, for flame graphs.
    Folded,
    /// With --callers: each sampled call with its stack and time, for profiler.firefox.com.
    Firefox,
    /// A seccomp profile for containers that allows the calls of the run, and no others.
    Seccomp,
    /// The same as lines of a systemd unit.
    Systemd,
}

/// A format of what changed between two reports, for `diff` and `--verify`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum DiffFormat {
    /// Text.
    #[default]
    Table,
    /// All figures.
    Json,
    /// GitHub Markdown, for a comment on a pull request; one word if nothing changed.
    Markdown,
}

/// A format of the diagnosis of the doctor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum PlainFormat {
    /// Text.
    #[default]
    Table,
    /// JSON.
    Json,
}

impl Format {
    /// Whether it is a profile of allowed calls.
    pub const fn is_profile(self) -> bool {
        matches!(self, Self::Seccomp | Self::Systemd)
    }

    /// The same format for what changed, if there is one.
    pub const fn for_diff(self) -> Option<DiffFormat> {
        match self {
            Self::Table => Some(DiffFormat::Table),
            Self::Json => Some(DiffFormat::Json),
            Self::Markdown => Some(DiffFormat::Markdown),
            Self::Csv
            | Self::Bencher
            | Self::Ndjson
            | Self::Folded
            | Self::Firefox
            | Self::Seccomp
            | Self::Systemd => None,
        }
    }
}

/// The report in this format. It ends in a newline.
pub fn render(report: &Report, format: Format, options: &Options) -> String {
    match format {
        Format::Table => terminal::render(&document(report, options), options),
        Format::Json => json(report),
        Format::Csv => csv::render(report),
        Format::Bencher => bencher::render(&[report]),
        Format::Ndjson => ndjson::render(&[report]),
        Format::Markdown => {
            // It cannot show bars.
            let options = Options {
                histogram: false,
                ..*options
            };
            markdown::render(&document(report, &options))
        }
        Format::Folded => caller_lines::folded(report),
        // A report has no times of sampled calls.
        Format::Firefox => profile(report, &Trace::default()),
        Format::Seccomp => written::seccomp(report),
        Format::Systemd => written::systemd(report),
    }
}

/// Several reports as one text, if the format can hold them.
pub fn render_series(reports: &[&Report], format: Format) -> Option<String> {
    match format {
        Format::Bencher => Some(bencher::render(reports)),
        Format::Ndjson => Some(ndjson::render(reports)),
        _ => None,
    }
}

/// The report on a trace and the sampled calls of it for the Firefox Profiler. It ends in a newline.
pub fn profile(report: &Report, trace: &Trace) -> String {
    firefox::profile(report, trace)
}

/// The report as a page for a browser, whole in itself: nothing is loaded, and nothing runs. What
/// it draws is limited, and it says what it leaves out.
pub fn html(report: &Report) -> String {
    html::render(report)
}

/// What changed between two reports, in this format. It ends in a newline.
pub fn diff(diff: &Diff, format: DiffFormat, options: &Options) -> String {
    match format {
        DiffFormat::Table => diff_page::render(diff, options),
        DiffFormat::Json => json(diff),
        DiffFormat::Markdown => diff_page::markdown(diff),
    }
}

/// The diagnosis of this machine in this format. It ends in a newline.
pub fn diagnosis(diagnosis: &Diagnosis, format: PlainFormat, options: &Options) -> String {
    match format {
        PlainFormat::Table => doctor::render(diagnosis, options),
        PlainFormat::Json => json(diagnosis),
    }
}

#[cfg(test)]
mod report_tests;
