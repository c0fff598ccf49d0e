//! The one comparison of two reports: which figures differ, and whether by more than they may. It
//! covers every call that both counted, with a row or without.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{
    list::is_exit,
    reading::{call_without_row, figures, value_if_absent},
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
    let figures = reports.map(figures);
    let are_exact = reports.iter().all(|report| report.exact);
    let know_ends = reports
        .iter()
        .all(|report| report.exit.code.or(report.exit.signal).is_some());
    let names: BTreeSet<&String> = figures.iter().flat_map(BTreeMap::keys).collect();
    let difference = |name: &String| {
        let allowed = tolerances.allowed_for(name);
        let value = |side: usize| {
            figures[side]
                .get(name)
                .copied()
                .unwrap_or_else(|| value_if_absent(name, reports[side]))
        };
        let is_sure = is_exit(name);
        let lacks_row = || {
            let mut reports = reports.iter();
            reports.any(|report| call_without_row(name, report).is_some())
        };
        let (before, after) = (value(0), value(1));
        let state = match (before, after) {
            _ if allowed == Allowed::Anything => return None,
            (before, after) if before == after && (are_exact || is_sure) => return None,
            (None, None) => return None,
            // One of the reports has only the sums of this call, or nothing of calls without rows.
            (None, _) | (_, None) if lacks_row() => return None,
            (Some(before), Some(after))
                if (are_exact || is_sure) && allowed.covers(before, after) =>
            {
                DifferenceState::Tolerated
            }
            (Some(_), Some(_)) if are_exact => DifferenceState::Beyond,
            // Both reports say how the command ended: a figure that is missing is absent, not
            // unknown.
            _ if is_sure && know_ends => DifferenceState::Beyond,
            _ => DifferenceState::Unknown,
        };
        Some(Difference {
            metric: name.clone(),
            baseline: before,
            now: after,
            tolerance: allowed.describe(),
            state,
        })
    };
    names.into_iter().filter_map(difference).collect()
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
    fn found(before: &Report, after: &Report, texts: &[&str]) -> Vec<(String, DifferenceState)> {
        let all = differences(before, after, &tolerances(texts));
        all.into_iter()
            .map(|found| (found.metric, found.state))
            .collect()
    }

    #[track_caller]
    fn assert_found(
        [before, after]: [&Report; 2],
        texts: &[&str],
        expected: &[(&str, DifferenceState)],
    ) {
        let all = found(before, after, texts);
        let all: Vec<_> = all.iter().map(|(name, state)| (&**name, *state)).collect();
        assert_eq!(all, expected);
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
        assert_found(
            [&before, &after],
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
            [&before, &after],
            &[
                "*.calls=10%",
                "splice.calls=ignore",
                "*.bytes=1B",
                "time.wall=1%",
            ],
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
        after.exact = false;
        before.exact = false;
        let all = found(&before, &after, &[]);
        assert!(all.contains(&("exit.calls".to_owned(), Unknown)), "{all:?}");
        assert!(all.iter().all(|(_, state)| *state == Unknown), "{all:?}");
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
