//! The one comparison of two reports: which figures differ, and whether by more than they may. It
//! covers every call that both counted, with a row or without.

use serde::Serialize;

use super::{
    arrival::{BY_ARRIVAL, may_be_by_piece, received_bytes},
    list::{is_exit, is_number_of_calls},
    reading::ReportFigures,
    tolerance::{Allowed, Tolerances},
};
use crate::report::Report;

/// A figure that is not the same in both reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its name.
    pub metric: String,
    /// Its value in the first report, the baseline. `None`: unknown; or, for an exit status or
    /// signal that is [beyond](DifferenceState::Beyond), absent.
    pub baseline: Option<u64>,
    /// Its value now; `None` likewise.
    pub now: Option<u64>,
    /// How far it may be off.
    pub tolerance: String,
    /// Whether that is tolerated.
    pub state: DifferenceState,
}

/// Whether a difference is tolerated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceState {
    /// Within its tolerance.
    Tolerated,
    /// Beyond it.
    Beyond,
    /// One of the two values is unknown or a lower bound.
    Unknown,
}

/// The figures that differ, except those that are ignored.
pub fn differences(baseline: &Report, now: &Report, tolerances: &Tolerances) -> Vec<Difference> {
    compare_figures([baseline, now], tolerances).differing
}

/// What a comparison found.
#[derive(Debug)]
pub(super) struct FigureComparison {
    /// How many figures are compared.
    pub(super) compared: usize,
    /// The sums of the compared calls, in both reports. Calls that only one of them knows are in
    /// neither.
    pub(super) calls: [u64; 2],
    /// The figures that differ.
    pub(super) differing: Vec<Difference>,
}

/// Compares all figures that are not ignored.
pub(super) fn compare_figures(reports: [&Report; 2], tolerances: &Tolerances) -> FigureComparison {
    let figures = reports.map(ReportFigures::from_report);
    let are_exact = reports.iter().all(|report| report.exact);
    let know_end = |report: &&Report| report.exit.code.or(report.exit.signal).is_some();
    let know_ends = reports.iter().all(know_end);
    let vary_by_arrival = reports.iter().any(|report| received_bytes(report));
    let (mut count, mut calls, mut found) = (0, [0_u64; 2], Vec::new());
    for name in ReportFigures::names(&figures) {
        let allowed = tolerances.allowed_for(name);
        if allowed == Allowed::Anything {
            continue;
        }
        count += 1;
        let [before, after] = figures.each_ref().map(|figures| figures.value_of(name));
        if let (Some(before), Some(after), true) = (before, after, is_number_of_calls(name)) {
            calls = [
                calls[0].saturating_add(before),
                calls[1].saturating_add(after),
            ];
        }
        let varies = vary_by_arrival && may_be_by_piece(name) && !tolerances.has_one_for(name);
        let is_exit = is_exit(name);
        let is_sure = are_exact || is_exit;
        let lacks_row = || {
            figures
                .iter()
                .any(|one| one.sums_without_row(name).is_some())
        };
        let state = match (before, after) {
            (before, after) if before == after && (is_sure || before.is_none()) => continue,
            // One of the reports has only the sums of this call, or nothing of calls without rows.
            (None, _) | (_, None) if lacks_row() => continue,
            (Some(before), Some(after))
                if is_sure && (varies || allowed.covers_change(before, after)) =>
            {
                DifferenceState::Tolerated
            }
            (Some(_), Some(_)) if are_exact => DifferenceState::Beyond,
            // Both reports say how the command ended: a figure that is missing is absent, not
            // unknown.
            _ if is_exit && know_ends => DifferenceState::Beyond,
            _ => DifferenceState::Unknown,
        };
        found.push(Difference {
            metric: name.to_owned(),
            baseline: before,
            now: after,
            tolerance: if varies {
                BY_ARRIVAL.to_owned()
            } else {
                allowed.describe()
            },
            state,
        });
    }
    FigureComparison {
        compared: count,
        calls,
        differing: found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        figures::{reading::repeatability, tolerance::tests::tolerances},
        golden::{GoldenCase, check_golden},
        report::sample::files::Scene,
    };

    #[test]
    fn reports_are_compared_as_the_golden_file_says() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/figures/tests/comparisons.txt"
        );
        check_golden(path, GoldenCase::Lines, |case| {
            let (before, now) = case.split_once("and\n").expect("two reports");
            let (now, tolerated) = now.split_once("with ").unwrap_or((now, ""));
            let tolerated: Vec<&str> = tolerated.split_whitespace().collect();
            let [before, now] = [before, now].map(|text| Scene::read(text).report());
            let all = differences(&before, &now, &tolerances(&tolerated));
            let number = |number: Option<u64>| number.map_or("-".to_owned(), |n| n.to_string());
            let line = |one: &Difference| {
                let [before, now] = [one.baseline, one.now].map(number);
                format!("{} {before} {now} {:?}", one.metric, one.state)
            };
            let lines: Vec<String> = all.iter().map(line).collect();
            if lines.is_empty() {
                "the same".to_owned()
            } else {
                lines.join("\n")
            }
        });
    }

    #[test]
    fn a_figure_that_varies_has_its_range_unless_it_is_a_lower_bound() {
        let of = |texts: [&str; 2]| {
            let reports = texts.map(|text| Scene::read(text).report());
            repeatability(&reports.each_ref())
        };
        let found = of(["x: read - 3 10, write - 1 5", "x: read - 3 20"]);
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
        let bound = "x: read - 3 10\n@ lost uncounted_calls 1";
        let found = of(["x: read - 3 10", bound]);
        assert!(!found.exact && found.varying.is_empty());
        assert_eq!(found.same.keys().collect::<Vec<_>>(), ["exit.code"]);
    }
}
