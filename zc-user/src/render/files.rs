//! The table of `--files`: the calls and bytes of each file.

use super::{
    page::{Options, Page, Style, align_columns, ruled_table, table_lines, words},
    section::{INDENT, plural},
    text,
    transfers::{end_kind, end_label},
};
use crate::{
    report::{FileTotals, Report},
    units::{self, UNKNOWN},
};

/// How many files are shown without `--all-transfers`.
pub(super) const MOST_FILES: usize = 20;
/// The widest column of paths.
pub(super) const LONGEST_PATH: usize = 60;
/// The narrowest column of paths.
pub(super) const SHORTEST_PATH: usize = 12;

/// Writes the table, if the report has files.
pub(super) fn write(page: &mut Page, report: &Report, options: &Options) {
    if report.files.is_empty() {
        return;
    }
    let most = if options.all_transfers {
        report.files.len()
    } else {
        MOST_FILES
    };
    let (shown, hidden) = report.files.split_at(most.min(report.files.len()));
    page.gap();
    page.line(0, Style::Heading, &format!("FILES, {}", report.files.len()));
    for (index, line) in table(shown, options.width).iter().enumerate() {
        page.line(
            INDENT,
            if index < 2 {
                Style::Faint
            } else {
                Style::Plain
            },
            line,
        );
    }
    if !hidden.is_empty() {
        page.flow(INDENT, &words(&hidden_files(hidden), Style::Plain));
    }
}

/// The table. A narrow page drops columns from the right; the bytes always stay.
fn table(files: &[FileTotals], width: Option<usize>) -> Vec<String> {
    let titles = ["read", "written", "reads", "writes", "time", "kind"];
    let rows: Vec<[String; 6]> = files.iter().map(cells).collect();
    let widths: Vec<usize> = (0..titles.len())
        .map(|column| {
            rows.iter()
                .map(|row| text::width(&row[column]))
                .max()
                .unwrap_or(0)
                .max(titles[column].len())
                + GAP
        })
        .collect();
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(INDENT));
    let mut columns = titles.len();
    while columns > 2 && widths[..columns].iter().sum::<usize>() + SHORTEST_PATH > room {
        columns -= 1;
    }
    let path_room = room
        .saturating_sub(widths[..columns].iter().sum())
        .clamp(1, LONGEST_PATH);
    let mut table = ruled_table();
    table.set_header(std::iter::once("file").chain(titles[..columns].iter().copied()));
    for (file, row) in files.iter().zip(&rows) {
        let path = shorten_start(&end_label(&file.file), path_room);
        table.add_row(std::iter::once(path).chain(row[..columns].iter().cloned()));
    }
    align_columns(&mut table);
    table_lines(&table)
}

/// Spaces between two columns.
pub(super) const GAP: usize = 2;

/// A path; if it is too long, as much of its end as fits, because the end tells files apart.
pub(super) fn shorten_start(path: &str, room: usize) -> String {
    if text::width(path) <= room {
        return path.to_owned();
    }
    let starts = path.char_indices().map(|(start, _)| start);
    let fits = |start: &usize| text::width(&path[*start..]) < room;
    starts
        .skip(1)
        .find(fits)
        .map_or_else(|| "…".to_owned(), |start| format!("…{}", &path[start..]))
}

fn cells(file: &FileTotals) -> [String; 6] {
    let known = |figure: Option<u64>, show: fn(u64) -> String| {
        figure.map_or_else(|| UNKNOWN.to_owned(), show)
    };
    [
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
        hidden
            .iter()
            .map(bytes)
            .try_fold(0_u64, |sum, bytes| sum.checked_add(bytes?))
            .map_or_else(|| UNKNOWN.to_owned(), units::bytes)
    };
    format!(
        "and {} with {} read, {} written: --all-transfers shows them",
        plural(hidden.len() as u64, "more file", "more files"),
        sum(|file| file.bytes_read),
        sum(|file| file.bytes_written),
    )
}
