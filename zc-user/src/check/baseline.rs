//! A report beside an earlier one: which figures differ by more than they may.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::Serialize;

use super::figures::{figures, is_steady_by_nature, of_missing};
use crate::{
    expect::{Expectation, duration, size_bytes},
    report::Report,
};

/// How far a figure may be off.
#[derive(Debug, Clone)]
pub struct Tolerance {
    metric: glob::Pattern,
    allowed: Allowed,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Allowed {
    /// By this part of the baseline, in thousandths of a percent.
    Part(u64),
    /// By so much.
    Amount(u64),
    /// By anything.
    Anything,
}

/// What is wrong with a tolerance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToleranceError(String);

impl std::error::Error for ToleranceError {}

impl fmt::Display for ToleranceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for Tolerance {
    type Err = ToleranceError;

    /// `METRIC=10%`, `METRIC=5`, `METRIC=ignore`.
    fn from_str(text: &str) -> Result<Self, ToleranceError> {
        let wrong =
            || ToleranceError(format!("'{text}' is no tolerance: write it as in time.wall=10%, read.calls=5, '*.errors=ignore'"));
        let (metric, allowed) = text.rsplit_once('=').ok_or_else(wrong)?;
        Self::new(metric, allowed)
    }
}

impl Tolerance {
    /// Of a figure, or of all whose names match this.
    pub fn new(metric: &str, allowed: &str) -> Result<Self, ToleranceError> {
        let metric = metric.trim();
        let pattern =
            glob::Pattern::new(metric).map_err(|error| ToleranceError(format!("'{metric}' is no pattern: {}", error.msg)))?;
        if !metric.contains(['*', '?', '[']) {
            // A name without a figure would tolerate nothing, in silence.
            format!("{metric} == 0").parse::<Expectation>().map_err(|error| ToleranceError(error.message().to_owned()))?;
        }
        Ok(Self { metric: pattern, allowed: Allowed::read(allowed.trim())? })
    }
}

impl Allowed {
    fn read(text: &str) -> Result<Self, ToleranceError> {
        let wrong =
            || ToleranceError(format!("'{text}' is no tolerance: write a part (10%), a number (5, 64KiB, 10ms), or ignore"));
        if text == "ignore" {
            return Ok(Self::Anything);
        }
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.trim().parse().map_err(|_| wrong())?;
            if !(0.0..=1e6).contains(&percent) {
                return Err(wrong());
            }
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it lies between 0 and a million")]
            return Ok(Self::Part((percent * 1000.0).round() as u64));
        }
        let time = || duration(text).ok().and_then(|time| u64::try_from(time.as_nanos()).ok());
        size_bytes(text).ok().or_else(time).map(Self::Amount).ok_or_else(wrong)
    }

    fn covers(self, baseline: u64, now: u64) -> bool {
        let off = baseline.abs_diff(now);
        match self {
            Self::Part(thousandths) => u128::from(off) * 100_000 <= u128::from(baseline) * u128::from(thousandths),
            Self::Amount(amount) => off <= amount,
            Self::Anything => true,
        }
    }

    fn describe(self) -> String {
        match self {
            Self::Part(0) | Self::Amount(0) => "exact".to_owned(),
            #[expect(clippy::cast_precision_loss, reason = "it is shown as it was written")]
            Self::Part(thousandths) => format!("{} %", thousandths as f64 / 1000.0),
            Self::Amount(amount) => format!("± {amount}"),
            Self::Anything => "ignored".to_owned(),
        }
    }
}

/// How far figures may be off: counts not at all, times, switches and faults by anything, unless something else is said.
#[derive(Debug, Clone, Default)]
pub struct Tolerances(Vec<Tolerance>);

impl Tolerances {
    /// Adds one; the last one that fits a figure is for it.
    pub fn add(&mut self, tolerance: Tolerance) {
        self.0.push(tolerance);
    }

    fn of(&self, name: &str) -> Allowed {
        let said = self.0.iter().rev().find(|tolerance| tolerance.metric.matches(name)).map(|tolerance| tolerance.allowed);
        said.unwrap_or(if is_steady_by_nature(name) { Allowed::Amount(0) } else { Allowed::Anything })
    }
}

/// A figure that is not as in the baseline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its name.
    pub metric: String,
    /// In the baseline; `None`: unknown.
    pub baseline: Option<u64>,
    /// Now; `None`: unknown.
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
    let names: BTreeSet<&String> = of.iter().flat_map(BTreeMap::keys).collect();
    let difference = |name: &String| {
        let allowed = tolerances.of(name);
        let figure = |index: usize, report| of[index].get(name).copied().unwrap_or_else(|| of_missing(name, report));
        let (before, after) = (figure(0, baseline), figure(1, now));
        let state = match (before, after) {
            _ if allowed == Allowed::Anything => return None,
            (before, after) if before == after && (are_exact || name.starts_with("exit.")) => return None,
            (None, None) => return None,
            (Some(before), Some(after)) if are_exact => {
                if allowed.covers(before, after) {
                    State::Tolerated
                } else {
                    State::Beyond
                }
            }
            _ => State::Unknown,
        };
        Some(Difference { metric: name.clone(), baseline: before, now: after, tolerance: allowed.describe(), state })
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
    fn parts_are_of_the_baseline() {
        assert!(Allowed::Part(5000).covers(100, 105) && !Allowed::Part(4999).covers(100, 105));
        assert!(Allowed::Part(0).covers(0, 0) && !Allowed::Part(100_000).covers(0, 1));
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

    #[test]
    fn mistakes_are_told() {
        let wrong = |text: &str| text.parse::<Tolerance>().expect_err(text).to_string();
        assert_eq!(wrong("raed.calls=5"), "unknown system call 'raed'; did you mean 'read'?");
        assert!(wrong("read.calls").starts_with("'read.calls' is no tolerance: write it as in"));
        assert!(wrong("read.calls=-5%").starts_with("'-5%' is no tolerance: write a part"));
    }
}
