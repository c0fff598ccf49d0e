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
    use crate::{compare::sample::report, report::sample::row};

    fn tolerances(texts: &[&str]) -> Tolerances {
        let mut tolerances = Tolerances::default();
        for text in texts {
            tolerances.add(text.parse().expect("a tolerance"));
        }
        tolerances
    }

    #[test]
    fn the_system_calls_time_and_exit_are_counted_like_others() {
        let mut before = report(vec![
            row("time").called(5).bytes(0),
            row("exit").called(1).bytes(0),
        ]);
        let mut after = report(vec![row("time").called(7).bytes(0)]);
        let found = |before: &Report, after: &Report, texts: &[&str]| -> Vec<_> {
            let mut all = differences(before, after, &tolerances(texts));
            all.retain(|found| found.metric.rsplit('.').next() == Some("calls"));
            all.into_iter()
                .map(|found| (found.metric, found.baseline, found.now, found.state))
                .collect()
        };
        let states = |exit, time| {
            [("exit.calls", 1, 0, exit), ("time.calls", 5, 7, time)]
                .map(|(name, before, now, state)| (name.to_owned(), Some(before), Some(now), state))
        };
        assert_eq!(
            found(&before, &after, &[]),
            states(DifferenceState::Beyond, DifferenceState::Beyond)
        );
        assert_eq!(
            found(&before, &after, &["time.calls=2"]),
            states(DifferenceState::Beyond, DifferenceState::Tolerated)
        );
        assert!(
            "time.calls=10ms"
                .parse::<crate::figures::tolerance::Tolerance>()
                .is_err()
        );
        assert!(!tolerances(&["time.calls=2"]).depend_on_load());
        for report in [&mut before, &mut after] {
            report.exact = false;
        }
        assert_eq!(
            found(&before, &after, &[]),
            states(DifferenceState::Unknown, DifferenceState::Unknown)
        );
    }

    fn states(texts: &[&str]) -> Vec<(String, DifferenceState)> {
        let before = report(vec![
            row("read").called(100).bytes(1000),
            row("write").called(1).bytes(1),
        ]);
        let mut after = report(vec![
            row("read").called(105).bytes(1000),
            row("splice").called(1).bytes(1),
        ]);
        after.wall_ns = Some(1);
        let all = differences(&before, &after, &tolerances(texts));
        all.into_iter()
            .map(|difference| (difference.metric, difference.state))
            .collect()
    }

    #[test]
    fn counts_are_compared_exactly_and_times_are_ignored() {
        let found = states(&[]);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "read.calls",
                "splice.bytes",
                "splice.calls",
                "write.bytes",
                "write.calls"
            ]
        );
        assert!(
            found
                .iter()
                .all(|(_, state)| *state == DifferenceState::Beyond),
            "{found:?}"
        );
    }

    #[test]
    fn the_last_tolerance_that_fits_counts() {
        let found = states(&[
            "*.calls=10%",
            "splice.calls=ignore",
            "*.bytes=1B",
            "time.wall=1%",
        ]);
        let expected = [
            ("read.calls", DifferenceState::Tolerated),
            ("splice.bytes", DifferenceState::Tolerated),
            ("time.wall", DifferenceState::Beyond),
            ("write.bytes", DifferenceState::Tolerated),
            ("write.calls", DifferenceState::Beyond),
        ];
        assert_eq!(
            found,
            expected.map(|(name, state)| (name.to_owned(), state))
        );
    }

    #[test]
    fn another_exit_status_or_signal_is_a_difference() {
        let before = report(vec![row("read").called(1).bytes(1)]);
        let mut after = before.clone();
        after.exit = crate::report::Exit {
            code: None,
            signal: Some(11),
        };
        let found = |after: &Report| -> Vec<_> {
            let all = differences(&before, after, &Tolerances::default());
            all.into_iter()
                .map(|found| (found.metric, found.baseline, found.now, found.state))
                .collect()
        };
        let expected = [
            ("exit.code", Some(0), None),
            ("exit.signal", None, Some(11)),
        ];
        assert_eq!(
            found(&after),
            expected.map(|(name, before, now)| (
                name.to_owned(),
                before,
                now,
                DifferenceState::Beyond
            ))
        );
        after.exit.signal = None;
        assert_eq!(
            found(&after),
            [(
                "exit.code".to_owned(),
                Some(0),
                None,
                DifferenceState::Unknown
            )]
        );
    }

    #[test]
    fn a_lower_bound_is_an_unknown_difference() {
        let before = report(vec![row("read").called(1).bytes(1)]);
        let mut after = before.clone();
        after.exact = false;
        let states: BTreeSet<_> = differences(&before, &after, &Tolerances::default())
            .iter()
            .map(|found| found.state as u8)
            .collect();
        assert_eq!(states, BTreeSet::from([DifferenceState::Unknown as u8]));
    }
}
