//! The report for a person: a head, then a table for each process in the style of `perf trace -s`.

use std::cmp::Reverse;

use super::{
    Options,
    columns::{Column, Layout},
    files, header,
    page::{Page, Style, words},
    section::{INDENT, Section, plural},
    transfers, units,
};
use crate::report::{Process, Report, Syscall};

/// How many processes are shown without `--all-processes`.
const MOST_PROCESSES: usize = 10;

/// The report as tables.
pub(super) fn render(report: &Report, options: &Options) -> String {
    let (shown, hidden) = select(&report.processes, options);
    let sections = sections(report, &shown);
    let lines: Vec<&Syscall> = sections.iter().flat_map(Section::returned).collect();
    let layout = Layout::fit(&lines, options.width.map(|width| width.saturating_sub(INDENT)));

    let mut page = Page::new(options);
    header::write(&mut page, report);
    transfers::write(&mut page, report, options);
    let mut after_one_line = false;
    for section in &sections {
        // Processes without calls are a plain list.
        if !(after_one_line && section.is_one_line()) {
            page.gap();
        }
        section.write(&mut page, &layout);
        after_one_line = section.is_one_line();
    }
    if !hidden.is_empty() {
        page.gap();
        page.flow(0, &words(&rest(&hidden, report), Style::Plain));
    }
    files::write(&mut page, report, options);
    write_legend(&mut page, report, &sections, &layout);
    page.finish()
}

/// The processes to show, and those that are only summed. Where all have room they keep their order,
/// else the ones with the most calls come first.
pub(super) fn select<'a>(processes: &'a [Process], options: &Options) -> (Vec<&'a Process>, Vec<&'a Process>) {
    let mut shown: Vec<&Process> = processes.iter().collect();
    if options.all_processes || shown.len() <= MOST_PROCESSES {
        return (shown, Vec::new());
    }
    shown.sort_by_key(|process| Reverse(calls(&process.syscalls)));
    let hidden = shown.split_off(MOST_PROCESSES);
    (shown, hidden)
}

/// The total comes first: with many processes it is what one looks for. A single process is its own total.
pub(super) fn sections<'a>(report: &'a Report, shown: &[&'a Process]) -> Vec<Section<'a>> {
    let mut sections = Vec::new();
    if report.processes.len() != 1 {
        sections.push(Section::totals(&report.totals));
    }
    for &process in shown {
        sections.push(if report.processes.len() == 1 { Section::only_process(process) } else { Section::process(process) });
        // A single thread is its process.
        if process.by_thread.len() > 1 {
            sections.extend(process.by_thread.iter().map(|thread| Section::thread(process, thread)));
        }
    }
    sections
}

/// `and 1990 more processes with 7960 calls (66.6 % of all): --all-processes shows them`.
pub(super) fn rest(hidden: &[&Process], report: &Report) -> String {
    let hidden_calls = hidden.iter().map(|process| calls(&process.syscalls)).sum();
    format!(
        "and {} with {} ({} of all): --all-processes shows them",
        plural(hidden.len() as u64, "more process", "more processes"),
        plural(hidden_calls, "call", "calls"),
        units::percent(hidden_calls, calls(&report.totals.syscalls)),
    )
}

/// What the tables do not say themselves: what `-` stands for, and which columns had no room.
fn write_legend(page: &mut Page, report: &Report, sections: &[Section<'_>], layout: &Layout) {
    let has_unknown = header::has_unknown(report) || sections.iter().any(|section| section.has_unknown(layout));
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
