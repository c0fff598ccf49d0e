//! Whether a recorded log has all that happened. strace leaves calls out if it is told to (`-e trace`, `-z`, `-Z`, `-P`), and does not say so
//! in the log.
//!
//! What gives it away: a command whose first line is no exec, and a process that exited without `exit_group`, which strace does not
//! take for a successful call. A filter that lets these through leaves no trace, so a note says in any case that it is unknown.

use std::collections::BTreeMap;

use super::{super::tasks::FirstCall, Life, Parts, Task, TaskId, leader};
use crate::{
    syscall::Fds,
    trace::{Exit, Loss, Trace},
};

/// What is said of every recorded log.
pub(super) const UNKNOWN_FILTER: &str =
    "a log does not say which calls strace was told to leave out: a call that is not listed may have been made";

/// Counts the signs that calls were left out, and that the log ends too early.
pub(super) fn find_gaps(tasks: &[Task], root: Option<TaskId>, parts: &mut Parts) {
    let begins_late = root.is_some_and(|root| matches!(tasks[root].first_call, FirstCall::Other));
    // A log that ends by letting go of a task begins by attaching to it.
    let late = usize::from(begins_late && !parts.was_detached);
    let gaps = late + exits_without_call(tasks);
    if gaps > 0 {
        parts.losses.insert(Loss::UnshownCalls, u64::try_from(gaps).unwrap_or(u64::MAX));
    }
    let goes_on = root.is_some_and(|root| tasks[root].life == Life::Alive && !tasks[root].has_exited);
    if parts.is_cut_off || (goes_on && !parts.was_detached) {
        parts.losses.insert(Loss::TracerEnded, 1);
    }
}

/// Processes that exited by themselves, none of whose threads called for it.
fn exits_without_call(tasks: &[Task]) -> usize {
    let mut by_process: BTreeMap<TaskId, (bool, bool)> = BTreeMap::new();
    for (id, task) in tasks.iter().enumerate() {
        let (ended, called) = by_process.entry(leader(tasks, id)).or_default();
        *ended |= matches!(task.life, Life::Ended(Some(Exit::Code(_))));
        *called |= task.has_exited;
    }
    by_process.values().filter(|(ended, called)| *ended && !called).count()
}

/// A sentence on a log that names no files, although its calls use some.
pub(super) fn unnamed_files_note(trace: &Trace) -> Option<String> {
    let mut rows = trace.processes.iter().flat_map(|process| &process.threads).flat_map(|thread| &thread.rows);
    let uses_files = rows.any(|row| row.calls > row.errors && row.call.spec().fds != Fds::None);
    (uses_files && trace.files.is_empty())
        .then(|| "the log names no files, so which bytes went where is unknown: record it with strace -yy".to_owned())
}
