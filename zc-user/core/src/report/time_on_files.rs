//! The files that calls spent most of their time on.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ends::{End, EndTable},
    syscalls::Call,
    trace::{FileId, FileKind, Process, Trace},
    transfer::files_named_by,
};

/// A call that spent more than half of its time on one file, or on pipes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimeOnFile {
    /// The call.
    pub syscall: String,
    /// As [`Syscall::abi`](super::Syscall::abi).
    pub abi: String,
    /// The file. Of several pipes, the kind alone.
    pub file: End,
    /// Time in the calls on it.
    pub total_ns: u64,
}

/// The file of a row, or its kind, if those of this kind are added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum TimePlace {
    File(FileId),
    Pipes,
    /// None, or several.
    Unknown,
}

impl TimeOnFile {
    /// Those of a trace, by call. Calls without rows have no files.
    pub(super) fn all_of(trace: &Trace, ends: &EndTable<'_>) -> Vec<Self> {
        let mut calls: BTreeMap<&Call, BTreeMap<TimePlace, u64>> = BTreeMap::new();
        for row in trace.all_processes().flat_map(Process::rows) {
            let place = match files_named_by(row) {
                (Some(file), None) | (None, Some(file)) => place_of(file, trace),
                _ => TimePlace::Unknown,
            };
            let ns = row.total_ns.unwrap_or(0);
            let sum = calls
                .entry(&row.call)
                .or_default()
                .entry(place)
                .or_default();
            *sum = sum.saturating_add(ns);
        }
        let most = |(call, places): (&Call, BTreeMap<TimePlace, u64>)| {
            let all = places.values().copied().fold(0, u64::saturating_add);
            let (place, total_ns) = places.into_iter().find(|&(_, ns)| ns > all / 2)?;
            let file = match place {
                TimePlace::File(file) => ends.end(file),
                TimePlace::Pipes => End {
                    kind: Some(FileKind::Pipe.name().to_owned()),
                    ..End::default()
                },
                TimePlace::Unknown => return None,
            };
            Some(Self {
                syscall: call.name.to_string(),
                abi: call.abi.name().to_owned(),
                file,
                total_ns,
            })
        };
        calls.into_iter().filter_map(most).collect()
    }
}

fn place_of(file: FileId, trace: &Trace) -> TimePlace {
    let kind = file.in_files(&trace.files).and_then(|file| file.kind);
    if kind == Some(FileKind::Pipe) {
        TimePlace::Pipes
    } else {
        TimePlace::File(file)
    }
}

#[cfg(test)]
mod tests {
    use crate::report::sample::files::scene;

    #[test]
    fn a_call_is_told_with_the_file_or_the_pipes_of_most_of_its_time() {
        let scene = scene(
            "cat: read pipe1 1 9 30ns, read pipe2 1 9 30ns, read in 1 9 50ns, write a 1 9 5ns, \
             write b 1 9 5ns, pread64 in 1 9 7ns, sendfile in->a 1 9 9ns",
        );
        let report = scene.report();
        let told = report.totals.time_on_files.iter().map(|one| {
            let file = one.file.name().or(one.file.kind.as_deref());
            format!("{} {} {}", one.syscall, file.unwrap_or("-"), one.total_ns)
        });
        let told: Vec<String> = told.collect();
        assert_eq!(told, ["pread64 in 7", "read pipe 60"]);
    }
}
