//! [`View`]: what was counted in the whole trace, or in a part of it.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap, HashSet},
};

use zctrace_core::ended::EndedProcesses;

use super::counts::TaskCounts;
use crate::trace::{File, FileId, Process, Row, Trace};

/// What was counted: by task for those that may go on, by process for those that have ended. If these
/// are many, only the busiest are kept with their rows; of the others there are sums.
#[derive(Debug, Clone, Default)]
pub struct View {
    by_task: HashMap<u32, TaskCounts>,
    /// By the serial number of the process.
    ended: BTreeMap<u32, Process>,
    /// The sums of the others.
    sums: EndedProcesses,
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
        self.ended.insert(program, process);
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
            .map(|(serial, process)| (Reverse(rank(process)), *serial))
            .collect();
        serials.sort_unstable();
        let launched = self.ended.keys().next().copied();
        for (_, serial) in serials.into_iter().skip(most) {
            if Some(serial) != launched
                && let Some(process) = self.ended.remove(&serial)
            {
                self.sums.add(process, begun, files, tells_files_apart);
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

/// The order in which a report lists processes if there are too many: by CPU time, then by calls.
fn rank(process: &Process) -> (Option<u64>, u64) {
    let cpu_ns = process
        .counters
        .and_then(|counters| counters.user_ns.checked_add(counters.system_ns));
    let rows = process.threads.iter().flat_map(|thread| &thread.rows);
    (cpu_ns, rows.map(|row| row.calls).sum())
}
