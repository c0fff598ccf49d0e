//! Which figures are the same in every run.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::figures::{figures, is_sure, of_missing};
use crate::report::Report;

/// The figures of several runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Steady {
    /// How many runs there were.
    pub runs: usize,
    /// Whether every run was exact. If not, lower bounds are left out: only how the command ended is compared.
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

/// What the runs have in common. Figures that are unknown in a run are left out.
pub(super) fn of(reports: &[&Report]) -> Steady {
    let all: Vec<BTreeMap<String, Option<u64>>> = reports.iter().map(|report| figures(report)).collect();
    let names: BTreeSet<&String> = all.iter().flat_map(BTreeMap::keys).collect();
    let (mut same, mut varying) = (BTreeMap::new(), Vec::new());
    let exact = reports.iter().all(|report| report.exact);
    for name in names.into_iter().filter(|name| exact || is_sure(name)) {
        let of_run = |(figures, report): (&BTreeMap<String, Option<u64>>, &&Report)| {
            figures.get(name).copied().unwrap_or_else(|| of_missing(name, report))
        };
        let values: Option<Vec<u64>> = all.iter().zip(reports).map(of_run).collect();
        let Some((min, max)) = values.and_then(|values| Some((*values.iter().min()?, *values.iter().max()?))) else { continue };
        if min == max {
            same.insert(name.clone(), min);
        } else {
            varying.push(Varying { name: name.clone(), min, max });
        }
    }
    Steady { runs: reports.len(), exact, same, varying }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{compare::sample::report, report::sample::row};

    #[test]
    fn what_differs_between_runs_has_its_range() {
        let first = report(vec![row("read").called(3).bytes(10), row("write").called(1).bytes(5)]);
        let second = report(vec![row("read").called(3).bytes(20)]);
        let steady = of(&[&first, &second]);
        assert_eq!(steady.same["read.calls"], 3);
        let varying: Vec<_> = steady.varying.iter().map(|figure| (figure.name.as_str(), figure.min, figure.max)).collect();
        assert_eq!(varying, [("read.bytes", 10, 20), ("write.bytes", 0, 5), ("write.calls", 0, 1)]);
    }

    #[test]
    fn lower_bounds_are_not_the_same() {
        let first = report(vec![row("read").called(3).bytes(10)]);
        let mut second = first.clone();
        second.exact = false;
        let steady = of(&[&first, &second]);
        assert!(!steady.exact && steady.varying.is_empty());
        assert_eq!(steady.same.keys().collect::<Vec<_>>(), ["exit.code"]);
    }
}
