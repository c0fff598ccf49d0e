//! PATHS: what the run did with each path and address, most used first.

mod path_use;

use std::cmp::Reverse;

use path_use::{PathUse, listed};

use super::{
    head::MAX_FAILURES,
    page::{Options, Style, words},
    part::{DocumentPart, more, split},
    table::{ListColumn, STAYS, ShownTable},
    text::plural,
};
use crate::{
    report::{Failures, Place, Report},
    units::UNKNOWN,
};

/// How many paths are shown without `--all`.
const MAX_PATHS: usize = 20;
/// The narrowest column of paths: figures are dropped before names are cut further.
const MIN_PATH: usize = 36;
/// The columns from this one on are left out if no path has a figure that is known and not 0.
const FIRST_FIGURE: usize = 3;

const COLUMNS: [ListColumn<PathUse>; 10] = [
    ("path", STAYS, PathUse::label),
    ("what was done", STAYS, PathUse::what_was_done),
    ("calls", STAYS, |path| path.calls.to_string()),
    ("failed", 6, PathUse::failures),
    ("read", 4, PathUse::bytes_read),
    ("written", 5, PathUse::bytes_written),
    ("reads", 2, PathUse::reads),
    ("writes", 1, PathUse::writes),
    ("time", 3, PathUse::time),
    ("failed calls", 0, PathUse::failed_calls),
];

/// A share of one.
const WHOLE: u128 = 1 << 32;

/// Which paths come first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum PathOrder {
    NamedByHead,
    Used,
    FewFailed,
    OfStart,
}

/// The list. With `--paths` it has all paths and addresses; with `--files` the files that were used and
/// the paths of failed calls; with `--all` those of failed calls.
pub(super) fn part(
    report: &Report,
    failures: &Failures<'_>,
    options: &Options,
) -> Option<DocumentPart> {
    let touched = report.touched.as_ref();
    if touched.is_none() && report.files.is_empty() && !options.all {
        return None;
    }
    let mut paths = PathUse::all_of(report);
    if touched.is_none() && paths.is_empty() {
        return None;
    }
    sort(&mut paths, report, failures);
    let (shown, hidden) = split(&paths, MAX_PATHS, options);
    let calls = hidden.iter().map(|path| path.calls).sum();
    let is_telling = |(index, (.., cell)): &(usize, &ListColumn<PathUse>)| {
        let mut texts = shown.iter().map(cell);
        *index < FIRST_FIGURE || texts.any(|text| !matches!(&*text, "" | "0" | "0 B" | UNKNOWN))
    };
    let columns = COLUMNS.iter().enumerate().filter(is_telling);
    let columns: Vec<ListColumn<PathUse>> = columns.map(|(_, column)| *column).collect();
    let figures = plural(calls, "call", "calls");
    let mut table = ShownTable::of_list(&columns, shown);
    table.min_name = MIN_PATH;
    let mut part = DocumentPart::listing(
        &format!("PATHS, {}", paths.len()),
        table,
        more(hidden, ["path", "paths"], &figures),
    );
    if paths.is_empty() {
        part.table = None;
    }
    let lines = not_counted(report).into_iter();
    part.remarks
        .extend(lines.map(|line| words(&line, Style::Plain)));
    Some(part)
}

/// What is not in the list, or may not be.
fn not_counted(report: &Report) -> Vec<String> {
    let Some(touched) = &report.touched else {
        let counted = if report.files.is_empty() {
            "only failed calls are counted: --files adds the calls on open files, --paths all others"
        } else {
            "counted are calls on open files, with their time, and failed calls; --paths counts all"
        };
        return vec![counted.to_owned()];
    };
    let left_out = (touched.left_out > 0).then(|| {
        let calls = plural(touched.left_out, "call", "calls");
        format!("there was no room for the paths of {calls}")
    });
    let unseen = touched.doubts.iter().cloned().chain(left_out);
    let unseen = unseen.map(|why| format!("more may have been touched: {why}"));
    unseen.collect()
}

/// Sorts them: those that the head says failed, then those with the largest share of the bytes, of the
/// calls, or of the time in calls, then those on which all calls failed, unless they were many, and last
/// what programs use when they start.
fn sort(paths: &mut [PathUse], report: &Report, failures: &Failures<'_>) {
    let directory = report.directory.as_deref();
    let groups = failures.groups.iter().take(MAX_FAILURES);
    let named: Vec<&str> = groups
        .flat_map(|group| match group.place {
            Place::Path(path) | Place::LongPath(path) => vec![path],
            Place::Paths(first, second, _) => vec![first, second],
            Place::Directory(_) | Place::Nowhere(..) | Place::Unknown => Vec::new(),
        })
        .map(|path| listed(path, directory))
        .collect();
    let sums = paths.iter().fold([0; 3], |sums: [u128; 3], path| {
        let weights = path.weights();
        std::array::from_fn(|index| sums[index] + weights[index])
    });
    let share = |path: &PathUse| {
        let parts = path.weights().into_iter().zip(sums);
        let shares = parts.map(|(part, sum)| (part * WHOLE).checked_div(sum).unwrap_or(0));
        shares.max().unwrap_or(0)
    };
    paths.sort_by_cached_key(|path| {
        let share = share(path);
        let is_among_most = share > WHOLE / MAX_PATHS as u128;
        let order = if named.iter().any(|name| path.has_path(name)) {
            PathOrder::NamedByHead
        } else if path.is_of_start() {
            PathOrder::OfStart
        } else if path.has_only_failed() && !is_among_most {
            PathOrder::FewFailed
        } else {
            PathOrder::Used
        };
        (order, Reverse(share))
    });
}
