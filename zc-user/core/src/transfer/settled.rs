//! [`Settled`]: what the analysis found in processes that ended while the trace went on, before they were merged.
//!
//! A process is analysed early with the same code and the same trace as at the end
//! ([`Round::settle`]), as soon as nothing that is still to come can matter for it: the pipes and
//! connections that its transfers use are used up, and its creators are still there. Then its
//! transfers are summed by shape, and the process can be forgotten. What other processes must know
//! of it is kept: what it moved through pipes that are still open, and when a process that may
//! share its memory first read a file.

mod sums;

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap, HashSet},
    ptr,
};

use super::{
    Context, InProcess, MergedProcesses, Transfer, Unattributed,
    activity::Activity,
    conduits::{self, Chain, Conduits, lacks_files, read_rows, written_rows},
    describe::{self, EndTable},
    flow::{Flow, sum_bytes, sum_known},
    hidden::{self, HiddenWays},
    lower_bounds::note_first_reads,
};
use crate::{
    trace::{FileId, Process, Row, Trace},
    transfer::{Certainty, Evidence},
};
use sums::{FileSums, TransferSums};

/// The processes with so many of the largest transfers stay apart.
const MOST_LARGE: usize = 64;

/// What is kept of the transfers of merged processes.
#[derive(Debug, Clone, Default)]
pub struct Settled {
    transfers: TransferSums,
    files: FileSums,
    /// How many processes were analysed.
    processes: u64,
    /// How many of them were merged although their pipes or connections were still in use.
    unfollowed: u64,
    for_others: ForOthers,
}

/// What the analysis of other processes must know of those that were merged.
#[derive(Debug, Clone, Default)]
struct ForOthers {
    /// Whether something was written that is neither in an exact transfer nor known to come from
    /// memory.
    is_inexact: bool,
    lacks_files: bool,
    /// The hidden ways that their rows show.
    hidden_ways: HiddenWays,
    /// Whether one without a program of its own read anything.
    has_unclean_copies: bool,
    /// What they moved through pipes and connections.
    conduits: HashMap<FileId, Moved>,
    /// The pipes and connections that were empty in the last round, by the file that is written.
    empty: HashSet<FileId>,
    /// When processes without a program of their own first read each file, by the process that
    /// executed their program.
    first_reads: HashMap<u32, HashMap<FileId, u64>>,
}

/// What is known at the end of the trace of what came before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    /// Whether no call that moves bytes is missing.
    pub(super) all_calls: bool,
    /// Whether no process may have changed the memory of another one.
    pub(super) memory: bool,
}

/// Whether bytes went through memory that others may have changed.
fn rests_on_memory(transfer: &Transfer) -> bool {
    transfer.evidence != Some(Evidence::Call)
}

/// A look at the processes that have ended.
#[derive(Debug)]
pub struct Round<'a> {
    /// The trace so far. First come the processes that have ended, in the order in which they were
    /// created, then those that have not.
    pub trace: &'a mut Trace,
    /// For each process that has ended, whether it must stay.
    pub stays: &'a [bool],
    /// How many processes may wait for the end of others that use the same pipes and connections.
    pub most_waiting: usize,
}

/// What is found in a round.
struct Findings {
    merged: Vec<usize>,
    unfollowed: u64,
    within: Vec<(Option<String>, InProcess)>,
    across: Vec<(Vec<Option<String>>, Transfer)>,
    for_others: ForOthers,
}

impl Round<'_> {
    /// Analyses the processes that nothing more can happen to, and keeps sums of what was found.
    /// Returns which ones these are, by their index: they can be merged.
    pub fn settle(self) -> Vec<usize> {
        let findings = self.findings();
        let merged = findings.merged.clone();
        self.trace.settled.add(findings);
        merged
    }

    fn findings(&self) -> Findings {
        let (trace, ended) = (&*self.trace, self.stays.len());
        let mut context = Context::of(trace);
        let use_of_conduits = Use::of(&context, ended, &trace.settled);
        context.conduits.leave_open(use_of_conduits.not_over());
        let flows = context.flows(|index| index < ended);
        let chains = conduits::chains(&context.activities, &flows, &context.conduits);
        let ends = EndTable::new(trace);
        let waits = |index: usize| {
            use_of_conduits.is_awaited_by(&flows[index])
                || depends_on_own_memory(&context, index, &flows[index], &ends)
        };
        let waiting: Vec<bool> = (0..ended).map(waits).collect();
        let large = large(&flows[..ended]);
        let stays = |index: &usize| self.stays[*index] || large.contains(index);
        let (merged, unfollowed) = choose(
            &components(trace, &chains, ended),
            stays,
            &waiting,
            self.most_waiting,
        );
        let mut findings = Findings {
            unfollowed,
            within: Vec::new(),
            across: Vec::new(),
            for_others: ForOthers {
                empty: use_of_conduits.empty.clone(),
                ..trace.settled.for_others.clone()
            },
            merged,
        };
        let for_others = &mut findings.for_others;
        for &index in &findings.merged {
            let activity = &context.activities[index];
            // What may turn out not to be its own later is not taken for its own.
            let (process, is_exact) =
                context.in_process(activity, &flows[index], &ends, !waiting[index]);
            for_others.is_inexact |= !is_exact;
            for_others.hidden_ways.poked |= hidden::pokes(activity.process, &trace.files);
            for_others.lacks_files |= lacks_files(activity) || activity.has_unseen_operations;
            findings
                .within
                .push((activity.process.comm.clone(), process));
            if activity.process.exe.is_none() {
                for_others.has_unclean_copies |= !activity.reads_nothing();
                let of_program = for_others
                    .first_reads
                    .entry(context.first_reads.program_of(activity.process.pid))
                    .or_default();
                note_first_reads(of_program, activity);
            }
            note_conduits(&mut for_others.conduits, activity, &context.conduits);
        }
        for_others
            .conduits
            .retain(|file, _| !use_of_conduits.is_over(*file));
        let present: HashSet<u32> = trace.processes.iter().map(|process| process.pid).collect();
        for_others
            .first_reads
            .retain(|pid, _| present.contains(pid));
        for files in for_others.first_reads.values_mut() {
            files.retain(|file, _| !use_of_conduits.is_over(*file));
        }
        let is_merged: HashSet<*const Process> = findings
            .merged
            .iter()
            .map(|&index| ptr::from_ref(&trace.processes[index]))
            .collect();
        let of_merged = chains.into_iter().filter(|chain| {
            chain
                .hops
                .iter()
                .all(|hop| is_merged.contains(&ptr::from_ref(hop.process)))
        });
        let of_merged: Vec<Chain<'_, '_>> = of_merged.collect();
        let names: HashMap<u32, &Option<String>> = of_merged
            .iter()
            .flat_map(|chain| &chain.hops)
            .map(|hop| (hop.process.pid, &hop.process.comm))
            .collect();
        let with_programs = |way: Transfer| {
            let programs = way
                .pids
                .iter()
                .map(|pid| names.get(pid).copied().cloned().flatten())
                .collect();
            (programs, way)
        };
        findings.across = describe::chains(&of_merged, &ends, trace.sees_memory)
            .into_iter()
            .map(with_programs)
            .collect();
        for ((_, process), &index) in findings.within.iter_mut().zip(&findings.merged) {
            let pid = trace.processes[index].pid;
            process
                .transfers
                .iter_mut()
                .for_each(|transfer| transfer.pids = vec![pid]);
        }
        findings
    }
}

impl Settled {
    fn add(&mut self, findings: Findings) {
        self.processes += findings.merged.len() as u64;
        self.unfollowed += findings.unfollowed;
        self.for_others = findings.for_others;
        let ways: Vec<(usize, Transfer)> = findings
            .across
            .into_iter()
            .map(|(programs, way)| (self.transfers.add(way.clone(), &programs), way))
            .collect();
        let mut ways_of: HashMap<u32, Vec<&(usize, Transfer)>> = HashMap::new();
        for way in &ways {
            for pid in &way.1.pids {
                ways_of.entry(*pid).or_default().push(way);
            }
        }
        for (program, mut process) in findings.within {
            for transfer in std::mem::take(&mut process.transfers) {
                let of_pid = transfer
                    .pids
                    .first()
                    .and_then(|pid| Some((*pid, ways_of.get(pid)?)));
                let part_of: BTreeSet<usize> = of_pid
                    .into_iter()
                    .flat_map(|(pid, ways)| ways.iter().map(move |way| (pid, way)))
                    .filter(|(pid, way)| transfer.is_hop_of(*pid, &way.1))
                    .map(|(_, way)| way.0)
                    .collect();
                self.transfers.add(
                    Transfer {
                        part_of: part_of.into_iter().collect(),
                        ..transfer
                    },
                    std::slice::from_ref(&program),
                );
            }
            self.files.add(process);
        }
    }

    /// How many processes were analysed before the end, and how many of these before nothing could
    /// go through their pipes and connections any more.
    pub(crate) fn processes(&self) -> [u64; 2] {
        [self.processes, self.unfollowed]
    }

    /// The files whose first reads matter to other processes.
    pub fn files(&self) -> impl Iterator<Item = FileId> + '_ {
        self.for_others
            .first_reads
            .values()
            .flat_map(HashMap::keys)
            .copied()
    }

    /// The pipes and connections whose bytes matter to other processes.
    pub fn conduits(&self) -> impl Iterator<Item = FileId> + '_ {
        self.for_others
            .conduits
            .keys()
            .chain(&self.for_others.empty)
            .copied()
    }

    /// The bytes that merged processes wrote into a pipe or connection and took out of it, as far
    /// as they are known.
    pub fn moved(&self, conduit: FileId) -> [Option<u64>; 2] {
        self.for_others
            .conduits
            .get(&conduit)
            .copied()
            .unwrap_or_default()
            .bytes
    }

    /// Whether merged processes found that nobody has the other side of this pipe or connection
    /// open any more.
    pub fn saw_end(&self, conduit: FileId) -> bool {
        self.for_others
            .conduits
            .get(&conduit)
            .is_some_and(|moved| moved.saw_end)
    }

    /// Forgets pipes that nobody will use any more.
    pub fn forget(&mut self, pipes: &HashSet<FileId>) {
        self.for_others
            .conduits
            .retain(|file, _| !pipes.contains(file));
        self.for_others.empty.retain(|file| !pipes.contains(file));
    }

    /// The pipes and connections that calls of merged processes wrote to when they were cut off.
    pub(super) fn cut_off(&self) -> impl Iterator<Item = FileId> + '_ {
        self.for_others
            .conduits
            .iter()
            .filter(|(_, moved)| moved.is_cut_off)
            .map(|(file, _)| *file)
    }

    pub(super) fn is_exact(&self) -> bool {
        !self.for_others.is_inexact
    }

    /// Whether merged processes may have changed the memory of another one.
    pub(super) fn poked(&self) -> bool {
        self.for_others.hidden_ways.poked
    }

    /// Whether a transfer of merged processes rests on memory.
    pub(super) fn rests_on_memory(&self) -> bool {
        self.transfers.described().iter().any(rests_on_memory)
    }

    pub(super) fn lacks_files(&self) -> bool {
        self.for_others.lacks_files
    }

    pub(super) fn are_copies_clean(&self) -> bool {
        !self.for_others.has_unclean_copies
    }

    pub(super) fn first_reads(&self) -> &HashMap<u32, HashMap<FileId, u64>> {
        &self.for_others.first_reads
    }

    /// What went into each pipe and connection, and what came out of it.
    pub(super) fn conduit_bytes(&self) -> [HashMap<FileId, Option<u64>>; 2] {
        [0, 1].map(|side| {
            self.for_others
                .conduits
                .iter()
                .map(|(file, moved)| (*file, moved.bytes[side]))
                .collect()
        })
    }

    /// The transfers, and the sums by file together with those of `simple` processes, which had no
    /// transfers. What is `known` at the end may be less than when they were found: if calls are
    /// missing, others may have used the pipes on the way, and memory may have been changed.
    pub(super) fn described(
        &self,
        trace: &Trace,
        simple: Vec<InProcess>,
        known: Known,
    ) -> (Vec<Transfer>, Option<MergedProcesses>) {
        let mut transfers = self.transfers.described();
        for transfer in &mut transfers {
            let is_disproved = !known.memory && rests_on_memory(transfer);
            if is_disproved || (!known.all_calls && !transfer.hops.is_empty()) {
                transfer.certainty = Certainty::Inferred;
                transfer.evidence = transfer.evidence.max(Some(Evidence::Totals));
                transfer.proven_bytes = transfer.bytes.map(|_| 0);
                transfer.verdict = describe::verdict_of_many(transfer);
            }
            if is_disproved {
                transfer.proven_bytes = Some(0);
            }
        }
        if trace.merged.is_empty() {
            return (transfers, None);
        }
        let mut files = self.files.clone();
        for process in simple {
            files.add(process);
        }
        let merged = MergedProcesses {
            processes: trace.merged.iter().map(|merged| merged.processes).sum(),
            sources: files.sources.into_sorted(),
            destinations: files.destinations.into_sorted(),
            unattributed: Unattributed {
                read: files.unattributed_read.into_sorted(),
                written: files.unattributed_written.into_sorted(),
            },
        };
        (transfers, Some(merged))
    }

    /// How many sums there are.
    #[cfg(test)]
    pub(crate) fn sums(&self) -> [usize; 3] {
        [
            self.transfers.len(),
            self.for_others.conduits.len(),
            self.for_others.first_reads.values().map(HashMap::len).sum(),
        ]
    }
}

/// Whether it matters that what the process wrote is its own, which later processes and calls may
/// disprove.
fn depends_on_own_memory(
    context: &Context<'_>,
    index: usize,
    flows: &[Flow<'_>],
    ends: &EndTable<'_>,
) -> bool {
    let activity = &context.activities[index];
    if !context.has_own_memory(activity) {
        return false;
    }
    let (process, _) = context.in_process(activity, flows, ends, true);
    !activity.lent.is_empty()
        || process
            .destinations
            .iter()
            .any(|one| one.unattributed_bytes != Some(0))
}

/// The processes with the largest transfers.
fn large(flows: &[Vec<Flow<'_>>]) -> HashSet<usize> {
    let largest = |(index, flows): (usize, &Vec<Flow<'_>>)| {
        Some((
            flows.iter().filter_map(|flow| flow.bytes).max()?,
            Reverse(index),
        ))
    };
    let mut all: Vec<(u64, Reverse<usize>)> =
        flows.iter().enumerate().filter_map(largest).collect();
    all.sort_unstable_by_key(|one| Reverse(*one));
    all.into_iter()
        .take(MOST_LARGE)
        .map(|(_, Reverse(index))| index)
        .collect()
}

/// The processes that have ended, those together that have a transfer over several of them.
fn components(trace: &Trace, chains: &[Chain<'_, '_>], ended: usize) -> Vec<Vec<usize>> {
    let indices: HashMap<*const Process, usize> = trace
        .processes
        .iter()
        .enumerate()
        .map(|(index, process)| (ptr::from_ref(process), index))
        .collect();
    let mut first: Vec<usize> = (0..ended).collect();
    let find = |first: &[usize], mut index: usize| {
        while first[index] != index {
            index = first[index];
        }
        index
    };
    for chain in chains {
        let members = chain
            .hops
            .iter()
            .filter_map(|hop| indices.get(&ptr::from_ref(hop.process)).copied());
        let roots: Vec<usize> = members.map(|member| find(&first, member)).collect();
        let Some(&least) = roots.iter().min() else {
            continue;
        };
        for root in roots {
            first[root] = least;
        }
    }
    let mut components: Vec<Vec<usize>> = vec![Vec::new(); ended];
    for index in 0..ended {
        components[find(&first, index)].push(index);
    }
    components.retain(|members| !members.is_empty());
    components
}

/// The processes to merge, and how many of them should have waited. If too many wait, the oldest do
/// so no longer.
fn choose(
    components: &[Vec<usize>],
    stays: impl Fn(&usize) -> bool,
    waiting: &[bool],
    most_waiting: usize,
) -> (Vec<usize>, u64) {
    let waits = |members: &&Vec<usize>| members.iter().any(|&index| waiting[index]);
    let free = || {
        components
            .iter()
            .filter(|members| !members.iter().any(&stays))
    };
    let mut merged: Vec<usize> = free()
        .filter(|members| !waits(members))
        .flatten()
        .copied()
        .collect();
    let mut count: usize = free().filter(waits).map(Vec::len).sum();
    let mut unfollowed = 0;
    if count > most_waiting {
        for members in free().filter(waits) {
            if count <= most_waiting / 2 {
                break;
            }
            count -= members.len();
            unfollowed += members.iter().filter(|&&index| waiting[index]).count() as u64;
            merged.extend(members);
        }
    }
    merged.sort_unstable();
    (merged, unfollowed)
}

/// What merged processes moved through a pipe or a connection.
#[derive(Debug, Clone, Copy)]
struct Moved {
    /// What they wrote into it, and what they took out of it. `None`: some call does not say.
    bytes: [Option<u64>; 2],
    /// Whether one of them saw the end of it.
    saw_end: bool,
    /// Whether a call was cut off that wrote into it.
    is_cut_off: bool,
}

impl Default for Moved {
    fn default() -> Self {
        Self {
            bytes: [Some(0); 2],
            saw_end: false,
            is_cut_off: false,
        }
    }
}

fn note_conduits(
    sums: &mut HashMap<FileId, Moved>,
    activity: &Activity<'_>,
    conduits: &Conduits<'_>,
) {
    for (side, rows) in [written_rows(activity), read_rows(activity)]
        .into_iter()
        .enumerate()
    {
        for (file, rows) in rows
            .into_iter()
            .filter(|(file, _)| conduits.is_conduit(*file))
        {
            let sum = sums.entry(file).or_default();
            sum.saw_end |= saw_end(side, &rows);
            let bytes = &mut sum.bytes[side];
            *bytes = sum_known(*bytes, sum_bytes(&rows));
        }
    }
    for &file in activity
        .cut_off
        .iter()
        .flatten()
        .filter(|file| conduits.is_conduit(**file))
    {
        sums.entry(file).or_default().is_cut_off = true;
    }
}

/// The side of a pipe or connection that is written, and the one that is read.
const SIDES: [usize; 2] = [WRITTEN, READ];
pub(crate) const WRITTEN: usize = 0;
pub(crate) const READ: usize = 1;

/// Whether these calls found that nobody has the other side open any more.
fn saw_end(side: usize, rows: &[&Row]) -> bool {
    let broken = libc::EPIPE.unsigned_abs();
    rows.iter().any(|row| {
        if side == READ {
            row.zero_calls > 0
        } else {
            row.errnos.contains_key(&broken)
        }
    })
}

/// Which pipes and connections are still in use.
#[derive(Debug, Default)]
struct Use {
    /// All of them that any process has used.
    all: HashSet<FileId>,
    /// For each side, those that nothing goes through any more: no live process has used them, and
    /// either a process has seen the end, or they have been empty for a whole round. A single look
    /// would not show a call of a live process that is just moving bytes.
    over: [HashSet<FileId>; 2],
    /// Those that are empty and that no live process has used, by the file that is written.
    empty: HashSet<FileId>,
    /// For each side, those with calls.
    used: [HashSet<FileId>; 2],
}

impl Use {
    /// `ended` of these processes have ended, the first ones; up to `listed` come those that have
    /// not.
    fn of(context: &Context<'_>, ended: usize, settled: &Settled) -> Self {
        let (mut found, conduits) = (Self::default(), &context.conduits);
        let (mut live, mut ends): (HashSet<FileId>, [HashSet<FileId>; 2]) = Default::default();
        for (index, activity) in context.activities.iter().enumerate() {
            for (side, rows) in SIDES
                .into_iter()
                .zip([written_rows(activity), read_rows(activity)])
            {
                for (file, rows) in rows
                    .into_iter()
                    .filter(|(file, _)| conduits.is_conduit(*file))
                {
                    found.used[side].insert(file);
                    if (ended..context.listed).contains(&index) {
                        live.insert(file);
                    } else if saw_end(side, &rows) {
                        ends[side].insert(file);
                    }
                }
            }
        }
        for (&file, moved) in &settled.for_others.conduits {
            for side in SIDES {
                found.used[side].extend((moved.bytes[side] != Some(0)).then_some(file));
                ends[side].extend(moved.saw_end.then_some(file));
            }
        }
        found.all = found.used.iter().flatten().copied().collect();
        for &file in &found.all {
            let Some(outlet) = conduits
                .outlet(file)
                .filter(|outlet| !live.contains(&file) && !live.contains(outlet))
            else {
                continue;
            };
            let is_empty = conduits
                .written(file)
                .is_some_and(|bytes| conduits.read(outlet) == Some(bytes));
            found.empty.extend(is_empty.then_some(file));
            let has_ended = ends[WRITTEN].contains(&file) || ends[READ].contains(&outlet);
            if has_ended || (is_empty && settled.for_others.empty.contains(&file)) {
                found.over[WRITTEN].insert(file);
                found.over[READ].insert(outlet);
            }
        }
        found
    }

    /// Whether nothing goes through it any more, in either direction.
    fn is_over(&self, file: FileId) -> bool {
        self.all.contains(&file)
            && SIDES
                .iter()
                .all(|&side| !self.used[side].contains(&file) || self.over[side].contains(&file))
    }

    fn not_over(&self) -> HashSet<FileId> {
        self.all
            .iter()
            .copied()
            .filter(|file| !self.is_over(*file))
            .collect()
    }

    /// Whether one of these flows may be a part of a longer one that has not come to its end.
    fn is_awaited_by(&self, flows: &[Flow<'_>]) -> bool {
        let is_open =
            |side: usize, file: &FileId| self.all.contains(file) && !self.over[side].contains(file);
        flows.iter().flat_map(Flow::legs).any(|leg| {
            is_open(WRITTEN, &leg.to) || leg.from.file().is_some_and(|from| is_open(READ, &from))
        })
    }
}
