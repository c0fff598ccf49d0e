//! What is known about a figure, and whether that decides a comparison.

use std::cmp::Ordering;

use serde::Serialize;

use super::{
    ast::{Equality, NONE, Op, Range, Test},
    field::Dimension,
    value::{Number, in_units},
};
use crate::{units, words::words};

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
        match (self, test) {
            (Self::Unknown, _) => Verdict::Inconclusive,
            (Self::Absent(_), Test::Word(equality, _)) => {
                is((*equality == Equality::Equal) != is_negated)
            }
            (Self::Absent(_), Test::Number(op @ (Op::Equal | Op::NotEqual), _)) => {
                is((*op == Op::NotEqual) != is_negated)
            }
            (
                Self::Words(words, completeness),
                Test::Word(equality, wanted) | Test::Name(equality, wanted),
            ) => {
                let wants_it = (*equality == Equality::Equal) != is_negated;
                let is_wanted = |word: &String| (word == wanted) == wants_it;
                match completeness {
                    _ if !words.iter().all(is_wanted) => Verdict::Fails,
                    Completeness::All => Verdict::Holds,
                    Completeness::AtLeast => Verdict::Inconclusive,
                }
            }
            // A number is not `none`.
            (Self::Between(..), Test::Word(equality, _)) => {
                is((*equality == Equality::NotEqual) != is_negated)
            }
            (Self::Between(low, high), Test::Number(op, number)) => {
                compare(*low, *high, *op, *number).negated_if(is_negated)
            }
            (Self::Between(low, high), Test::In(range)) => {
                within(*low, *high, *range).negated_if(is_negated)
            }
            // A missing figure is neither less nor more than a number. The parser rejects comparing
            // a word with a number.
            (Self::Missing(_) | Self::Absent(_) | Self::Words(..) | Self::Between(..), _) => {
                Verdict::Fails
            }
        }
    }

    /// A clause: "is 3", "is at least 3".
    pub(super) fn describe(&self, dimension: Dimension) -> String {
        match self {
            Self::Between(low, Some(high)) if low == high => {
                format!("is {}", show(*low, dimension))
            }
            Self::Between(low, Some(high)) => format!(
                "is between {} and {}",
                show(*low, dimension),
                show(*high, dimension)
            ),
            Self::Between(low, None) => format!("is at least {}", show(*low, dimension)),
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

const fn is(holds: bool) -> Verdict {
    if holds {
        Verdict::Holds
    } else {
        Verdict::Fails
    }
}

/// Holds if that is certain, fails if the opposite is certain.
const fn verdict(surely: bool, surely_not: bool) -> Verdict {
    match (surely, surely_not) {
        (true, _) => Verdict::Holds,
        (_, true) => Verdict::Fails,
        _ => Verdict::Inconclusive,
    }
}

fn compare(low: Amount, high: Option<Amount>, op: Op, number: Number) -> Verdict {
    let number = Amount::from(number.amount);
    let all_below = high.is_some_and(|high| high < number);
    let all_up_to = high.is_some_and(|high| high <= number);
    match op {
        Op::Equal => verdict(
            low == number && high == Some(number),
            low > number || all_below,
        ),
        Op::NotEqual => compare_not_equal(low, high, number),
        Op::Less => verdict(all_below, low >= number),
        Op::LessOrEqual => verdict(all_up_to, low > number),
        Op::Greater => verdict(low > number, all_up_to),
        Op::GreaterOrEqual => verdict(low >= number, all_below),
    }
}

fn compare_not_equal(low: Amount, high: Option<Amount>, number: Amount) -> Verdict {
    let all_below = high.is_some_and(|high| high < number);
    verdict(
        low > number || all_below,
        low == number && high == Some(number),
    )
}

fn within(low: Amount, high: Option<Amount>, range: Range) -> Verdict {
    let (first, last) = (
        Amount::from(range.first.amount),
        Amount::from(range.last.amount),
    );
    let is_before_end = |amount: Amount| {
        if range.is_inclusive {
            amount <= last
        } else {
            amount < last
        }
    };
    verdict(
        low >= first && high.is_some_and(is_before_end),
        !is_before_end(low) || high.is_some_and(|high| high < first),
    )
}

/// The figure for a person: exact, and in a readable unit.
fn show(amount: Amount, dimension: Dimension) -> String {
    let whole = amount.part / amount.of;
    let is_whole = amount.part.is_multiple_of(amount.of);
    match dimension {
        Dimension::Bytes if is_whole => exact_bytes(whole),
        Dimension::Bytes => format!("{} ({:.1} B)", units::bytes(whole), fraction(amount)),
        Dimension::Time => time(fraction(amount)),
        Dimension::Signal => Number {
            amount: whole,
            dimension,
        }
        .to_string(),
        _ if is_whole => whole.to_string(),
        _ => format!("{:.2}", fraction(amount)),
    }
}

fn exact_bytes(bytes: u64) -> String {
    match in_units(bytes, Dimension::Bytes) {
        (amount, unit) if unit.contains('i') => format!("{amount} {unit}"),
        _ if bytes < 1024 => format!("{bytes} B"),
        _ => format!("{bytes} B ({})", units::bytes(bytes)),
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

    fn passes(known: &Known, op: Op, amount: u64) -> Verdict {
        let number = Number {
            amount,
            dimension: Dimension::Count,
        };
        let verdict = known.passes(&Test::Number(op, number), false);
        assert_eq!(
            known.passes(&Test::Number(op, number), true),
            verdict.negated_if(true),
            "{known:?} {op:?} {amount}"
        );
        verdict
    }

    #[test]
    fn an_exact_figure_decides_every_comparison() {
        use Verdict::{Fails, Holds};
        let three = Known::exactly(3);
        let verdicts = |amount| Op::ALL.map(|(_, op)| passes(&three, op, amount));
        //                       ==     !=     <=     <      >=     >
        assert_eq!(verdicts(2), [Fails, Holds, Fails, Fails, Holds, Holds]);
        assert_eq!(verdicts(3), [Holds, Fails, Holds, Fails, Holds, Fails]);
        assert_eq!(verdicts(4), [Fails, Holds, Holds, Holds, Fails, Fails]);
    }

    #[test]
    fn a_lower_bound_decides_comparisons_below_it() {
        use Verdict::{Fails, Holds, Inconclusive};
        let at_least_three = Known::Between(3.into(), None);
        let verdicts = |amount| Op::ALL.map(|(_, op)| passes(&at_least_three, op, amount));
        assert_eq!(verdicts(2), [Fails, Holds, Fails, Fails, Holds, Holds]);
        assert_eq!(
            verdicts(3),
            [
                Inconclusive,
                Inconclusive,
                Inconclusive,
                Fails,
                Holds,
                Inconclusive
            ]
        );
        assert_eq!(verdicts(4), [Inconclusive; 6]);
    }

    #[test]
    fn a_range_includes_its_last_number_or_not() {
        let number = |amount| Number {
            amount,
            dimension: Dimension::Count,
        };
        let within = |known: &Known, is_inclusive| {
            known.passes(
                &Test::In(Range {
                    first: number(3),
                    last: number(5),
                    is_inclusive,
                }),
                false,
            )
        };
        assert_eq!(within(&Known::exactly(5), true), Verdict::Holds);
        assert_eq!(within(&Known::exactly(5), false), Verdict::Fails);
        assert_eq!(within(&Known::exactly(2), true), Verdict::Fails);
        assert_eq!(
            within(&Known::Between(4.into(), None), true),
            Verdict::Inconclusive
        );
        assert_eq!(
            within(&Known::Between(6.into(), None), true),
            Verdict::Fails
        );
        assert_eq!(
            within(&Known::Between(3.into(), Some(4.into())), false),
            Verdict::Holds
        );
    }

    #[test]
    fn averages_are_compared_exactly() {
        let average = Known::exactly(Amount::mean(u64::MAX, 2).expect("of two"));
        assert_eq!(passes(&average, Op::Greater, u64::MAX / 2), Verdict::Holds);
        assert_eq!(passes(&average, Op::Less, u64::MAX / 2 + 1), Verdict::Holds);
    }

    #[test]
    fn a_missing_figure_fails_even_behind_not() {
        let test = Test::Number(
            Op::Equal,
            Number {
                amount: 0,
                dimension: Dimension::Bytes,
            },
        );
        let missing = Known::Missing("no call".into());
        assert_eq!(
            [missing.passes(&test, false), missing.passes(&test, true)],
            [Verdict::Fails; 2]
        );
    }

    #[test]
    fn an_api_must_be_that_of_all_transfers_or_of_none() {
        let test = |equality| Test::Word(equality, "sendfile".to_owned());
        let both = Known::Words(
            ["sendfile", "splice"].map(str::to_owned).to_vec(),
            Completeness::All,
        );
        for is_negated in [false, true] {
            assert_eq!(
                both.passes(&test(Equality::Equal), is_negated),
                Verdict::Fails
            );
            assert_eq!(
                both.passes(&test(Equality::NotEqual), is_negated),
                Verdict::Fails
            );
        }
        let some = Known::Words(vec!["sendfile".to_owned()], Completeness::AtLeast);
        assert_eq!(
            some.passes(&test(Equality::Equal), false),
            Verdict::Inconclusive
        );
        assert_eq!(
            some.passes(&test(Equality::NotEqual), false),
            Verdict::Fails
        );
    }

    #[test]
    fn figures_are_shown_exactly_and_in_readable_units() {
        let shown = |amount: u64, dimension| show(amount.into(), dimension);
        assert_eq!(shown(65536, Dimension::Bytes), "64 KiB");
        assert_eq!(shown(65000, Dimension::Bytes), "65000 B (63.5 KiB)");
        assert_eq!(shown(12_345_678, Dimension::Time), "12.346 ms");
        assert_eq!(shown(9, Dimension::Signal), "SIGKILL");
        assert_eq!(
            show(Amount::mean(10_001, 2).expect("of two"), Dimension::Bytes),
            "4.9 KiB (5000.5 B)"
        );
    }

    #[test]
    fn and_and_or_join_three_values() {
        use Verdict::{Fails, Holds, Inconclusive};
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
