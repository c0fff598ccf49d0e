//! [`Reading`]: what the kernel is asked for at a moment, besides rows and messages.

use super::{live_tasks::LiveTasks, totals::KernelTotals};
use crate::backend::{RunError, SpanCounters, ebpf::load::object::Loaded};

/// What the kernel says at a moment of the trace so far.
#[derive(Clone)]
pub struct Reading {
    pub totals: KernelTotals,
    pub live: LiveTasks,
}

impl Reading {
    /// That of now.
    pub fn now(loaded: &Loaded, counters: SpanCounters) -> Result<Self, RunError> {
        Ok(Self {
            totals: KernelTotals::read(loaded)?,
            live: LiveTasks::now(loaded, counters)?,
        })
    }
}
