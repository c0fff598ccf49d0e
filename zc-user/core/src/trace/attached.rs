//! [`Attached`]: what a trace attached to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a trace attached to, instead of launching a command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attached {
    /// The ids of the processes; empty for a cgroup.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u32>,
    /// The directory of the cgroup; left out for processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Calls that were under way when their task was found, and have returned since, or in which it
    /// still is. They are in no other figure. `None`: strace restarts these calls, and counts them from then
    /// on.
    pub under_way_at_attach: Option<u64>,
}
