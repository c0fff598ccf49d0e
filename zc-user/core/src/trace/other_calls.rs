//! Calls that have no rows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    counts::{Counts, merge_known},
    units::{is_zero, mean},
};

/// Sums over calls without rows: they were not selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OtherCalls {
    /// How many returned.
    pub calls: u64,
    /// Those that failed.
    pub errors: u64,
    /// How many never returned.
    pub unfinished: u64,
    /// Those of `unfinished` under way when the trace ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub under_way: u64,
    /// Sum of the times from entry to exit. `None`: one is unknown, or `--counts-only`.
    pub total_ns: Option<u64>,
    /// The longest of them. `None`: none returned, one is unknown, or in a span: there were such calls before.
    #[serde(default)]
    pub max_ns: Option<u64>,
    /// How many waited until their time limit: `poll`, `select` and `epoll_wait` that returned 0,
    /// and `futex` that failed with `ETIMEDOUT`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub timed_out: u64,
    /// Sum of the times of these.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub timed_out_ns: u64,
}

impl OtherCalls {
    /// No calls.
    pub const NONE: Self = Self {
        calls: 0,
        errors: 0,
        unfinished: 0,
        under_way: 0,
        total_ns: Some(0),
        max_ns: None,
        timed_out: 0,
        timed_out_ns: 0,
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
            // The longest may have been one before.
            max_ns: self.max_ns.filter(|_| before.calls == 0),
            timed_out: self.timed_out.saturating_sub(before.timed_out),
            timed_out_ns: self.timed_out_ns.saturating_sub(before.timed_out_ns),
        }
    }

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.calls == 0 && self.unfinished == 0
    }
}

impl std::ops::AddAssign for OtherCalls {
    fn add_assign(&mut self, more: Self) {
        let returned = [self.calls, more.calls];
        let max_ns = [self.max_ns, more.max_ns];
        self.max_ns = merge_known(returned, max_ns, |one, other| Some(one.max(other)));
        let total_ns = [self.total_ns, more.total_ns];
        self.total_ns = merge_known(returned, total_ns, u64::checked_add);
        self.timed_out = self.timed_out.saturating_add(more.timed_out);
        self.timed_out_ns = self.timed_out_ns.saturating_add(more.timed_out_ns);
        self.calls = self.calls.saturating_add(more.calls);
        self.errors = self.errors.saturating_add(more.errors);
        self.unfinished = self.unfinished.saturating_add(more.unfinished);
        self.under_way = self.under_way.saturating_add(more.under_way);
    }
}

impl<E: Ord> From<&Counts<E>> for OtherCalls {
    fn from(counts: &Counts<E>) -> Self {
        Self {
            calls: counts.calls,
            errors: counts.errors,
            unfinished: counts.unfinished,
            under_way: counts.under_way,
            total_ns: counts.total_ns,
            ..Self::NONE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(calls: u64, max_ns: Option<u64>) -> OtherCalls {
        OtherCalls {
            calls,
            max_ns,
            ..OtherCalls::NONE
        }
    }

    #[test]
    fn the_longest_time_is_known_if_all_are() {
        let sum = |one, other| {
            let mut sum: OtherCalls = one;
            sum += other;
            sum.max_ns
        };
        let [none, unknown] = [OtherCalls::NONE, calls(2, None)];
        let [short, long] = [calls(1, Some(5)), calls(1, Some(9))];
        assert_eq!(sum(short, long), Some(9));
        assert_eq!(sum(long, none), Some(9));
        assert_eq!(sum(none, short), Some(5));
        assert_eq!(sum(long, unknown), None);
    }

    #[test]
    fn the_longest_time_since_then_is_known_if_there_were_no_calls_before() {
        let now = calls(3, Some(9));
        assert_eq!(now.since(OtherCalls::NONE).max_ns, Some(9));
        assert_eq!(now.since(calls(1, Some(9))).max_ns, None);
    }
}
