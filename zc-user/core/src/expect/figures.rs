//! The value of a figure in a report, as far as it is known. Figures of processes and of the run are read here, those of calls and of
//! transfers in the submodules.

mod calls;
mod transfers;

use super::{
    Inferred,
    ast::{Figure, Subject},
    facts,
    field::Field,
    known::Known,
    pattern::Glob,
};
use crate::{
    report::{Exit, Process, Report, Usage},
    signal,
};

/// What is known about a figure.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) known: Known,
    /// Why no more is known.
    pub(super) reason: Option<String>,
    /// The facts of the report that explain it.
    pub(super) facts: Vec<String>,
}

impl Measured {
    /// Without reason and facts.
    fn plain(known: Known) -> Self {
        Self { known, reason: None, facts: Vec::new() }
    }

    /// Unknown, for this reason.
    fn unknown(reason: impl Into<String>) -> Self {
        Self { known: Known::Unknown, reason: Some(reason.into()), facts: Vec::new() }
    }
}

/// The sum of the known figures, and whether it is complete: no figure is unknown, and the sum did not overflow.
fn sum(figures: impl Iterator<Item = Option<u64>>) -> (u64, bool) {
    figures.fold((0, true), |(sum, is_all), figure| match figure.map(|figure| u64::overflowing_add(sum, figure)) {
        Some((sum, false)) => (sum, is_all),
        Some((_, true)) => (u64::MAX, false),
        None => (sum, false),
    })
}

/// Reads a figure from a report. The error names calls that were not counted.
pub(super) fn measure(figure: &Figure, report: &Report, inferred: Inferred) -> Result<Measured, Vec<String>> {
    match &figure.subject {
        Subject::Call(_) | Subject::Class(_) | Subject::AllCalls => calls::measure(figure, report),
        Subject::Transfer(from, to) => Ok(transfers::measure(figure, [from, to], report, inferred)),
        Subject::Exit => Ok(of_exit(figure.field, report)),
        Subject::Faults | Subject::Switches | Subject::Time | Subject::Processes => Ok(of_processes_or_run(figure, report)),
    }
}

/// Why all numbers of a report are lower bounds; `None` if they are not.
fn why_inexact(report: &Report) -> Option<String> {
    if report.exact {
        return None;
    }
    let losses: Vec<String> = report.losses.iter().map(|(name, count)| format!("{name}: {count}")).collect();
    Some(format!("the report is a lower bound: {}", losses.join(", ")))
}

/// The processes that a figure is read from.
enum Processes<'a> {
    /// All of the report.
    All,
    /// These, and why there may be more.
    Chosen(Vec<&'a Process>, Option<String>),
    /// No known process, and why there may be some.
    Unknown(String),
    /// None, and which ones there are instead.
    None(String),
}

/// Whether a pattern matches the name of a process or of its program.
pub(super) fn is_called(process: &Process, glob: &Glob) -> bool {
    [&process.comm, &process.exe].into_iter().flatten().any(|name| glob.matches(name))
}

/// The processes that a figure is of.
fn processes<'a>(figure: &Figure, report: &'a Report) -> Processes<'a> {
    let Some(glob) = &figure.selectors.process else { return Processes::All };
    let chosen: Vec<&Process> = report.processes.iter().filter(|process| is_called(process, glob)).collect();
    let has_nameless = || report.processes.iter().any(|process| process.comm.is_none() && process.exe.is_none());
    let open = match why_inexact(report) {
        Some(why) => Some(why),
        None if report.processes.is_empty() => Some("the report has sums only, no processes".to_owned()),
        None if has_nameless() => Some("not all processes' names are known".to_owned()),
        None => None,
    };
    match open {
        open if !chosen.is_empty() => return Processes::Chosen(chosen, open),
        Some(why) => return Processes::Unknown(why),
        None => {}
    }
    let mut names: Vec<&str> = report.processes.iter().filter_map(|process| process.comm.as_deref()).collect();
    names.sort_unstable();
    names.dedup();
    Processes::None(format!("no process is called {}; the report has {}", glob.text(), names.join(", ")))
}

/// A figure of the whole run, or a sum over some of its processes.
fn of_processes_or_run(figure: &Figure, report: &Report) -> Measured {
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

#[cfg(test)]
mod tests {
    #[test]
    fn a_sum_that_overflows_is_a_lower_bound() {
        let sum = |figures: &[Option<u64>]| super::sum(figures.iter().copied());
        assert_eq!(sum(&[Some(1), Some(2)]), (3, true));
        assert_eq!(sum(&[Some(1), None, Some(2)]), (3, false));
        assert_eq!(sum(&[Some(u64::MAX - 1), Some(2)]), (u64::MAX, false));
        assert_eq!(sum(&[Some(u64::MAX), Some(1), Some(1)]), (u64::MAX, false));
    }
}
