//! Calls that seccomp trapped or killed: strace shows them like calls that returned, with their own number as their result.
//! The next line of the thread tells.

use super::Collector;
use crate::{
    backend::strace::{
        line::Event,
        names::{Known, NameId},
        rows::{Ended, How},
        tasks::TaskId,
    },
    syscall::Abi,
};

/// A call whose result is its own number.
#[derive(Debug)]
pub struct Suspect {
    /// Which call.
    pub name: NameId,
    /// Its table.
    pub abi: Abi,
    /// How it ended, if it was made.
    pub ended: Ended,
}

/// What a line says of the call before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It was made.
    Made,
    /// Seccomp did not let it be made.
    Trapped,
}

impl Verdict {
    pub(super) fn of(event: &Event<'_>) -> Self {
        match event {
            Event::Trapped | Event::Killed { signal: b"SIGSYS" } => Self::Trapped,
            _ => Self::Made,
        }
    }
}

/// Whether the call may not have been made.
pub(super) fn is_suspect(call: &Known, abi: Abi, how: How) -> bool {
    let How::Value(value) = how else { return false };
    u32::try_from(value).is_ok_and(|value| abi.call_name(value) == Some(&call.name))
}

impl Collector<'_> {
    /// Counts the suspect of a task, if there is one.
    pub(super) fn settle_suspect(&mut self, id: TaskId, verdict: Verdict) {
        let task = self.tasks.get(id);
        let Some(Suspect { name, abi, ended }) = task.suspect.take().map(|suspect| *suspect) else { return };
        let how = if verdict == Verdict::Made { ended.how } else { How::Never };
        task.rows.add(name, self.names.get(name), abi, Ended { how, ..ended });
    }
}
