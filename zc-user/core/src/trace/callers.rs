//! Who made the calls: the stacks of sampled calls.

use std::{collections::BTreeMap, ops::AddAssign};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Ends;
use crate::syscalls::Call;

/// A stack: an index into [`Trace::stacks`](super::Trace::stacks).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackId(pub u32);

/// The sampled calls of a row by the stack that they came from.
pub type CallerSums = BTreeMap<StackId, SampleSum>;

/// Samples, and the calls that they stand for: each for those since the one before it.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct SampleSum {
    /// Sampled calls.
    pub samples: u64,
    /// Calls that they stand for.
    pub calls: u64,
}

impl SampleSum {
    /// Samples of every call, each of which stands for itself.
    pub const fn of_every_call(calls: u64) -> Self {
        Self {
            samples: calls,
            calls,
        }
    }
}

impl AddAssign for SampleSum {
    fn add_assign(&mut self, more: Self) {
        self.samples = self.samples.saturating_add(more.samples);
        self.calls = self.calls.saturating_add(more.calls);
    }
}

/// A call whose caller was sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedCall {
    /// The call.
    pub call: Call,
    /// The files of its row.
    pub ends: Ends,
    /// Who made it.
    pub stack: StackId,
    /// What it returned; negative: the errno.
    pub result: i64,
    /// When it was entered: `CLOCK_MONOTONIC`. `None`: unknown.
    pub entered_ns: Option<u64>,
    /// How long it took. `None`: unknown.
    pub duration_ns: Option<u64>,
}

/// The active functions of a sampled call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Stack")]
pub struct SampledStack {
    /// The functions, from the caller to the thread's first one.
    pub frames: Vec<Frame>,
    /// Whether no function is missing at the end.
    pub complete: bool,
    /// Why functions are missing, as a clause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete_because: Option<String>,
}

impl SampledStack {
    /// A stack of these functions that ends like this.
    pub fn new(frames: Vec<Frame>, end: &StackEnd) -> Self {
        let incomplete_because = end.why_incomplete();
        Self {
            frames,
            complete: incomplete_because.is_none(),
            incomplete_because,
        }
    }
}

/// A function in a stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Frame {
    /// Its demangled name. `None`: its file has none.
    pub function: Option<String>,
    /// The source file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line there, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Whether it was inlined into the next frame.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inlined: bool,
    /// Whether the next function comes from the frame pointer, not from an unwind table.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_frame_pointer: bool,
    /// The program or library that it is in. `None`: it is in no file.
    pub module: Option<String>,
    /// Its address in `module`, for `addr2line`; without a module, in memory.
    pub address: u64,
}

/// How a stack ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum StackEnd {
    /// At the function that the process or the thread began with: it is complete.
    Root,
    /// This file has no unwind table for the last function.
    NoUnwindTable(String),
    /// The unwind table of this file could not be followed.
    BadUnwindTable(String),
    /// It is deeper than the part that was copied.
    TooDeep,
    /// It has more functions than are looked at.
    TooManyFunctions,
    /// The rest of it could not be read.
    Unreadable,
    /// In code that belongs to no known file, such as code that was made while the program ran.
    NoFile,
    /// The thread has changed to another stack there, as Go's runtime does.
    OtherStack,
    /// In this file, which is gone or cannot be read.
    FileGone(String),
    /// In this file, which was replaced or changed since it was mapped.
    FileReplaced(String),
    /// For another reason, as a clause.
    Other(String),
}

impl StackEnd {
    /// Why the stack is incomplete, as a clause: `it ends in code without a file`. `None`: it is
    /// complete.
    pub fn why_incomplete(&self) -> Option<String> {
        Some(match self {
            Self::Root => return None,
            Self::NoUnwindTable(file) => {
                format!("{file} has no unwind table for its last function")
            }
            Self::BadUnwindTable(file) => {
                format!("the unwind table of {file} could not be followed")
            }
            Self::TooDeep => {
                "it is deeper than the part that was copied, at most 64 KiB".to_owned()
            }
            Self::TooManyFunctions => {
                "it has more functions than the 512 that are looked at".to_owned()
            }
            Self::Unreadable => "the rest of it could not be read".to_owned(),
            Self::NoFile => {
                "its last function is in no known file, as in code generated at run time".to_owned()
            }
            Self::OtherStack => {
                "the thread had changed to another stack there, and the rest is on the first one"
                    .to_owned()
            }
            Self::FileGone(file) => format!("{file} is gone"),
            Self::FileReplaced(file) => {
                format!("{file} was replaced or changed after the program had mapped it")
            }
            Self::Other(why) => why.clone(),
        })
    }
}
