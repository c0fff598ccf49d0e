//! The value of a figure in a report, as far as it is known. Figures of processes and of the run are read here, those of calls and of
//! transfers in the submodules.

mod calls;
mod transfers;

use super::{
    ast::Figure,
    facts::{self, Measured, Processes, why_inexact},
    field::{Field, Subject},
    known::{Inferred, Known},
};
use crate::{
    report::{Exit, Process, Report, Usage},
    signal,
};

/// Reads a figure from a report. The error names calls that were not counted.
pub(super) fn measure(figure: &Figure, report: &Report, inferred: Inferred) -> Result<Measured, Vec<String>> {
    match &figure.subject {
        Subject::Call(_) | Subject::Class(_) | Subject::AllCalls => calls::measure(figure, report),
        Subject::Transfer(from, to) => Ok(transfers::measure(figure, [from, to], report, inferred)),
        Subject::Exit => Ok(of_exit(figure.field, report)),
        Subject::Faults | Subject::Switches | Subject::Time | Subject::Processes => Ok(of_processes_or_run(figure, report)),
    }
}

/// A figure of the whole run, or a sum over some of its processes.
fn of_processes_or_run(figure: &Figure, report: &Report) -> Measured {
    let (sum, open) = match Processes::of(figure, report) {
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

/// A figure of the whole run; `None`: unknown, or, for the exit status and the signal, absent.
pub(crate) fn of_run(field: Field, report: &Report) -> Option<u64> {
    let unsigned = |number: i32| u64::try_from(number).unwrap_or_default();
    match field {
        Field::Code => report.exit.code.map(unsigned),
        Field::Signal => report.exit.signal.map(unsigned),
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
    /// Limit for the processes that are named.
    const MAX_NAMED: usize = 5;
    if report.processes.len() < 2 || figure.field == Field::Wall {
        return Vec::new();
    }
    if figure.field == Field::Count {
        let names: Vec<String> = facts::processes(figure, report).take(MAX_NAMED).map(facts::name_of).collect();
        return if names.is_empty() { Vec::new() } else { vec![format!("the first of them: {}", names.join(", "))] };
    }
    let mut shares: Vec<(u64, &Process)> =
        facts::processes(figure, report).filter_map(|process| Some((of_process(figure.field, process)?, process))).collect();
    shares.sort_by_key(|(share, _)| std::cmp::Reverse(*share));
    let line = |(share, process): (u64, &Process)| {
        format!("{}: {}", facts::name_of(process), Known::exactly(share).describe(figure.dimension()).trim_start_matches("is "))
    };
    shares.into_iter().filter(|(share, _)| *share > 0).take(MAX_NAMED).map(line).collect()
}

/// How the command ended. That is known even if counts are not exact.
fn of_exit(field: Field, report: &Report) -> Measured {
    let known = match (field, report.exit) {
        (_, Exit { code: None, signal: None }) => return Measured::unknown("the report does not say how the command ended"),
        (Field::Code, Exit { code: Some(code), .. }) => Known::exactly(u64::try_from(code).unwrap_or_default()),
        (Field::Signal, Exit { signal: Some(signal), .. }) => Known::exactly(u64::try_from(signal).unwrap_or_default()),
        (_, Exit { signal: Some(signal), .. }) => Known::Absent(format!("{} killed the command", signal::name(signal))),
        (_, Exit { code: Some(code), .. }) => Known::Absent(format!("the command ended with status {code}")),
    };
    Measured::plain(known)
}
