//! The programs, and the largest processes with their calls.

use maud::{Markup, html};

use super::{LINE_BREAK, calls, counts_are_lower_bounds, shorten, table};
use crate::{
    render::{
        programs,
        section::{Section, plural, process_name},
        table as tables, text,
    },
    report::{Process, Report, State},
    units::UNKNOWN,
};

/// How many programs are shown.
const MOST_PROGRAMS: usize = 25;
/// How many processes have a row.
const MOST_PROCESSES: usize = 50;
/// How many of them have a table of their calls.
const MOST_TABLES: usize = 10;
/// A longer name or command is shortened in a row.
const LONGEST_NAME: usize = 28;
const LONGEST_COMMAND: usize = 60;
/// The columns of the processes.
const TITLES: [&str; 10] = [
    "process",
    "calls",
    "errors",
    "in calls",
    "CPU",
    "% CPU",
    "threads",
    "state",
    "started by",
    "command",
];

pub(super) fn section(report: &Report) -> Markup {
    let count = report.totals.processes;
    html! {
        section {
            h2 { "Processes" }
            (counts_are_lower_bounds(report))
            @if !report.programs.is_empty() { (by_program(report)) }
            @if report.processes.is_empty() && count > 0 {
                p { "The report has only the sums over " (plural(count, "process", "processes")) ": it was made with --by total." }
            } @else {
                (largest(report))
            }
        }
    }
}

fn by_program(report: &Report) -> Markup {
    let mut rows = programs::rows(report, MOST_PROGRAMS).into_iter();
    let titles = rows.next().into_iter().flatten();
    html! {
        h3 { (programs::heading(report)) }
        (table(titles, rows.map(Vec::from)))
        @if let Some(hidden) = programs::hidden(report, MOST_PROGRAMS) { p { (hidden) } }
    }
}

/// The processes with the most calls. The calls of a single process are above.
fn largest(report: &Report) -> Markup {
    let (shown, hidden) = tables::select(&report.processes, MOST_PROCESSES);
    let is_only = report.processes.len() == 1;
    html! {
        @if hidden.is_empty() {
            h3 { "Each process" }
        } @else {
            h3 { "The " (shown.len()) " processes with the most calls" }
        }
        div.each { (table(TITLES.into_iter().map(str::to_owned), shown.iter().map(|process| row(process, report)))) }
        @if !hidden.is_empty() { p { (tables::hidden_processes(&hidden, report)) } }
        @if !is_only {
            @if shown.len() > MOST_TABLES { h3 { "The calls of the " (MOST_TABLES) " with the most" } } @else { h3 { "Their calls" } }
            @for process in tables::select(&report.processes, MOST_TABLES).0 { (LINE_BREAK) (with_calls(process)) }
        }
    }
}

fn row(process: &Process, report: &Report) -> Vec<String> {
    let name = text::shorten_middle(&process_name(process), LONGEST_NAME).into_owned();
    let state = match process.state {
        State::Exited => "exited",
        State::Running => "still running",
    };
    let ppid = process
        .ppid
        .map_or_else(|| UNKNOWN.to_owned(), |ppid| ppid.to_string());
    let figures = programs::figures(
        &process.syscalls,
        process.other_calls,
        &process.usage,
        report.totals.usage.cpu_ns(),
    );
    let command = command(process).unwrap_or_else(|| UNKNOWN.to_owned());
    let command = text::shorten_middle(&command, LONGEST_COMMAND).into_owned();
    let rest = [process.threads.to_string(), state.to_owned(), ppid, command];
    std::iter::once(name).chain(figures).chain(rest).collect()
}

fn command(process: &Process) -> Option<String> {
    process
        .command
        .as_deref()
        .filter(|command| !command.is_empty())
        .map(text::command_line)
}

fn with_calls(process: &Process) -> Markup {
    let section = Section::only_process(process);
    html! {
        details {
            summary { span.name { (section.title()) } }
            div.process {
                @if let Some(exe) = &process.exe { p.faint { code { (shorten(&text::escape(exe))) } } }
                @if let Some(command) = command(process) { p { code { "$ " (command) } } }
                (calls::calls(&section))
            }
        }
    }
}
