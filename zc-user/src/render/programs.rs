//! The table of programs: many processes as a few lines, the program with the most CPU time first.

use super::{
    listing::Listing,
    page::Options,
    section::{plural, program_name},
    text::{self, known},
};
use crate::{
    report::{OtherCalls, Program, Report, Syscall, Usage},
    units::{self, UNKNOWN},
};

/// How many programs are shown without `--all`.
const MOST_PROGRAMS: usize = 6;
/// A longer name is shortened.
const LONGEST_NAME: usize = 20;

/// How many programs are shown.
pub(super) fn most(options: &Options) -> usize {
    if options.all_processes {
        usize::MAX
    } else {
        MOST_PROGRAMS
    }
}

/// The table, if there are several processes. Its heading is `PROGRAMS, 8 in 68 processes`.
pub(super) fn listing(report: &Report, most: usize) -> Option<Listing<'static>> {
    let programs = &report.programs;
    if programs.is_empty() {
        return None;
    }
    let mut times = programs.iter().map(|program| program.usage.cpu_ns());
    let all_ns = times.try_fold(0_u64, |sum, ns| sum.checked_add(ns?));
    let (shown, hidden) = programs.split_at(most.min(programs.len()));
    let processes = plural(report.totals.processes, "process", "processes");
    Some(Listing {
        heading: format!("PROGRAMS, {} in {processes}", programs.len()),
        titles: &[
            "program",
            "processes",
            "calls",
            "errors",
            "in calls",
            "CPU",
            "% CPU",
        ],
        least_columns: 3,
        rows: shown.iter().map(|program| cells(program, all_ns)).collect(),
        hidden: (!hidden.is_empty()).then(|| hidden_programs(hidden)),
    })
}

/// `and 3 more with 17 processes, 200 calls: --all shows them`.
fn hidden_programs(hidden: &[Program]) -> String {
    let processes = hidden.iter().map(|program| program.processes).sum();
    let calls = |program: &Program| {
        let others = program.other_calls.map_or(0, |others| others.calls);
        program.syscalls.iter().map(|call| call.calls).sum::<u64>() + others
    };
    format!(
        "and {} more with {}, {}: --all shows them",
        hidden.len(),
        plural(processes, "process", "processes"),
        plural(hidden.iter().map(calls).sum(), "call", "calls")
    )
}

fn cells(program: &Program, all_ns: Option<u64>) -> Vec<String> {
    let name = text::shorten(&program_name(program), LONGEST_NAME).into_owned();
    let figures = figures(
        &program.syscalls,
        program.other_calls,
        &program.usage,
        all_ns,
    );
    [name, program.processes.to_string()]
        .into_iter()
        .chain(figures)
        .collect()
}

/// Calls, errors, time in calls, CPU time and its share of `all_ns`. The calls without rows are
/// among them, if they were counted.
pub(super) fn figures(
    syscalls: &[Syscall],
    others: Option<OtherCalls>,
    usage: &Usage,
    all_ns: Option<u64>,
) -> [String; 5] {
    let with_rows = syscalls
        .iter()
        .map(|call| (call.calls, call.errors, call.total_ns));
    let others = others.map(|others| (others.calls, others.errors, others.total_ns));
    let (mut calls, mut errors, mut in_calls) = (0, 0, Some(0_u64));
    for (returned, failed, total_ns) in with_rows.chain(others).filter(|(calls, ..)| *calls > 0) {
        calls += returned;
        errors += failed;
        in_calls = in_calls
            .zip(total_ns)
            .and_then(|(sum, ns)| sum.checked_add(ns));
    }
    let cpu_ns = usage.cpu_ns();
    let share = cpu_ns
        .zip(all_ns)
        .map(|(part, whole)| units::share(part, whole));
    [
        calls.to_string(),
        errors.to_string(),
        known(in_calls, units::duration),
        known(cpu_ns, units::duration),
        share.unwrap_or_else(|| UNKNOWN.to_owned()),
    ]
}
