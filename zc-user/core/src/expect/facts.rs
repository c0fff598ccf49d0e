//! What was measured of a figure: what is known, why no more is known, and the facts of the report
//! that explain it, as lines for a person.

use std::cmp::Reverse;

use super::{
    ast::FigureExpr,
    known::{KnownFigure, amount_in_words},
    names::CallSet,
    pattern::Match,
};
use crate::{
    figures::list::{FigureField, FigureUnit},
    report::{Certainty, End, Process, Report, Syscall, Transfer},
    text::plural,
    trace::Loss,
    units::short_bytes,
};

/// What is known about a figure.
#[derive(Debug)]
pub(super) struct MeasuredFigure {
    pub(super) known: KnownFigure,
    /// Why no more is known.
    pub(super) reason: Option<String>,
    /// The facts of the report that explain it.
    pub(super) facts: Vec<String>,
}

impl MeasuredFigure {
    pub(super) fn without_facts(known: KnownFigure) -> Self {
        Self {
            known,
            reason: None,
            facts: Vec::new(),
        }
    }

    /// A count of things, of which `unsure` ones may not be meant. `open`: why there may be more.
    pub(super) fn count_of_things(
        [sure, unsure]: [u64; 2],
        open: Option<String>,
        why_unsure: String,
        facts: Vec<String>,
    ) -> Self {
        let all = sure.saturating_add(unsure);
        Self {
            known: KnownFigure::Between(sure.into(), open.is_none().then_some(all.into())),
            reason: open.or((unsure > 0).then_some(why_unsure)),
            facts: shorten_lines(facts),
        }
    }

    pub(super) fn unknown_because(reason: impl Into<String>) -> Self {
        Self {
            reason: Some(reason.into()),
            ..Self::without_facts(KnownFigure::Unknown)
        }
    }
}

/// Why all numbers of a report are lower bounds; `None` if they are not.
pub(crate) fn why_inexact(report: &Report) -> Option<String> {
    if report.exact {
        return None;
    }
    let mut losses = Vec::new();
    for (name, &count) in &report.losses {
        losses.push(Loss::explain_named(name, count));
    }
    Some(format!(
        "the report is a lower bound: {}",
        losses.join(", ")
    ))
}

/// Why there may be more than the listed processes have; `None` if all are listed.
pub(super) fn why_not_listed(report: &Report) -> Option<String> {
    if report.processes_left_out() == 0 {
        None
    } else if report.processes.is_empty() {
        Some("the report has sums only, no processes".to_owned())
    } else {
        Some(report.left_out_words())
    }
}

/// Why calls are not told apart by their files; `None` if all of them are.
pub(super) fn why_without_files(report: &Report) -> Option<String> {
    let calls = report.calls_without_files;
    let words = plural(calls, "call", "calls");
    (calls > 0).then_some(format!("the files of {words} were not kept"))
}

/// The sum of the known figures, and whether it is complete: no figure is unknown, and the sum did
/// not overflow.
pub(super) fn partial_sum(figures: impl Iterator<Item = Option<u64>>) -> (u64, bool) {
    let (mut sum, mut is_all) = (0_u64, true);
    for figure in figures {
        let more = sum.checked_add(figure.unwrap_or(0));
        is_all &= figure.is_some() && more.is_some();
        sum = more.unwrap_or(u64::MAX);
    }
    (sum, is_all)
}

/// The processes that a figure is read from.
pub(super) struct ChosenProcesses<'a> {
    pub(super) processes: Vec<&'a Process>,
    /// Whether they were chosen by name: then sums over the whole run do not count.
    pub(super) are_by_name: bool,
    /// Why there may be more of this name.
    pub(super) open: Option<String>,
}

impl<'a> ChosenProcesses<'a> {
    /// The processes that a figure is of.
    pub(super) fn of_figure(figure: &FigureExpr, report: &'a Report) -> Self {
        let processes = report.processes.iter();
        let processes = processes.filter(|one| is_chosen(one, figure)).collect();
        let are_by_name = figure.selectors.process.is_some();
        Self {
            processes,
            are_by_name,
            open: if are_by_name {
                why_unnamed(report)
            } else {
                None
            },
        }
    }
}

/// Why there may be more processes of a name than the report knows.
fn why_unnamed(report: &Report) -> Option<String> {
    let mut all = report.processes.iter();
    let has_nameless = all.any(|process| process.comm.is_none() && process.exe.is_none());
    why_inexact(report)
        .or(why_not_listed(report))
        .or(has_nameless.then_some("not all processes' names are known".to_owned()))
}

/// Whether a figure is read from this process, by its name or that of its program.
fn is_chosen(process: &Process, figure: &FigureExpr) -> bool {
    let mut names = [&process.comm, &process.exe].into_iter().flatten();
    let glob = figure.selectors.process.as_ref();
    glob.is_none_or(|glob| names.any(|name| glob.matches(name)))
}

/// The rows of these calls, by process and file if the report has them.
pub(super) fn facts_of_calls(figure: &FigureExpr, names: &CallSet, report: &Report) -> Vec<String> {
    let counts_errors = figure.field == FigureField::Errors;
    let mut lines = Vec::new();
    let processes = report.processes.iter();
    for process in processes.filter(|process| is_chosen(process, figure)) {
        let whose = match (report.processes.len(), &process.comm) {
            (1, _) => String::new(),
            (_, Some(comm)) => format!("{comm} ({}): ", process.pid),
            (_, None) => format!("{}: ", process.pid),
        };
        for (row, files) in rows_with_files(process, figure) {
            let weight = if counts_errors { row.errors } else { row.calls };
            if names.contains(&row.name) && (weight > 0 || !counts_errors) {
                lines.push((weight, format!("{whose}{}", call_line(row, &files))));
            }
        }
    }
    largest_lines(lines)
}

/// The lines with the largest weights.
pub(super) fn largest_lines(mut lines: Vec<(u64, String)>) -> Vec<String> {
    lines.sort_by_key(|(weight, _)| Reverse(*weight));
    shorten_lines(lines.into_iter().map(|(_, line)| line).collect())
}

/// At most five of these lines, and how many more there are.
pub(super) fn shorten_lines(lines: Vec<String>) -> Vec<String> {
    shorten_to(5, lines)
}

/// At most so many of these lines, and how many more there are.
pub(super) fn shorten_to(most: usize, mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(most);
    lines.truncate(most);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
}

/// The rows of a process that are meant, each with its files: `, in.dat (regular) -> out.dat
/// (regular)`.
fn rows_with_files<'a>(process: &'a Process, figure: &FigureExpr) -> Vec<(&'a Syscall, String)> {
    let mut rows = Vec::new();
    let Some(by_file) = &process.file_calls else {
        rows.extend(process.syscalls.iter().map(|row| (row, String::new())));
        return rows;
    };
    let pattern = figure.selectors.file_pattern();
    let are_by_file = figure.selectors.are_by_file();
    for calls in by_file {
        if are_by_file && pattern.matches_either(calls) != Match::Yes {
            continue;
        }
        let ends = [&calls.from, &calls.to].into_iter().flatten();
        let ends: Vec<String> = ends.map(end_line).collect();
        let comma = if ends.is_empty() { "" } else { ", " };
        let files = format!("{comma}{}", ends.join(" -> "));
        rows.extend(calls.syscalls.iter().map(|row| (row, files.clone())));
    }
    rows
}

/// `read, in.dat (regular): 3 calls, 24 B, 1 error (EAGAIN 1)`.
pub(super) fn call_line(row: &Syscall, files: &str) -> String {
    let mut parts = vec![plural(row.calls, "call", "calls")];
    let succeeded = row.calls - row.errors;
    if let Some(bytes) = row.bytes.filter(|_| succeeded > 0) {
        let mean = short_bytes(bytes / succeeded);
        parts.push(format!("{}, {mean} each", short_bytes(bytes)));
    }
    if row.errors > 0 {
        let errors = plural(row.errors, "error", "errors");
        parts.push(format!("{errors} ({})", counts_in_words(&row.errnos)));
    }
    if row.under_way > 0 {
        parts.push(format!("{} under way at the end", row.under_way));
    }
    if row.unfinished > row.under_way {
        parts.push(format!("{} never returned", row.unfinished - row.under_way));
    }
    if let Some(ns) = row.total_ns {
        let total = amount_in_words(ns.into(), FigureUnit::Time);
        parts.push(format!("total {total}"));
    }
    format!("{}{files}: {}", row.name, parts.join(", "))
}

/// `EAGAIN 1, EINTR 2`.
pub(super) fn counts_in_words<'a>(
    counts: impl IntoIterator<Item = (&'a String, &'a u64)>,
) -> String {
    let words = counts
        .into_iter()
        .map(|(name, count)| format!("{name} {count}"));
    words.collect::<Vec<String>>().join(", ")
}

/// `in.dat (regular, ext4)`.
fn end_line(end: &End) -> String {
    let kind = end.kind.as_deref().unwrap_or("unknown file");
    let nature = match &end.fs {
        Some(fs) if matches!(kind, "regular" | "directory" | "block") => format!("{kind}, {fs}"),
        _ => kind.to_owned(),
    };
    match end.name() {
        Some(name) => format!("{name} ({nature})"),
        None => nature,
    }
}

/// The largest transfers: those that were asked for, or all others if there are none of those.
pub(super) fn facts_of_transfers(chosen: &[&Transfer], all: &[&Transfer]) -> Vec<String> {
    let (transfers, there_is) = match chosen {
        [] if all.is_empty() => return vec!["there is no other transfer either".to_owned()],
        [] => (all, "there is: "),
        chosen => (chosen, ""),
    };
    let mut lines = Vec::new();
    for one in transfers {
        let line = format!("{there_is}{}", transfer_line(one));
        lines.push((one.bytes.unwrap_or(0), line));
    }
    largest_lines(lines)
}

/// `in (regular, ext4) -> out (pipe): 1 MiB, read + write, 16 calls of 64 KiB`.
fn transfer_line(transfer: &Transfer) -> String {
    let (from, to) = (end_line(&transfer.from), end_line(&transfer.to));
    let bytes = match transfer.bytes {
        Some(bytes) if transfer.certainty == Certainty::Observed => short_bytes(bytes),
        Some(bytes) => transfer
            .certainty
            .bytes_text(bytes, transfer.observed_bytes.unwrap_or(0)),
        None => "unknown bytes".to_owned(),
    };
    format!("{from} -> {to}: {bytes}, {}", transfer.verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_that_overflows_is_a_lower_bound() {
        let sum = |figures: &[Option<u64>]| partial_sum(figures.iter().copied());
        assert_eq!(sum(&[Some(1), Some(2)]), (3, true));
        assert_eq!(sum(&[Some(1), None, Some(2)]), (3, false));
        assert_eq!(sum(&[Some(u64::MAX - 1), Some(2)]), (u64::MAX, false));
        assert_eq!(sum(&[Some(u64::MAX), Some(1), Some(1)]), (u64::MAX, false));
    }
}
