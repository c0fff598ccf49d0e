//! The figures of a report by the names that expectations give them, and which of them repeat from
//! run to run.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::list::{
    FigureField, call_name, compared_names, errno_name, is_exit, is_of_run, of_row, of_run,
    run_figures,
};
use crate::{
    errno,
    report::{OtherCalls, Report, Syscall, Totals},
    syscalls,
};

/// All figures that reports are compared by; `None`: unknown.
pub(super) fn figures(report: &Report) -> BTreeMap<String, Option<u64>> {
    let mut figures = BTreeMap::new();
    for row in &report.totals.syscalls {
        add_call(&mut figures, row);
    }
    for row in rows_of_other_calls(&report.totals) {
        add_call(&mut figures, &row);
    }
    for (field, name) in run_figures() {
        let figure = of_run(field, report);
        if figure.is_some() || !is_exit(&name) {
            figures.insert(name, figure);
        }
    }
    figures
}

/// Adds a row. Rows of the same call by another ABI have the same name.
fn add_call(figures: &mut BTreeMap<String, Option<u64>>, row: &Syscall) {
    let mut add = |name: String, figure: Option<u64>| {
        let sum = figures.entry(name).or_insert(Some(0));
        *sum = sum
            .zip(figure)
            .and_then(|(sum, figure)| sum.checked_add(figure));
    };
    for (errno, count) in &row.errnos {
        add(errno_name(&row.name, errno), Some(*count));
    }
    let mut add_field = |field| add(call_name(&row.name, field), of_row(field, row));
    add_field(FigureField::Calls);
    add_field(FigureField::Errors);
    if row.unfinished > 0 {
        add_field(FigureField::Unfinished);
    }
    if row.calls > 0 {
        add_field(FigureField::Bytes);
    }
}

/// The calls without rows as rows that know their sums alone.
pub(crate) fn rows_of_other_calls(totals: &Totals) -> impl Iterator<Item = Syscall> {
    totals.other_syscalls.iter().flatten().map(|call| Syscall {
        name: call.name.clone(),
        abi: call.abi.clone(),
        calls: call.sums.calls,
        errors: call.sums.errors,
        errnos: BTreeMap::new(),
        unfinished: call.sums.unfinished,
        bytes: None,
        requested_bytes: None,
        total_ns: call.sums.total_ns,
        min_ns: None,
        max_ns: None,
        mean_ns: None,
        p50_ns: None,
        p90_ns: None,
        p99_ns: None,
        histogram: Vec::new(),
        callers: None,
    })
}

/// The sums of the call of this figure, if it has no row.
pub(super) fn call_without_row<'a>(name: &str, report: &'a Report) -> Option<&'a OtherCalls> {
    let call = name.split('.').next().unwrap_or_default();
    let mut others = report.totals.other_syscalls.iter().flatten();
    others
        .find(|other| other.name == call && !is_of_run(name))
        .map(|other| &other.sums)
}

/// The value of a figure that a report lacks: 0 if it is of a call that was counted, else unknown.
/// Calls without rows do not tell their errors by errno.
pub(super) fn value_if_absent(name: &str, report: &Report) -> Option<u64> {
    let call = name.split('.').next().unwrap_or_default();
    let is_counted = || {
        let counted = report.counted.as_ref();
        counted.is_some_and(|counted| counted.contains(call))
    };
    let is_zero = match call_without_row(name, report) {
        Some(sums) => sums.errors == 0 || !name[call.len()..].starts_with(".errors."),
        None => is_counted() || report.totals.other_syscalls.is_some(),
    };
    (is_zero && !is_of_run(name)).then_some(0)
}

/// Every name that a figure can have; those of errors by errno only `with_errnos`, since they are
/// many.
pub(super) fn names(with_errnos: bool) -> impl Iterator<Item = String> {
    let errnos: Vec<&str> = with_errnos
        .then(errno::names)
        .into_iter()
        .flatten()
        .collect();
    let of_calls = syscalls::known_names().flat_map(move |call| {
        let by_errno: Vec<String> = errnos.iter().map(|errno| errno_name(call, errno)).collect();
        compared_names(call).chain(by_errno)
    });
    run_figures().map(|(_, name)| name).chain(of_calls)
}

/// Which figures are the same in every one of several runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Repeatability {
    /// How many runs there were.
    pub runs: usize,
    /// Whether every run was exact. If not, only the exit status is compared, since counts are
    /// lower bounds.
    pub exact: bool,
    /// Figures that were the same in every run.
    pub same: BTreeMap<String, u64>,
    /// Figures that varied.
    pub varying: Vec<Varying>,
}

/// A figure that varied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Varying {
    /// Its name.
    pub name: String,
    /// The smallest.
    pub min: u64,
    /// The largest.
    pub max: u64,
}

/// Compares the figures of several runs. Those that are unknown in a run are left out.
pub(crate) fn repeatability(reports: &[&Report]) -> Repeatability {
    let all: Vec<BTreeMap<String, Option<u64>>> =
        reports.iter().map(|report| figures(report)).collect();
    let names: BTreeSet<&String> = all.iter().flat_map(BTreeMap::keys).collect();
    let (mut same, mut varying) = (BTreeMap::new(), Vec::new());
    let exact = reports.iter().all(|report| report.exact);
    for name in names.into_iter().filter(|name| exact || is_exit(name)) {
        let of_run = |(figures, report): (&BTreeMap<String, Option<u64>>, &&Report)| {
            figures
                .get(name)
                .copied()
                .unwrap_or_else(|| value_if_absent(name, report))
        };
        let values: Option<Vec<u64>> = all.iter().zip(reports).map(of_run).collect();
        let Some((min, max)) =
            values.and_then(|values| Some((*values.iter().min()?, *values.iter().max()?)))
        else {
            continue;
        };
        if min == max {
            same.insert(name.clone(), min);
        } else {
            varying.push(Varying {
                name: name.clone(),
                min,
                max,
            });
        }
    }
    Repeatability {
        runs: reports.len(),
        exact,
        same,
        varying,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::list::is_time;
    use crate::{
        compare::sample::report,
        report::{
            Options,
            sample::{self, row},
        },
    };

    #[test]
    fn figures_have_the_names_that_expectations_give_them() {
        let report = Report::from_trace(&sample::copier(), &Options::default());
        let found = figures(&report);
        assert_eq!(found["read.calls"], Some(131_073));
        assert_eq!(found["write.errors.EAGAIN"], Some(5));
        assert_eq!(found["mmap.bytes"], None);
        assert_eq!(found["read.unfinished"], Some(1));
        let named: BTreeSet<String> = names(true).collect();
        for (name, figure) in &found {
            assert!(named.contains(name), "{name}");
            let Some(figure) = figure else { continue };
            let unit = if is_time(name) { "ns" } else { "" };
            let held = report.expect(&format!("{name} == {figure}{unit}"));
            held.unwrap_or_else(|error| panic!("{error}"));
        }
    }

    #[test]
    fn a_figure_that_varies_has_its_range() {
        let first = report(vec![
            row("read").called(3).bytes(10),
            row("write").called(1).bytes(5),
        ]);
        let second = report(vec![row("read").called(3).bytes(20)]);
        let found = repeatability(&[&first, &second]);
        assert_eq!(found.same["read.calls"], 3);
        let varying = found.varying.iter();
        let varying = varying.map(|figure| (figure.name.as_str(), figure.min, figure.max));
        assert_eq!(
            varying.collect::<Vec<_>>(),
            [
                ("read.bytes", 10, 20),
                ("write.bytes", 0, 5),
                ("write.calls", 0, 1)
            ]
        );
    }

    #[test]
    fn lower_bounds_do_not_count_as_the_same() {
        let first = report(vec![row("read").called(3).bytes(10)]);
        let mut second = first.clone();
        second.exact = false;
        let found = repeatability(&[&first, &second]);
        assert!(!found.exact && found.varying.is_empty());
        assert_eq!(found.same.keys().collect::<Vec<_>>(), ["exit.code"]);
    }
}
