//! [`CallSums`]: the figures that are known of every set of calls. [`Counts`] adds those of calls with
//! rows. Rows of a trace, entries of a report and its JSON embed them. [`Times`] are the times of calls
//! that were timed one by one.
//!
//! What is unknown is `None`, never 0. A sum is unknown if a part of it is, or if it does not fit. Calls
//! that never returned have no bytes and no times, so a part in which none returned adds nothing.

use std::{collections::BTreeMap, iter::Sum, ops::AddAssign};

use derive_more::{Deref, DerefMut};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    errno,
    histogram::Histogram,
    syscalls::{Requested, Returned, Spec},
    units::{is_zero, mean},
};

/// The figures of a set of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallSums {
    /// How many returned.
    pub calls: u64,
    /// Those that failed.
    pub errors: u64,
    /// How many never returned.
    pub unfinished: u64,
    /// Those of `unfinished` under way when the trace ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub under_way: u64,
    /// Sum of the times from entry to exit. `None`: as with `--counts-only`, for io_uring, and in a
    /// log without `-T`.
    pub total_ns: Option<u64>,
}

impl CallSums {
    /// No calls.
    pub const NONE: Self = Self {
        calls: 0,
        errors: 0,
        unfinished: 0,
        under_way: 0,
        total_ns: Some(0),
    };

    /// The mean of their times. `None`: unknown, or none returned.
    pub fn mean_ns(&self) -> Option<u64> {
        mean(self.total_ns?, self.calls)
    }

    /// What was added since there were only those `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let times = self.total_ns.zip(before.total_ns);
        Self {
            calls: self.calls.saturating_sub(before.calls),
            errors: self.errors.saturating_sub(before.errors),
            unfinished: self.unfinished.saturating_sub(before.unfinished),
            under_way: self.under_way.saturating_sub(before.under_way),
            total_ns: times.map(|(now, before)| now.saturating_sub(before)),
        }
    }

    /// Whether there are none.
    pub const fn is_none(&self) -> bool {
        self.calls == 0 && self.unfinished == 0
    }
}

impl AddAssign for CallSums {
    fn add_assign(&mut self, more: Self) {
        let (returned, times) = ([self.calls, more.calls], [self.total_ns, more.total_ns]);
        self.total_ns = merge_known(returned, times, u64::checked_add);
        self.calls = self.calls.saturating_add(more.calls);
        self.errors = self.errors.saturating_add(more.errors);
        self.unfinished = self.unfinished.saturating_add(more.unfinished);
        self.under_way = self.under_way.saturating_add(more.under_way);
    }
}

impl Sum for CallSums {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::NONE, |mut sum, more| {
            sum += more;
            sum
        })
    }
}

/// The figures of a set of calls with rows. Errors are by errno: a positive number in a trace, a name
/// in a report.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, Deref, DerefMut, Serialize, Deserialize, JsonSchema,
)]
pub struct Counts<E: Ord> {
    /// The figures of any calls.
    #[deref]
    #[deref_mut]
    #[serde(flatten)]
    pub sums: CallSums,
    /// The errors by errno. Their sum is less than `errors` only if errnos were lost.
    pub errnos: BTreeMap<E, u64>,
    /// Bytes that the calls moved. `None`: the result is no number of bytes, or the sum does not
    /// fit.
    pub bytes: Option<u64>,
    /// Bytes that the calls asked for. `None`: no size, an unreadable one, or the sum does not fit.
    pub requested_bytes: Option<u64>,
}

impl<E: Ord> Counts<E> {
    /// The figures of a call that was not made.
    pub fn none_of(spec: &Spec) -> Self {
        Self {
            sums: CallSums::NONE,
            errnos: BTreeMap::new(),
            bytes: (spec.returned == Returned::Bytes).then_some(0),
            requested_bytes: (spec.requested != Requested::Nowhere).then_some(0),
        }
    }
}

impl Counts<u32> {
    /// The same figures with errors by name.
    pub fn with_named_errnos(self) -> Counts<String> {
        let mut errnos = BTreeMap::new();
        for (errno, count) in self.errnos {
            *errnos.entry(errno::name(errno)).or_default() += count;
        }
        Counts {
            errnos,
            sums: self.sums,
            bytes: self.bytes,
            requested_bytes: self.requested_bytes,
        }
    }
}

impl<E: Ord + Clone> AddAssign<&Self> for Counts<E> {
    fn add_assign(&mut self, more: &Self) {
        let returned = [self.calls, more.calls];
        let sum = |one, other| merge_known(returned, [one, other], u64::checked_add);
        self.bytes = sum(self.bytes, more.bytes);
        self.requested_bytes = sum(self.requested_bytes, more.requested_bytes);
        self.sums += more.sums;
        add_counts(&mut self.errnos, &more.errnos);
    }
}

/// Merges a figure of two sets of calls. A set of which no call `returned` adds nothing.
pub(crate) fn merge_known<T>(
    returned: [u64; 2],
    figures: [Option<T>; 2],
    merge: impl FnOnce(T, T) -> Option<T>,
) -> Option<T> {
    let [one, other] = figures;
    match returned {
        [0, 0] => one.or(other),
        [0, _] => other,
        [_, 0] => one,
        _ => merge(one?, other?),
    }
}

/// Adds counts to the counts of the same things.
pub fn add_counts<K: Ord + Clone, N: AddAssign + Copy + Default>(
    sums: &mut BTreeMap<K, N>,
    more: &BTreeMap<K, N>,
) {
    for (thing, count) in more {
        *sums.entry(thing.clone()).or_default() += *count;
    }
}

/// Times from entry to exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times {
    /// Shortest.
    pub min_ns: u64,
    /// Longest.
    pub max_ns: u64,
    /// Distribution; it counts the calls that were timed.
    pub histogram: Histogram,
}

impl Times {
    /// The time of one call.
    pub fn of_call(ns: u64) -> Self {
        let mut histogram = Histogram::default();
        histogram.record(ns);
        Self {
            min_ns: ns,
            max_ns: ns,
            histogram,
        }
    }

    /// Adds the time of one more call.
    pub fn record_ns(&mut self, ns: u64) {
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        self.histogram.record(ns);
    }

    /// The time in ns that `percent` of the calls do not exceed, at most 6.25 % off. `None`: unknown.
    pub fn percentile_ns(&self, percent: u8) -> Option<u64> {
        let middle = self.histogram.percentile(percent)?;
        // The middle of a bucket may lie outside of the range that was measured.
        Some(middle.clamp(self.min_ns, self.max_ns.max(self.min_ns)))
    }
}

impl AddAssign<&Self> for Times {
    fn add_assign(&mut self, more: &Self) {
        self.min_ns = self.min_ns.min(more.min_ns);
        self.max_ns = self.max_ns.max(more.max_ns);
        self.histogram.merge(&more.histogram);
    }
}

/// Adds times, if any are known, to those of other calls.
pub fn add_times(sum: &mut Option<Times>, more: Option<&Times>) {
    match (sum, more) {
        (Some(sum), Some(more)) => *sum += more,
        (sum @ None, more) => *sum = more.cloned(),
        (Some(_), None) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_unknown_figure_makes_the_sum_unknown() {
        let counts = |calls, bytes| Counts::<u32> {
            sums: CallSums {
                calls,
                ..CallSums::NONE
            },
            bytes,
            ..Counts::default()
        };
        for (more, bytes) in [
            (counts(1, Some(6)), Some(11)),
            (counts(1, None), None),
            (counts(1, Some(u64::MAX)), None),
            // Without a call nothing is unknown.
            (counts(0, None), Some(5)),
        ] {
            let mut sum = counts(1, Some(5));
            sum += &more;
            assert_eq!(sum.bytes, bytes);
        }
    }
}
