//! What is known of a log as a whole.

use std::{borrow::Cow, collections::BTreeMap};

use super::line::Stamp;
use crate::trace::Loss;

/// What is known of the log as a whole.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent fact about the log"
)]
pub struct LogFacts {
    /// What was lost.
    pub losses: BTreeMap<Loss, u64>,
    /// The first timestamp of the log.
    pub first_moment: Option<Stamp>,
    /// Whether any call has a duration.
    pub has_durations: bool,
    /// The first call that only 32-bit programs make.
    pub call_of_32_bit: Option<Cow<'static, str>>,
    /// How many calls have names that are in a table.
    pub table_calls: u64,
    /// How many have other names.
    pub foreign_calls: u64,
    /// How many recorded logs were read; 0 while a run is recorded.
    pub logs: usize,
    /// Whether it says when a task changes to another table of calls.
    pub has_modes: bool,
    /// Whether the log ends within a line.
    pub is_cut_off: bool,
    /// Whether strace attached to running processes, whose threads were known before.
    pub is_attached: bool,
    /// Whether strace detached from a task that was still running.
    pub was_detached: bool,
}

impl LogFacts {
    /// Whether the order of lines is that of events: it is one log, and not one for each thread.
    pub fn is_ordered(&self) -> bool {
        self.logs <= 1
    }

    /// Whether it is a recorded log: the options of strace are unknown.
    pub fn is_recorded(&self) -> bool {
        self.logs > 0
    }

    /// Counts a loss.
    pub fn count_loss(&mut self, loss: Loss) {
        *self.losses.entry(loss).or_default() += 1;
    }
}
