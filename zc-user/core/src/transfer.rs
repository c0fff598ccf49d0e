//! Derives transfers from a trace: which bytes went from where to where, and how that was seen.
//! Pure: no I/O.
//!
//! ```text
//! rows of a process ─ facts: what the calls did with which file
//!   │
//!   ├─ flow ───── rules 1 to 5: one call, a buffer, a mapping, or a sequence of calls
//!   ├─ totals ─── rule 6: the sums of both sides agree
//!   ├─ pipes ──── rule 7: into a pipe and out of it is one flow, if nothing else went through it
//!   ├─ attempts ─ what failed before a flow
//!   ├─ describe ─ Transfer, with verdict ◀─ work (figures), rules (why this interface), hint
//!   └─ rest ───── rule 9: what was written from the program's own memory, and what was kept
//!
//! all processes ─ chains: rule 8, through pipes and connections from process to process
//! ```
//!
//! `docs/definitions.md` has the rules. A process is analysed by itself, from its rows; only rule 8
//! needs others, and of them only the steps and what they moved through which file.

mod attempts;
mod buffers;
mod chains;
mod describe;
mod facts;
mod flow;
mod hint;
mod model;
mod pipes;
mod rest;
mod rules;
mod summed;
mod totals;
mod work;

pub(crate) use facts::{Role, files_named_by, was_cut_off};
pub use model::{
    Api, Attempt, BufferTotals, Certainty, DestinationTotals, Edge, Evidence, Hop, Merged,
    MergedProcesses, Reason, SourceTotals, Transfer,
};
pub use summed::{ComparedPairs, FileSumming};

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use crate::{
    counts::add_counts,
    ends::EndTable,
    syscalls::{Fds, data_calls},
    trace::{File, FileId, Loss, Process, STRACE, Thread, Trace},
};
use chains::{Conduits, StepChain};
pub(crate) use chains::{Moved, add_conduits};
use facts::ProcessFacts;

/// A transfer within a process, and what rule 8 needs to know of it.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) pid: u32,
    /// The name of its process.
    pub(crate) program: Option<String>,
    pub(crate) from: FileId,
    pub(crate) to: FileId,
    /// Whether it took every byte out of `from` that the process took, and as far as sums and
    /// buffers show, brought each to `to` once.
    takes_all: bool,
    /// What was done, without attempts and reason.
    clause: String,
    /// The steps into pipes and out of them, if it is one over these.
    pub(crate) hops: Vec<Self>,
    pub(crate) transfer: Transfer,
}

impl Step {
    /// Replaces the files that it names by their sums.
    pub(crate) fn sum_files(&mut self, sum_of: &mut impl FnMut(FileId) -> FileId) {
        (self.from, self.to) = (sum_of(self.from), sum_of(self.to));
        for hop in &mut self.hops {
            hop.sum_files(sum_of);
        }
    }
}

/// What the analysis found in one process.
#[derive(Debug, Clone, Default)]
pub(crate) struct InProcess {
    /// The transfers within it, those with the most bytes first.
    pub(crate) steps: Vec<Step>,
    /// Files that it read.
    pub(crate) sources: Vec<SourceTotals>,
    /// Files that it wrote.
    pub(crate) destinations: Vec<DestinationTotals>,
    /// What it moved through each pipe and connection.
    pub(crate) conduits: BTreeMap<FileId, Moved>,
    /// Whether bytes moved that are in no row, or in none with its files.
    pub(crate) lacks_files: bool,
}

impl InProcess {
    /// How many buffers were forgotten, if something was written that may have come from them; and how
    /// many calls wrote what may have come from a mapping.
    pub(crate) fn unknown_origins(&self) -> BTreeMap<Loss, u64> {
        let written = self.destinations.iter();
        let mut own = written
            .filter(|one| one.own_memory_bytes != Some(0))
            .peekable();
        if own.peek().is_none() {
            return BTreeMap::new();
        }
        let forgotten = self.sources.iter().map(|one| one.forgotten_buffers);
        let unseen = own.map(|one| one.unseen_mappings);
        [
            (Loss::ForgottenBuffers, forgotten.sum()),
            (Loss::UnseenMappings, unseen.sum()),
        ]
        .into()
    }
}

/// What the analysis found in a trace.
#[derive(Debug)]
pub(crate) struct Analysis {
    /// One for each process, in the order of the trace. Their steps are in `transfers`.
    pub(crate) processes: Vec<InProcess>,
    /// For each of these the places of its transfers in `transfers`, in ascending order.
    pub(crate) transfers_of_processes: Vec<Vec<usize>>,
    /// All transfers, those with the most bytes first. At equal size those over several processes
    /// come first, then sums over those of ended processes, then those within processes.
    pub(crate) transfers: Vec<Transfer>,
    /// Whether some of those over several processes are left out, because there are too many.
    pub(crate) lacks_chains: bool,
    /// [`InProcess::unknown_origins`] of all processes.
    pub(crate) unknown_origins: BTreeMap<Loss, u64>,
}

/// A transfer, and the index of the process that it lies within, if that is in the trace.
type FoundTransfer = (Transfer, Option<usize>);

pub(crate) fn analyse_trace(trace: &Trace) -> Analysis {
    let mut processes: Vec<InProcess> = trace
        .processes
        .iter()
        .map(|process| analyse_process(process, trace, &trace.files))
        .collect();
    let mut moved = trace.ended.conduits.clone();
    for process in &processes {
        let has_room = trace.ended.has_room();
        add_conduits(&mut moved, &process.conduits, has_room);
    }
    let lacks_files = processes.iter().any(|process| process.lacks_files);
    let conduits = Conduits::new(trace, moved, !lacks_files && !trace.ended.lacks_files);
    let mut steps = Vec::new();
    let mut process_of_step = Vec::new();
    for (index, process) in processes.iter_mut().enumerate() {
        for step in std::mem::take(&mut process.steps) {
            steps.extend(pipes::whole_or_hops(step, &conduits));
        }
        process_of_step.resize(steps.len(), index);
    }
    for step in &trace.ended.steps {
        steps.extend(pipes::whole_or_hops(step.clone(), &conduits));
    }
    let (found, lacks_chains) = chains::find_chains(&steps, &conduits);
    let found = list_transfers(trace, steps, &process_of_step, found);
    let mut transfers_of_processes = vec![Vec::new(); processes.len()];
    let transfers = sort_by_size(found, &mut transfers_of_processes);
    let mut unknown_origins = trace.ended.unknown_origins.clone();
    for process in &processes {
        add_counts(&mut unknown_origins, &process.unknown_origins());
    }
    Analysis {
        processes,
        transfers_of_processes,
        transfers,
        lacks_chains,
        unknown_origins,
    }
}

/// Sorts transfers, whose `part_of` has places in their list, and tells processes where their own
/// are.
fn sort_by_size(found: Vec<FoundTransfer>, of_processes: &mut [Vec<usize>]) -> Vec<Transfer> {
    let mut sorted: Vec<(usize, FoundTransfer)> = found.into_iter().enumerate().collect();
    sorted.sort_by_key(|(_, (transfer, _))| Reverse(transfer.weight_bytes()));
    let mut places = vec![0; sorted.len()];
    for (place, (index, _)) in sorted.iter().enumerate() {
        places[*index] = place;
    }
    let mut transfers = Vec::with_capacity(sorted.len());
    for (place, (_, (mut transfer, process))) in sorted.into_iter().enumerate() {
        if let Some(process) = process {
            of_processes[process].push(place);
        }
        for chain in &mut transfer.part_of {
            *chain = places[*chain];
        }
        transfer.part_of.sort_unstable();
        transfers.push(transfer);
    }
    transfers
}

/// The list of all transfers. `process_of_step` has the process of each step; steps beyond are of
/// processes that have ended and are only summed, and so are chains with one of these.
fn list_transfers(
    trace: &Trace,
    mut steps: Vec<Step>,
    process_of_step: &[usize],
    chains: Vec<StepChain>,
) -> Vec<FoundTransfer> {
    let is_whole = |chain: &StepChain| chain.steps.iter().all(|step| *step < process_of_step.len());
    let (whole, summed): (Vec<_>, Vec<_>) = chains.into_iter().partition(is_whole);
    let mut sums = trace.ended.transfers.clone();
    let mut list = Vec::new();
    let mut part_of: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); steps.len()];
    for (index, chain) in whole.iter().chain(&summed).enumerate() {
        let chained: Vec<&Step> = chain.steps.iter().map(|&step| &steps[step]).collect();
        let transfer = describe::transfer_of_chain(&chained, chain.bytes);
        let place = if index < whole.len() {
            list.push((transfer, None));
            index
        } else {
            let programs: Vec<_> = chained.iter().map(|step| step.program.clone()).collect();
            whole.len() + sums.add(transfer, &programs)
        };
        for &step in &chain.steps {
            part_of[step].insert(place);
        }
    }
    for (step, part_of) in steps.iter_mut().zip(part_of) {
        step.transfer.part_of = part_of.into_iter().collect();
    }
    let of_ended = steps.split_off(process_of_step.len());
    for step in of_ended {
        sums.add(step.transfer, &[step.program]);
    }
    list.extend(sums.into_transfers().map(|sum| (sum, None)));
    let within = steps.into_iter().zip(process_of_step);
    list.extend(within.map(|(step, process)| (step.transfer, Some(*process))));
    list
}

/// Analyses one process by rules 1 to 7 and 9. `begun` is its trace, `files` are those that its rows
/// name.
pub(crate) fn analyse_process(process: &Process, begun: &Trace, files: &[File]) -> InProcess {
    let facts = ProcessFacts::from_process(process, files);
    let ends = EndTable::with_files(begun, files);
    let mut flows = flow::flows_by_call(&facts);
    flows.extend(flow::flows_from_memory(&facts));
    totals::add_flows_by_totals(&mut flows, &facts);
    flow::add_idle_writes(&mut flows, &facts);
    attempts::drop_idle(&mut flows);
    flows = pipes::join_through_pipes(flows, &facts);
    attempts::drop_idle(&mut flows);
    attempts::add_attempts(&mut flows, &facts);
    let mut rows = process.threads.iter().flat_map(Thread::all_rows);
    // Of some submitted operations, the bytes are in no row.
    let has_unseen = rows.any(|row| {
        row.is_unseen_submission() && (row.call.name == "io_submit" || begun.backend == STRACE)
    });
    InProcess {
        steps: describe::steps_by_size(&flows, &facts, &ends),
        sources: rest::source_totals(&facts, &flows, &ends),
        destinations: rest::destination_totals(&facts, &flows, &ends),
        lacks_files: has_unseen || facts.lacks_files(),
        conduits: facts.moved,
    }
}

/// Whether a file may be a pipe or a connection.
pub(crate) fn is_conduit(id: FileId, files: &[File]) -> bool {
    chains::may_be_conduit(id.in_files(files).and_then(|file| file.kind))
}

/// Whether every call that can bring bytes into memory was counted, and the backend saw which
/// memory.
pub(crate) fn sees_memory(trace: &Trace) -> bool {
    let Some(counted) = trace.counted.as_ref().filter(|_| trace.sees_memory) else {
        return false;
    };
    let mut reads = data_calls().filter(|spec| matches!(spec.fds, Fds::Reads(_)));
    reads.all(|spec| counted.contains(spec.name))
        && counted.contains("mmap")
        && counted.contains("vmsplice")
}

#[cfg(test)]
mod transfer_tests;
