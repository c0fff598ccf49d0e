//! The report as text: a head, the transfers, then a table for each process in the style of `perf trace -s`.

use std::cmp::Reverse;

use super::{
    columns::{Column, Layout},
    files,
    page::{Options, Page, Piece, Style, words},
    section::{INDENT, Section, plural},
    text, transfers,
};
use crate::{
    report::{Exit, Process, Report, Syscall},
    signal,
    trace::Loss,
    units::{self, UNKNOWN},
};

/// How many processes are shown without `--all-processes`.
const MOST_PROCESSES: usize = 10;

pub(super) fn render(report: &Report, options: &Options) -> String {
    let (shown, hidden) = select(&report.processes, options);
    let sections = sections(report, &shown);
    let lines: Vec<&Syscall> = sections.iter().flat_map(Section::returned).collect();
    let layout = Layout::fit(&lines, options.width.map(|width| width.saturating_sub(INDENT)));

    let mut page = Page::new(options);
    write_head(&mut page, report);
    transfers::write(&mut page, report, options);
    let mut after_one_line = false;
    for section in &sections {
        // There are no gaps between processes without calls: they are a list.
        if !(after_one_line && section.is_one_line()) {
            page.gap();
        }
        section.write(&mut page, &layout);
        after_one_line = section.is_one_line();
    }
    if !hidden.is_empty() {
        page.gap();
        page.flow(0, &words(&hidden_processes(&hidden, report), Style::Plain));
    }
    files::write(&mut page, report, options);
    write_legend(&mut page, report, &sections, &layout);
    page.finish()
}

/// What ran, how it ended, what it cost, and whether the figures are exact.
fn write_head(page: &mut Page, report: &Report) {
    page.line(0, Style::Heading, &format!("zctrace: {}", command(report)));
    page.flow(0, &summary(report));
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

/// One line: how the command ended, what it cost, whether the figures are exact.
pub(super) fn summary(report: &Report) -> Vec<Piece> {
    let duration = |ns: Option<u64>| ns.map_or_else(|| UNKNOWN.to_owned(), units::duration);
    let usage = &report.totals.usage;
    let (exit, style) = exit(report.exit);
    let plain = |text: String| Piece::new(text, Style::Plain);
    vec![
        Piece::new(format!("{exit},"), style),
        plain(format!("wall {},", duration(report.wall_ns))),
        plain(format!("user {},", duration(usage.user_ns))),
        plain(format!("system {},", duration(usage.system_ns))),
        plain(format!("backend {},", text::escape(&report.backend))),
        if report.exact { Piece::new("exact", Style::Good) } else { Piece::new("lower bound", Style::Warning) },
    ]
}

/// Whether the summary has an [`UNKNOWN`] figure.
fn head_has_unknown(report: &Report) -> bool {
    let usage = &report.totals.usage;
    report.exit == Exit::default() || [report.wall_ns, usage.user_ns, usage.system_ns].contains(&None)
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

/// Splits the processes into those to show and those that are only summed. A few processes keep their order; of many, those with the
/// most calls come first.
pub(super) fn select<'a>(processes: &'a [Process], options: &Options) -> (Vec<&'a Process>, Vec<&'a Process>) {
    let mut shown: Vec<&Process> = processes.iter().collect();
    if options.all_processes || shown.len() <= MOST_PROCESSES {
        return (shown, Vec::new());
    }
    shown.sort_by_key(|process| Reverse(calls(&process.syscalls)));
    let hidden = shown.split_off(MOST_PROCESSES);
    (shown, hidden)
}

/// The sections of these processes. The total comes first, because with many processes it is the most interesting. A single process
/// needs no total.
pub(super) fn sections<'a>(report: &'a Report, shown: &[&'a Process]) -> Vec<Section<'a>> {
    let mut sections = Vec::new();
    if report.processes.len() != 1 {
        sections.push(Section::totals(&report.totals));
    }
    for &process in shown {
        sections.push(if report.processes.len() == 1 { Section::only_process(process) } else { Section::process(process) });
        // A single thread would repeat its process.
        if process.by_thread.len() > 1 {
            sections.extend(process.by_thread.iter().map(|thread| Section::thread(process, thread)));
        }
    }
    sections
}

/// `and 1990 more processes with 7960 calls (66.6 % of all): --all-processes shows them`.
pub(super) fn hidden_processes(hidden: &[&Process], report: &Report) -> String {
    let hidden_calls = hidden.iter().map(|process| calls(&process.syscalls)).sum();
    format!(
        "and {} with {} ({} of all): --all-processes shows them",
        plural(hidden.len() as u64, "more process", "more processes"),
        plural(hidden_calls, "call", "calls"),
        units::percent(hidden_calls, calls(&report.totals.syscalls)),
    )
}

/// Explains `-`, and names the columns that had no room.
fn write_legend(page: &mut Page, report: &Report, sections: &[Section<'_>], layout: &Layout) {
    let has_unknown = head_has_unknown(report) || sections.iter().any(|section| section.has_unknown(layout));
    let has_table = sections.iter().any(|section| !section.returned().is_empty());
    let left_out: Vec<&str> = layout.left_out().iter().map(|&column| Column::title(column)).collect();
    if has_unknown {
        page.gap();
        page.flow(0, &words("\"-\": unknown, not 0", Style::Faint));
    }
    if has_table && !left_out.is_empty() {
        if !has_unknown {
            page.gap();
        }
        page.flow(0, &words(&format!("no room for: {}", left_out.join(", ")), Style::Faint));
    }
}

fn calls(syscalls: &[Syscall]) -> u64 {
    syscalls.iter().map(|line| line.calls).sum()
}
