//! What is known about a figure, and whether that decides a comparison.

use std::{cmp::Ordering, collections::BTreeSet, ops::Bound};

use serde::{Deserialize, Serialize};

use super::ast::{NONE, Wanted};
use crate::{
    figures::list::FigureUnit,
    units,
    words::{names, words},
};

words! {
    /// How expectations treat inferred transfers.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Inferred {
        /// Such an expectation is inconclusive, unless proven transfers decide it.
        Inconclusive = "inconclusive",
        /// Inferred transfers count as facts.
        Accept = "accept",
    }
}

/// What an evaluation goes by, beside the report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Premises {
    /// How inferred transfers count.
    pub inferred: Inferred,
    /// Whether a selector may match nothing. Otherwise a comparison of its figure is inconclusive:
    /// its name may be a typing error.
    pub may_match_nothing: bool,
    /// Files that were there, whether or not the run used them: paths from its working directory,
    /// or from the root.
    pub files: BTreeSet<String>,
}

names! {
    /// Whether an expectation holds. Of several that must all hold, the greatest decides, and of
    /// those of which one must, the least.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Verdict {
        /// It holds.
        Holds = "holds",
        /// The report does not know enough to decide.
        Inconclusive = "inconclusive",
        /// It does not hold.
        Fails = "fails",
    }
}

impl Verdict {
    const fn negated_if(self, is_negated: bool) -> Self {
        match self {
            Self::Holds if is_negated => Self::Fails,
            Self::Fails if is_negated => Self::Holds,
            verdict => verdict,
        }
    }
}

/// A number that can be a fraction, such as an average.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    pub(super) fn mean_amount(sum: u64, count: u64) -> Option<Self> {
        (count > 0).then_some(Self {
            part: sum,
            of: count,
        })
    }

    /// The number, if it is no fraction.
    pub(super) const fn whole_number(self) -> Option<u64> {
        if self.of == 1 { Some(self.part) } else { None }
    }

    fn compare_to_whole(self, whole: u64) -> Ordering {
        u128::from(self.part).cmp(&(u128::from(whole) * u128::from(self.of)))
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
    /// There are several, which must all be as wanted.
    Each {
        /// The different ones: each is at least the first and at most the second. Without the second
        /// there is no upper bound.
        ranges: BTreeSet<(u64, Option<u64>)>,
        /// Whether these are all.
        are_all: bool,
    },
    /// Nothing is known, not even whether it exists.
    Unknown,
    /// There is no exit status, and that is known.
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

    /// This, or if that is not all, at least this.
    pub(super) fn at_least(sum: u64, is_all: bool) -> Self {
        Self::Between(sum.into(), is_all.then_some(sum.into()))
    }

    /// Whether it is known in full.
    pub(super) fn is_exact(&self) -> bool {
        match self {
            Self::Between(low, high) => *high == Some(*low),
            Self::Words { are_all, .. } => *are_all,
            Self::Each { ranges, are_all } => {
                *are_all && ranges.iter().all(|(low, high)| *high == Some(*low))
            }
            Self::Absent(_) | Self::Missing(_) => true,
            Self::Unknown => false,
        }
    }

    /// Whether it is what is wanted, or with `is_negated` anything else.
    pub(super) fn judge_against(&self, wanted: &Wanted, is_negated: bool) -> Verdict {
        let verdict = match (self, wanted) {
            (Self::Unknown, _) => Verdict::Inconclusive,
            (Self::Words { words, are_all }, Wanted::Word(wanted)) => {
                return if words.iter().any(|word| (word == wanted) == is_negated) {
                    Verdict::Fails
                } else if *are_all {
                    Verdict::Holds
                } else {
                    Verdict::Inconclusive
                };
            }
            (Self::Between(low, high), Wanted::Within(start, end)) => {
                judge_range(*low, *high, *start, *end)
            }
            (Self::Each { ranges, are_all }, Wanted::Within(start, end)) => {
                let one = |(low, high): &(u64, Option<u64>)| {
                    let verdict = judge_range((*low).into(), high.map(Into::into), *start, *end);
                    verdict.negated_if(is_negated)
                };
                let rest = [Verdict::Holds, Verdict::Inconclusive][usize::from(!are_all)];
                return ranges.iter().map(one).chain([rest]).max().unwrap_or(rest);
            }
            // It is no number.
            (Self::Absent(_), _) => Verdict::Fails,
            // What does not exist is neither less nor more than a number, and no word. The parser
            // rejects comparing words with numbers.
            (Self::Missing(_) | Self::Words { .. } | Self::Between(..) | Self::Each { .. }, _) => {
                return Verdict::Fails;
            }
        };
        verdict.negated_if(is_negated)
    }

    /// A clause: "is 3", "is at least 3".
    pub(super) fn describe_in(&self, unit: FigureUnit) -> String {
        match self {
            Self::Between(low, Some(high)) if low == high => {
                format!("is {}", amount_in_words(*low, unit))
            }
            Self::Between(low, Some(high)) => {
                format!(
                    "is between {} and {}",
                    amount_in_words(*low, unit),
                    amount_in_words(*high, unit)
                )
            }
            Self::Between(low, None) => format!("is at least {}", amount_in_words(*low, unit)),
            Self::Words { words, are_all } => match (words.is_empty(), are_all) {
                (true, _) => "is unknown".to_owned(),
                (false, true) => format!("is {}", words.join(", ")),
                (false, false) => format!("is {}, as far as zctrace knows", words.join(", ")),
            },
            Self::Each { ranges, .. } => match (ranges.first(), ranges.last()) {
                (Some((low, _)), Some((high, Some(_)))) if low == high => {
                    format!("is {} in each span", amount_in_words((*low).into(), unit))
                }
                (Some((low, _)), Some((high, end))) => {
                    let or_more = if end.is_some() { "" } else { " or more" };
                    let [low, high] = [low, high].map(|one| amount_in_words((*one).into(), unit));
                    format!("is {low} to {high}{or_more} in a span")
                }
                _ => "is unknown".to_owned(),
            },
            Self::Unknown => "is unknown".to_owned(),
            Self::Absent(why) => format!("is {NONE}: {why}"),
            Self::Missing(why) => format!("does not exist: {why}"),
        }
    }
}

/// Whether all amounts from `low` to `high` lie between these bounds: holds if that is certain,
/// fails if none does.
fn judge_range(low: Amount, high: Option<Amount>, start: Bound<u64>, end: Bound<u64>) -> Verdict {
    let is_before = |amount: Amount| match start {
        Bound::Included(start) => amount.compare_to_whole(start).is_lt(),
        Bound::Excluded(start) => amount.compare_to_whole(start).is_le(),
        Bound::Unbounded => false,
    };
    let is_after = |amount: Amount| match end {
        Bound::Included(end) => amount.compare_to_whole(end).is_gt(),
        Bound::Excluded(end) => amount.compare_to_whole(end).is_ge(),
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
pub(super) fn amount_in_words(amount: Amount, unit: FigureUnit) -> String {
    let whole = amount.part / amount.of;
    let number = |decimals: usize| {
        if amount.part.is_multiple_of(amount.of) {
            whole.to_string()
        } else {
            format!("{:.decimals$}", nearest_float(amount))
        }
    };
    match unit {
        FigureUnit::Bytes if whole < 1024 => format!("{} B", number(1)),
        FigureUnit::Bytes => format!("{} B ({})", number(1), units::bytes(whole)),
        FigureUnit::Time => readable_time(nearest_float(amount)),
        _ => number(2),
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "it is shown to a few digits; comparisons are exact"
)]
fn nearest_float(amount: Amount) -> f64 {
    amount.part as f64 / amount.of as f64
}

/// Nanoseconds in a readable unit.
fn readable_time(ns: f64) -> String {
    match ns {
        1e9.. => format!("{:.3} s", ns / 1e9),
        1e6.. => format!("{:.3} ms", ns / 1e6),
        1e3.. => format!("{:.3} µs", ns / 1e3),
        _ => format!("{ns:.0} ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expect::{ast::Expr, parser::parse};

    /// The verdict on a comparison: it holds, fails, or nobody knows.
    fn verdict_letter(known: &KnownFigure, text: &str) -> char {
        let Ok(Expr::Comparison(comparison)) = parse(text) else {
            panic!("{text} is no comparison");
        };
        match known.judge_against(&comparison.wanted, comparison.is_negated) {
            Verdict::Holds => 'H',
            Verdict::Fails => 'F',
            Verdict::Inconclusive => '?',
        }
    }

    fn range_between(low: u64, high: Option<u64>) -> KnownFigure {
        KnownFigure::Between(low.into(), high.map(Into::into))
    }

    #[test]
    fn a_figure_decides_as_far_as_it_is_known() {
        const SIGNS: [&str; 6] = ["==", "!=", "<=", "<", ">=", ">"];
        let half = KnownFigure::exactly(Amount::mean_amount(u64::MAX, 2).expect("of two"));
        let half = &half;
        for (known, number, expected, negated) in [
            (&range_between(3, Some(3)), 2, "FHFFHH", "HFHHFF"),
            (&range_between(3, Some(3)), 3, "HFHFHF", "FHFHFH"),
            (&range_between(3, Some(3)), 4, "FHHHFF", "HFFFHH"),
            (&range_between(3, None), 2, "FHFFHH", "HFHHFF"),
            (&range_between(3, None), 3, "???FH?", "???HF?"),
            (&range_between(3, None), 4, "??????", "??????"),
            // Averages are compared exactly.
            (half, u64::MAX / 2, "FHFFHH", "HFHHFF"),
            (half, u64::MAX / 2 + 1, "FHHHFF", "HFFFHH"),
        ] {
            for (not, expected) in [("", expected), ("not ", negated)] {
                let found = SIGNS
                    .map(|sign| verdict_letter(known, &format!("{not}read.calls {sign} {number}")));
                let found: String = found.iter().collect();
                assert_eq!(found, expected, "{known:?}, {not}{number}");
            }
        }
        for (low, high, expected) in [
            (5, Some(5), 'H'),
            (3, Some(5), 'H'),
            (2, Some(2), 'F'),
            (6, None, 'F'),
            (4, None, '?'),
            (4, Some(6), '?'),
        ] {
            let known = range_between(low, high);
            assert_eq!(
                verdict_letter(&known, "read.calls in 3..=5"),
                expected,
                "{known:?}"
            );
        }
    }

    #[test]
    fn what_does_not_exist_or_is_of_several_words_fails_also_behind_not() {
        const API: &str = "transfer(* -> *).api == sendfile";
        let of = |words: &[&str], are_all| KnownFigure::Words {
            words: words.iter().map(|&word| word.to_owned()).collect(),
            are_all,
        };
        let missing = KnownFigure::Missing("no call".into());
        for (known, text, expected) in [
            (missing, "read.avg_size == 0", ['F', 'F']),
            (of(&["sendfile", "splice"], true), API, ['F', 'F']),
            (of(&["sendfile"], false), API, ['?', 'F']),
            (of(&["splice"], false), API, ['F', '?']),
            (of(&["sendfile"], true), API, ['H', 'F']),
        ] {
            let found = ["", "not "].map(|not| verdict_letter(&known, &format!("{not}{text}")));
            assert_eq!(found, expected, "{known:?} {text}");
        }
    }

    #[test]
    fn figures_are_shown_exactly_and_in_readable_units() {
        let mean = Amount::mean_amount(10_001, 2).expect("of two");
        for (amount, unit, expected) in [
            (1023.into(), FigureUnit::Bytes, "1023 B"),
            (65000.into(), FigureUnit::Bytes, "65000 B (63.5 KiB)"),
            (12_345_678.into(), FigureUnit::Time, "12.346 ms"),
            (mean, FigureUnit::Bytes, "5000.5 B (4.9 KiB)"),
        ] {
            assert_eq!(amount_in_words(amount, unit), expected);
        }
    }
}
