//! Calls that have no rows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sum_known;
use crate::units::{is_zero, mean};

/// Sums over calls that have no rows, because they were not selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OtherCalls {
    /// How many returned.
    pub calls: u64,
    /// How many of them failed.
    pub errors: u64,
    /// How many never returned.
    pub unfinished: u64,
    /// How many of these were under way when the trace ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub under_way: u64,
    /// Sum of the times from entry to exit. `None`: one is unknown, or `--counts-only`.
    pub total_ns: Option<u64>,
}

impl OtherCalls {
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

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.calls == 0 && self.unfinished == 0
    }
}

impl std::ops::AddAssign for OtherCalls {
    fn add_assign(&mut self, more: Self) {
        self.calls = self.calls.saturating_add(more.calls);
        self.errors = self.errors.saturating_add(more.errors);
        self.unfinished = self.unfinished.saturating_add(more.unfinished);
        self.under_way = self.under_way.saturating_add(more.under_way);
        self.total_ns = sum_known(self.total_ns, more.total_ns);
    }
}
