//! The tables of `--files`: the calls and bytes of each file, and the failed calls by path.

use super::{
    listing::Listing,
    page::{Options, Page},
    section::plural,
    text::{self, known},
    transfers::{end_kind, end_label},
};
use crate::{
    report::{FailedPath, FileTotals, Report},
    units,
};

/// How many files are shown without `--all-transfers`.
const MOST_FILES: usize = 20;

/// Splits off what is shown.
fn split<'a, T>(all: &'a [T], options: &Options) -> (&'a [T], &'a [T]) {
    let most = if options.all_transfers {
        usize::MAX
    } else {
        MOST_FILES
    };
    all.split_at(most.min(all.len()))
}

/// Writes the table of files, if the report has files.
pub(super) fn write(page: &mut Page, report: &Report, options: &Options) {
    if report.files.is_empty() {
        return;
    }
    let (shown, hidden) = split(&report.files, options);
    let listing = Listing {
        heading: format!("FILES, {}", report.files.len()),
        titles: &["file", "read", "written", "reads", "writes", "time", "kind"],
        least_columns: 3,
        rows: shown.iter().map(cells).collect(),
        hidden: (!hidden.is_empty()).then(|| hidden_files(hidden)),
    };
    listing.write(page, options);
}

fn cells(file: &FileTotals) -> Vec<String> {
    vec![
        end_label(&file.file),
        known(file.bytes_read, units::bytes),
        known(file.bytes_written, units::bytes),
        file.reads.to_string(),
        file.writes.to_string(),
        known(file.total_ns, units::duration),
        text::escape(end_kind(&file.file)),
    ]
}

/// `and 9980 more files with 39.0 MiB read, 0 B written: --all-transfers shows them`.
fn hidden_files(hidden: &[FileTotals]) -> String {
    let sum = |bytes: fn(&FileTotals) -> Option<u64>| {
        let mut all = hidden.iter().map(bytes);
        let sum = all.try_fold(0_u64, |sum, bytes| sum.checked_add(bytes?));
        known(sum, units::bytes)
    };
    format!(
        "and {} with {} read, {} written: --all-transfers shows them",
        plural(hidden.len() as u64, "more file", "more files"),
        sum(|file| file.bytes_read),
        sum(|file| file.bytes_written),
    )
}

/// Writes the table of failed calls by path, if it is asked for and there are such calls.
pub(super) fn write_failed_paths(page: &mut Page, report: &Report, options: &Options) {
    let failed = report.totals.failed_paths.as_deref().unwrap_or_default();
    if failed.is_empty() || (report.files.is_empty() && !options.all_transfers) {
        return;
    }
    let (shown, hidden) = split(failed, options);
    let listing = Listing {
        heading: format!("FAILED PATHS, {}", failed.len()),
        titles: &["path", "calls", "error", "call"],
        least_columns: 4,
        rows: shown.iter().map(cells_of_failed).collect(),
        hidden: (!hidden.is_empty()).then(|| hidden_paths(hidden)),
    };
    listing.write(page, options);
}

fn cells_of_failed(failed: &FailedPath) -> Vec<String> {
    let end = if failed.path_cut { "..." } else { "" };
    let path = match failed.path.as_deref() {
        None => "(unknown)".to_owned(),
        Some("") => "\"\"".to_owned(),
        Some(path) => text::escape(path) + end,
    };
    vec![
        path,
        failed.calls.to_string(),
        text::escape(&failed.errno),
        text::escape(&failed.syscall),
    ]
}

/// `and 3 more paths with 7 calls: --all-transfers shows them`.
fn hidden_paths(hidden: &[FailedPath]) -> String {
    let calls = hidden.iter().map(|failed| failed.calls).sum();
    format!(
        "and {} with {}: --all-transfers shows them",
        plural(hidden.len() as u64, "more path", "more paths"),
        plural(calls, "call", "calls")
    )
}
