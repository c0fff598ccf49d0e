//! [`EndedProcesses`]: processes that have ended while the trace goes on.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
};

use zctrace_core::{
    merge::{FileUses, Kind, MergedProcesses, Round},
    report::Files,
};

use crate::trace::{File, FileId, Merged, Process, Row, Settled, Trace};

/// Processes that have ended, complete with their rows. If there are many, only the busiest are
/// kept apart.
#[derive(Debug, Clone, Default)]
pub struct EndedProcesses {
    /// By the serial number of the process.
    kept: BTreeMap<u32, Kept>,
    merged: MergedProcesses,
    /// What was found in the merged processes that had transfers.
    settled: Settled,
    /// How many processes with transfers came since they were looked at last.
    fresh: usize,
    /// The creators of merged processes that are not merged themselves, because it matters who
    /// created those.
    creators: HashSet<u32>,
}

#[derive(Debug, Clone)]
struct Kept {
    process: Process,
    /// With which it can be merged at once. `None`: it must be analysed before.
    kind: Option<Kind>,
}

/// Merging begins when there are so many more than are kept apart.
const SLACK: usize = 256;

/// So many processes may wait for the end of others that use the same pipes.
const MOST_WAITING: usize = 512;

impl EndedProcesses {
    /// Adds a process. `begun` is its trace, `files` are those that its rows name.
    pub fn add(&mut self, serial: u32, process: Process, begun: &Trace, files: &[File]) {
        let kind = Kind::of(&process, begun, files);
        self.fresh += usize::from(kind.is_none());
        self.kept.insert(serial, Kept { process, kind });
    }

    /// Merges processes, except so many: those with the most CPU time, as a report lists them.
    /// `creators` are the process ids of those that created a live process; they are kept, too.
    pub fn merge(&mut self, most: usize, creators: impl Iterator<Item = u32>) {
        if self.kept.len() < most.saturating_add(SLACK) {
            return;
        }
        let mut needed = self.creators.clone();
        needed.extend(creators.chain(self.kept.values().filter_map(|kept| kept.process.ppid)));
        let can_be_merged =
            |kept: &Kept| kept.kind.is_some() && !needed.contains(&kept.process.pid);
        let candidates = self.kept.iter().filter(|(_, kept)| can_be_merged(kept));
        let mut candidates: Vec<_> = candidates
            .map(|(serial, kept)| (Reverse(rank(&kept.process)), *serial))
            .collect();
        if candidates.len() < most.saturating_add(SLACK) {
            return;
        }
        candidates.sort_unstable();
        for (_, serial) in candidates.into_iter().skip(most) {
            let Some(Kept {
                process,
                kind: Some(kind),
            }) = self.kept.remove(&serial)
            else {
                continue;
            };
            self.creators.extend(kind.creator());
            self.merged.add(kind, process, None);
        }
    }

    /// Whether there are so many processes with transfers that it is time to
    /// [`settle`](Self::settle) them.
    pub fn has_many_transfers(&self, most: usize) -> bool {
        let with_transfers = || {
            self.kept
                .values()
                .filter(|kept| kept.kind.is_none())
                .count()
        };
        self.fresh >= SLACK && with_transfers() >= most.saturating_add(SLACK)
    }

    /// The files named by rows and parts of kept processes, by rows of analysed ones, and by the
    /// first reads that were noted.
    pub fn files(&self) -> HashSet<FileId> {
        let threads = self.kept.values().flat_map(|kept| &kept.process.threads);
        let parts = threads
            .clone()
            .flat_map(|thread| &thread.parts)
            .flat_map(|part| [part.from.file(), part.to]);
        let rows = threads
            .flat_map(|thread| thread.rows.iter().chain(&thread.ring_rows))
            .flat_map(Row::files);
        rows.chain(parts)
            .chain(self.merged.files_of_settled())
            .chain(self.settled.files())
            .collect()
    }

    /// Adds the rows of merged processes that were not analysed, and the ends of files that kept
    /// processes saw.
    pub fn add_uses(&self, uses: &mut FileUses) {
        self.merged.add_uses(uses);
        let threads = self.kept.values().flat_map(|kept| &kept.process.threads);
        threads
            .flat_map(|thread| &thread.rows)
            .for_each(|row| uses.add_end(row));
    }

    /// What was found in merged processes.
    pub fn settled(&self) -> &Settled {
        &self.settled
    }

    /// Sums the rows of these pipes, and forgets them.
    pub fn replace(&mut self, pipes: &HashSet<FileId>, by: FileId) {
        self.merged.replace(pipes, by);
        self.settled.forget(pipes);
    }

    /// Analyses and merges processes with transfers, except so many: those with the most CPU time.
    /// `trace` is that of the moment, without what has ended: its processes live, and `creators`
    /// are the process ids of those that created one of them. With [`Files::Omitted`], rows of
    /// merged processes need not keep their files.
    pub fn settle(
        &mut self,
        most: usize,
        creators: impl Iterator<Item = u32>,
        files: Files,
        trace: &mut Trace,
    ) {
        self.fresh = 0;
        let mut needed = self.creators.clone();
        needed.extend(creators.chain(self.kept.values().filter_map(|kept| kept.process.ppid)));
        let (serials, kept): (Vec<u32>, Vec<Kept>) =
            std::mem::take(&mut self.kept).into_iter().unzip();
        let (kinds, mut processes): (Vec<Option<Kind>>, Vec<Process>) = kept
            .into_iter()
            .map(|Kept { process, kind }| (kind, process))
            .unzip();
        let has_ring = |process: &Process| {
            process
                .threads
                .iter()
                .any(|thread| !thread.ring_rows.is_empty())
        };
        let can_settle = |index: usize| {
            kinds[index].is_none()
                && !needed.contains(&processes[index].pid)
                && !has_ring(&processes[index])
        };
        let mut candidates: Vec<_> = (0..processes.len())
            .filter(|&index| can_settle(index))
            .collect();
        candidates.sort_by_cached_key(|&index| Reverse(rank(&processes[index])));
        let mut stays = vec![true; processes.len()];
        candidates
            .into_iter()
            .skip(most)
            .for_each(|index| stays[index] = false);
        processes.append(&mut trace.processes);
        trace.processes = processes;
        trace.merged = self.merged.lend();
        trace.settled = std::mem::take(&mut self.settled);
        let settled = Round {
            trace,
            stays: &stays,
            most_waiting: MOST_WAITING,
        }
        .settle();
        self.settled = std::mem::take(&mut trace.settled);
        self.merged.take_back(std::mem::take(&mut trace.merged));
        let settled: HashSet<usize> = settled.into_iter().collect();
        let ended = std::mem::take(&mut trace.processes)
            .into_iter()
            .zip(serials.into_iter().zip(kinds))
            .enumerate();
        for (index, (process, (serial, kind))) in ended {
            if settled.contains(&index) {
                let known = Some(trace.files.as_slice()).filter(|_| files == Files::Omitted);
                self.merged.add(Kind::settled(&process), process, known);
            } else {
                self.kept.insert(serial, Kept { process, kind });
            }
        }
    }

    /// The processes by their serial numbers, the sums over those that were merged, and what was
    /// found in these.
    pub fn into_parts(self) -> (BTreeMap<u32, Process>, Vec<Merged>, Settled) {
        let kept = self
            .kept
            .into_iter()
            .map(|(serial, kept)| (serial, kept.process))
            .collect();
        (kept, self.merged.into_sums(), self.settled)
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
