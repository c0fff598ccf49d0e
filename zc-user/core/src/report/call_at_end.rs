//! The calls that had not returned when their threads ended, or when the trace did.

use std::{cmp::Reverse, collections::BTreeMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    syscalls::{Call, CallEffect},
    trace::{FileId, Process, Thread},
    transfer::{End, EndTable},
};

/// A call that threads of a process were in when they or the trace ended, except the call that ends
/// a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallAtEnd {
    /// The call.
    pub syscall: String,
    /// As [`Syscall::abi`](super::Syscall::abi).
    pub abi: String,
    /// The file that it reads or writes. `None`: none, or unknown.
    pub file: Option<End>,
    /// Threads in it.
    pub threads: u64,
    /// How long the first thread had been in it. `None`: unknown.
    pub lasted_ns: Option<u64>,
}

impl CallAtEnd {
    /// Those of a process, the one that lasted longest first.
    pub(super) fn all_of(process: &Process, ends: &EndTable<'_>) -> Vec<Self> {
        let mut calls: BTreeMap<(&Call, Option<FileId>), Self> = BTreeMap::new();
        for thread in &process.threads {
            let Some(last) = &thread.last_call else {
                continue;
            };
            if last.call.spec().effect == CallEffect::Exits {
                continue;
            }
            let file = file_of(thread, &last.call);
            let new = || Self {
                syscall: last.call.name.to_string(),
                abi: last.call.abi.name().to_owned(),
                file: file.map(|file| ends.end(file)),
                threads: 0,
                lasted_ns: None,
            };
            let sum = calls.entry((&last.call, file)).or_insert_with(new);
            sum.threads += 1;
            sum.lasted_ns = sum.lasted_ns.max(last.lasted_ns);
        }
        let mut calls: Vec<Self> = calls.into_values().collect();
        calls.sort_by_key(|call| Reverse(call.lasted_ns));
        calls
    }
}

/// The file of the call that a thread is in: that of the only row with such a call.
fn file_of(thread: &Thread, call: &Call) -> Option<FileId> {
    let rows = thread.rows.iter();
    let mut rows = rows.filter(|row| row.call == *call && row.unfinished > 0);
    let row = rows.next().filter(|_| rows.next().is_none())?;
    row.ends.output.or_else(|| row.files().next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{report::sample::files::scene, trace::LastCall};

    #[test]
    fn the_last_call_of_a_thread_has_the_file_of_its_row() {
        let mut scene = scene("writer: write in>pipe 3 9000, write out 1 5, read in 1 7");
        let process = &mut scene.trace.processes[0];
        let lasted = |name: &'static str, lasted_ns| LastCall {
            call: Call::native(name),
            lasted_ns: Some(lasted_ns),
        };
        let thread = &mut process.threads[0];
        thread.rows[0].unfinished = 1;
        thread.last_call = Some(lasted("write", 5));
        let waiting = [
            lasted("futex", 7),
            lasted("futex", 9),
            lasted("exit_group", 8),
        ];
        process.threads.extend(waiting.map(|call| Thread {
            last_call: Some(call),
            ..Thread::default()
        }));
        let report = scene.report();
        let calls = report.processes[0].calls_at_end.iter();
        let calls: Vec<_> = calls
            .map(|call| {
                let kind = call.file.as_ref().and_then(|file| file.kind.as_deref());
                (call.syscall.as_str(), kind, call.threads, call.lasted_ns)
            })
            .collect();
        let expected = [
            ("futex", None, 2, Some(9)),
            ("write", Some("pipe"), 1, Some(5)),
        ];
        assert_eq!(calls, expected);
    }
}
