//! Figures of processes and of the run: faults, switches, times, the end.

use super::{Measured, Processes, processes, why_inexact};
use crate::{
    expect::{ast::Figure, facts, field::Field, known::Known},
    report::{Exit, Process, Report, Usage},
    signal,
};

/// A figure of the whole run, or a sum over some of its processes.
pub(super) fn measure(figure: &Figure, report: &Report) -> Measured {
    let (sum, open) = match processes(figure, report) {
        Processes::None(_) if figure.field == Field::Count => return Measured::plain(Known::exactly(0)),
        Processes::None(why) => return Measured::plain(Known::Missing(why)),
        Processes::Unknown(why) => return Measured::unknown(why),
        Processes::All => (of_run(figure.field, report), why_inexact(report)),
        Processes::Chosen(chosen, open) => (of_processes(figure.field, &chosen), open),
    };
    match (sum, open) {
        (Some(sum), None) => Measured { facts: shares(figure, report), ..Measured::plain(Known::exactly(sum)) },
        (Some(sum), reason) => Measured { known: Known::Between(sum.into(), None), reason, facts: shares(figure, report) },
        (None, _) => Measured::unknown(format!("the backend {} does not know it", report.backend)),
    }
}

fn of_run(field: Field, report: &Report) -> Option<u64> {
    match field {
        Field::Wall => report.wall_ns,
        Field::Count => Some(report.totals.processes),
        Field::Threads => Some(report.totals.threads),
        field => of_usage(field, &report.totals.usage),
    }
}

fn of_processes(field: Field, processes: &[&Process]) -> Option<u64> {
    match field {
        Field::Count => u64::try_from(processes.len()).ok(),
        field => processes.iter().map(|process| of_process(field, process)).try_fold(0, |sum: u64, part| sum.checked_add(part?)),
    }
}

fn of_process(field: Field, process: &Process) -> Option<u64> {
    if field == Field::Threads { Some(process.threads) } else { of_usage(field, &process.usage) }
}

fn of_usage(field: Field, usage: &Usage) -> Option<u64> {
    match field {
        Field::User => usage.user_ns,
        Field::System => usage.system_ns,
        Field::Voluntary => usage.context_switches.voluntary,
        Field::Involuntary => usage.context_switches.involuntary,
        Field::Minor => usage.page_faults.minor,
        Field::Major => usage.page_faults.major,
        _ => None,
    }
}

/// The processes with the largest shares, if there are several.
fn shares(figure: &Figure, report: &Report) -> Vec<String> {
    /// How many are named.
    const MOST: usize = 5;
    if report.processes.len() < 2 || figure.field == Field::Wall {
        return Vec::new();
    }
    if figure.field == Field::Count {
        let names: Vec<String> = facts::processes(figure, report).take(MOST).map(facts::name_of).collect();
        return if names.is_empty() { Vec::new() } else { vec![format!("the first of them: {}", names.join(", "))] };
    }
    let mut shares: Vec<(u64, &Process)> =
        facts::processes(figure, report).filter_map(|process| Some((of_process(figure.field, process)?, process))).collect();
    shares.sort_by_key(|(share, _)| std::cmp::Reverse(*share));
    let line = |(share, process): (u64, &Process)| {
        format!("{}: {}", facts::name_of(process), Known::exactly(share).describe(figure.dimension()).trim_start_matches("is "))
    };
    shares.into_iter().filter(|(share, _)| *share > 0).take(MOST).map(line).collect()
}

/// How the command ended. That is known also where counts are not exact.
pub(super) fn of_exit(field: Field, report: &Report) -> Measured {
    let known = match (field, report.exit) {
        (_, Exit { code: None, signal: None }) => return Measured::unknown("the report does not say how the command ended"),
        (Field::Code, Exit { code: Some(code), .. }) => Known::exactly(u64::try_from(code).unwrap_or_default()),
        (Field::Signal, Exit { signal: Some(signal), .. }) => Known::exactly(u64::try_from(signal).unwrap_or_default()),
        (_, Exit { signal: Some(signal), .. }) => Known::Absent(format!("{} killed the command", signal::name(signal))),
        (_, Exit { code: Some(code), .. }) => Known::Absent(format!("the command ended with status {code}")),
    };
    Measured::plain(known)
}
