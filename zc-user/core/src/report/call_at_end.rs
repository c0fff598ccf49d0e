//! The calls that had not returned when their threads ended, or when the trace did.

use std::{cmp::Reverse, collections::BTreeMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ends::{End, EndTable},
    syscalls::{Call, CallEffect},
    trace::{EndInode, FileId, LastCall, OpenEnd, Process, Thread, Trace},
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
    /// The path that it was given, if a signal ended it. Left out: none, or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The processes that had the other end of that pipe or Unix socket open shortly before. Left out:
    /// none was found, or it was not looked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_end: Vec<EndHolder>,
    /// Threads in it.
    pub threads: u64,
    /// How long the first thread had been in it. `None`: unknown.
    pub lasted_ns: Option<u64>,
}

/// A process that had an end of a pipe or connection open.
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
        let holders = trace.open_ends.iter().filter(|open| open.inode == end);
        let holder = |open: &OpenEnd| Self {
            pid: open.pid,
            name: open.name.clone(),
            is_traced: trace.all_processes().any(|process| process.pid == open.pid),
        };
        holders.map(holder).collect()
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
            let other_end = || {
                let file = file?;
                file.id.in_files(&trace.files)?.other_end(file.is_written)
            };
            let path = path_of(thread, last, trace);
            let new = || Self {
                syscall: last.call.name.to_string(),
                abi: last.call.abi.name().to_owned(),
                file: file.map(|file| ends.end(file.id)),
                path: path.map(str::to_owned),
                other_end: other_end().map_or_else(Vec::new, |end| EndHolder::all_of(end, trace)),
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

/// The file of the call that a thread is in: that of the only row with such a call.
fn file_of(thread: &Thread, call: &Call) -> Option<CallFile> {
    let rows = thread.rows.iter();
    let mut rows = rows.filter(|row| row.call == *call && row.unfinished > 0);
    let row = rows.next().filter(|_| rows.next().is_none())?;
    Some(CallFile {
        id: row.ends.output.or_else(|| row.files().next())?,
        is_written: row.ends.output.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::sample::files::{Scene, scene},
        trace::LastCall,
    };

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

    /// The scene, in which the only thread was in its only call at the end.
    fn waiting(mut scene: Scene, call: &'static str) -> Scene {
        let thread = &mut scene.trace.processes[0].threads[0];
        thread.rows[0].unfinished = 1;
        thread.last_call = Some(LastCall {
            call: Call::native(call),
            lasted_ns: Some(5),
        });
        scene
    }

    /// Which processes have the other end of what the only call waits on.
    fn holders(scene: &Scene) -> Vec<(u32, bool)> {
        let report = scene.report();
        let holders = report.processes[0].calls_at_end[0].other_end.iter();
        holders.map(|one| (one.pid, one.is_traced)).collect()
    }

    fn open(inode: EndInode, pid: u32) -> OpenEnd {
        OpenEnd {
            inode,
            pid,
            name: None,
        }
    }

    #[test]
    fn a_call_on_a_pipe_names_who_has_its_other_end() {
        for (calls, call, other) in [
            ("cat: write pipe 1 5", "write", EndInode::PipeToRead(100)),
            ("cat: read pipe 1 5", "read", EndInode::PipeToWrite(100)),
        ] {
            let mut scene = waiting(scene(calls), call);
            let traced = scene.trace.processes[0].pid;
            scene.trace.open_ends = [
                EndInode::PipeToRead(100),
                EndInode::PipeToWrite(100),
                EndInode::Socket(100),
            ]
            .into_iter()
            .flat_map(|inode| {
                if inode == other {
                    vec![open(inode, traced), open(inode, 4711)]
                } else {
                    vec![open(inode, 9999)]
                }
            })
            .collect();
            assert_eq!(holders(&scene), [(traced, true), (4711, false)], "{calls}");
        }
    }

    #[test]
    fn a_call_on_a_socket_names_who_has_its_peer() {
        let mut scene = Scene::new();
        let [near, _] = scene.socketpair();
        scene.name("near", near);
        scene.run("client: recvfrom near 1 5");
        let mut scene = waiting(scene, "recvfrom");
        scene.trace.open_ends = vec![
            open(EndInode::Socket(100), 1),
            open(EndInode::Socket(101), 2),
        ];
        assert_eq!(holders(&scene), [(2, false)]);
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
