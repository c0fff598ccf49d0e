//! The files that calls spent most of their time on.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ends::{End, EndTable},
    syscalls::Call,
    trace::{FileId, FileKind, Trace},
    transfer::files_named_by,
};

/// A call with more than half of its time on one file, or on pipes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimeOnFile {
    /// The call.
    pub syscall: String,
    /// As [`Syscall::abi`](super::Syscall::abi).
    pub abi: String,
    /// The file. Of several pipes, the kind alone.
    pub file: End,
    /// The program with more than half of the call's time. `None`: no single one.
    pub program: Option<String>,
    /// Time in the calls on it.
    pub total_ns: u64,
}

/// Time of one call by its file and the program that made it; without a file if it had none, or several.
type TimesByFile<'t> = BTreeMap<(Option<FileId>, Option<&'t str>), u64>;

impl TimeOnFile {
    /// Those of a trace, by call. Calls without rows have no files.
    pub(super) fn all_of(trace: &Trace, ends: &EndTable<'_>) -> Vec<Self> {
        let mut calls: BTreeMap<&Call, TimesByFile<'_>> = BTreeMap::new();
        for process in trace.all_processes() {
            for row in process.rows() {
                let file = match files_named_by(row) {
                    (Some(file), None) | (None, Some(file)) => Some(file),
                    _ => None,
                };
                let times = calls.entry(&row.call).or_default();
                let sum = times.entry((file, process.name())).or_default();
                *sum = sum.saturating_add(row.total_ns.unwrap_or(0));
            }
        }
        let is_pipe = |file: FileId| {
            let kind = file.in_files(&trace.files).and_then(|file| file.kind);
            kind == Some(FileKind::Pipe)
        };
        let pipes = End {
            kind: Some(FileKind::Pipe.name().to_owned()),
            ..End::default()
        };
        let mut most = Vec::new();
        for (call, times) in calls {
            let by_file = times.iter().map(|((file, _), ns)| (*file, *ns));
            let on_pipes = times.iter().map(|((file, _), ns)| (file.map(is_pipe), *ns));
            let (file, total_ns, is_in_place): (_, _, &dyn Fn(FileId) -> bool) =
                match (more_than_half(by_file), more_than_half(on_pipes)) {
                    (Some((Some(file), ns)), _) => {
                        (ends.find_end(file), ns, &move |one| one == file)
                    }
                    (_, Some((Some(true), ns))) => (pipes.clone(), ns, &is_pipe),
                    _ => continue,
                };
            let by_program = times.iter().map(|((file, program), ns)| {
                let is_there = file.is_some_and(is_in_place);
                (program.filter(|_| is_there), *ns)
            });
            let program = more_than_half(by_program).and_then(|(program, _)| program);
            most.push(Self {
                syscall: call.name.to_string(),
                abi: call.abi.name().to_owned(),
                file,
                program: program.map(str::to_owned),
                total_ns,
            });
        }
        most
    }
}

/// The key that has more than half of the time, and its time.
fn more_than_half<K: Ord>(times: impl Iterator<Item = (K, u64)>) -> Option<(K, u64)> {
    let mut sums: BTreeMap<K, u64> = BTreeMap::new();
    for (key, ns) in times {
        let sum = sums.entry(key).or_default();
        *sum = sum.saturating_add(ns);
    }
    let all = sums.values().copied().fold(0, u64::saturating_add);
    sums.into_iter().find(|&(_, ns)| ns > all / 2)
}

#[cfg(test)]
mod tests {
    fn told_times(scene: &str) -> Vec<String> {
        let report = super::super::sample::files::scene(scene).report();
        let mut told = Vec::new();
        for one in &report.totals.time_on_files {
            let several = if one.file.inode.is_none() { "s" } else { "" };
            let file = one.file.name().or(one.file.kind.as_deref());
            let file = file.unwrap_or("-").to_owned() + several;
            let program = one.program.as_deref().unwrap_or("-");
            told.push(format!(
                "{} {file} by {program} {}",
                one.syscall, one.total_ns
            ));
        }
        told
    }

    #[test]
    fn a_call_is_told_with_the_file_or_the_pipes_of_most_of_its_time() {
        let scene = "cat: read pipe1 1 9 30ns, read pipe2 1 9 30ns, read in 1 9 50ns, write a 1 9 5ns, \
                     write b 1 9 5ns, pread64 in 1 9 7ns, write pipe1 1 9 1ns, sendfile in->a 1 9 9ns";
        assert_eq!(
            told_times(scene),
            ["pread64 in by cat 7", "read pipes by cat 60"]
        );
    }

    #[test]
    fn the_program_is_that_of_most_of_the_time_on_the_file_and_not_elsewhere() {
        // 60 % on the pipe, 60 % by cat, and 20 % by cat on the pipe.
        let apart = "cat: write pipe1 1 9 20ns, write a 1 9 20ns, write b 1 9 20ns; \
                     tr: write pipe1 1 9 40ns";
        assert_eq!(told_times(apart), ["write pipe by - 60"]);
        let together = "cat: write pipe1 1 9 51ns; tr: write pipe2 1 9 49ns";
        assert_eq!(told_times(together), ["write pipe by cat 51"]);
    }
}
