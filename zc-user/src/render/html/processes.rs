//! The programs, and the largest processes with their calls.

use maud::{Markup, html};

use super::markup::{LINE_BREAK, body, counts_are_lower_bounds, part, shorten};
use crate::{
    render::{
        calls::{Shown, process_name, running_state},
        document::{hidden_processes, largest},
        listings,
        page::{Options, sentence},
        part::{DocumentPart, command_of},
        table::{STAYS, ShownTable},
        text::{self, known, plural},
    },
    report::{Process, Report, State},
};

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

pub(super) fn section(report: &Report, options: &Options) -> Markup {
    let count = report.totals.processes;
    html! {
        section {
            h2 { "Processes" }
            (counts_are_lower_bounds(report))
            @if let Some(programs) = listings::programs(report, options) { (part(&programs)) }
            @if report.processes.is_empty() && count > 0 {
                p { "The report has only the sums over " (plural(count, "process", "processes")) ": it was made with --by total." }
            } @else {
                (each(report, &Shown::new(report, options)))
            }
        }
    }
}

/// The processes with the most calls. The calls of a single process are above.
fn each(report: &Report, shown_calls: &Shown<'_>) -> Markup {
    let (shown, hidden) = largest(&report.processes, MOST_PROCESSES);
    let heading = if hidden.is_empty() {
        "Each process".to_owned()
    } else {
        format!("The {} processes with the most calls", shown.len())
    };
    let rows = shown.iter().map(|process| row(process, report));
    let table = ShownTable::new(TITLES.map(|title| (title, STAYS)), rows);
    let hidden = hidden_processes(&hidden, report);
    html! {
        div.each { (part(&DocumentPart::listing(&heading, table, hidden))) }
        @if report.processes.len() > 1 {
            @if shown.len() > MOST_TABLES { h3 { "The calls of the " (MOST_TABLES) " with the most" } } @else { h3 { "Their calls" } }
            @for process in largest(&report.processes, MOST_TABLES).0 {
                (LINE_BREAK) (with_calls(process, &shown_calls.process(process)))
            }
        }
    }
}

fn row(process: &Process, report: &Report) -> Vec<String> {
    let name = text::shorten(&process_name(process), LONGEST_NAME).into_owned();
    let state = match process.state {
        State::Exited => "exited",
        State::Running => running_state(report),
    };
    let ppid = known(process.ppid, |ppid| ppid.to_string());
    let figures = listings::figures(
        &process.syscalls,
        process.other_calls,
        &process.usage,
        report.totals.usage.cpu_ns(),
    );
    let command = known(command_of(process), |command| command);
    let command = text::shorten(&command, LONGEST_COMMAND).into_owned();
    let rest = [process.threads.to_string(), state.to_owned(), ppid, command];
    std::iter::once(name).chain(figures).chain(rest).collect()
}

fn with_calls(process: &Process, calls: &DocumentPart) -> Markup {
    html! {
        details {
            summary { span.name { (sentence(&calls.heading)) } }
            div.process {
                @if let Some(exe) = &process.exe { p.faint { code { (shorten(&text::escape(exe))) } } }
                (body(calls))
            }
        }
    }
}
