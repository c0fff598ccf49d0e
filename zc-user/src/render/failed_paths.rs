//! The table of failed calls by path, with `--files` and `--all`.

use super::{
    files::{GAP, LONGEST_PATH, MOST_FILES, SHORTEST_PATH, shorten_start},
    page::{Options, Page, Style, align_columns, ruled_table, table_lines, words},
    section::{INDENT, plural},
    text,
};
use crate::report::{FailedPath, Report};

/// Writes the table, if it is asked for and there are such calls.
pub(super) fn write(page: &mut Page, report: &Report, options: &Options) {
    let failed = report.totals.failed_paths.as_deref().unwrap_or_default();
    if failed.is_empty() || (report.files.is_empty() && !options.all_transfers) {
        return;
    }
    let most = if options.all_transfers {
        failed.len()
    } else {
        MOST_FILES
    };
    let (shown, hidden) = failed.split_at(most.min(failed.len()));
    page.gap();
    page.line(
        0,
        Style::Heading,
        &format!("FAILED PATHS, {}", failed.len()),
    );
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
        let calls = hidden.iter().map(|failed| failed.calls).sum();
        let (paths, calls) = (
            plural(hidden.len() as u64, "more path", "more paths"),
            plural(calls, "call", "calls"),
        );
        page.flow(
            INDENT,
            &words(
                &format!("and {paths} with {calls}: --all-transfers shows them"),
                Style::Plain,
            ),
        );
    }
}

fn table(failed: &[FailedPath], width: Option<usize>) -> Vec<String> {
    const TITLES: [&str; 3] = ["calls", "error", "call"];
    let cells = |failed: &FailedPath| {
        [
            failed.calls.to_string(),
            failed.errno.clone(),
            failed.syscall.clone(),
        ]
        .map(|cell| text::escape(&cell))
    };
    let rows: Vec<[String; 3]> = failed.iter().map(cells).collect();
    let widest = |column: usize| {
        rows.iter()
            .map(|row| text::width(&row[column]))
            .max()
            .unwrap_or(0)
            .max(TITLES[column].len())
            + GAP
    };
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(INDENT));
    let path_room = room
        .saturating_sub((0..TITLES.len()).map(widest).sum())
        .clamp(SHORTEST_PATH, LONGEST_PATH);
    let mut table = ruled_table();
    table.set_header(std::iter::once("path").chain(TITLES));
    for (failed, row) in failed.iter().zip(rows) {
        table.add_row(std::iter::once(shorten_start(&path(failed), path_room)).chain(row));
    }
    align_columns(&mut table);
    table_lines(&table)
}

/// The path; of one that was cut, its beginning.
fn path(failed: &FailedPath) -> String {
    match &failed.path {
        None => "(unknown)".to_owned(),
        Some(path) if path.is_empty() => "\"\"".to_owned(),
        Some(path) => format!(
            "{}{}",
            text::escape(path),
            if failed.path_cut { "..." } else { "" }
        ),
    }
}
