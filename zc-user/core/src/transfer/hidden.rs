//! Ways by which bytes get into memory that no read of a file shows: messages, shared memory, and
//! other processes.
//!
//! What stays unknown: bytes that a process gets with its command line, its environment, names of
//! files and extended attributes, and those that another process stores into memory that both have
//! shared since a fork. A mapping of a file is no hidden way: it has a row.

use crate::trace::{File, FileId, Process, Row, Trace};

pub(super) const BRINGING: &[&str] = &[
    "ipc",
    "keyctl",
    "mq_timedreceive",
    "mq_timedreceive_time64",
    "msgrcv",
    "process_vm_readv",
    "shmat",
];

pub(super) const POKING: &[&str] = &["process_vm_writev", "ptrace"];

/// Which of these ways were used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct HiddenWays {
    /// Whether bytes were received. In what is known of the whole trace, only by calls without
    /// rows: nobody knows which process made them.
    pub(super) brought_bytes: bool,
    /// Whether a process may have changed the memory of another one.
    pub(super) poked: bool,
}

impl HiddenWays {
    /// Those that anybody in the trace may have used.
    pub(super) fn of(trace: &Trace) -> Self {
        let poked = || {
            trace.settled.poked()
                || trace
                    .all_processes()
                    .any(|process| pokes(process, &trace.files))
        };
        Self {
            brought_bytes: was_made(trace, BRINGING),
            poked: was_made(trace, POKING) || poked(),
        }
    }
}

/// Whether a call of these names that has no row was made with success. Who made it is not known.
fn was_made(trace: &Trace, names: &[&str]) -> bool {
    let mut summed = trace
        .other_calls
        .iter()
        .flatten()
        .filter(|(_, sums)| sums.calls + sums.unfinished > sums.errors);
    summed.any(|(call, _)| names.contains(&call.name.as_ref()))
        || names.iter().any(|name| trace.uncounted.contains(*name))
}

/// Whether rows of the process show that it received bytes without reading a file.
pub(super) fn received(process: &Process) -> bool {
    rows(process).any(|row| BRINGING.contains(&row.call.name.as_ref()) && row.calls > row.errors)
}

/// Whether rows of the process show that it may have changed the memory of another one. `files` are
/// those that its rows name.
pub(super) fn pokes(process: &Process, files: &[File]) -> bool {
    let has_worked =
        |row: &Row| row.unfinished > 0 || (row.calls > row.errors && row.bytes != Some(0));
    let to_memory = |to: FileId| {
        usize::try_from(to.0)
            .ok()
            .and_then(|index| files.get(index))
            .is_some_and(is_memory)
    };
    rows(process).any(|row| {
        has_worked(row)
            && (POKING.contains(&row.call.name.as_ref()) || row.ends.output.is_some_and(to_memory))
    })
}

/// Whether the file is the memory of a process: `/proc/PID/mem`.
fn is_memory(file: &File) -> bool {
    file.filesystem.as_deref().is_none_or(|name| name == "proc")
        && file
            .path
            .as_deref()
            .is_some_and(|path| path.starts_with("/proc/") && path.ends_with("/mem"))
}

fn rows(process: &Process) -> impl Iterator<Item = &Row> {
    process
        .threads
        .iter()
        .flat_map(|thread| thread.rows.iter().chain(&thread.ring_rows))
}
