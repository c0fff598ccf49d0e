//! The calls that had not returned when their threads ended, or when the trace did.

use std::{cmp::Reverse, collections::BTreeMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ends::{End, EndTable},
    syscalls::{Call, CallEffect},
    trace::{EndInode, FileId, LastCall, Process, Thread, Trace},
};

/// A call that threads were in when they or the trace ended, except the call that ends a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallAtEnd {
    /// The call.
    pub syscall: String,
    /// As [`Syscall::abi`](super::Syscall::abi).
    pub abi: String,
    /// The file that it reads or writes. `None`: none, or unknown.
    pub file: Option<End>,
    /// Its path, if a signal ended it. Left out: none, or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The processes that held the other end of that pipe or Unix socket shortly before. Left out:
    /// none found, or not looked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_end: Vec<EndHolder>,
    /// Threads in it.
    pub threads: u64,
    /// How long the first thread had been in it. `None`: unknown.
    pub lasted_ns: Option<u64>,
}

/// A process that held an end of a pipe or connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EndHolder {
    /// Process id, as zctrace sees it.
    pub pid: u32,
    /// Its name. `None`: unknown.
    pub name: Option<String>,
    /// Whether it was traced.
    pub is_traced: bool,
}

impl EndHolder {
    /// Those that had this end open.
    fn all_of(end: EndInode, trace: &Trace) -> Vec<Self> {
        let mut holders = Vec::new();
        for open in trace.open_ends.iter().filter(|open| open.inode == end) {
            holders.push(Self {
                pid: open.pid,
                name: open.name.clone(),
                is_traced: trace.all_processes().any(|process| process.pid == open.pid),
            });
        }
        holders
    }
}

impl CallAtEnd {
    /// Those of a process, the one that lasted longest first.
    pub(super) fn all_of(process: &Process, trace: &Trace, ends: &EndTable<'_>) -> Vec<Self> {
        let mut calls: BTreeMap<(&Call, Option<CallFile>, Option<&str>), Self> = BTreeMap::new();
        for thread in &process.threads {
            let Some(last) = &thread.last_call else {
                continue;
            };
            if last.call.spec().effect == CallEffect::Exits {
                continue;
            }
            let file = file_of(thread, &last.call);
            let path = path_of(thread, last, trace);
            let new = || Self {
                syscall: last.call.name.to_string(),
                abi: last.call.abi.name().to_owned(),
                file: file.map(|file| ends.find_end(file.id)),
                path: path.map(str::to_owned),
                other_end: match file.and_then(|file| file.other_end(trace)) {
                    Some(end) => EndHolder::all_of(end, trace),
                    None => Vec::new(),
                },
                threads: 0,
                lasted_ns: None,
            };
            let sum = calls.entry((&last.call, file, path)).or_insert_with(new);
            sum.threads += 1;
            sum.lasted_ns = sum.lasted_ns.max(last.lasted_ns);
        }
        let mut calls: Vec<Self> = calls.into_values().collect();
        calls.sort_by_key(|call| Reverse(call.lasted_ns));
        calls
    }
}

/// The path that was given to the call that a thread was in when a signal ended it.
fn path_of<'t>(thread: &Thread, last: &LastCall, trace: &'t Trace) -> Option<&'t str> {
    let ended_ns = thread.ended_ns?;
    let from_ns = ended_ns.checked_sub(last.lasted_ns?)?;
    let paths = trace.failed_paths.as_ref()?;
    let path = paths.interrupted_path(&last.call, from_ns, ended_ns)?;
    Some(&path.text)
}

/// The file of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct CallFile {
    id: FileId,
    /// Whether the call writes to it.
    is_written: bool,
}

impl CallFile {
    fn other_end(self, trace: &Trace) -> Option<EndInode> {
        self.id.in_files(&trace.files)?.other_end(self.is_written)
    }
}

/// The file of the call that a thread is in: that of the only row with such a call.
fn file_of(thread: &Thread, call: &Call) -> Option<CallFile> {
    let rows = thread.rows.iter();
    let mut rows = rows.filter(|row| row.call == *call && row.unfinished > 0);
    let row = rows.next().filter(|_| rows.next().is_none())?;
    Some(CallFile {
        id: row.ends.output.or(row.files().next())?,
        is_written: row.ends.output.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        golden::{GoldenCase, check_golden},
        report::sample::files::{Scene, scene},
    };

    #[test]
    fn calls_at_the_end_have_their_files_and_who_has_the_other_end() {
        check_golden("report/tests/calls_at_end.txt", GoldenCase::Lines, |case| {
            let report = Scene::read(case).report();
            let mut lines = Vec::new();
            for call in &report.processes[0].calls_at_end {
                let kind = call.file.as_ref().and_then(|file| file.kind.as_deref());
                let kind = kind.unwrap_or("no file");
                let (name, threads, lasted) = (&call.syscall, call.threads, call.lasted_ns);
                let holders = call.other_end.iter();
                let holders: Vec<_> = holders.map(|one| (one.pid, one.is_traced)).collect();
                lines.push(format!(
                    "{name} on {kind}, {threads} threads, {lasted:?} ns, held by {holders:?}"
                ));
            }
            lines.join("\n")
        });
    }

    #[test]
    fn a_call_that_a_signal_ended_has_its_path_if_only_one_was_interrupted_meanwhile() {
        use crate::trace::{FailedPath, FailedPaths, GivenPath};
        use zc_ebpf::PathSums;

        let path = |paths: &[(&str, u64)]| {
            let mut scene = scene("cat: read in 1 7");
            let open = Call::native("openat");
            let thread = &mut scene.trace.processes[0].threads[0];
            thread.ended_ns = Some(100);
            thread.last_call = Some(LastCall {
                call: open.clone(),
                lasted_ns: Some(40),
            });
            let mut failed = FailedPaths::default();
            for &(text, last) in paths {
                let text = text.to_owned();
                let given = GivenPath {
                    text,
                    is_cut: false,
                    is_below_descriptor: false,
                };
                let interrupted = FailedPath {
                    call: open.clone(),
                    errno: 512,
                    paths: [Some(given), None],
                };
                failed.add_sums(interrupted, PathSums { calls: 1, last });
            }
            scene.trace.failed_paths = Some(failed);
            let report = scene.report();
            assert_eq!(report.totals.failed_paths, Some(Vec::new()));
            report.processes[0].calls_at_end[0].path.clone()
        };
        assert_eq!(path(&[("old", 59), ("fifo", 100)]).as_deref(), Some("fifo"));
        assert_eq!(path(&[("one", 60), ("other", 100)]), None);
        assert_eq!(path(&[]), None);
    }
}
