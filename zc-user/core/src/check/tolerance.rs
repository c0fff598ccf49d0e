//! How far figures may be off a baseline.

use std::fmt;

use super::figures::{is_steady_by_nature, names};
use crate::expect::{Expectation, duration, size_bytes};

/// How far a figure may be off.
#[derive(Debug, Clone)]
pub struct Tolerance {
    metric: glob::Pattern,
    allowed: Allowed,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Allowed {
    /// By this part of the baseline, in thousandths of a percent.
    Part(u64),
    /// By so much.
    Amount(u64, Unit),
    /// By anything.
    Anything,
}

/// What a tolerated amount is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// No unit: a count, also of bytes.
    None,
    Bytes,
    Nanoseconds,
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
        let tolerance = Self { metric: pattern, allowed: Allowed::read(allowed.trim())? };
        // What fits no figure would tolerate nothing, in silence.
        if names(metric.contains("errors")).any(|name| tolerance.fits(&name)) {
            return Ok(tolerance);
        }
        Err(ToleranceError(why_unfit(metric, allowed.trim())))
    }

    /// Whether it is for a figure of this name.
    fn fits(&self, name: &str) -> bool {
        let is_time = name.starts_with("time.");
        let has_unit = match self.allowed {
            Allowed::Amount(_, Unit::None) => !is_time,
            Allowed::Amount(_, Unit::Bytes) => name.rsplit('.').next() == Some("bytes"),
            Allowed::Amount(_, Unit::Nanoseconds) => is_time,
            Allowed::Part(_) | Allowed::Anything => true,
        };
        has_unit && self.metric.matches(name)
    }
}

/// Why a tolerance is for no figure.
fn why_unfit(metric: &str, allowed: &str) -> String {
    let pattern = glob::Pattern::new(metric).unwrap_or_default();
    if names(metric.contains("errors")).any(|name| pattern.matches(&name)) {
        return format!(
            "'{allowed}' is no tolerance of {metric}: counts have no unit (5), sizes may have one (64KiB), times have one (10ms)"
        );
    }
    match format!("{metric} == 0").parse::<Expectation>() {
        Err(error) if !metric.contains(['*', '?', '[']) => error.message().to_owned(),
        _ => format!("no figure that is compared with a baseline is called '{metric}'; there is read.calls, *.errors, time.wall"),
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
        let unit = if text.ends_with(|c: char| c.is_ascii_digit()) { Unit::None } else { Unit::Bytes };
        let size = size_bytes(text).ok().map(|bytes| Self::Amount(bytes, unit));
        let time = || u64::try_from(duration(text).ok()?.as_nanos()).ok().map(|ns| Self::Amount(ns, Unit::Nanoseconds));
        size.or_else(time).ok_or_else(wrong)
    }

    pub(super) fn covers(self, baseline: u64, now: u64) -> bool {
        let off = baseline.abs_diff(now);
        match self {
            Self::Part(thousandths) => u128::from(off) * 100_000 <= u128::from(baseline) * u128::from(thousandths),
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

/// How far figures may be off: counts not at all, times, switches and faults by anything, unless something else is said.
#[derive(Debug, Clone, Default)]
pub struct Tolerances(Vec<Tolerance>);

impl Tolerances {
    /// Adds one; the last one that fits a figure is for it.
    pub fn add(&mut self, tolerance: Tolerance) {
        self.0.push(tolerance);
    }

    pub(super) fn of(&self, name: &str) -> Allowed {
        let said = self.0.iter().rev().find(|tolerance| tolerance.fits(name)).map(|tolerance| tolerance.allowed);
        said.unwrap_or(if is_steady_by_nature(name) { Allowed::Amount(0, Unit::None) } else { Allowed::Anything })
    }

    /// Whether times or context switches are compared, which depend on what else the machine does.
    pub(super) fn depend_on_load(&self) -> bool {
        let depends = |name: &String| name.starts_with("time.") || name.starts_with("switches.");
        names(false).filter(depends).any(|name| self.of(&name) != Allowed::Anything)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::check) fn tolerances(texts: &[&str]) -> Tolerances {
        let mut tolerances = Tolerances::default();
        for text in texts {
            tolerances.add(text.parse().expect("a tolerance"));
        }
        tolerances
    }

    #[test]
    fn times_in_a_tolerance_need_quiet() {
        assert!(tolerances(&["time.wall=10%"]).depend_on_load() && tolerances(&["switches.*=3"]).depend_on_load());
        assert!(!tolerances(&["read.calls=10%", "faults.*=1%"]).depend_on_load() && !Tolerances::default().depend_on_load());
    }

    #[test]
    fn parts_are_of_the_baseline() {
        assert!(Allowed::Part(5000).covers(100, 105) && !Allowed::Part(4999).covers(100, 105));
        assert!(Allowed::Part(0).covers(0, 0) && !Allowed::Part(100_000).covers(0, 1));
    }

    #[test]
    fn mistakes_are_told() {
        let wrong = |text: &str| text.parse::<Tolerance>().expect_err(text).to_string();
        assert_eq!(wrong("raed.calls=5"), "unknown system call 'raed'; did you mean 'read'?");
        assert!(wrong("write.bytes=10ms").starts_with("'10ms' is no tolerance of write.bytes: counts have no unit"));
        for unit in ["read.calls=1h", "read.calls=1KiB", "time.wall=5", "*.calls=1KiB", "exit.code=1s"] {
            assert!(wrong(unit).contains("is no tolerance of"), "{unit}: {}", wrong(unit));
        }
        for nothing in ["*.cals=7", "read[file=\"in\"].calls=10", "read.p99=10%", "transfer(* -> *).calls=1"] {
            assert!(wrong(nothing).starts_with("no figure that is compared with a baseline is called"), "{}", wrong(nothing));
        }
        for right in
            ["*=ignore", "*.errors.EAGAIN=3", "write.bytes=5", "time.*=10ms", "*.bytes=1KiB", "mmap2.calls=1", "exit.code=1"]
        {
            assert!(right.parse::<Tolerance>().is_ok(), "{right}");
        }
        assert!(wrong("read.calls").starts_with("'read.calls' is no tolerance: write it as in"));
        assert!(wrong("read.calls=-5%").starts_with("'-5%' is no tolerance: write a part"));
    }
}
