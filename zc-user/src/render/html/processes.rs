//! The programs, and the largest processes with their calls.

use maud::{Markup, html};

use super::{LINE_BREAK, calls, counts_are_lower_bounds, shorten, table};
use crate::{
    render::{
        listing::Listing,
        programs,
        section::{Section, command_of, plural, process_name},
        table as tables,
        text::{self, known},
    },
    report::{Process, Report, State},
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
            @if let Some(programs) = programs::listing(report, MOST_PROGRAMS) { (by_program(&programs)) }
            @if report.processes.is_empty() && count > 0 {
                p { "The report has only the sums over " (plural(count, "process", "processes")) ": it was made with --by total." }
            } @else {
                (largest(report))
            }
        }
    }
}

fn by_program(programs: &Listing<'_>) -> Markup {
    html! {
        h3 { (programs.heading) }
        (table(programs.titles, &programs.rows))
        @if let Some(hidden) = &programs.hidden { p { (hidden) } }
    }
}

/// The processes with the most calls. The calls of a single process are above.
fn largest(report: &Report) -> Markup {
    let (shown, hidden) = tables::select(&report.processes, MOST_PROCESSES);
    let is_only = report.processes.len() == 1;
    let rows: Vec<_> = shown.iter().map(|process| row(process, report)).collect();
    html! {
        @if hidden.is_empty() {
            h3 { "Each process" }
        } @else {
            h3 { "The " (shown.len()) " processes with the most calls" }
        }
        div.each { (table(&TITLES, &rows)) }
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
    let ppid = known(process.ppid, |ppid| ppid.to_string());
    let figures = programs::figures(
        &process.syscalls,
        process.other_calls,
        &process.usage,
        report.totals.usage.cpu_ns(),
    );
    let command = known(command_of(process), |command| command);
    let command = text::shorten_middle(&command, LONGEST_COMMAND).into_owned();
    let rest = [process.threads.to_string(), state.to_owned(), ppid, command];
    std::iter::once(name).chain(figures).chain(rest).collect()
}

fn with_calls(process: &Process) -> Markup {
    let section = Section::only_process(process);
    html! {
        details {
            summary { span.name { (section.title()) } }
            div.process {
                @if let Some(exe) = &process.exe { p.faint { code { (shorten(&text::escape(exe))) } } }
                @if let Some(command) = command_of(process) { p { code { "$ " (command) } } }
                (calls::calls(&section))
            }
        }
    }
}
