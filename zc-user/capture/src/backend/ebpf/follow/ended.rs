//! [`EndedTable`]: processes that have ended while the trace goes on.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
};

use zctrace_core::ended::EndedProcesses;

use crate::trace::{File, FileId, Process, Row, Trace};

/// Processes that have ended. If there are many, only the busiest are kept with their rows; of the
/// others there are sums.
#[derive(Debug, Clone, Default)]
pub struct EndedTable {
    /// By the serial number of the process.
    pub kept: BTreeMap<u32, Process>,
    /// The sums of the others.
    pub sums: EndedProcesses,
}

/// Summing begins when there are so many more than are kept.
const SLACK: usize = 256;

impl EndedTable {
    /// Sums processes if there are many, except so many: those with the most CPU time, as a report
    /// lists them, and the first of all. `begun` is their trace, `files` are those that their rows
    /// name. With `tells_files_apart`, sums keep the files of all calls.
    pub fn sum_most(
        &mut self,
        most: usize,
        begun: &Trace,
        files: &[File],
        tells_files_apart: bool,
    ) {
        if self.kept.len() < most.saturating_add(SLACK) {
            return;
        }
        let mut serials: Vec<_> = self
            .kept
            .iter()
            .map(|(serial, process)| (Reverse(rank(process)), *serial))
            .collect();
        serials.sort_unstable();
        let launched = self.kept.keys().next().copied();
        for (_, serial) in serials.into_iter().skip(most) {
            if Some(serial) != launched
                && let Some(process) = self.kept.remove(&serial)
            {
                self.sums.add(process, begun, files, tells_files_apart);
            }
        }
    }

    /// The files that kept processes and the sums name.
    pub fn files(&self) -> HashSet<FileId> {
        let threads = || self.kept.values().flat_map(|process| &process.threads);
        let parts = threads()
            .flat_map(|thread| &thread.parts)
            .flat_map(|part| [part.from.file(), part.to]);
        let rows = threads().flat_map(|thread| thread.rows.iter().chain(&thread.ring_rows));
        rows.flat_map(Row::files)
            .chain(parts)
            .chain(self.sums.files())
            .collect()
    }

    /// The rows of kept processes.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        let threads = self.kept.values().flat_map(|process| &process.threads);
        threads.flat_map(|thread| &thread.rows)
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
