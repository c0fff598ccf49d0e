//! What was measured of a figure: what is known, why no more is known, and the facts of the report
//! that explain it, as lines for a person.

use std::cmp::Reverse;

use super::{
    ast::Figure,
    known::KnownFigure,
    pattern::{Glob, Match},
};
use crate::{
    figures::list::{FigureField, FigureUnit},
    report::{Certainty, End, FileCalls, Process, Report, Syscall, Transfer},
    units,
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
    /// Without reason and facts.
    pub(super) fn plain(known: KnownFigure) -> Self {
        Self {
            known,
            reason: None,
            facts: Vec::new(),
        }
    }

    /// Unknown, for this reason.
    pub(super) fn unknown(reason: impl Into<String>) -> Self {
        Self {
            known: KnownFigure::Unknown,
            reason: Some(reason.into()),
            facts: Vec::new(),
        }
    }
}

/// Why all numbers of a report are lower bounds; `None` if they are not.
pub(super) fn why_inexact(report: &Report) -> Option<String> {
    if report.exact {
        return None;
    }
    let losses: Vec<String> = report
        .losses
        .iter()
        .map(|(name, count)| format!("{name}: {count}"))
        .collect();
    Some(format!(
        "the report is a lower bound: {}",
        losses.join(", ")
    ))
}

/// Why there may be more than the listed processes have.
pub(super) fn not_listed(report: &Report) -> String {
    if report.processes.is_empty() {
        "the report has sums only, no processes".to_owned()
    } else {
        report.left_out_words()
    }
}

/// The sum of the known figures, and whether it is complete: no figure is unknown, and the sum did
/// not overflow.
pub(super) fn sum_known(figures: impl Iterator<Item = Option<u64>>) -> (u64, bool) {
    figures.fold((0, true), |(sum, is_all), figure| {
        match figure.map(|figure| u64::overflowing_add(sum, figure)) {
            Some((sum, false)) => (sum, is_all),
            Some((_, true)) => (u64::MAX, false),
            None => (sum, false),
        }
    })
}

/// The processes that a figure is read from.
pub(super) enum ChosenProcesses<'a> {
    /// All of the report.
    All,
    /// These, and why there may be more.
    Chosen(Vec<&'a Process>, Option<String>),
    /// No known process, and why there may be some.
    Unknown(String),
    /// None, and which ones there are instead.
    None(String),
}

impl<'a> ChosenProcesses<'a> {
    /// The processes that a figure is of.
    pub(super) fn of_figure(figure: &Figure, report: &'a Report) -> Self {
        let Some(glob) = &figure.selectors.process else {
            return Self::All;
        };
        let chosen: Vec<&Process> = report
            .processes
            .iter()
            .filter(|process| is_called(process, glob))
            .collect();
        let has_nameless = || {
            report
                .processes
                .iter()
                .any(|process| process.comm.is_none() && process.exe.is_none())
        };
        let open = match why_inexact(report) {
            Some(why) => Some(why),
            None if report.processes_left_out() > 0 => Some(not_listed(report)),
            None if has_nameless() => Some("not all processes' names are known".to_owned()),
            None => None,
        };
        match open {
            open if !chosen.is_empty() => return Self::Chosen(chosen, open),
            Some(why) => return Self::Unknown(why),
            None => {}
        }
        let mut names: Vec<&str> = report
            .processes
            .iter()
            .filter_map(|process| process.comm.as_deref())
            .collect();
        names.sort_unstable();
        names.dedup();
        Self::None(format!(
            "no process is called {}; the report has {}",
            glob.text(),
            names.join(", ")
        ))
    }
}

/// Whether a pattern matches the name of a process or of its program.
fn is_called(process: &Process, glob: &Glob) -> bool {
    [&process.comm, &process.exe]
        .into_iter()
        .flatten()
        .any(|name| glob.matches(name))
}

/// Limit for the number of lines.
const MAX_LINES: usize = 5;

/// `cp (1234)`.
fn name_of(process: &Process) -> String {
    process.comm.as_ref().map_or_else(
        || process.pid.to_string(),
        |comm| format!("{comm} ({})", process.pid),
    )
}

/// The rows of these calls, by process and file if the report has them.
pub(super) fn facts_of_calls(figure: &Figure, names: &[&str], report: &Report) -> Vec<String> {
    let counts_errors = figure.field == FigureField::Errors;
    let mut lines = Vec::new();
    for process in processes(figure, report) {
        let whose = match report.processes.len() {
            1 => String::new(),
            _ => format!("{}: ", name_of(process)),
        };
        for (row, files) in rows(process, figure) {
            let weight = if counts_errors { row.errors } else { row.calls };
            if names.contains(&row.name.as_str()) && (weight > 0 || !counts_errors) {
                lines.push((weight, format!("{whose}{}", line(row, &files))));
            }
        }
    }
    largest(lines)
}

/// The lines with the largest weights.
pub(super) fn largest(mut lines: Vec<(u64, String)>) -> Vec<String> {
    lines.sort_by_key(|(weight, _)| Reverse(*weight));
    shorten(lines.into_iter().map(|(_, line)| line).collect())
}

/// The processes that a figure is read from.
fn processes<'a>(figure: &'a Figure, report: &'a Report) -> impl Iterator<Item = &'a Process> {
    let glob = figure.selectors.process.as_ref();
    report
        .processes
        .iter()
        .filter(move |process| glob.is_none_or(|glob| is_called(process, glob)))
}

/// The rows of a process that may be meant, each with its files.
fn rows<'a>(process: &'a Process, figure: &Figure) -> Vec<(&'a Syscall, String)> {
    let Some(by_file) = &process.file_calls else {
        let rows = process.syscalls.iter();
        return rows.map(|row| (row, String::new())).collect();
    };
    let pattern = figure.selectors.file_pattern();
    let may_be_meant = |calls: &&FileCalls| {
        !figure.selectors.are_by_file() || pattern.matches_either(calls) != Match::No
    };
    let with_files = |calls: &'a FileCalls| {
        let names = files(calls);
        calls.syscalls.iter().map(move |row| (row, names.clone()))
    };
    by_file
        .iter()
        .filter(may_be_meant)
        .flat_map(with_files)
        .collect()
}

/// `read, in.dat (regular): 3 calls, 24 B, 1 error (EAGAIN 1)`.
fn line(row: &Syscall, files: &str) -> String {
    let mut parts = vec![plural(row.calls, "call")];
    let succeeded = row.calls - row.errors;
    if let Some(bytes) = row.bytes.filter(|_| succeeded > 0) {
        let mean = units::short_bytes(bytes / succeeded);
        parts.push(format!("{}, {mean} each", units::short_bytes(bytes)));
    }
    if row.errors > 0 {
        let errnos: Vec<String> = row
            .errnos
            .iter()
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        let errors = plural(row.errors, "error");
        parts.push(format!("{errors} ({})", errnos.join(", ")));
    }
    if row.unfinished > 0 {
        parts.push(format!("{} never returned", row.unfinished));
    }
    if let Some(ns) = row.total_ns {
        let total = KnownFigure::exactly(ns).describe(FigureUnit::Time);
        parts.push(format!("total {}", total.trim_start_matches("is ")));
    }
    format!("{}{files}: {}", row.name, parts.join(", "))
}

/// `, in.dat (regular) -> out.dat (regular)`.
fn files(calls: &FileCalls) -> String {
    let ends: Vec<String> = [&calls.from, &calls.to]
        .into_iter()
        .flatten()
        .map(end)
        .collect();
    if ends.is_empty() {
        String::new()
    } else {
        format!(", {}", ends.join(" -> "))
    }
}

pub(super) fn plural(count: u64, thing: &str) -> String {
    if count == 1 {
        format!("1 {thing}")
    } else {
        format!("{count} {thing}s")
    }
}

/// `in.dat (regular, ext4)`.
fn end(end: &End) -> String {
    let kind = end.kind.as_deref().unwrap_or("unknown file");
    let nature = match &end.fs {
        Some(fs) if matches!(kind, "regular" | "directory" | "block") => format!("{kind}, {fs}"),
        _ => kind.to_owned(),
    };
    let name = end
        .path
        .as_ref()
        .or(end.peer.as_ref())
        .or(end.local.as_ref());
    name.map_or_else(|| nature.clone(), |name| format!("{name} ({nature})"))
}

/// The largest transfers. If they are not the ones that were asked for, the lines say so.
pub(super) fn facts_of_transfers(transfers: &[&Transfer], are_meant: bool) -> Vec<String> {
    let mut sorted: Vec<&Transfer> = transfers.to_vec();
    sorted.sort_by_key(|transfer| Reverse(transfer.bytes));
    let lines = shorten(sorted.into_iter().map(transfer).collect());
    match (are_meant, lines.is_empty()) {
        (true, _) => lines,
        (false, true) => vec!["there is no other transfer either".to_owned()],
        (false, false) => lines
            .into_iter()
            .map(|line| format!("there is: {line}"))
            .collect(),
    }
}

/// `in (regular, ext4) -> out (pipe): 1 MiB, read + write, 16 calls of 64 KiB ..., after
/// copy_file_range EXDEV (1)`.
fn transfer(transfer: &Transfer) -> String {
    let bytes = match transfer.bytes {
        Some(bytes) if transfer.certainty == Certainty::Observed => units::short_bytes(bytes),
        _ => transfer
            .amount()
            .unwrap_or_else(|| "unknown bytes".to_owned()),
    };
    let attempts: Vec<String> = transfer
        .attempts
        .iter()
        .map(|attempt| format!("{} {} ({})", attempt.syscall, attempt.errno, attempt.calls))
        .collect();
    let after = if attempts.is_empty() {
        String::new()
    } else {
        format!("; attempts: {}", attempts.join(", "))
    };
    format!(
        "{} -> {}: {bytes}, {}{after}",
        end(&transfer.from),
        end(&transfer.to),
        transfer.verdict
    )
}

pub(super) fn shorten(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(MAX_LINES);
    lines.truncate(MAX_LINES);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_that_overflows_is_a_lower_bound() {
        let sum = |figures: &[Option<u64>]| sum_known(figures.iter().copied());
        assert_eq!(sum(&[Some(1), Some(2)]), (3, true));
        assert_eq!(sum(&[Some(1), None, Some(2)]), (3, false));
        assert_eq!(sum(&[Some(u64::MAX - 1), Some(2)]), (u64::MAX, false));
        assert_eq!(sum(&[Some(u64::MAX), Some(1), Some(1)]), (u64::MAX, false));
    }
}
