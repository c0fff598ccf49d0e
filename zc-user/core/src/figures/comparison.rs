//! The one comparison of two reports: which figures differ, and whether by more than they may. It
//! covers every call that both counted, with a row or without.

use serde::Serialize;

use super::{
    list::is_exit,
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
    let reports = [baseline, now];
    let figures = reports.map(ReportFigures::from_report);
    let are_exact = reports.iter().all(|report| report.exact);
    let know_end = |report: &&Report| report.exit.code.or(report.exit.signal).is_some();
    let know_ends = reports.iter().all(know_end);
    let mut found = Vec::new();
    for name in ReportFigures::names(&figures) {
        let allowed = tolerances.allowed_for(name);
        let [before, after] = figures.each_ref().map(|figures| figures.value(name));
        let is_exit = is_exit(name);
        let is_sure = are_exact || is_exit;
        let lacks_row = || {
            figures
                .iter()
                .any(|one| one.sums_without_row(name).is_some())
        };
        let state = match (before, after) {
            _ if allowed == Allowed::Anything => continue,
            (before, after) if before == after && (is_sure || before.is_none()) => continue,
            // One of the reports has only the sums of this call, or nothing of calls without rows.
            (None, _) | (_, None) if lacks_row() => continue,
            (Some(before), Some(after)) if is_sure && allowed.covers(before, after) => {
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
            tolerance: allowed.describe(),
            state,
        });
    }
    found
}

/// How many figures two reports are compared by.
pub(super) fn count_compared(reports: [&Report; 2], tolerances: &Tolerances) -> usize {
    let figures = reports.map(ReportFigures::from_report);
    let names = ReportFigures::names(&figures).into_iter();
    let is_compared = |name: &&str| tolerances.allowed_for(name) != Allowed::Anything;
    names.filter(is_compared).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        compare::sample::report, figures::tolerance::tests::tolerances, report::Exit,
        report::sample::row,
    };
    use DifferenceState::{Beyond, Tolerated, Unknown};

    /// The differences with these tolerances, by name.
    #[track_caller]
    fn assert_found(
        [before, after]: [&Report; 2],
        texts: &[&str],
        expected: &[(&str, DifferenceState)],
    ) {
        let all = differences(before, after, &tolerances(texts));
        let found: Vec<_> = all.iter().map(|one| (&*one.metric, one.state)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn counts_are_compared_exactly_and_the_last_tolerance_that_fits_counts() {
        let before = report(vec![
            row("read").called(100).bytes(1000),
            row("write").called(1).bytes(1),
        ]);
        let mut after = report(vec![
            row("read").called(105).bytes(1000),
            row("splice").called(1).bytes(1),
        ]);
        after.wall_ns = Some(1);
        let (both, texts) = (
            [&before, &after],
            [
                "*.calls=10%",
                "splice.calls=ignore",
                "*.bytes=1B",
                "time.wall=1%",
            ],
        );
        assert_found(
            both,
            &[],
            &[
                ("read.calls", Beyond),
                ("splice.bytes", Beyond),
                ("splice.calls", Beyond),
                ("write.bytes", Beyond),
                ("write.calls", Beyond),
            ],
        );
        assert_found(
            both,
            &texts,
            &[
                ("read.calls", Tolerated),
                ("splice.bytes", Tolerated),
                ("time.wall", Beyond),
                ("write.bytes", Tolerated),
                ("write.calls", Beyond),
            ],
        );
    }

    #[test]
    fn the_system_calls_time_and_exit_are_counted_like_others() {
        let mut before = report(vec![
            row("time").called(5).bytes(3),
            row("exit").called(1).bytes(0),
        ]);
        let mut after = report(vec![row("time").called(7).bytes(3)]);
        let states = |exit, time| [("exit.calls", exit), ("time.calls", time)];
        assert_found([&before, &after], &[], &states(Beyond, Beyond));
        let tolerated = &["time.calls=2"];
        assert_found([&before, &after], tolerated, &states(Beyond, Tolerated));
        // A lower bound tells nothing, also where it is the same.
        (before.exact, after.exact) = (false, false);
        let all = differences(&before, &after, &Tolerances::default());
        assert!(all.iter().any(|one| one.metric == "exit.calls"), "{all:?}");
        assert!(all.iter().all(|one| one.state == Unknown), "{all:?}");
    }

    #[test]
    fn another_exit_status_or_signal_is_a_difference() {
        let before = report(vec![row("read").called(1).bytes(1)]);
        let mut after = before.clone();
        let (code, signal) = (None, Some(11));
        after.exit = Exit { code, signal };
        let killed = [("exit.code", Beyond), ("exit.signal", Beyond)];
        assert_found([&before, &after], &[], &killed);
        let values = differences(&before, &after, &Tolerances::default());
        let values: Vec<_> = values.iter().map(|one| (one.baseline, one.now)).collect();
        assert_eq!(values, [(Some(0), None), (None, Some(11))]);
        after.exit.signal = None;
        assert_found([&before, &after], &[], &[("exit.code", Unknown)]);
    }
}
