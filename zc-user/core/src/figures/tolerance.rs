//! How far figures may differ from those of an earlier report.

use thiserror::Error;

use super::{
    list::{FigureUnit, Steadiness, is_time, steadiness_of},
    reading::names,
    value::{duration_ns, size_bytes},
};
use crate::words::nearest_name;

/// How far the figures whose names match a pattern may be off their baseline.
#[derive(Debug, Clone)]
pub struct Tolerance {
    metric: glob::Pattern,
    allowed: Allowed,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Allowed {
    /// This fraction of the baseline, in thousandths of a percent.
    Part(u64),
    /// This amount: a count, bytes or nanoseconds.
    Amount(u64, FigureUnit),
    /// Anything: the figure is ignored.
    Anything,
}

/// A tolerance that cannot be read, or that fits no figure.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ToleranceError(String);

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
    /// For one figure, or for all whose names match this pattern. A tolerance that fits no figure is
    /// an error, since it would silently have no effect.
    pub fn new(metric: &str, allowed: &str) -> Result<Self, ToleranceError> {
        let (metric, allowed) = (metric.trim(), allowed.trim());
        let pattern = glob::Pattern::new(metric).map_err(|error| {
            ToleranceError(format!("'{metric}' is not a pattern: {}", error.msg))
        })?;
        let tolerance = Self {
            metric: pattern,
            allowed: Allowed::parse(allowed)?,
        };
        let all = || names(metric.contains("errors"));
        if all().any(|name| tolerance.fits_name(&name)) {
            return Ok(tolerance);
        }
        if all().any(|name| tolerance.metric.matches(&name)) {
            return Err(ToleranceError(format!(
                "'{allowed}' is not a tolerance for {metric}: counts have no unit (5), sizes may have one (64KiB), times need one (10ms)"
            )));
        }
        let all: Vec<String> = names(false).collect();
        let hint = match nearest_name(metric, all.iter().map(String::as_str)) {
            Some(near) => format!("did you mean '{near}'?"),
            None => "examples: read.calls, *.errors, time.wall".to_owned(),
        };
        Err(ToleranceError(format!(
            "no figure that is compared with a baseline is called '{metric}'; {hint}"
        )))
    }

    /// Whether it is for the figure of this name.
    fn fits_name(&self, name: &str) -> bool {
        let has_unit = match self.allowed {
            Allowed::Amount(_, FigureUnit::Time) => is_time(name),
            Allowed::Amount(_, FigureUnit::Bytes) => name.rsplit('.').next() == Some("bytes"),
            Allowed::Amount(..) => !is_time(name),
            Allowed::Part(_) | Allowed::Anything => true,
        };
        has_unit && self.metric.matches(name)
    }
}

impl Allowed {
    fn parse(text: &str) -> Result<Self, ToleranceError> {
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
            FigureUnit::Count
        } else {
            FigureUnit::Bytes
        };
        if let Ok(size) = size_bytes(text) {
            return Ok(Self::Amount(size, unit));
        }
        let ns = duration_ns(text).map_err(|_| wrong())?;
        Ok(Self::Amount(ns, FigureUnit::Time))
    }

    pub(super) fn covers_change(self, baseline: u64, now: u64) -> bool {
        let off = baseline.abs_diff(now);
        match self {
            Self::Part(thousandths) => {
                u128::from(off) * 100_000 <= u128::from(baseline) * u128::from(thousandths)
            }
            Self::Amount(amount, _) => off <= amount,
            Self::Anything => true,
        }
    }

    pub(super) fn describe(self) -> String {
        match self {
            Self::Part(0) | Self::Amount(0, _) => "exact".to_owned(),
            #[expect(clippy::cast_precision_loss, reason = "it is shown as it was written")]
            Self::Part(thousandths) => format!("{} %", thousandths as f64 / 1000.0),
            Self::Amount(amount, _) => format!("± {amount}"),
            Self::Anything => "ignored".to_owned(),
        }
    }
}

/// How far figures may be off. By default counts must be equal, and what is not steady is ignored:
/// times, switches, faults, and calls by which threads wait for each other. If a run received bytes
/// through a pipe or a socket, numbers of calls and errors may differ.
#[derive(Debug, Clone, Default)]
pub struct Tolerances(Vec<Tolerance>);

impl Tolerances {
    /// Adds a tolerance. The last one that fits a figure counts.
    pub fn add(&mut self, tolerance: Tolerance) {
        self.0.push(tolerance);
    }

    /// Whether the user has chosen how far this figure may be off.
    pub(super) fn has_one_for(&self, name: &str) -> bool {
        self.0.iter().any(|tolerance| tolerance.fits_name(name))
    }

    pub(super) fn allowed_for(&self, name: &str) -> Allowed {
        let mut last_first = self.0.iter().rev();
        match last_first.find(|tolerance| tolerance.fits_name(name)) {
            Some(tolerance) => tolerance.allowed,
            None if steadiness_of(name) == Steadiness::Steady => {
                Allowed::Amount(0, FigureUnit::Count)
            }
            None => Allowed::Anything,
        }
    }

    /// Whether times or context switches are compared. These depend on the load of the machine.
    pub(crate) fn depend_on_load(&self) -> bool {
        names(false)
            .filter(|name| steadiness_of(name) == Steadiness::WithLoad)
            .any(|name| self.allowed_for(&name) != Allowed::Anything)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::golden::{GoldenCase, check_golden};

    /// Several tolerances.
    pub(crate) fn tolerances(texts: &[&str]) -> Tolerances {
        Tolerances(
            texts
                .iter()
                .map(|text| text.parse().expect("a tolerance"))
                .collect(),
        )
    }

    #[test]
    fn tolerances_of_times_and_switches_depend_on_load() {
        for (texts, depends) in [
            (&["time.wall=10%"][..], true),
            (&["switches.*=3"], true),
            (&["read.calls=10%", "faults.*=1%"], false),
            (&["time.calls=2"], false),
            (&[], false),
        ] {
            assert_eq!(tolerances(texts).depend_on_load(), depends, "{texts:?}");
        }
    }

    #[test]
    fn a_percentage_is_a_fraction_of_the_baseline() {
        for (thousandths, baseline, now, covers) in [
            (5000, 100, 105, true),
            (4999, 100, 105, false),
            (0, 0, 0, true),
            (100_000, 0, 1, false),
        ] {
            assert_eq!(
                Allowed::Part(thousandths).covers_change(baseline, now),
                covers
            );
        }
    }

    #[test]
    fn a_tolerance_that_cannot_be_meant_is_an_error() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/figures/tests/tolerances.txt"
        );
        check_golden(path, GoldenCase::Line, |text| {
            match text.parse::<Tolerance>() {
                Ok(_) => "a tolerance".to_owned(),
                Err(error) => error.to_string(),
            }
        });
    }
}
