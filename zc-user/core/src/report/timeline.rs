//! When the sampled calls were made, thread by thread. JSON does not have it: it is for profiles.

use std::{borrow::Cow, time::SystemTime};

use crate::{
    errno,
    syscalls::{Fds, Returned},
    trace::{self, File, FileId, Trace},
};

/// The calls whose callers were sampled, with their times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timeline {
    /// When the command was launched. `None`: unknown.
    pub started_at: Option<SystemTime>,
    /// The threads, process by process in the order in which they were created.
    pub threads: Vec<TimedThread>,
}

/// A thread. Its times count from the start of the first thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TimedThread {
    /// The id of its process.
    pub pid: u32,
    /// Its own id.
    pub tid: u32,
    /// The name of its process.
    pub process: Option<String>,
    /// Its own name.
    pub name: Option<String>,
    /// Whether its process began with it.
    pub is_first: bool,
    /// When it began. `None`: unknown.
    pub started_ns: Option<u64>,
    /// When it ended. `None`: it still ran, or unknown.
    pub ended_ns: Option<u64>,
    /// Its calls, in the order in which they were made.
    pub calls: Vec<TimedCall>,
}

/// A call whose caller was sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedCall {
    /// Its name.
    pub syscall: Cow<'static, str>,
    /// Whether it moves data.
    pub moves_data: bool,
    /// Who made it: an index into [`Report::stacks`](super::Report::stacks).
    pub stack: usize,
    /// The bytes that it moved. `None`: unknown, or it moves none.
    pub bytes: Option<u64>,
    /// Why it failed; `None` if it did not.
    pub error: Option<String>,
    /// The files that it used: `in`, or `in -> out`.
    pub files: Option<String>,
    /// When it was made. `None`: unknown.
    pub at_ns: Option<u64>,
    /// How long it took. `None`: unknown.
    pub duration_ns: Option<u64>,
}

impl Timeline {
    /// The timeline of a trace; `None` if the times of samples were not kept.
    pub(super) fn from_trace(trace: &Trace) -> Option<Self> {
        let processes = || trace.processes.iter();
        let threads = || processes().flat_map(|process| &process.threads);
        if trace.stacks.is_none() || threads().all(|thread| thread.timed_calls.is_empty()) {
            return None;
        }
        let begun_ns = threads()
            .filter_map(|thread| thread.started_ns)
            .min()
            .unwrap_or(0);
        let mut timed = Vec::new();
        for process in processes() {
            for (index, thread) in process.threads.iter().enumerate() {
                let since = |ns: Option<u64>| ns.map(|ns| ns.saturating_sub(begun_ns));
                let calls = thread.timed_calls.iter();
                let call = |call| TimedCall::from_trace(call, &trace.files, begun_ns);
                let mut calls: Vec<TimedCall> = calls.map(call).collect();
                calls.sort_by_key(|call| call.at_ns);
                timed.push(TimedThread {
                    pid: process.pid,
                    tid: thread.tid,
                    process: process.name().map(str::to_owned),
                    name: thread.comm.clone(),
                    is_first: index == 0,
                    started_ns: since(thread.started_ns),
                    ended_ns: since(thread.ended_ns),
                    calls,
                });
            }
        }
        Some(Self {
            started_at: trace.started_at,
            threads: timed,
        })
    }
}

impl TimedCall {
    fn from_trace(timed: &trace::TimedCall, files: &[File], begun_ns: u64) -> Self {
        let spec = timed.call.spec();
        let returns_bytes = spec.returned == Returned::Bytes;
        let errno = timed
            .result
            .checked_neg()
            .and_then(|errno| u32::try_from(errno).ok())
            .filter(|&errno| errno > 0);
        Self {
            syscall: timed.call.name.clone(),
            moves_data: returns_bytes
                || matches!(spec.fds, Fds::Copies { .. } | Fds::ClonesRange { .. }),
            stack: usize::try_from(timed.stack.0).unwrap_or(usize::MAX),
            // A call that failed moved nothing.
            bytes: returns_bytes.then(|| u64::try_from(timed.result).unwrap_or(0)),
            error: errno.map(errno::name),
            files: files_of(timed.ends, files),
            at_ns: timed.entered_ns.map(|ns| ns.saturating_sub(begun_ns)),
            duration_ns: timed.duration_ns,
        }
    }
}

/// The paths of these files; of a file without a path what it is.
fn files_of(ends: trace::Ends, files: &[File]) -> Option<String> {
    let name = |id: FileId| {
        let file = id.in_files(files)?;
        let mut names = [&file.path, &file.peer, &file.local].into_iter().flatten();
        let kind = || file.kind.map(|kind| format!("({})", kind.name()));
        names.next().cloned().or_else(kind)
    };
    match (
        ends.input.and_then(|input| name(input.file())),
        ends.output.and_then(name),
    ) {
        (Some(from), Some(to)) => Some(format!("{from} -> {to}")),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::{Options, Report, sample},
        syscalls::Call,
        trace::{Ends, StackId},
    };

    fn timed(call: &'static str, result: i64, at_ns: u64) -> trace::TimedCall {
        trace::TimedCall {
            call: Call::native(call),
            ends: Ends::default(),
            stack: StackId(0),
            result,
            entered_ns: Some(at_ns),
            duration_ns: Some(5),
        }
    }

    fn timeline_of(calls: Vec<trace::TimedCall>) -> Option<Timeline> {
        let mut trace = sample::of_threads(vec![vec![], vec![]]);
        trace.stacks = Some(Vec::new());
        let [first, second] = trace.processes[0].threads.as_mut_slice() else {
            panic!("two threads")
        };
        (first.started_ns, first.ended_ns) = (Some(1000), Some(9000));
        (second.started_ns, second.timed_calls) = (Some(1500), calls);
        Report::from_trace(&trace, &Options::default()).timeline
    }

    #[test]
    fn times_count_from_the_first_thread_and_calls_are_in_order() {
        let calls = vec![
            timed("write", 7, 4000),
            timed("read", 0, 3000),
            timed("write", -32, 5000),
            timed("mmap", 0x7f00_0000_0000, 6000),
        ];
        let timeline = timeline_of(calls).expect("there are calls");
        let threads: Vec<_> = timeline
            .threads
            .iter()
            .map(|one| (one.pid, one.tid, one.is_first, one.started_ns, one.ended_ns))
            .collect();
        let expected = [
            (1234, 1234, true, Some(0), Some(8000)),
            (1234, 1235, false, Some(500), None),
        ];
        assert_eq!(threads, expected);
        let calls: Vec<_> = timeline.threads[1]
            .calls
            .iter()
            .map(|one| {
                let name = one.syscall.as_ref();
                (
                    name,
                    one.at_ns,
                    one.bytes,
                    one.error.as_deref(),
                    one.moves_data,
                )
            })
            .collect();
        let expected = [
            ("read", Some(2000), Some(0), None, true),
            ("write", Some(3000), Some(7), None, true),
            // One that failed moved nothing, and one that returns no number is unknown.
            ("write", Some(4000), Some(0), Some("EPIPE"), true),
            ("mmap", Some(5000), None, None, false),
        ];
        assert_eq!(calls, expected);
        assert_eq!(timeline_of(Vec::new()), None);
    }
}
