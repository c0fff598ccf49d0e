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
mod chains;
mod describe;
mod facts;
mod flow;
mod hint;
mod model;
mod pipes;
mod rest;
mod rules;
mod totals;
mod work;

pub use chains::used_connections;
pub(crate) use describe::{EndTable, verdict_of_many};
pub(crate) use facts::{Role, was_cut_off};
pub use model::{
    Api, Attempt, Certainty, Changed, DestinationTotals, End, Evidence, Hop, Inode, Merged,
    MergedProcesses, Reason, SourceTotals, Transfer, VerdictParts,
};
pub(crate) use rules::{is_telling, may_hide_functions, remedy};
pub(crate) use work::sum_counts;

use std::collections::BTreeMap;

use crate::{
    syscalls::{Fds, data_calls},
    trace::{File, FileId, Process, Row, STRACE, Trace},
};
use chains::Conduits;
pub(crate) use chains::Moved;
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

/// What the analysis found in a trace.
#[derive(Debug)]
pub(crate) struct Analysis {
    /// One for each process, in the order of the trace; their steps are in `transfers`.
    pub(crate) processes: Vec<InProcess>,
    /// All transfers: those over several processes, then sums over those of ended processes, then
    /// those within processes.
    pub(crate) transfers: Vec<Found>,
}

/// A transfer, and where it belongs.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) transfer: Transfer,
    /// The index of the process that it lies within, if that is in the trace.
    pub(crate) process: Option<usize>,
    /// The places of the chains that it is a step of.
    pub(crate) part_of: Vec<usize>,
}

/// Analyses a trace.
pub(crate) fn analyse(trace: &Trace) -> Analysis {
    let mut processes: Vec<InProcess> = trace
        .processes
        .iter()
        .map(|process| analyse_process(process, trace, &trace.files))
        .collect();
    let mut moved = trace.ended.conduits().clone();
    for (&file, &more) in processes.iter().flat_map(|process| &process.conduits) {
        if trace.ended.has_room() || moved.contains_key(&file) {
            moved.entry(file).or_insert(Moved::NOTHING).add(more);
        }
    }
    let lacks_files = processes.iter().any(|process| process.lacks_files);
    let has_all = !lacks_files && trace.ended.has_all_files();
    let conduits = Conduits::new(trace, moved, has_all);
    let mut steps = Vec::new();
    let mut process_of_step = Vec::new();
    for (index, process) in processes.iter_mut().enumerate() {
        for step in std::mem::take(&mut process.steps) {
            steps.extend(pipes::whole_or_hops(step, &conduits));
        }
        process_of_step.resize(steps.len(), Some(index));
    }
    for step in trace.ended.steps().cloned() {
        steps.extend(pipes::whole_or_hops(step, &conduits));
    }
    let found = chains::find_chains(&steps, &conduits);
    let transfers = list_transfers(trace, steps, &process_of_step, &found);
    Analysis {
        processes,
        transfers,
    }
}

/// The list of all transfers. `process_of_step` has the process of each step; steps beyond are of
/// processes that have ended and are only summed, and so are chains with one of these.
fn list_transfers(
    trace: &Trace,
    steps: Vec<Step>,
    process_of_step: &[Option<usize>],
    chains: &[chains::StepChain],
) -> Vec<Found> {
    let mut sums = trace.ended.transfers().clone();
    let (mut whole, mut places) = (Vec::new(), Vec::new());
    for chain in chains {
        let chained: Vec<&Step> = chain.steps.iter().map(|&step| &steps[step]).collect();
        let Some(transfer) = describe::transfer_of_chain(&chained, chain.bytes) else {
            continue;
        };
        let place = if chain.steps.iter().all(|step| *step < process_of_step.len()) {
            whole.push(transfer);
            ChainPlace::Whole(whole.len() - 1)
        } else {
            let programs: Vec<_> = chained.iter().map(|step| step.program.clone()).collect();
            ChainPlace::Sum(sums.add(transfer, &programs))
        };
        places.push((chain, place));
    }
    let mut part_of: Vec<Vec<ChainPlace>> = vec![Vec::new(); steps.len()];
    for (chain, place) in places {
        for &step in &chain.steps {
            if !part_of[step].contains(&place) {
                part_of[step].push(place);
            }
        }
    }
    let first_sum = whole.len();
    let index = |place: &ChainPlace| match *place {
        ChainPlace::Whole(place) => place,
        ChainPlace::Sum(place) => first_sum + place,
    };
    let mut within = Vec::new();
    for (step, (one, part_of)) in steps.into_iter().zip(&part_of).enumerate() {
        let part_of: Vec<usize> = part_of.iter().map(index).collect();
        if let Some(&process) = process_of_step.get(step) {
            within.push(Found {
                transfer: one.transfer,
                process,
                part_of,
            });
        } else {
            let transfer = Transfer {
                part_of,
                ..one.transfer
            };
            sums.add(transfer, &[one.program]);
        }
    }
    let free = |transfer| Found {
        transfer,
        process: None,
        part_of: Vec::new(),
    };
    let sums = sums.described().into_iter().map(|mut sum| Found {
        part_of: std::mem::take(&mut sum.part_of),
        ..free(sum)
    });
    whole
        .into_iter()
        .map(free)
        .chain(sums)
        .chain(within)
        .collect()
}

/// Where a chain is in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChainPlace {
    /// Among those of processes that are in the trace.
    Whole(usize),
    /// Among the sums.
    Sum(usize),
}

/// Analyses one process by rules 1 to 7 and 9. `begun` is its trace, `files` are those that its rows
/// name.
pub(crate) fn analyse_process(process: &Process, begun: &Trace, files: &[File]) -> InProcess {
    let facts = ProcessFacts::from_process(process, files);
    let ends = EndTable::with_files(begun, files);
    let flows = flow::flows_of_process(&facts);
    let mut flows = pipes::join(flows, &facts);
    attempts::add_attempts(&mut flows, &facts);
    let mut rows = process
        .threads
        .iter()
        .flat_map(|thread| thread.rows.iter().chain(&thread.ring_rows));
    let has_unseen = rows.any(|row| is_unseen_submission(row, begun));
    InProcess {
        steps: describe::steps_by_size(&flows, &facts, &ends),
        sources: rest::source_totals(&facts, &flows, &ends),
        destinations: rest::destination_totals(&facts, &flows, &ends),
        lacks_files: has_unseen || facts.lacks_files(),
        conduits: facts.moved,
    }
}

/// Whether calls of this row submitted operations whose bytes are in no row.
fn is_unseen_submission(row: &Row, trace: &Trace) -> bool {
    row.is_unseen_submission() && (row.call.name == "io_submit" || trace.backend == STRACE)
}

/// Whether a file may be a pipe or a connection.
pub(crate) fn is_conduit(id: FileId, files: &[File]) -> bool {
    let file = usize::try_from(id.0).ok().and_then(|id| files.get(id));
    chains::may_be_conduit(file.and_then(|file| file.kind))
}

/// Whether every call that can bring bytes into memory was counted, and the backend saw which
/// memory.
pub(crate) fn sees_memory(trace: &Trace) -> bool {
    let reads = data_calls()
        .filter(|spec| matches!(spec.fds, Fds::Reads(_)))
        .map(|spec| spec.name);
    let counted = trace.counted.as_ref();
    let counts_reads = counted.is_some_and(|counted| {
        reads
            .chain(["mmap", "vmsplice"])
            .all(|name| counted.contains(name))
    });
    trace.sees_memory && counts_reads
}

#[cfg(test)]
mod tests;
