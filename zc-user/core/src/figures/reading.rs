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
    report::{OtherCalls, Report, Syscall},
    syscalls::{self, Returned, Spec},
    units::sum_all,
};

/// The figures of a report that reports are compared by.
pub(super) struct ReportFigures<'a> {
    report: &'a Report,
    /// By name; `None`: unknown.
    by_name: BTreeMap<String, Option<u64>>,
}

impl<'a> ReportFigures<'a> {
    pub(super) fn from_report(report: &'a Report) -> Self {
        let mut by_name = BTreeMap::new();
        for row in report.totals.all_calls() {
            add_call(&mut by_name, &row);
        }
        for (field, name) in run_figures() {
            let figure = of_run(field, report);
            if figure.is_some() || !is_exit(&name) {
                by_name.insert(name, figure);
            }
        }
        Self { report, by_name }
    }

    /// Every name in these reports.
    pub(super) fn names(all: &[Self]) -> BTreeSet<&str> {
        let names = all.iter().flat_map(|figures| figures.by_name.keys());
        names.map(String::as_str).collect()
    }

    /// The figure of this name; `None`: unknown. One that the report lacks is 0 if it is of a call
    /// that was counted. Calls without rows do not tell their errors by errno.
    pub(super) fn value_of(&self, name: &str) -> Option<u64> {
        if let Some(value) = self.by_name.get(name) {
            return *value;
        }
        let (call, field) = name.split_once('.')?;
        let is_bytes = name == call_name(call, FigureField::Bytes);
        if is_bytes && Spec::named(call).returned != Returned::Bytes {
            return None;
        }
        let is_counted = || {
            let counted = self.report.counted.as_ref();
            counted.is_some_and(|counted| counted.contains(call))
        };
        let is_zero = match self.sums_without_row(name) {
            Some(sums) => sums.errors == 0 || !field.starts_with("errors."),
            None => is_counted() || self.report.totals.other_syscalls.is_some(),
        };
        (is_zero && !is_of_run(name)).then_some(0)
    }

    /// The sums of the call of this figure, if it has no row.
    pub(super) fn sums_without_row(&self, name: &str) -> Option<&OtherCalls> {
        let (call, _) = name.split_once('.').filter(|_| !is_of_run(name))?;
        let mut others = self.report.totals.other_syscalls.iter().flatten();
        others.find(|one| one.name == call).map(|one| &one.sums)
    }
}

/// Adds a row. Rows of the same call by another ABI have the same name.
fn add_call(figures: &mut BTreeMap<String, Option<u64>>, row: &Syscall) {
    let mut add = |name: String, figure: Option<u64>| {
        let sum = figures.entry(name).or_insert(Some(0));
        *sum = sum_all([*sum, figure]);
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

/// Every name that a figure can have; those of errors by errno only `with_errnos`, since they are
/// many.
pub(super) fn names(with_errnos: bool) -> impl Iterator<Item = String> {
    let errnos = with_errnos.then(errno::names).into_iter().flatten();
    let errnos: Vec<&str> = errnos.collect();
    let of_calls = syscalls::known_names().flat_map(move |call| {
        let by_errno = errnos.iter().map(|errno| errno_name(call, errno));
        let by_errno: Vec<String> = by_errno.collect();
        compared_names(call).chain(by_errno)
    });
    run_figures().map(|(_, name)| name).chain(of_calls)
}

/// The figures of the runs, and which are the same in every one of them.
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

/// The figures that each of these reports knows, by name, in the order of the reports. Of a report
/// that is a lower bound they are lower bounds.
pub fn known_figures(reports: &[&Report]) -> BTreeMap<String, Vec<u64>> {
    let all: Vec<ReportFigures<'_>> = reports
        .iter()
        .map(|report| ReportFigures::from_report(report))
        .collect();
    let mut known = BTreeMap::new();
    for name in ReportFigures::names(&all) {
        let values: Option<Vec<u64>> = all.iter().map(|figures| figures.value_of(name)).collect();
        known.extend(values.map(|values| (name.to_owned(), values)));
    }
    known
}

/// Compares the figures of several runs. Those that are unknown in a run are left out.
pub(crate) fn repeatability(reports: &[&Report]) -> Repeatability {
    let (mut same, mut varying) = (BTreeMap::new(), Vec::new());
    let exact = reports.iter().all(|report| report.exact);
    for (name, values) in known_figures(reports) {
        let values = Some(values).filter(|_| exact || is_exit(&name));
        let values = values.unwrap_or_default();
        let (Some(&min), Some(&max)) = (values.iter().min(), values.iter().max()) else {
            continue;
        };
        if min == max {
            same.insert(name, min);
        } else {
            varying.push(Varying { name, min, max });
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
    use crate::report::{Options, sample};

    #[test]
    fn figures_have_the_names_that_expectations_give_them() {
        let report = Report::from_trace(&sample::copier(), &Options::default());
        let found = ReportFigures::from_report(&report);
        assert_eq!(found.value_of("read.calls"), Some(131_073));
        assert_eq!(found.value_of("write.errors.EAGAIN"), Some(5));
        assert_eq!(found.value_of("mmap.bytes"), None);
        assert_eq!(found.value_of("read.unfinished"), Some(1));
        let named: BTreeSet<String> = names(true).collect();
        for (name, figure) in &found.by_name {
            assert!(named.contains(name), "{name}");
            let Some(figure) = figure else { continue };
            let unit = if is_time(name) { "ns" } else { "" };
            let held = report.expect(&format!("{name} == {figure}{unit}"));
            held.unwrap_or_else(|error| panic!("{error}"));
        }
    }
}
