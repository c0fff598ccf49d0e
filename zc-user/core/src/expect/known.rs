//! What is known about a figure, and whether that decides a comparison.

use std::{cmp::Ordering, ops::Bound};

use serde::Serialize;

use super::{
    ast::{NONE, Test},
    field::Unit,
};
use crate::{signal, units, words::words};

words! {
    /// How expectations treat inferred transfers.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Inferred {
        /// An expectation that depends on them is inconclusive, unless what is proven is enough.
        Inconclusive = "inconclusive",
        /// They count as facts.
        Accept = "accept",
    }
}

/// Whether an expectation holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It holds.
    Holds,
    /// It does not hold.
    Fails,
    /// The report does not know enough to decide.
    Inconclusive,
}

impl Verdict {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::Inconclusive => "inconclusive",
        }
    }

    pub(super) const fn negated_if(self, is_negated: bool) -> Self {
        match self {
            Self::Holds if is_negated => Self::Fails,
            Self::Fails if is_negated => Self::Holds,
            verdict => verdict,
        }
    }

    /// The verdict if all must hold. One failure decides.
    pub(super) fn all(verdicts: impl Iterator<Item = Self>) -> Self {
        verdicts.fold(Self::Holds, |all, verdict| match (all, verdict) {
            (Self::Fails, _) | (_, Self::Fails) => Self::Fails,
            (Self::Inconclusive, _) | (_, Self::Inconclusive) => Self::Inconclusive,
            (Self::Holds, Self::Holds) => Self::Holds,
        })
    }

    /// The verdict if one must hold.
    pub(super) fn any(verdicts: impl Iterator<Item = Self>) -> Self {
        Self::all(verdicts.map(|verdict| verdict.negated_if(true))).negated_if(true)
    }
}

/// A number that can be a fraction, such as an average.
#[derive(Debug, Clone, Copy)]
pub(super) struct Amount {
    part: u64,
    of: u64,
}

impl From<u64> for Amount {
    fn from(whole: u64) -> Self {
        Self { part: whole, of: 1 }
    }
}

impl Amount {
    /// A sum divided by a count; `None` for a count of 0.
    pub(super) fn mean(sum: u64, count: u64) -> Option<Self> {
        (count > 0).then_some(Self {
            part: sum,
            of: count,
        })
    }
}

impl PartialEq for Amount {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Amount {}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Amount {
    fn cmp(&self, other: &Self) -> Ordering {
        (u128::from(self.part) * u128::from(other.of))
            .cmp(&(u128::from(other.part) * u128::from(self.of)))
    }
}

/// What is known about a figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Known {
    /// It is at least the first and at most the second. Without the second there is no upper bound.
    Between(Amount, Option<Amount>),
    /// The APIs of transfers, or the library functions that made them, and whether these are all.
    Words(Vec<String>, Completeness),
    /// Nothing is known, not even whether it exists.
    Unknown,
    /// There is no exit status, or no signal, and that is known.
    Absent(String),
    /// There is no such figure, for this reason.
    Missing(String),
}

/// Whether all of something is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Completeness {
    All,
    AtLeast,
}

impl Known {
    /// Exactly this.
    pub(super) fn exactly(amount: impl Into<Amount>) -> Self {
        let amount = amount.into();
        Self::Between(amount, Some(amount))
    }

    /// Whether it passes a test, or the negation of the test.
    pub(super) fn passes(&self, test: &Test, is_negated: bool) -> Verdict {
        let verdict = match (self, test) {
            (Self::Unknown, _) => Verdict::Inconclusive,
            (Self::Words(words, completeness), Test::Word(wanted) | Test::NotWord(wanted)) => {
                let wants_it = matches!(test, Test::Word(_)) != is_negated;
                return match completeness {
                    _ if words.iter().any(|word| (word == wanted) != wants_it) => Verdict::Fails,
                    Completeness::All => Verdict::Holds,
                    Completeness::AtLeast => Verdict::Inconclusive,
                };
            }
            // What is absent is `none`, and no number is.
            (Self::Absent(_), Test::Word(_) | Test::Not(_))
            | (Self::Between(..), Test::NotWord(_)) => Verdict::Holds,
            (Self::Absent(_), Test::NotWord(_)) | (Self::Between(..), Test::Word(_)) => {
                Verdict::Fails
            }
            (Self::Absent(_), Test::Within(Bound::Included(first), Bound::Included(last)))
                if first == last =>
            {
                Verdict::Fails
            }
            (Self::Between(low, high), Test::Within(start, end)) => {
                within(*low, *high, *start, *end)
            }
            (Self::Between(low, high), Test::Not(number)) => {
                let number = Bound::Included(*number);
                within(*low, *high, number, number).negated_if(true)
            }
            // A missing figure is neither less nor more than a number. The parser rejects comparing
            // a word with a number.
            (Self::Missing(_) | Self::Absent(_) | Self::Words(..), _) => return Verdict::Fails,
        };
        verdict.negated_if(is_negated)
    }

    /// A clause: "is 3", "is at least 3".
    pub(super) fn describe(&self, unit: Unit) -> String {
        match self {
            Self::Between(low, Some(high)) if low == high => {
                format!("is {}", show(*low, unit))
            }
            Self::Between(low, Some(high)) => {
                format!("is between {} and {}", show(*low, unit), show(*high, unit))
            }
            Self::Between(low, None) => format!("is at least {}", show(*low, unit)),
            Self::Words(words, Completeness::All) => format!("is {}", words.join(", ")),
            Self::Words(words, Completeness::AtLeast) if words.is_empty() => {
                "is unknown".to_owned()
            }
            Self::Words(words, Completeness::AtLeast) => {
                format!("is {}, as far as is known", words.join(", "))
            }
            Self::Unknown => "is unknown".to_owned(),
            Self::Absent(why) => format!("is {NONE}: {why}"),
            Self::Missing(why) => format!("does not exist: {why}"),
        }
    }
}

/// Whether all amounts from `low` to `high` lie between these bounds: holds if that is certain,
/// fails if none does.
fn within(low: Amount, high: Option<Amount>, start: Bound<u64>, end: Bound<u64>) -> Verdict {
    let is_before = |amount: Amount| match start {
        Bound::Included(start) => amount < start.into(),
        Bound::Excluded(start) => amount <= start.into(),
        Bound::Unbounded => false,
    };
    let is_after = |amount: Amount| match end {
        Bound::Included(end) => amount > end.into(),
        Bound::Excluded(end) => amount >= end.into(),
        Bound::Unbounded => false,
    };
    let ends_within = end == Bound::Unbounded || high.is_some_and(|high| !is_after(high));
    if !is_before(low) && ends_within {
        Verdict::Holds
    } else if is_after(low) || high.is_some_and(is_before) {
        Verdict::Fails
    } else {
        Verdict::Inconclusive
    }
}

/// The figure for a person: exact, and in a readable unit.
fn show(amount: Amount, unit: Unit) -> String {
    let whole = amount.part / amount.of;
    let is_whole = amount.part.is_multiple_of(amount.of);
    match unit {
        Unit::Bytes if is_whole => exact_bytes(whole),
        Unit::Bytes => format!("{} ({:.1} B)", units::bytes(whole), fraction(amount)),
        Unit::Time => time(fraction(amount)),
        Unit::Signal => signal_name(whole),
        _ if is_whole => whole.to_string(),
        _ => format!("{:.2}", fraction(amount)),
    }
}

fn signal_name(number: u64) -> String {
    let name = i32::try_from(number).map(signal::name);
    name.ok()
        .filter(|name| name.starts_with("SIG"))
        .unwrap_or_else(|| number.to_string())
}

fn exact_bytes(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] = [
        ("TiB", 1 << 40),
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
    ];
    let divides = |(_, size): &(&str, u64)| bytes > 0 && bytes.is_multiple_of(*size);
    match UNITS.into_iter().find(divides) {
        Some((unit, size)) => format!("{} {unit}", bytes / size),
        None if bytes < 1024 => format!("{bytes} B"),
        None => format!("{bytes} B ({})", units::bytes(bytes)),
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "it is shown to a few digits; comparisons are exact"
)]
fn fraction(amount: Amount) -> f64 {
    amount.part as f64 / amount.of as f64
}

/// Nanoseconds in a readable unit.
fn time(ns: f64) -> String {
    match ns {
        1e9.. => format!("{:.3} s", ns / 1e9),
        1e6.. => format!("{:.3} ms", ns / 1e6),
        1e3.. => format!("{:.3} us", ns / 1e3),
        _ => format!("{ns:.0} ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdicts of these comparisons with a number, and those of their negations.
    fn verdicts(known: &Known, number: u64) -> [Verdict; 6] {
        let (included, excluded) = (Bound::Included(number), Bound::Excluded(number));
        let tests = [
            Test::Within(included, included),
            Test::Not(number),
            Test::Within(Bound::Unbounded, included),
            Test::Within(Bound::Unbounded, excluded),
            Test::Within(included, Bound::Unbounded),
            Test::Within(excluded, Bound::Unbounded),
        ];
        tests.map(|test| {
            let verdict = known.passes(&test, false);
            let negated = known.passes(&test, true);
            assert_eq!(negated, verdict.negated_if(true), "{known:?} {test:?}");
            verdict
        })
    }

    use Verdict::{Fails, Holds, Inconclusive};

    #[test]
    fn an_exact_figure_decides_every_comparison() {
        let three = Known::exactly(3);
        //                              ==     !=     <=     <      >=     >
        assert_eq!(
            verdicts(&three, 2),
            [Fails, Holds, Fails, Fails, Holds, Holds]
        );
        assert_eq!(
            verdicts(&three, 3),
            [Holds, Fails, Holds, Fails, Holds, Fails]
        );
        assert_eq!(
            verdicts(&three, 4),
            [Fails, Holds, Holds, Holds, Fails, Fails]
        );
    }

    #[test]
    fn a_lower_bound_decides_comparisons_below_it() {
        let known = Known::Between(3.into(), None);
        let open = Inconclusive;
        assert_eq!(
            verdicts(&known, 2),
            [Fails, Holds, Fails, Fails, Holds, Holds]
        );
        assert_eq!(verdicts(&known, 3), [open, open, open, Fails, Holds, open]);
        assert_eq!(verdicts(&known, 4), [open; 6]);
    }

    #[test]
    fn a_range_includes_its_last_number_or_not() {
        let within = |low: u64, high: Option<u64>, end| {
            let test = Test::Within(Bound::Included(3), end);
            Known::Between(low.into(), high.map(Into::into)).passes(&test, false)
        };
        let (to_5, below_5) = (Bound::Included(5), Bound::Excluded(5));
        assert_eq!(within(5, Some(5), to_5), Holds);
        assert_eq!(within(5, Some(5), below_5), Fails);
        assert_eq!(within(2, Some(2), to_5), Fails);
        assert_eq!(within(4, None, to_5), Inconclusive);
        assert_eq!(within(6, None, to_5), Fails);
        assert_eq!(within(3, Some(4), below_5), Holds);
    }

    #[test]
    fn averages_are_compared_exactly() {
        let average = Known::exactly(Amount::mean(u64::MAX, 2).expect("of two"));
        assert_eq!(verdicts(&average, u64::MAX / 2)[5], Holds);
        assert_eq!(verdicts(&average, u64::MAX / 2 + 1)[3], Holds);
    }

    #[test]
    fn a_missing_figure_fails_even_behind_not() {
        let test = Test::Within(Bound::Included(0), Bound::Included(0));
        let missing = Known::Missing("no call".into());
        assert_eq!(
            [false, true].map(|not| missing.passes(&test, not)),
            [Fails; 2]
        );
    }

    #[test]
    fn an_api_must_be_that_of_all_transfers_or_of_none() {
        let words = ["sendfile", "splice"].map(str::to_owned).to_vec();
        let sendfile = "sendfile".to_owned();
        let (is, is_not) = (
            Test::Word(sendfile.clone()),
            Test::NotWord(sendfile.clone()),
        );
        let both = Known::Words(words, Completeness::All);
        for is_negated in [false, true] {
            assert_eq!(both.passes(&is, is_negated), Fails);
            assert_eq!(both.passes(&is_not, is_negated), Fails);
        }
        let some = Known::Words(vec![sendfile], Completeness::AtLeast);
        assert_eq!(some.passes(&is, false), Inconclusive);
        assert_eq!(some.passes(&is_not, false), Fails);
    }

    #[test]
    fn figures_are_shown_exactly_and_in_readable_units() {
        let shown = |amount: u64, unit| show(amount.into(), unit);
        assert_eq!(shown(65536, Unit::Bytes), "64 KiB");
        assert_eq!(shown(65000, Unit::Bytes), "65000 B (63.5 KiB)");
        assert_eq!(shown(12_345_678, Unit::Time), "12.346 ms");
        assert_eq!(shown(9, Unit::Signal), "SIGKILL");
        assert_eq!(
            show(Amount::mean(10_001, 2).expect("of two"), Unit::Bytes),
            "4.9 KiB (5000.5 B)"
        );
    }

    #[test]
    fn and_and_or_join_three_values() {
        let joined = |a, b| {
            (
                Verdict::all([a, b].into_iter()),
                Verdict::any([a, b].into_iter()),
            )
        };
        assert_eq!(joined(Holds, Inconclusive), (Inconclusive, Holds));
        assert_eq!(joined(Fails, Inconclusive), (Fails, Inconclusive));
        assert_eq!(
            joined(Inconclusive, Inconclusive),
            (Inconclusive, Inconclusive)
        );
        assert_eq!(joined(Holds, Fails), (Fails, Holds));
    }
}
