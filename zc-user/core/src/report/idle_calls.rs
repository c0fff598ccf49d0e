//! Calls of which most did nothing: they returned 0, or failed with the same error.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ends::{End, EndTable},
    errno,
    syscalls::Call,
    trace::{FileId, Process, Trace},
    transfer::files_named_by,
};

/// More than half of the calls of one kind, which did nothing in the same way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IdleCalls {
    /// The call.
    pub syscall: String,
    /// As [`Syscall::abi`](super::Syscall::abi).
    pub abi: String,
    /// The error. Left out: they returned 0 bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub errno: String,
    /// The file, if more than half of all these calls were on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<End>,
    /// How many; on `file`, if there is one.
    pub calls: u64,
}

/// How often a call had the same outcome on each file; the outcome is the errno, or 0 if it returned
/// 0.
type Outcomes<'t> = BTreeMap<(&'t Call, u32), BTreeMap<Option<FileId>, u64>>;

impl IdleCalls {
    /// Those of a trace, by call.
    pub(super) fn all_of(trace: &Trace, ends: &EndTable<'_>) -> Vec<Self> {
        let all = all_calls(trace);
        let mut idle = Vec::new();
        for ((call, outcome), by_file) in count_outcomes(trace) {
            let half = all.get(call).copied().unwrap_or(0) / 2;
            let sum = by_file.values().sum();
            let mut of_files = by_file.into_iter().filter(|(file, _)| file.is_some());
            let of_one = of_files.find(|(_, calls)| *calls > half);
            let (file, calls) = of_one.unwrap_or((None, sum));
            if calls > half {
                idle.push(Self {
                    syscall: call.name.to_string(),
                    abi: call.abi.name().to_owned(),
                    errno: match outcome {
                        0 => String::new(),
                        errno => errno::name(errno),
                    },
                    file: file.map(|file| ends.find_end(file)),
                    calls,
                });
            }
        }
        idle
    }
}

/// How many calls of each kind returned.
fn all_calls(trace: &Trace) -> BTreeMap<&Call, u64> {
    let mut all: BTreeMap<&Call, u64> = BTreeMap::new();
    for row in trace.all_processes().flat_map(Process::rows) {
        *all.entry(&row.call).or_default() += row.calls;
    }
    for (call, sums) in trace.other_calls.iter().flatten() {
        *all.entry(call).or_default() += sums.calls;
    }
    all
}

/// Of calls without rows the errors are known by path.
fn count_outcomes(trace: &Trace) -> Outcomes<'_> {
    let mut outcomes = Outcomes::new();
    let mut add = |call, outcome, file, calls: u64| {
        if calls > 0 {
            let by_file = outcomes.entry((call, outcome)).or_default();
            *by_file.entry(file).or_default() += calls;
        }
    };
    for row in trace.all_processes().flat_map(Process::rows) {
        let (from, to) = files_named_by(row);
        // Of two files, the first had no more bytes, and the second took none.
        add(&row.call, 0, from.or(to), row.zero_calls);
        for (&errno, &calls) in &row.errnos {
            add(&row.call, errno, to.or(from), calls);
        }
    }
    let has_rows = |call: &Call| {
        let counted = trace.counted.as_ref();
        counted.is_none_or(|counted| counted.contains(&call.name))
    };
    let by_path = trace.failed_paths.iter().flat_map(|paths| &paths.calls);
    for (one, sums) in by_path.filter(|(one, _)| one.errno > 0 && !has_rows(&one.call)) {
        add(&one.call, one.errno, None, sums.calls);
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use crate::report::{Options, Report, sample::files::Scene};

    /// The idle calls of a scene, a line each; the file by its path, or else its kind.
    fn idle_calls(scene: &str) -> Vec<String> {
        let report = Report::from_trace(&Scene::read(scene).trace, &Options::default());
        let idle = report.totals.idle_calls.iter().map(|idle| {
            let file = idle.file.as_ref();
            let name = file.and_then(|file| file.path.as_deref().or(file.kind.as_deref()));
            let (call, errno) = (&idle.syscall, &idle.errno);
            format!("{} {call} {errno} {}", idle.calls, name.unwrap_or("-"))
        });
        idle.collect()
    }

    #[test]
    fn calls_of_which_most_did_nothing_in_one_way_are_told_with_their_file() {
        let scene = "\
cat: read pipe 2 100 +5, read other 1 10, write in>out 2 110 EAGAIN*2, close - 1 0 EBADF*2
@ counted read,write,close
@ sums openat 3 2
@ sums stat 3 1
@ given openat ENOENT /a
@ given openat ENOENT /b
@ given stat ENOENT /a
";
        let expected = ["2 close EBADF -", "2 openat ENOENT -", "5 read  pipe"];
        assert_eq!(idle_calls(scene), expected);
    }

    #[test]
    fn the_file_is_the_one_that_the_calls_were_on_and_without_one_all_calls_count() {
        let wrote = "cat: read in 1 10, write in>out 1 10 EAGAIN*4";
        assert_eq!(idle_calls(wrote), ["4 write EAGAIN out"]);
        let sent = "cat: sendfile in->out 1 10 +3";
        assert_eq!(idle_calls(sent), ["3 sendfile  in"]);
        let full = "cat: sendfile in->out 1 10 EAGAIN*3";
        assert_eq!(idle_calls(full), ["3 sendfile EAGAIN out"]);
        let closed = "cat: close - 0 0 EBADF*7, close other 0 0 EBADF*2";
        assert_eq!(idle_calls(closed), ["9 close EBADF -"]);
    }
}
