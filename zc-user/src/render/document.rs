//! The document that a report is shown as: a head and parts, each built once. A format only writes
//! them.

use std::cmp::Reverse;

use super::{
    caller_lines, calls,
    head::{self, Head},
    latency, left_open, losses,
    page::{Options, TextLine},
    part::{Document, DocumentPart, more, sentence_line, sum_of_calls},
    paths, pipes, programs, slow_calls, spans, syncs,
    table::leave_out_empty_columns,
    text::plural,
    transfers, volumes,
};
use crate::{
    report::{Detail, Process, Report},
    units,
};

/// How many processes, or programs, have a part without `--all`.
const MAX_PROCESSES: usize = 10;

/// The document. How wide the page is matters to the bars of `--histogram` alone.
pub(super) fn document(report: &Report, options: &Options) -> Document {
    let mut parts = Vec::new();
    parts.extend(programs::part(report, options));
    let failures = report.failures();
    let largest = transfers::largest(report);
    let head = Head::new(report, &failures, largest);
    let transfers_part = transfers::part(report, options);
    // A transfer that moved less than a tenth of all that was written is no answer.
    let answer = transfers_part
        .as_ref()
        .filter(|_| volumes::is_telling(largest, report))
        .map_or(&[][..], |part| &part.answer);
    let verdict = verdict(report, &head, answer);
    parts.extend(transfers_part);
    parts.extend(pipes::part(report, options));
    parts.extend(spans::part(report, options));
    parts.extend(syncs::part(report, options));
    parts.extend(slow_calls::part(report, options));
    parts.extend(left_open::part(report));
    let mut sections = sections(report, options).into_iter();
    // The first section is that of all calls.
    let first = sections.next();
    parts.extend(first.map(|mut section| {
        section.remarks.extend(calls::start_up(report, &failures));
        section
    }));
    parts.extend(latency::part(report, options));
    parts.extend(latency::sizes_part(report, options));
    parts.extend(sections);
    parts.extend(paths::part(report, &failures, options));
    parts.extend(caller_lines::part(report, options));
    leave_out_empty_columns(parts.iter_mut().filter_map(|part| part.table.as_mut()));
    Document {
        command: head::command(report),
        lines: head.lines(report),
        remarks: losses::remarks(report),
        parts,
        verdict,
    }
}

/// The answer in a few lines: how the command ended; what it waited for; what failed if that was no
/// success; which way the bytes went, the largest transfer, or which files were read and written; which
/// calls took the time and were made most, and by which programs.
fn verdict(report: &Report, head: &Head, of_transfers: &[TextLine]) -> Vec<TextLine> {
    let exit = report.exit;
    let has_failed = exit.signal.is_some() || exit.code.is_some_and(|code| code != 0);
    let has_failed = has_failed && !head.failed.is_empty();
    let (failed, of_transfers) = if has_failed {
        (std::slice::from_ref(&head.failed), &[][..])
    } else {
        (&[][..], of_transfers)
    };
    let lines = [&head.summary, &head.killed, &head.waiting];
    let lines = lines.into_iter().chain(failed);
    let lines = lines.chain([&head.flow]).chain(of_transfers);
    let lines = lines.chain([&head.data, &head.read_again, &head.network]);
    let programs = volumes::programs(report);
    let lines = lines.chain([&programs, &head.times, &head.on_files, &head.calls]);
    lines.filter(|line| !line.is_empty()).cloned().collect()
}

/// The tables of calls: that of a single process; of several the total, which comes first, and then
/// what `--by` asks for. The table of programs has a line for each.
fn sections(report: &Report, options: &Options) -> Vec<DocumentPart> {
    let processes = &report.processes;
    let shown_calls = calls::ShownCalls::new(report, options);
    let most = if options.all {
        usize::MAX
    } else {
        MAX_PROCESSES
    };
    // A single process needs no total.
    let mut sections = Vec::new();
    if processes.len() != 1 || options.by == Some(Detail::Total) {
        sections.push(shown_calls.total());
    }
    let hidden = match options.by {
        Some(Detail::Total) => None,
        Some(Detail::Program) if !report.programs.is_empty() => {
            let programs = report.programs.iter().take(most);
            sections.extend(programs.map(|program| shown_calls.program(program)));
            let more = report.programs.len().saturating_sub(most) as u64;
            let more_programs = plural(more, "more program", "more programs");
            (more > 0).then(|| format!("and {more_programs}: --all shows them"))
        }
        None if processes.len() != 1 && !options.all => (!report.programs.is_empty())
            .then(|| "--by program or --by process shows the calls of each".to_owned()),
        Some(_) | None => {
            let (shown, hidden) = largest(processes, most);
            for process in shown {
                sections.push(shown_calls.process(process));
                sections.extend(threads(&shown_calls, process, options));
            }
            hidden_processes(&hidden, report)
        }
    };
    if let Some(last) = sections.last_mut() {
        last.remarks.extend(sentence_line(hidden));
    }
    sections
}

/// The sections of the threads of a process, if they are known. A single thread would repeat its
/// process.
fn threads(
    shown: &calls::ShownCalls<'_>,
    process: &Process,
    options: &Options,
) -> Vec<DocumentPart> {
    let is_shown = process.by_thread.len() > 1 && options.by.is_none_or(|by| by == Detail::Thread);
    let threads = process.by_thread.iter().filter(|_| is_shown);
    threads
        .map(|thread| shown.thread(process, thread))
        .collect()
}

/// Splits the processes into those to show and those that are only summed. A few processes keep
/// their order; of many, those with the most calls come first.
fn largest(processes: &[Process], most: usize) -> (Vec<&Process>, Vec<&Process>) {
    let mut shown: Vec<&Process> = processes.iter().collect();
    if shown.len() <= most {
        return (shown, Vec::new());
    }
    shown.sort_by_key(|process| Reverse(sum_of_calls(&process.syscalls).calls));
    let hidden = shown.split_off(most);
    (shown, hidden)
}

/// `and 1990 more processes with 7960 calls (66.6 % of all): --all shows them`; `None` if there are
/// no more.
fn hidden_processes(hidden: &[&Process], report: &Report) -> Option<String> {
    let calls = hidden
        .iter()
        .map(|process| sum_of_calls(&process.syscalls).calls)
        .sum();
    let share = units::percent(calls, sum_of_calls(&report.totals.syscalls).calls);
    let calls = plural(calls, "call", "calls");
    let figures = format!("{calls} ({share} of all)");
    more(hidden, ["process", "processes"], &figures)
}
