//! A report beside an earlier one: which figures differ by more than they may.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{
    figures::{figures, is_sure, of_missing},
    tolerance::{Allowed, Tolerances},
};
use crate::report::Report;

/// A figure that is not as in the baseline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its name.
    pub metric: String,
    /// In the baseline; `None`: unknown, or, of a status or signal that is [beyond](State::Beyond), that there was none.
    pub baseline: Option<u64>,
    /// Now; `None` likewise.
    pub now: Option<u64>,
    /// How far it may be off.
    pub tolerance: String,
    /// What to think of it.
    pub state: State,
}

/// What to think of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Within its tolerance.
    Tolerated,
    /// Beyond it.
    Beyond,
    /// One of the two is not known, or is a lower bound.
    Unknown,
}

/// The figures that differ, ignored ones left out.
pub(super) fn differences(baseline: &Report, now: &Report, tolerances: &Tolerances) -> Vec<Difference> {
    let of = [baseline, now].map(figures);
    let are_exact = baseline.exact && now.exact;
    let tell_ends = [baseline, now].into_iter().all(|report| report.exit.code.or(report.exit.signal).is_some());
    let names: BTreeSet<&String> = of.iter().flat_map(BTreeMap::keys).collect();
    let difference = |name: &String| {
        let allowed = tolerances.of(name);
        let figure = |index: usize, report| of[index].get(name).copied().unwrap_or_else(|| of_missing(name, report));
        let (before, after) = (figure(0, baseline), figure(1, now));
        let state = match (before, after) {
            _ if allowed == Allowed::Anything => return None,
            (before, after) if before == after && (are_exact || is_sure(name)) => return None,
            (None, None) => return None,
            (Some(before), Some(after)) if (are_exact || is_sure(name)) && allowed.covers(before, after) => State::Tolerated,
            (Some(_), Some(_)) if are_exact => State::Beyond,
            // There is a status, or a signal: if it is not this one, there is none of this one.
            _ if is_sure(name) && tell_ends => State::Beyond,
            _ => State::Unknown,
        };
        Some(Difference { metric: name.clone(), baseline: before, now: after, tolerance: allowed.describe(), state })
    };
    names.into_iter().filter_map(difference).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::tolerance::tests::tolerances, *};
    use crate::{compare::sample::report, report::sample::row};

    fn states(texts: &[&str]) -> Vec<(String, State)> {
        let before = report(vec![row("read").called(100).bytes(1000), row("write").called(1).bytes(1)]);
        let mut after = report(vec![row("read").called(105).bytes(1000), row("splice").called(1).bytes(1)]);
        after.wall_ns = Some(1);
        let all = differences(&before, &after, &tolerances(texts));
        all.into_iter().map(|difference| (difference.metric, difference.state)).collect()
    }

    #[test]
    fn counts_are_exact_and_times_are_ignored() {
        let found = states(&[]);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["read.calls", "splice.bytes", "splice.calls", "write.bytes", "write.calls"]);
        assert!(found.iter().all(|(_, state)| *state == State::Beyond), "{found:?}");
    }

    #[test]
    fn the_last_tolerance_that_fits_is_taken() {
        let found = states(&["*.calls=10%", "splice.calls=ignore", "*.bytes=1B", "time.wall=1%"]);
        let expected = [
            ("read.calls", State::Tolerated),
            ("splice.bytes", State::Tolerated),
            ("time.wall", State::Beyond),
            ("write.bytes", State::Tolerated),
            ("write.calls", State::Beyond),
        ];
        assert_eq!(found, expected.map(|(name, state)| (name.to_owned(), state)));
    }

    #[test]
    fn another_end_is_a_difference() {
        let before = report(vec![row("read").called(1).bytes(1)]);
        let mut after = before.clone();
        after.exit = crate::report::Exit { code: None, signal: Some(11) };
        let found = |after: &Report| -> Vec<_> {
            let all = differences(&before, after, &Tolerances::default());
            all.into_iter().map(|found| (found.metric, found.baseline, found.now, found.state)).collect()
        };
        let expected = [("exit.code", Some(0), None), ("exit.signal", None, Some(11))];
        assert_eq!(found(&after), expected.map(|(name, before, now)| (name.to_owned(), before, now, State::Beyond)));
        after.exit.signal = None;
        assert_eq!(found(&after), [("exit.code".to_owned(), Some(0), None, State::Unknown)]);
    }

    #[test]
    fn what_is_a_lower_bound_is_not_known() {
        let before = report(vec![row("read").called(1).bytes(1)]);
        let mut after = before.clone();
        after.exact = false;
        let states: BTreeSet<_> =
            differences(&before, &after, &Tolerances::default()).iter().map(|found| found.state as u8).collect();
        assert_eq!(states, BTreeSet::from([State::Unknown as u8]));
    }
}
