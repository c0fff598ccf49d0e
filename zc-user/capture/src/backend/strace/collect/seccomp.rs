//! Recognises calls that seccomp answered with a trap or a kill. strace prints them like calls that returned, with the value that the
//! kernel's `syscall_rollback` leaves in place of a result: on x86 the number of the call, on ARM its first argument. Only the next line of
//! the thread shows what happened.

use super::Collector;
use crate::{
    backend::strace::{
        line::Event,
        names::{KnownCall, NameId},
        rows::{Ending, FinishedCall},
        syntax::unsigned,
        tasks::TaskId,
    },
    syscall::Abi,
};

/// A call that may not have been made, judging by its result.
#[derive(Debug)]
pub struct UncertainCall {
    /// Which call.
    pub name: NameId,
    /// Its table.
    pub abi: Abi,
    /// How it ended if it was made.
    pub ended: FinishedCall,
}

/// What a line says about the call before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It was made.
    Made,
    /// Seccomp kept it from being made.
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

/// Whether the call may not have been made. Checks the tables of all architectures, since the log may be from another one.
pub(super) fn may_be_trapped(call: &KnownCall, args: &[u8], how: Ending) -> bool {
    const TABLES: [Abi; 4] = [Abi::X86_64, Abi::I386, Abi::Aarch64, Abi::Arm];
    let Ending::Value(value) = how else { return false };
    let is_own_number = |number| TABLES.iter().any(|table| table.call_name(number) == Some(&call.name));
    u32::try_from(value).is_ok_and(is_own_number) || first_argument(args).is_some_and(|first| first == value.cast_unsigned())
}

/// The value of the first argument, if it is a number.
fn first_argument(args: &[u8]) -> Option<u64> {
    if args.starts_with(b"NULL") { Some(0) } else { unsigned(args).map(|(number, _)| number) }
}

impl Collector<'_> {
    /// Counts the uncertain call of a task, if there is one.
    pub(super) fn settle_uncertain_call(&mut self, id: TaskId, verdict: Verdict) {
        let task = self.tasks.get(id);
        let Some(UncertainCall { name, abi, ended }) = task.uncertain_call.take().map(|uncertain_call| *uncertain_call) else {
            return;
        };
        let how = if verdict == Verdict::Made { ended.how } else { Ending::Never };
        task.rows.add(name, self.names.get(name), abi, FinishedCall { how, ..ended });
    }
}
