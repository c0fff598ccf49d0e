//! [`SlowCalls`]: the calls that took longer than a limit, the longest of them one by one.

use std::{cmp::Reverse, collections::BTreeMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::is_zero;

/// The calls that took longer than a limit (`--slower-than`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlowCalls {
    /// The limit.
    pub slower_than_ns: u64,
    /// The calls, the longest first.
    pub calls: Vec<SlowCall>,
    /// How many more there were, none longer than these.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// How many more the kernel could not report. They may be the longest.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// Calls of unknown time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub untimed: u64,
}

/// A returned call that took longer than the limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlowCall {
    /// When it began, from the beginning of the run. `None`: unknown.
    pub at_ns: Option<u64>,
    /// How long it took.
    pub ns: u64,
    /// The call.
    pub call: String,
    /// Its path or address, else that of its descriptor, or the kind, such as `pipe`. eBPF knows
    /// only descriptors. `None`: none, or unknown.
    pub path: Option<String>,
    /// Its result, if it did not fail.
    pub result: Option<i64>,
    /// Its errno. `ERESTARTSYS` and the like: a signal interrupted it.
    pub error: Option<String>,
    /// The name of its process then.
    pub program: Option<String>,
    /// The name of its thread then.
    pub thread: Option<String>,
    /// Its process id.
    pub pid: Option<u32>,
    /// Thread id.
    pub tid: Option<u32>,
    /// With `--callers`, who made it: an index into [`Report::stacks`](crate::report::Report::stacks).
    /// `None`: unknown, or a signal interrupted the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<usize>,
}

/// Collects slow calls, and keeps the longest.
#[derive(Debug, Clone, Default)]
pub struct SlowestCalls {
    /// By their times and, of equal times, the latest first.
    longest: BTreeMap<(u64, Reverse<u64>), SlowCall>,
    added: u64,
}

impl SlowestCalls {
    /// How many are kept.
    pub const MAX_CALLS: usize = 1_000;

    /// Adds a call.
    pub fn add(&mut self, call: SlowCall) {
        self.added += 1;
        self.longest.insert((call.ns, Reverse(self.added)), call);
        if self.longest.len() > Self::MAX_CALLS {
            self.longest.pop_first();
        }
    }

    /// Those that were added. `lost` and `untimed` are as in [`SlowCalls`].
    pub fn finish(self, slower_than_ns: u64, lost: u64, untimed: u64) -> SlowCalls {
        let calls: Vec<SlowCall> = self.longest.into_values().rev().collect();
        SlowCalls {
            slower_than_ns,
            left_out: self.added - calls.len() as u64,
            calls,
            lost,
            untimed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_calls_are_kept_and_the_others_counted() {
        let mut slowest = SlowestCalls::default();
        for at in 0..3_000 {
            slowest.add(SlowCall {
                at_ns: Some(at),
                // Each time twice.
                ns: 10 + at % 1_500,
                ..SlowCall::default()
            });
        }
        let found = slowest.finish(9, 1, 2);
        assert_eq!((found.calls.len(), found.left_out), (1_000, 2_000));
        assert_eq!((found.slower_than_ns, found.lost, found.untimed), (9, 1, 2));
        let figures = |call: &SlowCall| (call.ns, call.at_ns);
        let first: Vec<_> = found.calls[..3].iter().map(figures).collect();
        let expected = [
            (1_509, Some(1_499)),
            (1_509, Some(2_999)),
            (1_508, Some(1_498)),
        ];
        assert_eq!(first, expected);
        assert_eq!(found.calls[999].ns, 1_010);
    }
}
