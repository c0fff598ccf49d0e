//! The head of a report: how the command ended, what it cost, how many calls it made, and where its time went.

use std::cmp::Reverse;

use super::{
    columns,
    page::{Page, Piece, Style, list, words},
    section::plural,
    text,
};
use crate::{
    report::{Counted, Exit, Report, Syscall},
    signal,
    syscall::{Selection, TABLE},
    trace::Loss,
    units::{self, UNKNOWN},
};

/// How many calls the line of times names.
const MOST_CALLS: usize = 3;
/// It names a call if this fraction of the time was in it (1/100).
const LEAST_SHARE: u64 = 100;
/// Up to this many counted calls are named.
const FEW_NAMES: usize = 6;

/// What ran, how it ended, what it cost, whether the figures are exact, and where the time went.
pub(super) fn write(page: &mut Page, report: &Report) {
    page.line(0, Style::Heading, &format!("zctrace: {}", command(report)));
    for line in [summary(report), counts(report), times(report)] {
        if !line.is_empty() {
            page.flow(0, &line);
        }
    }
    for (text, style) in remarks(report) {
        page.flow(0, &words(&text, style));
    }
}

/// The command line that was traced.
pub(super) fn command(report: &Report) -> String {
    match report.command.as_slice() {
        [] => "(command unknown)".to_owned(),
        words => text::command_line(words),
    }
}

/// The losses and notes, each with its style.
pub(super) fn remarks(report: &Report) -> impl Iterator<Item = (String, Style)> {
    // Losses that do not lower counts have a note of their own.
    let lowers_counts = |name: &&String| Loss::from_name(name).is_none_or(Loss::touches_counts);
    let losses = report.losses.iter().filter(move |(name, _)| lowers_counts(name));
    let losses = losses.map(|(name, &count)| (loss(name, count), Style::Warning));
    losses.chain(report.notes.iter().map(|note| (format!("note: {}", text::escape(note)), Style::Plain)))
}

/// How the command ended, and its times: `exit 0, wall 14.4 ms, CPU 5.48 ms (user 0 s, system 5.48 ms), waiting 8.92 ms`.
pub(super) fn summary(report: &Report) -> Vec<Piece> {
    let usage = &report.totals.usage;
    let cpu = match (usage.cpu_ns(), usage.user_ns, usage.system_ns) {
        (Some(cpu), Some(user), Some(system)) => {
            format!("{} (user {}, system {})", units::duration(cpu), units::duration(user), units::duration(system))
        }
        _ => UNKNOWN.to_owned(),
    };
    let waiting = waiting_ns(report).map(|ns| format!("waiting {}", units::duration(ns)));
    let (exit, style) = exit(report.exit);
    let wall = report.wall_ns.map_or_else(|| UNKNOWN.to_owned(), units::duration);
    let times: Vec<String> = [format!("wall {wall}"), format!("CPU {cpu}")].into_iter().chain(waiting).collect();
    std::iter::once(Piece::new(format!("{exit},"), style)).chain(list(&times, Style::Plain)).collect()
}

/// How long the command was not on a CPU. Only known for a single thread: several may wait at the same time.
fn waiting_ns(report: &Report) -> Option<u64> {
    report.wall_ns.filter(|_| report.totals.threads == 1)?.checked_sub(report.totals.usage.cpu_ns()?)
}

/// How much was counted: `1 process, 1 thread, 54 calls that move data, backend ebpf, exact`.
pub(super) fn counts(report: &Report) -> Vec<Piece> {
    let calls = report.totals.syscalls.iter().map(|call| call.calls).sum();
    let at_least = if report.exact { "" } else { "at least " };
    let parts = [
        plural(report.totals.processes, "process", "processes"),
        plural(report.totals.threads, "thread", "threads"),
        format!("{at_least}{}{}", plural(calls, "call", "calls"), which_calls(report)),
        format!("backend {}", text::escape(&report.backend)),
    ];
    let mut pieces: Vec<Piece> = parts.iter().map(|part| Piece::new(format!("{part},"), Style::Plain)).collect();
    pieces.push(if report.exact { Piece::new("exact", Style::Good) } else { Piece::new("lower bound", Style::Warning) });
    pieces
}

/// Which calls were counted, after their number: ` that move data`, ` of read and write`. Empty if all were, or if that is unknown.
fn which_calls(report: &Report) -> String {
    match &report.counted {
        Some(Counted::Names(_)) if counts_data(report.counted.as_ref()) => " that move data".to_owned(),
        Some(Counted::Names(names)) if names.len() <= FEW_NAMES => {
            format!(" of {}", names.iter().map(|name| text::escape(name)).collect::<Vec<_>>().join("/"))
        }
        Some(Counted::Names(names)) => format!(" of {} chosen kinds", names.len()),
        Some(Counted::All) | None => String::new(),
    }
}

/// Whether exactly the calls of the default set were counted.
pub(super) fn counts_data(counted: Option<&Counted>) -> bool {
    let Some(Counted::Names(names)) = counted else { return false };
    let default = Selection::default();
    names.iter().all(|name| default.contains(name)) && TABLE.iter().all(|spec| names.contains(spec.name))
}

/// Where the time went, the largest part first: `time: 12.5 ms not in counted calls (-e all shows where), 1.66 ms copy_file_range, 49.1 µs
/// in 3 other kinds of calls`. Several threads are in calls at the same time, so what remains of the wall time is known for a single one only.
pub(super) fn times(report: &Report) -> Vec<Piece> {
    let mut calls: Vec<(u64, &Syscall)> = Vec::new();
    for call in report.totals.syscalls.iter().filter(|call| call.calls > 0) {
        let Some(ns) = call.total_ns else { return Vec::new() };
        calls.push((ns, call));
    }
    calls.sort_by_key(|&(ns, _)| Reverse(ns));
    let in_calls = calls.iter().fold(0_u64, |sum, (ns, _)| sum.saturating_add(*ns));
    let rest = report.wall_ns.filter(|_| report.totals.threads == 1).and_then(|wall| wall.checked_sub(in_calls));
    let all = in_calls.saturating_add(rest.unwrap_or(0));
    let is_shown = |index: usize, ns: u64| index < MOST_CALLS && ns >= all / LEAST_SHARE;
    let shown = calls.iter().enumerate().take_while(|&(index, &(ns, _))| is_shown(index, ns)).count();
    let (shown, others) = calls.split_at(shown);
    let named = shown.iter().map(|&(ns, call)| (ns, format!("{} {}", units::duration(ns), columns::name(call))));
    let mut parts: Vec<(u64, String)> = named.chain(rest.map(|ns| (ns, not_in_calls(report, ns)))).collect();
    parts.sort_by_key(|&(ns, _)| Reverse(ns));
    let mut parts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
    let others_ns = others.iter().fold(0_u64, |sum, (ns, _)| sum.saturating_add(*ns));
    parts.extend(match others {
        [] => None,
        [(ns, only)] => Some(format!("{} {}", units::duration(*ns), columns::name(only))),
        _ => Some(format!("{} in {} other kinds of calls", units::duration(others_ns), others.len())),
    });
    if parts.is_empty() {
        return Vec::new();
    }
    let title = match (rest, report.totals.threads) {
        (Some(_), _) => "time:",
        (None, 1) => "time in calls:",
        (None, _) => "time in calls, all threads:",
    };
    std::iter::once(Piece::new(title, Style::Plain)).chain(list(&parts, Style::Plain)).collect()
}

/// The time outside of the calls that are known, and how to learn more of it if it is most of the wall time.
fn not_in_calls(report: &Report, ns: u64) -> String {
    let counts_all = report.counted == Some(Counted::All) && report.exact;
    // The last call of a process never returns, and takes no time.
    let is_end = |call: &&Syscall| matches!(call.name.as_str(), "exit" | "exit_group");
    let is_under_way = report.totals.syscalls.iter().filter(|call| !is_end(call)).any(|call| call.unfinished > 0);
    let calls = if counts_all { "calls" } else { "counted calls" };
    let returned = if is_under_way { " that returned" } else { "" };
    let is_most = report.wall_ns.is_some_and(|wall| ns > wall / 2);
    let advice = if is_most && report.counted != Some(Counted::All) { " (-e all shows where)" } else { "" };
    format!("{} not in {calls}{returned}{advice}", units::duration(ns))
}

/// Whether the head has an [`UNKNOWN`] figure.
pub(super) fn has_unknown(report: &Report) -> bool {
    report.exit == Exit::default() || [report.wall_ns, report.totals.usage.cpu_ns()].contains(&None)
}

/// How the command ended.
fn exit(exit: Exit) -> (String, Style) {
    match exit {
        Exit { signal: Some(number), .. } => (format!("killed by {}", signal::name(number)), Style::Bad),
        Exit { code: Some(0), .. } => ("exit 0".to_owned(), Style::Plain),
        Exit { code: Some(code), .. } => (format!("exit {code}"), Style::Bad),
        Exit { code: None, signal: None } => (format!("exit {UNKNOWN}"), Style::Plain),
    }
}

/// What was lost and what helps. A report of a newer zctrace may name losses that this one does not know.
pub(super) fn loss(name: &str, count: u64) -> String {
    match Loss::from_name(name) {
        Some(loss) => format!("lower bound: {}", loss.explain(count)),
        None => format!("lower bound: {} {count}", text::escape(name)),
    }
}
