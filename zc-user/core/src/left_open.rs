//! The descriptors that the process of the command had opened itself and not closed when it ended.
//!
//! Those that it began with do not count, nor do 0, 1 and 2, nor those that an exec closed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was left open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOpen {
    /// The descriptors, in ascending order.
    pub descriptors: Vec<LeftDescriptor>,
    /// Why there may be more or fewer, each a clause.
    pub doubts: Vec<String>,
}

/// A descriptor that was left open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftDescriptor {
    /// Its number.
    pub fd: u32,
    /// Its path, relative to the command's working directory if below. `None`: none, or unknown.
    pub path: Option<String>,
    /// What kind of file it is, such as `regular` or `pipe`. `None`: unknown.
    pub kind: Option<String>,
    /// The call that opened it. `None`: unknown, as under eBPF.
    pub call: Option<String>,
}

impl LeftDescriptor {
    /// `3 out/a (openat)`; `4 pipe (pipe2)`.
    pub fn label(&self) -> String {
        let file = self.path.as_deref().or(self.kind.as_deref());
        let call = self.call.as_ref().map(|call| format!(" ({call})"));
        let file = file.unwrap_or("an unknown file");
        format!("{} {file}{}", self.fd, call.unwrap_or_default())
    }
}

impl LeftOpen {
    /// The same with paths relative to this directory, if they are below it.
    #[must_use]
    pub fn in_directory(mut self, directory: Option<&str>) -> Self {
        let start = directory.map(|directory| format!("{directory}/"));
        for one in &mut self.descriptors {
            let path = one.path.as_deref().zip(start.as_deref());
            if let Some(below) = path.and_then(|(path, start)| path.strip_prefix(start)) {
                one.path = Some(below.to_owned());
            }
        }
        self
    }
}
