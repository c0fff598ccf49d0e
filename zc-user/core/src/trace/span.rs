//! [`Span`]: a part of a trace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of a trace, from one moment to another. A call belongs to the span in which it returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    /// What who began it calls it; `None`: it began by itself, with `--interval`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When it began, in ns since the trace did.
    pub since_ns: u64,
    /// When it ended, in ns since the trace began.
    pub until_ns: u64,
}
