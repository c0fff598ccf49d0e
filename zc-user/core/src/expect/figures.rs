//! A figure of a report, with what it rests on.

mod calls;
mod chosen;
mod transfers;
mod unproven;
mod usage;

use super::{
    Inferred,
    ast::{Figure, Subject},
    known::Known,
    pattern::Glob,
};
use crate::report::{Process, Report};

/// What is known of a figure.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) known: Known,
    /// Why no more is known.
    pub(super) reason: Option<String>,
    /// What stands nearest to it in the report.
    pub(super) facts: Vec<String>,
}

impl Measured {
    /// Without more to say.
    fn plain(known: Known) -> Self {
        Self { known, reason: None, facts: Vec::new() }
    }

    /// Of which nothing is known, for this reason.
    fn unknown(reason: impl Into<String>) -> Self {
        Self { known: Known::Unknown, reason: Some(reason.into()), facts: Vec::new() }
    }
}

/// The sum of what is known of some figures, and whether that is all: none is unknown, and there was room for the sum.
fn sum(figures: impl Iterator<Item = Option<u64>>) -> (u64, bool) {
    figures.fold((0, true), |(sum, is_all), figure| match figure.map(|figure| u64::overflowing_add(sum, figure)) {
        Some((sum, false)) => (sum, is_all),
        Some((_, true)) => (u64::MAX, false),
        None => (sum, false),
    })
}

/// What is known of a figure. The error names calls that were not counted.
pub(super) fn measure(figure: &Figure, report: &Report, inferred: Inferred) -> Result<Measured, Vec<String>> {
    match &figure.subject {
        Subject::Call(_) | Subject::Class(_) | Subject::AllCalls => calls::measure(figure, report),
        Subject::Transfer(from, to) => Ok(transfers::measure(figure, [from, to], report, inferred)),
        Subject::Exit => Ok(usage::of_exit(figure.field, report)),
        Subject::Faults | Subject::Switches | Subject::Time | Subject::Processes => Ok(usage::measure(figure, report)),
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

/// The processes that a figure is of.
enum Processes<'a> {
    /// All of the report.
    All,
    /// These; and why there may be more.
    Chosen(Vec<&'a Process>, Option<String>),
    /// None that is known, and why there may be some.
    Unknown(String),
    /// None, and what there is instead.
    None(String),
}

/// Whether this is the name of a process, or of its program.
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
    Processes::None(format!("no process is called {}; there is {}", glob.text(), names.join(", ")))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_sum_without_room_is_a_lower_bound() {
        let sum = |figures: &[Option<u64>]| super::sum(figures.iter().copied());
        assert_eq!(sum(&[Some(1), Some(2)]), (3, true));
        assert_eq!(sum(&[Some(1), None, Some(2)]), (3, false));
        assert_eq!(sum(&[Some(u64::MAX - 1), Some(2)]), (u64::MAX, false));
        assert_eq!(sum(&[Some(u64::MAX), Some(1), Some(1)]), (u64::MAX, false));
    }
}
