//! The calls that have no rows, because they were not selected. They are only summed: by call for the whole trace, and by task.

#[cfg(doc)]
use crate::{CallSpec, Interrupted, Task};

/// Sums over calls that have no rows.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OtherCalls {
    /// How many returned.
    pub calls: u64,
    /// How many of them failed.
    pub errors: u64,
    /// How many never returned.
    pub unfinished: u64,
    /// How many of those that returned have no time, because seccomp answered them.
    pub untimed: u64,
    /// Sum of the times from entry to exit, ns.
    pub total_ns: u64,
}

impl OtherCalls {
    /// No calls.
    pub const NONE: Self = Self { calls: 0, errors: 0, unfinished: 0, untimed: 0, total_ns: 0 };
}

/// What [`Task::other`] says.
pub mod other {
    /// No call without a row is under way.
    pub const NONE: u32 = 0;
    /// The call in [`Task::slot`](crate::Task::slot) is under way, and has no row.
    pub const UNDER_WAY: u32 = 1;
    /// That call was ended by a signal: see [`Interrupted`](crate::Interrupted), of which only the time is used.
    pub const INTERRUPTED: u32 = 2;
}
