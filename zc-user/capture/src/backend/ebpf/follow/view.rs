//! [`View`]: what was counted in the whole trace, or in a part of it.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap, HashSet, btree_map::Entry},
};

use zctrace_core::ended::{ComparedPairs, EndedProcesses, FileSumming};

use super::{counts::TaskCounts, task_table::add_late_threads};
use crate::{
    backend::ebpf::read::file_table::NumberedFiles,
    trace::{FailedPaths, File, FileId, Process, Row, SummedContent, Thread, Trace},
};

/// What was counted: by task for those that may go on, by process for those that have ended. If these
/// are many, only the busiest are kept with their rows; of the others there are sums.
#[derive(Debug, Clone, Default)]
pub struct View {
    by_task: HashMap<u32, TaskCounts>,
    /// By the serial number of the process.
    ended: BTreeMap<u32, Process>,
    /// The sums of the others.
    sums: EndedProcesses,
    /// The calls that take a path and failed, and those that succeeded if they are recorded.
    pub failed_paths: FailedPaths,
}

/// Which of the processes that have ended are summed.
#[derive(Clone, Copy)]
pub struct Merging<'a> {
    /// How many are kept: those with the most CPU time, as a report lists them, and the first of all.
    pub most: usize,
    /// Their trace.
    pub begun: &'a Trace,
    /// Whether sums keep the files of all calls.
    pub tells_files_apart: bool,
}

/// How many more than are kept there must be before summing begins.
const SLACK: usize = 256;

impl View {
    /// What was counted for this task.
    pub fn task(&mut self, serial: u32) -> &mut TaskCounts {
        self.by_task.entry(serial).or_default()
    }

    /// Whether anything was counted for this task.
    pub fn counts(&self, serial: u32) -> bool {
        self.by_task.contains_key(&serial)
    }

    /// Gives away what was counted for a task for which nothing is counted any more.
    pub fn take_task(&mut self, serial: u32) -> TaskCounts {
        self.by_task.remove(&serial).unwrap_or_default()
    }

    /// Adds a process all of whose tasks have ended and were taken.
    pub fn set_aside(&mut self, program: u32, process: Process) {
        match self.ended.entry(program) {
            Entry::Vacant(entry) => drop(entry.insert(process)),
            Entry::Occupied(mut entry) => add_late_threads(entry.get_mut(), process),
        }
    }

    /// Sums processes that have ended if there are many. `files` are those that their rows name.
    pub fn sum_most(&mut self, merging: Merging<'_>, files: &[File]) {
        let Merging {
            most,
            begun,
            tells_files_apart,
        } = merging;
        if self.ended.len() < most.saturating_add(SLACK) {
            return;
        }
        let mut serials: Vec<_> = self
            .ended
            .iter()
            .map(|(serial, process)| (Reverse(calls_and_time(process)), *serial))
            .collect();
        serials.sort_unstable();
        let launched = self.ended.keys().next().copied();
        for (_, serial) in serials.into_iter().skip(most) {
            if Some(serial) != launched
                && let Some(process) = self.ended.remove(&serial)
            {
                self.sums
                    .add_process(process, begun, files, tells_files_apart);
            }
        }
    }

    /// The files that rows and parts of tasks name which may go on.
    pub fn living_files(&self) -> HashSet<FileId> {
        self.by_task.values().flat_map(TaskCounts::files).collect()
    }

    /// The files that processes name which have ended.
    pub fn ended_files(&self) -> HashSet<FileId> {
        let threads = || self.ended.values().flat_map(|process| &process.threads);
        let parts = threads()
            .flat_map(|thread| &thread.parts)
            .flat_map(|part| [part.from.file(), part.to]);
        let rows = threads().flat_map(|thread| thread.rows.iter().chain(&thread.ring_rows));
        rows.flat_map(Row::files)
            .chain(parts)
            .chain(self.sums.files())
            .collect()
    }

    /// All rows that are not summed, but for those of `io_uring` of ended processes.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        let threads = self.ended.values().flat_map(|process| &process.threads);
        let living = self.by_task.values().flat_map(TaskCounts::rows);
        living.chain(threads.flat_map(|thread| &thread.rows))
    }

    /// How many calls name one of these files.
    pub fn calls_on(&self, files: &HashSet<FileId>) -> u64 {
        let rows = self.rows().chain(self.sums.rows());
        rows.filter(|row| row.files().any(|file| files.contains(&file)))
            .map(|row| row.calls)
            .sum()
    }

    /// Replaces the `chosen` files by their sums. `program_of` tells the program of a task.
    pub fn sum_files(
        &mut self,
        chosen: &HashSet<FileId>,
        files: &mut NumberedFiles,
        program_of: impl Fn(u32) -> u32,
    ) {
        let mut programs: BTreeMap<u32, Vec<&mut TaskCounts>> = BTreeMap::new();
        for (serial, counts) in &mut self.by_task {
            programs
                .entry(program_of(*serial))
                .or_default()
                .push(counts);
        }
        programs.retain(|_, tasks| {
            let mut files = tasks.iter().flat_map(|task| task.files());
            files.any(|file| chosen.contains(&file))
        });
        for mut tasks in programs.into_values() {
            let rows = tasks.iter().flat_map(|task| task.rows());
            let parts = tasks.iter().flat_map(|task| task.parts());
            let pairs = ComparedPairs::new(rows, parts, files.placed());
            let sum_of = &mut sum_of(chosen, files);
            let mut summing = FileSumming { pairs, sum_of };
            for task in &mut tasks {
                task.sum_files(&mut summing);
            }
        }
        for process in self.ended.values_mut() {
            let threads = || process.threads.iter();
            let rows = threads().flat_map(Thread::all_rows);
            let parts = threads().flat_map(|thread| &thread.parts);
            let pairs = ComparedPairs::new(rows, parts, files.placed());
            let sum_of = &mut sum_of(chosen, files);
            FileSumming { pairs, sum_of }.process(process);
        }
        self.sums.sum_files(sum_of(chosen, files));
    }

    /// What was counted by task, the processes that have ended, and the sums of further ones.
    pub fn into_parts(
        self,
    ) -> (
        HashMap<u32, TaskCounts>,
        BTreeMap<u32, Process>,
        EndedProcesses,
    ) {
        (self.by_task, self.ended, self.sums)
    }
}

/// The sums of the `chosen` files; others stay themselves.
fn sum_of(
    chosen: &HashSet<FileId>,
    files: &mut NumberedFiles,
) -> impl FnMut(FileId, SummedContent) -> FileId {
    |file, content| {
        if chosen.contains(&file) {
            files.sum_of(file, content)
        } else {
            file
        }
    }
}

/// The order in which a report lists processes if there are too many: by CPU time, then by calls.
fn calls_and_time(process: &Process) -> (Option<u64>, u64) {
    let cpu_ns = process
        .counters
        .and_then(|counters| counters.user_ns.checked_add(counters.system_ns));
    let rows = process.threads.iter().flat_map(|thread| &thread.rows);
    (cpu_ns, rows.map(|row| row.calls).sum())
}
