//! A report compared with an earlier one, its baseline: which figures differ by more than their
//! tolerance.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::Serialize;

use super::figures::{figures, is_sure, is_time, names, of_missing};
use crate::{
    expect::{Expectation, Variation, duration, size_bytes, variation_of},
    report::Report,
};

/// How far the figures whose names match a pattern may be off their baseline.
#[derive(Debug, Clone)]
pub struct Tolerance {
    metric: glob::Pattern,
    allowed: Allowed,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Allowed {
    /// This fraction of the baseline, in thousandths of a percent.
    Part(u64),
    /// This amount.
    Amount(u64, Unit),
    /// Anything: the figure is ignored.
    Anything,
}

/// The unit of a tolerated amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// None: a count, or bytes.
    None,
    Bytes,
    Nanoseconds,
}

/// A tolerance that cannot be read, or that fits no figure.
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

    /// Reads `METRIC=10%`, `METRIC=5`, `METRIC=ignore`.
    fn from_str(text: &str) -> Result<Self, ToleranceError> {
        let wrong = || {
            ToleranceError(format!(
                "'{text}' is not a tolerance; examples: time.wall=10%, read.calls=5, '*.errors=ignore'"
            ))
        };
        let (metric, allowed) = text.rsplit_once('=').ok_or_else(wrong)?;
        Self::new(metric, allowed)
    }
}

impl Tolerance {
    /// For one figure, or for all whose names match this pattern.
    pub fn new(metric: &str, allowed: &str) -> Result<Self, ToleranceError> {
        let metric = metric.trim();
        let pattern = glob::Pattern::new(metric).map_err(|error| {
            ToleranceError(format!("'{metric}' is not a pattern: {}", error.msg))
        })?;
        let tolerance = Self {
            metric: pattern,
            allowed: Allowed::read(allowed.trim())?,
        };
        // A tolerance that fits no figure would silently have no effect.
        if names(metric.contains("errors")).any(|name| tolerance.fits(&name)) {
            return Ok(tolerance);
        }
        Err(ToleranceError(why_unfit(metric, allowed.trim())))
    }

    /// Whether it is for the figure of this name.
    fn fits(&self, name: &str) -> bool {
        let is_time = is_time(name);
        let has_unit = match self.allowed {
            Allowed::Amount(_, Unit::None) => !is_time,
            Allowed::Amount(_, Unit::Bytes) => name.rsplit('.').next() == Some("bytes"),
            Allowed::Amount(_, Unit::Nanoseconds) => is_time,
            Allowed::Part(_) | Allowed::Anything => true,
        };
        has_unit && self.metric.matches(name)
    }
}

/// Why a tolerance fits no figure.
fn why_unfit(metric: &str, allowed: &str) -> String {
    let pattern = glob::Pattern::new(metric).unwrap_or_default();
    if names(metric.contains("errors")).any(|name| pattern.matches(&name)) {
        return format!(
            "'{allowed}' is not a tolerance for {metric}: counts have no unit (5), sizes may have one (64KiB), times need one (10ms)"
        );
    }
    match format!("{metric} == 0").parse::<Expectation>() {
        Err(error) if !metric.contains(['*', '?', '[']) => error.message().to_owned(),
        _ => {
            format!(
                "no figure that is compared with a baseline is called '{metric}'; examples: read.calls, *.errors, time.wall"
            )
        }
    }
}

impl Allowed {
    fn read(text: &str) -> Result<Self, ToleranceError> {
        let wrong = || {
            ToleranceError(format!(
                "'{text}' is not a tolerance: write a percentage (10%), a number (5, 64KiB, 10ms), or ignore"
            ))
        };
        if text == "ignore" {
            return Ok(Self::Anything);
        }
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.trim().parse().map_err(|_| wrong())?;
            if !(0.0..=1e6).contains(&percent) {
                return Err(wrong());
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it lies between 0 and a million"
            )]
            return Ok(Self::Part((percent * 1000.0).round() as u64));
        }
        let unit = if text.ends_with(|c: char| c.is_ascii_digit()) {
            Unit::None
        } else {
            Unit::Bytes
        };
        let size = size_bytes(text).ok().map(|bytes| Self::Amount(bytes, unit));
        let time = || {
            u64::try_from(duration(text).ok()?.as_nanos())
                .ok()
                .map(|ns| Self::Amount(ns, Unit::Nanoseconds))
        };
        size.or_else(time).ok_or_else(wrong)
    }

    fn covers(self, baseline: u64, now: u64) -> bool {
        let off = baseline.abs_diff(now);
        match self {
            Self::Part(thousandths) => {
                u128::from(off) * 100_000 <= u128::from(baseline) * u128::from(thousandths)
            }
            Self::Amount(amount, _) => off <= amount,
            Self::Anything => true,
        }
    }

    fn describe(self) -> String {
        match self {
            Self::Part(0) | Self::Amount(0, _) => "exact".to_owned(),
            #[expect(clippy::cast_precision_loss, reason = "it is shown as it was written")]
            Self::Part(thousandths) => format!("{} %", thousandths as f64 / 1000.0),
            Self::Amount(amount, _) => format!("± {amount}"),
            Self::Anything => "ignored".to_owned(),
        }
    }
}

/// How far figures may be off. By default counts must be equal, and times, switches and faults are
/// ignored.
#[derive(Debug, Clone, Default)]
pub struct Tolerances(Vec<Tolerance>);

impl Tolerances {
    /// Adds a tolerance. The last one that fits a figure counts.
    pub fn add(&mut self, tolerance: Tolerance) {
        self.0.push(tolerance);
    }

    fn of(&self, name: &str) -> Allowed {
        let said = self
            .0
            .iter()
            .rev()
            .find(|tolerance| tolerance.fits(name))
            .map(|tolerance| tolerance.allowed);
        said.unwrap_or(if variation_of(name) == Variation::Never {
            Allowed::Amount(0, Unit::None)
        } else {
            Allowed::Anything
        })
    }

    /// Whether the figure of this name is compared.
    pub fn compares(&self, name: &str) -> bool {
        self.of(name) != Allowed::Anything
    }

    /// Whether times or context switches are compared. These depend on the load of the machine.
    pub(super) fn depend_on_load(&self) -> bool {
        names(false)
            .filter(|name| variation_of(name) == Variation::WithLoad)
            .any(|name| self.of(&name) != Allowed::Anything)
    }
}

/// A figure that is not the same as in the baseline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its name.
    pub metric: String,
    /// Its value in the baseline. `None`: unknown; or, for an exit status or signal that is
    /// [beyond](State::Beyond), absent.
    pub baseline: Option<u64>,
    /// Its value now; `None` likewise.
    pub now: Option<u64>,
    /// How far it may be off.
    pub tolerance: String,
    /// Whether that is tolerated.
    pub state: State,
}

/// Whether a difference is tolerated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Within its tolerance.
    Tolerated,
    /// Beyond it.
    Beyond,
    /// One of the two values is unknown or a lower bound.
    Unknown,
}

/// The figures that differ, except those that are ignored.
pub fn differences(baseline: &Report, now: &Report, tolerances: &Tolerances) -> Vec<Difference> {
    let of = [baseline, now].map(figures);
    let are_exact = baseline.exact && now.exact;
    let know_ends = [baseline, now]
        .into_iter()
        .all(|report| report.exit.code.or(report.exit.signal).is_some());
    let names: BTreeSet<&String> = of.iter().flat_map(BTreeMap::keys).collect();
    let difference = |name: &String| {
        let allowed = tolerances.of(name);
        let figure = |index: usize, report| {
            of[index]
                .get(name)
                .copied()
                .unwrap_or_else(|| of_missing(name, report))
        };
        let (before, after) = (figure(0, baseline), figure(1, now));
        let state = match (before, after) {
            _ if allowed == Allowed::Anything => return None,
            (before, after) if before == after && (are_exact || is_sure(name)) => return None,
            (None, None) => return None,
            (Some(before), Some(after))
                if (are_exact || is_sure(name)) && allowed.covers(before, after) =>
            {
                State::Tolerated
            }
            (Some(_), Some(_)) if are_exact => State::Beyond,
            // Both reports say how the command ended: a figure that is missing is absent, not
            // unknown.
            _ if is_sure(name) && know_ends => State::Beyond,
            _ => State::Unknown,
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
    fn tolerances_of_times_and_switches_depend_on_load() {
        assert!(
            tolerances(&["time.wall=10%"]).depend_on_load()
                && tolerances(&["switches.*=3"]).depend_on_load()
        );
        assert!(
            !tolerances(&["read.calls=10%", "faults.*=1%"]).depend_on_load()
                && !Tolerances::default().depend_on_load()
        );
    }

    #[test]
    fn a_percentage_is_a_fraction_of_the_baseline() {
        assert!(Allowed::Part(5000).covers(100, 105) && !Allowed::Part(4999).covers(100, 105));
        assert!(Allowed::Part(0).covers(0, 0) && !Allowed::Part(100_000).covers(0, 1));
    }

    #[test]
    fn a_tolerance_that_cannot_be_meant_is_an_error() {
        let wrong = |text: &str| text.parse::<Tolerance>().expect_err(text).to_string();
        assert_eq!(
            wrong("raed.calls=5"),
            "unknown system call 'raed'; did you mean 'read'?"
        );
        assert!(
            wrong("write.bytes=10ms")
                .starts_with("'10ms' is not a tolerance for write.bytes: counts have no unit")
        );
        for unit in [
            "read.calls=1h",
            "read.calls=1KiB",
            "time.wall=5",
            "*.calls=1KiB",
            "exit.code=1s",
        ] {
            assert!(
                wrong(unit).contains("is not a tolerance for"),
                "{unit}: {}",
                wrong(unit)
            );
        }
        for nothing in [
            "*.cals=7",
            "read[file=\"in\"].calls=10",
            "read.p99=10%",
            "transfer(* -> *).calls=1",
        ] {
            assert!(
                wrong(nothing).starts_with("no figure that is compared with a baseline is called"),
                "{}",
                wrong(nothing)
            );
        }
        for right in [
            "*=ignore",
            "*.errors.EAGAIN=3",
            "write.bytes=5",
            "time.*=10ms",
            "*.bytes=1KiB",
            "mmap2.calls=1",
            "exit.code=1",
        ] {
            assert!(right.parse::<Tolerance>().is_ok(), "{right}");
        }
        assert!(wrong("read.calls").starts_with("'read.calls' is not a tolerance; examples:"));
        assert!(
            wrong("read.calls=-5%").starts_with("'-5%' is not a tolerance: write a percentage")
        );
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
            states(State::Beyond, State::Beyond)
        );
        assert_eq!(
            found(&before, &after, &["time.calls=2"]),
            states(State::Beyond, State::Tolerated)
        );
        assert!("time.calls=10ms".parse::<Tolerance>().is_err());
        assert!(!tolerances(&["time.calls=2"]).depend_on_load());
        for report in [&mut before, &mut after] {
            report.exact = false;
        }
        assert_eq!(
            found(&before, &after, &[]),
            states(State::Unknown, State::Unknown)
        );
    }

    fn states(texts: &[&str]) -> Vec<(String, State)> {
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
            found.iter().all(|(_, state)| *state == State::Beyond),
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
            ("read.calls", State::Tolerated),
            ("splice.bytes", State::Tolerated),
            ("time.wall", State::Beyond),
            ("write.bytes", State::Tolerated),
            ("write.calls", State::Beyond),
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
            expected.map(|(name, before, now)| (name.to_owned(), before, now, State::Beyond))
        );
        after.exit.signal = None;
        assert_eq!(
            found(&after),
            [("exit.code".to_owned(), Some(0), None, State::Unknown)]
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
        assert_eq!(states, BTreeSet::from([State::Unknown as u8]));
    }
}
