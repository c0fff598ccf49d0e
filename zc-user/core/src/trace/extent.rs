//! What a trace covers: [`Attached`], the processes that it attached to, and [`Span`], the part of the
//! time.

use std::ops::Not;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::is_zero;

/// What zctrace attached to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attached {
    /// The ids of the processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u32>,
    /// The directory of the cgroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Whether it was the whole system.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub system: bool,
    /// Calls under way at the attach, in no other figure. `None`: strace restarts them, and they
    /// count.
    pub under_way_at_attach: Option<u64>,
}

/// A part of a trace. A call belongs to the span in which it returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    /// The name that `start` gave it. `None`: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When it began, from the beginning of the trace.
    pub since_ns: u64,
    /// When it ended, likewise.
    pub until_ns: u64,
    /// At least how much time of its calls was before it began, over all threads.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub earlier_ns: u64,
}
