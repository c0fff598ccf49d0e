//! [`EndedProcesses`]: processes that have ended while the trace goes on.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
};

use zctrace_core::merge::{Kind, MergedProcesses};

use crate::trace::{File, Merged, Process, Trace};

/// Processes that have ended, complete with their rows. If there are many, only the busiest are kept apart.
#[derive(Debug, Clone, Default)]
pub struct EndedProcesses {
    /// By the serial number of the process.
    kept: BTreeMap<u32, Kept>,
    merged: MergedProcesses,
    /// The creators of merged processes that are not merged themselves, because it matters who created those.
    creators: HashSet<u32>,
}

#[derive(Debug, Clone)]
struct Kept {
    process: Process,
    /// With which it can be merged.
    kind: Option<Kind>,
}

/// Merging begins when there are so many more than are kept apart.
const SLACK: usize = 256;

impl EndedProcesses {
    /// Adds a process. `begun` is its trace, `files` are those that its rows name.
    pub fn add(&mut self, serial: u32, process: Process, begun: &Trace, files: &[File]) {
        let kind = Kind::of(&process, begun, files);
        self.kept.insert(serial, Kept { process, kind });
    }

    /// Merges processes, except so many: those with the most CPU time, as a report lists them. `creators` are the process ids of those that
    /// created a live process; they are kept, too.
    pub fn merge(&mut self, most: usize, creators: impl Iterator<Item = u32>) {
        if self.kept.len() < most.saturating_add(SLACK) {
            return;
        }
        let mut needed = self.creators.clone();
        needed.extend(creators.chain(self.kept.values().filter_map(|kept| kept.process.ppid)));
        let can_be_merged = |kept: &Kept| kept.kind.is_some() && !needed.contains(&kept.process.pid);
        let candidates = self.kept.iter().filter(|(_, kept)| can_be_merged(kept));
        let mut candidates: Vec<_> = candidates.map(|(serial, kept)| (Reverse(rank(&kept.process)), *serial)).collect();
        if candidates.len() < most.saturating_add(SLACK) {
            return;
        }
        candidates.sort_unstable();
        for (_, serial) in candidates.into_iter().skip(most) {
            let Some(Kept { process, kind: Some(kind) }) = self.kept.remove(&serial) else { continue };
            self.creators.extend(kind.creator());
            self.merged.add(kind, process);
        }
    }

    /// The processes by their serial numbers, and the sums over those that were merged.
    pub fn into_parts(self) -> (BTreeMap<u32, Process>, Vec<Merged>) {
        (self.kept.into_iter().map(|(serial, kept)| (serial, kept.process)).collect(), self.merged.into_sums())
    }
}

/// The order in which a report lists processes if there are too many: by CPU time, then by calls.
fn rank(process: &Process) -> (Option<u64>, u64) {
    let cpu_ns = process.counters.and_then(|counters| counters.user_ns.checked_add(counters.system_ns));
    let rows = process.threads.iter().flat_map(|thread| &thread.rows);
    (cpu_ns, rows.map(|row| row.calls).sum())
}
