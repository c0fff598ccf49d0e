//! What is known about a figure, and whether that decides a comparison.

use std::{cmp::Ordering, ops::Bound};

use serde::Serialize;

use super::ast::{NONE, Test};
use crate::{figures::list::FigureUnit, signal, units, words::words};

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
    pub(crate) fn all(verdicts: impl Iterator<Item = Self>) -> Self {
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
pub(super) enum KnownFigure {
    /// It is at least the first and at most the second. Without the second there is no upper bound.
    Between(Amount, Option<Amount>),
    /// The APIs of transfers, or the library functions that made them.
    Words {
        words: Vec<String>,
        /// Whether these are all.
        are_all: bool,
    },
    /// Nothing is known, not even whether it exists.
    Unknown,
    /// There is no exit status, or no signal, and that is known.
    Absent(String),
    /// There is no such figure, for this reason.
    Missing(String),
}

impl KnownFigure {
    /// Exactly this.
    pub(super) fn exactly(amount: impl Into<Amount>) -> Self {
        let amount = amount.into();
        Self::Between(amount, Some(amount))
    }

    /// These words, and whether they are all.
    pub(super) fn words(words: impl IntoIterator<Item = String>, are_all: bool) -> Self {
        let words = words.into_iter().collect();
        Self::Words { words, are_all }
    }

    /// Whether it passes a test, or the negation of the test.
    pub(super) fn passes(&self, test: &Test, is_negated: bool) -> Verdict {
        let verdict = match (self, test) {
            (Self::Unknown, _) => Verdict::Inconclusive,
            (Self::Words { words, are_all }, Test::Word(wanted) | Test::NotWord(wanted)) => {
                let wants_it = matches!(test, Test::Word(_)) != is_negated;
                return if words.iter().any(|word| (word == wanted) != wants_it) {
                    Verdict::Fails
                } else if *are_all {
                    Verdict::Holds
                } else {
                    Verdict::Inconclusive
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
            (Self::Missing(_) | Self::Absent(_) | Self::Words { .. }, _) => return Verdict::Fails,
        };
        verdict.negated_if(is_negated)
    }

    /// A clause: "is 3", "is at least 3".
    pub(super) fn describe(&self, unit: FigureUnit) -> String {
        match self {
            Self::Between(low, Some(high)) if low == high => {
                format!("is {}", show(*low, unit))
            }
            Self::Between(low, Some(high)) => {
                format!("is between {} and {}", show(*low, unit), show(*high, unit))
            }
            Self::Between(low, None) => format!("is at least {}", show(*low, unit)),
            Self::Words { words, are_all } => match (words.is_empty(), are_all) {
                (true, _) => "is unknown".to_owned(),
                (false, true) => format!("is {}", words.join(", ")),
                (false, false) => format!("is {}, as far as is known", words.join(", ")),
            },
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
fn show(amount: Amount, unit: FigureUnit) -> String {
    let whole = amount.part / amount.of;
    let is_whole = amount.part.is_multiple_of(amount.of);
    match unit {
        FigureUnit::Bytes if is_whole => exact_bytes(whole),
        FigureUnit::Bytes => format!("{} ({:.1} B)", units::bytes(whole), fraction(amount)),
        FigureUnit::Time => time(fraction(amount)),
        FigureUnit::Signal => signal_name(whole),
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
    use Verdict::{Fails, Holds, Inconclusive};

    /// The verdicts of six comparisons with a number: == != <= < >= >.
    fn verdicts(known: &KnownFigure, number: u64) -> [Verdict; 6] {
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

    #[test]
    fn a_figure_decides_as_far_as_it_is_known() {
        let (exact, open) = (
            KnownFigure::exactly(3),
            KnownFigure::Between(3.into(), None),
        );
        let half = |of| KnownFigure::exactly(Amount::mean(of, 2).expect("of two"));
        for (known, number, expected) in [
            (&exact, 2, "FHFFHH"),
            (&exact, 3, "HFHFHF"),
            (&exact, 4, "FHHHFF"),
            (&open, 2, "FHFFHH"),
            (&open, 3, "???FH?"),
            (&open, 4, "??????"),
            // Averages are compared exactly.
            (&half(u64::MAX), u64::MAX / 2, "FHFFHH"),
            (&half(u64::MAX), u64::MAX / 2 + 1, "FHHHFF"),
        ] {
            let letter = |verdict| match verdict {
                Holds => 'H',
                Fails => 'F',
                Inconclusive => '?',
            };
            let found: String = verdicts(known, number).map(letter).iter().collect();
            assert_eq!(found, expected, "{known:?}, {number}");
        }
    }

    #[test]
    fn a_range_includes_its_last_number_or_not() {
        let (to_5, below_5) = (Bound::Included(5), Bound::Excluded(5));
        for (low, high, end, expected) in [
            (5, Some(5), to_5, Holds),
            (5, Some(5), below_5, Fails),
            (2, Some(2), to_5, Fails),
            (4, None, to_5, Inconclusive),
            (6, None, to_5, Fails),
            (3, Some(4), below_5, Holds),
        ] {
            let test = Test::Within(Bound::Included(3), end);
            let known = KnownFigure::Between(low.into(), high.map(Into::into));
            assert_eq!(known.passes(&test, false), expected, "{known:?}");
        }
    }

    #[test]
    fn what_does_not_exist_or_is_of_several_words_fails_also_behind_not() {
        let zero = Test::Within(Bound::Included(0), Bound::Included(0));
        let of = |words: &[&str], are_all| {
            KnownFigure::words(words.iter().map(|&word| word.to_owned()), are_all)
        };
        let both = || of(&["sendfile", "splice"], true);
        let is = || Test::Word("sendfile".to_owned());
        let is_not = || Test::NotWord("sendfile".to_owned());
        for (known, test, expected) in [
            (KnownFigure::Missing("no call".into()), zero, [Fails, Fails]),
            (both(), is(), [Fails, Fails]),
            (both(), is_not(), [Fails, Fails]),
            (of(&["sendfile"], false), is(), [Inconclusive, Fails]),
            (of(&["sendfile"], false), is_not(), [Fails, Inconclusive]),
        ] {
            let found = [false, true].map(|not| known.passes(&test, not));
            assert_eq!(found, expected, "{known:?} {test:?}");
        }
    }

    #[test]
    fn figures_are_shown_exactly_and_in_readable_units() {
        for (amount, unit, expected) in [
            (65536.into(), FigureUnit::Bytes, "64 KiB"),
            (65000.into(), FigureUnit::Bytes, "65000 B (63.5 KiB)"),
            (12_345_678.into(), FigureUnit::Time, "12.346 ms"),
            (9.into(), FigureUnit::Signal, "SIGKILL"),
            (
                Amount::mean(10_001, 2).expect("of two"),
                FigureUnit::Bytes,
                "4.9 KiB (5000.5 B)",
            ),
        ] {
            assert_eq!(show(amount, unit), expected);
        }
    }

    #[test]
    fn and_and_or_join_three_values() {
        for (a, b, all, any) in [
            (Holds, Inconclusive, Inconclusive, Holds),
            (Fails, Inconclusive, Fails, Inconclusive),
            (Inconclusive, Inconclusive, Inconclusive, Inconclusive),
            (Holds, Fails, Fails, Holds),
        ] {
            assert_eq!(Verdict::all([a, b].into_iter()), all);
            assert_eq!(Verdict::any([a, b].into_iter()), any);
        }
    }
}
