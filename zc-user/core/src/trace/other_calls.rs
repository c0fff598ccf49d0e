//! Calls that have no rows.

use derive_more::{Deref, DerefMut};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    counts::{CallSums, merge_known},
    units::is_zero,
};

/// Sums over calls that were not selected.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Deref, DerefMut, Serialize, Deserialize, JsonSchema,
)]
pub struct OtherCalls {
    /// The figures of any calls.
    #[deref]
    #[deref_mut]
    #[serde(flatten)]
    pub sums: CallSums,
    /// The longest time. `None`: none returned, one is unknown, or, in a span, such calls came
    /// before.
    #[serde(default)]
    pub max_ns: Option<u64>,
    /// How many reached their time limit: `poll`, `select` and `epoll_wait` with 0, `futex` with
    /// `ETIMEDOUT`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub timed_out: u64,
    /// Sum of the times of these.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub timed_out_ns: u64,
}

impl OtherCalls {
    /// No calls.
    pub const NONE: Self = Self::new(CallSums::NONE);

    /// Calls of which only these figures are known, and none timed out.
    pub const fn new(sums: CallSums) -> Self {
        Self {
            sums,
            max_ns: None,
            timed_out: 0,
            timed_out_ns: 0,
        }
    }

    /// What was added since there were only those `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            sums: self.sums.since(before.sums),
            // The longest may have been one before.
            max_ns: self.max_ns.filter(|_| before.calls == 0),
            timed_out: self.timed_out.saturating_sub(before.timed_out),
            timed_out_ns: self.timed_out_ns.saturating_sub(before.timed_out_ns),
        }
    }
}

impl std::ops::AddAssign for OtherCalls {
    fn add_assign(&mut self, more: Self) {
        let (returned, max_ns) = ([self.calls, more.calls], [self.max_ns, more.max_ns]);
        self.max_ns = merge_known(returned, max_ns, |one, other| Some(one.max(other)));
        self.timed_out = self.timed_out.saturating_add(more.timed_out);
        self.timed_out_ns = self.timed_out_ns.saturating_add(more.timed_out_ns);
        self.sums += more.sums;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_calls(calls: u64, max_ns: Option<u64>) -> OtherCalls {
        let mut sums = OtherCalls::NONE;
        (sums.calls, sums.max_ns) = (calls, max_ns);
        sums
    }

    #[test]
    fn the_longest_time_is_known_if_all_are() {
        let sum = |one, other| {
            let mut sum: OtherCalls = one;
            sum += other;
            sum.max_ns
        };
        let [none, unknown] = [OtherCalls::NONE, make_calls(2, None)];
        let [short, long] = [make_calls(1, Some(5)), make_calls(1, Some(9))];
        assert_eq!(sum(short, long), Some(9));
        assert_eq!(sum(long, none), Some(9));
        assert_eq!(sum(none, short), Some(5));
        assert_eq!(sum(long, unknown), None);
    }

    #[test]
    fn the_longest_time_since_then_is_known_if_there_were_no_calls_before() {
        let now = make_calls(3, Some(9));
        assert_eq!(now.since(OtherCalls::NONE).max_ns, Some(9));
        assert_eq!(now.since(make_calls(1, Some(9))).max_ns, None);
    }
}
