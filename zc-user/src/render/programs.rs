//! The table of programs: many processes as a few lines, the program with the most CPU time first.

use super::{
    page::{Options, Page, Style, align_columns, ruled_table, table_lines, words},
    section::{INDENT, plural, program_name},
    text,
};
use crate::{
    report::{OtherCalls, Program, Report, Syscall, Usage},
    units::{self, UNKNOWN},
};

/// How many programs are shown without `--all`.
const MOST_PROGRAMS: usize = 6;
/// A longer name is shortened.
const LONGEST_NAME: usize = 20;
/// The columns.
const TITLES: [&str; 7] = [
    "program",
    "processes",
    "calls",
    "errors",
    "in calls",
    "CPU",
    "% CPU",
];
/// How many of them are dropped, from the right, on a page that is too narrow for all.
const DROPPED: usize = 4;

/// Writes the table, if there are several processes.
pub(super) fn write(page: &mut Page, report: &Report, options: &Options) {
    if report.programs.is_empty() {
        return;
    }
    page.gap();
    page.line(0, Style::Heading, &heading(report));
    let most = most(options);
    for (index, line) in table(report, options).iter().enumerate() {
        page.line(
            INDENT,
            if index < 2 {
                Style::Faint
            } else {
                Style::Plain
            },
            line,
        );
    }
    if let Some(hidden) = hidden(report, most) {
        page.flow(INDENT, &words(&hidden, Style::Plain));
    }
}

/// `PROGRAMS, 8 in 68 processes`.
pub(super) fn heading(report: &Report) -> String {
    format!(
        "PROGRAMS, {} in {}",
        report.programs.len(),
        plural(report.totals.processes, "process", "processes")
    )
}

/// The titles, and the cells of the first programs.
pub(super) fn rows(report: &Report, most: usize) -> Vec<[String; TITLES.len()]> {
    let all_ns = report.programs.iter().try_fold(0_u64, |sum, program| {
        sum.checked_add(program.usage.cpu_ns()?)
    });
    let shown = report
        .programs
        .iter()
        .take(most)
        .map(|program| cells(program, all_ns));
    std::iter::once(TITLES.map(str::to_owned))
        .chain(shown)
        .collect()
}

/// `and 3 more with 17 processes, 200 calls: --all shows them`.
pub(super) fn hidden(report: &Report, most: usize) -> Option<String> {
    let hidden = report
        .programs
        .get(most..)
        .filter(|hidden| !hidden.is_empty())?;
    let processes = hidden.iter().map(|program| program.processes).sum();
    let calls = hidden.iter().map(calls).sum();
    let (processes, calls) = (
        plural(processes, "process", "processes"),
        plural(calls, "call", "calls"),
    );
    Some(format!(
        "and {} more with {processes}, {calls}: --all shows them",
        hidden.len()
    ))
}

/// How many programs are shown.
pub(super) fn most(options: &Options) -> usize {
    if options.all_processes {
        usize::MAX
    } else {
        MOST_PROGRAMS
    }
}

fn table(report: &Report, options: &Options) -> Vec<String> {
    let rows = rows(report, most(options));
    let width = |columns: usize| -> usize {
        let widest = |column: usize| {
            rows.iter()
                .map(|row| text::width(&row[column]))
                .max()
                .unwrap_or(0)
        };
        (0..columns).map(widest).sum::<usize>() + 2 * columns.saturating_sub(1)
    };
    let room = options
        .width
        .map_or(usize::MAX, |width| width.saturating_sub(INDENT));
    let columns = (TITLES.len() - DROPPED..=TITLES.len())
        .rev()
        .find(|&columns| width(columns) <= room);
    let columns = columns.unwrap_or(TITLES.len() - DROPPED);
    let mut table = ruled_table();
    table.set_header(&rows[0][..columns]);
    for row in &rows[1..] {
        table.add_row(&row[..columns]);
    }
    align_columns(&mut table);
    table_lines(&table)
}

/// All calls, also those without rows if they were counted.
fn calls(program: &Program) -> u64 {
    program.syscalls.iter().map(|call| call.calls).sum::<u64>()
        + program.other_calls.map_or(0, |others| others.calls)
}

fn cells(program: &Program, all_ns: Option<u64>) -> [String; TITLES.len()] {
    let name = text::shorten(&program_name(program), LONGEST_NAME).into_owned();
    let [calls, errors, in_calls, cpu, share] = figures(
        &program.syscalls,
        program.other_calls,
        &program.usage,
        all_ns,
    );
    [
        name,
        program.processes.to_string(),
        calls,
        errors,
        in_calls,
        cpu,
        share,
    ]
}

/// Calls, errors, time in calls, CPU time and its share of `all_ns`. The calls without rows are
/// among them, if they were counted.
pub(super) fn figures(
    syscalls: &[Syscall],
    others: Option<OtherCalls>,
    usage: &Usage,
    all_ns: Option<u64>,
) -> [String; 5] {
    let known = |ns: Option<u64>| ns.map_or_else(|| UNKNOWN.to_owned(), units::duration);
    let returned = || syscalls.iter().filter(|call| call.calls > 0);
    let others = others.filter(|others| others.calls > 0);
    let times = returned()
        .map(|call| call.total_ns)
        .chain(others.map(|others| others.total_ns));
    let in_calls = times
        .into_iter()
        .try_fold(0_u64, |sum, ns| sum.checked_add(ns?));
    let cpu = usage.cpu_ns();
    let share = cpu.zip(all_ns).map_or_else(
        || UNKNOWN.to_owned(),
        |(part, whole)| units::share(part, whole),
    );
    let calls: u64 = returned()
        .map(|call| call.calls)
        .chain(others.map(|others| others.calls))
        .sum();
    let errors: u64 = syscalls
        .iter()
        .map(|call| call.errors)
        .chain(others.map(|others| others.errors))
        .sum();
    [
        calls.to_string(),
        errors.to_string(),
        known(in_calls),
        known(cpu),
        share,
    ]
}

/// Whether a figure of a program is [`UNKNOWN`].
pub(super) fn has_unknown(report: &Report, options: &Options) -> bool {
    rows(report, most(options))
        .iter()
        .flatten()
        .any(|cell| cell == UNKNOWN)
}
