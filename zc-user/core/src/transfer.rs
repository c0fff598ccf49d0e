//! Derives transfers from a trace: which bytes went from where to where, and how that is known.
//! Pure: no I/O.
//!
//! ```text
//! Trace ─ activity: the rows of a process, by what they did with which file
//!   │
//!   ├─ by_call ────── one call names both ends                    proven
//!   ├─ by_buffer ──── written from memory that a read filled      proven, or inferred
//!   ├─ by_stream ──── equal samples of both streams               inferred
//!   ├─ by_order ───── a thread reads, then writes as much         inferred
//!   ├─ by_totals ──── as many bytes read as written               inferred
//!   │     (inference: what the last three share)
//!   ├─ lower_bounds ─ proven flows that may be only a part
//!   ├─ pipes ──────── into a pipe and out of it: one flow
//!   ├─ by_call ────── failed attempts join the flow that followed
//!   ▼
//! Flow ── conduits: chains from process to process, through pipes and connections
//!   │
//!   ├─ attribution: how much of each file's bytes the flows explain
//!   └─ describe: Transfer, with verdict ◀─ summary, rules (why this interface), hint (what is cheaper)
//! ```
//!
//! `flow` is what all of them work on, `model` is what the report shows. A flow consists of rows,
//! and each of its figures is a sum over them; nothing is estimated. A flow is exact or inferred,
//! and of an inferred one only the proven bytes are a lower bound (`figure`). Bytes that nothing
//! explains stay with their file, as unattributed.

mod activity;
mod attribution;
mod by_buffer;
mod by_call;
mod by_order;
mod by_stream;
mod by_totals;
mod conduits;
mod describe;
mod figure;
mod flow;
mod hidden;
mod hint;
mod inference;
mod lower_bounds;
mod model;
mod pipes;
mod rules;
mod settled;
mod summary;

pub(crate) use activity::{Role, was_cut_off};
pub(crate) use by_call::api as api_of_call;
pub use conduits::used_connections;
pub(crate) use describe::EndTable;
pub use figure::Figure;
pub(crate) use flow::sum_known;
pub use model::{
    Api, Attempt, Certainty, DestinationTotals, End, Evidence, Hop, Inode, Merged, MergedProcesses,
    Reason, Share, SourceTotals, Transfer, Unattributed, VerdictParts,
};
pub(crate) use rules::{is_telling, may_hide_functions, remedy};
use settled::Known;
pub(crate) use settled::{READ, WRITTEN};
pub use settled::{Round, Settled};

use std::collections::BTreeSet;

use crate::trace::{File, Process, Trace};
use activity::Activity;
use attribution::{Attribution, Origin};
use conduits::Conduits;
use flow::Flow;
use hidden::HiddenWays;
use lower_bounds::FirstReads;

/// What the analysis found in a trace.
#[derive(Debug)]
pub(crate) struct Analysis {
    /// One for each process, in the order of the trace.
    pub processes: Vec<InProcess>,
    /// Transfers over several processes, those with the most bytes first.
    pub across: Vec<Transfer>,
    /// Sums over transfers of merged processes. Their `part_of` are indices into this list.
    pub merged_transfers: Vec<Transfer>,
    /// What else is known of merged processes, if there are any.
    pub merged: Option<MergedProcesses>,
    /// Whether every written byte is in an exact transfer or known to come from memory, and nothing
    /// was lost: [`Report::transfers_exact`](crate::report::Report::transfers_exact).
    pub is_exact: bool,
}

/// What the analysis found in one process.
#[derive(Debug, Default)]
pub(crate) struct InProcess {
    /// Transfers within the process, those with the most bytes first. The report fills in their
    /// `pids` and `part_of`.
    pub transfers: Vec<Transfer>,
    /// Files that it read.
    pub sources: Vec<SourceTotals>,
    /// Files that it wrote.
    pub destinations: Vec<DestinationTotals>,
    /// Bytes that are in no transfer.
    pub unattributed: Unattributed,
}

/// Analyses a trace.
pub(crate) fn analyse(trace: &Trace) -> Analysis {
    let ends = EndTable::new(trace);
    let context = Context::of(trace);
    let flows = context.flows(|_| true);
    let mut is_exact = context.conduits.has_all_files() && trace.settled.is_exact();
    let processes = context
        .activities
        .iter()
        .zip(&flows)
        .map(|(activity, flows)| {
            let (process, are_exact) = context.in_process(activity, flows, &ends, true);
            is_exact &= are_exact;
            process
        });
    let mut processes: Vec<InProcess> = processes.collect();
    let simple = processes.split_off(trace.processes.len());
    let across = conduits::chains(&context.activities, &flows, &context.conduits);
    let known = Known {
        all_calls: context.conduits.is_complete(),
        memory: !context.hidden_ways.poked,
    };
    is_exact &= known.memory || !trace.settled.rests_on_memory();
    let (merged_transfers, merged) = trace.settled.described(trace, simple, known);
    Analysis {
        processes,
        across: describe::chains(&across, &ends, trace.sees_memory),
        is_exact,
        merged_transfers,
        merged,
    }
}

/// What the analysis of one process needs to know of the others.
struct Context<'a> {
    /// Of all processes that have not been analysed yet, those of [`Trace::processes`] first.
    activities: Vec<Activity<'a>>,
    /// How many of them are in [`Trace::processes`]; the others are sums over processes without
    /// transfers.
    listed: usize,
    conduits: Conduits<'a>,
    own_memory: BTreeSet<u32>,
    first_reads: FirstReads,
    hidden_ways: HiddenWays,
}

impl<'a> Context<'a> {
    fn of(trace: &'a Trace) -> Self {
        let simple = trace
            .merged
            .iter()
            .filter(|merged| !merged.is_settled)
            .map(|merged| &merged.sums);
        let all = trace.processes.iter().chain(simple);
        let hidden_ways = HiddenWays::of(trace);
        let activity = |process| Activity::of(process, trace, &trace.files).with(hidden_ways);
        let activities: Vec<Activity> = all.map(activity).collect();
        Self {
            listed: trace.processes.len(),
            conduits: Conduits::of(trace, &activities),
            own_memory: attribution::own_memory(&activities, trace.settled.are_copies_clean()),
            first_reads: FirstReads::of(&activities, trace.settled.first_reads()),
            activities,
            hidden_ways,
        }
    }

    fn has_own_memory(&self, activity: &Activity<'_>) -> bool {
        self.own_memory.contains(&activity.process.pid)
    }

    /// The flows within each process, as far as they are `wanted` of the process with this index.
    fn flows(&self, wanted: impl Fn(usize) -> bool) -> Vec<Vec<Flow<'a>>> {
        let of = |(index, activity): (usize, &Activity<'a>)| {
            if index < self.listed && wanted(index) {
                in_process(
                    activity,
                    &self.conduits,
                    &self.first_reads,
                    self.has_own_memory(activity),
                )
            } else {
                Vec::new()
            }
        };
        self.activities.iter().enumerate().map(of).collect()
    }

    /// What was found in one process, and whether every written byte is in an exact flow or known
    /// to come from memory; only if `may_be_own` can it come from there.
    fn in_process(
        &self,
        activity: &Activity<'_>,
        flows: &[Flow<'_>],
        ends: &EndTable<'_>,
        may_be_own: bool,
    ) -> (InProcess, bool) {
        let has_own = may_be_own && self.conduits.has_all_files() && self.has_own_memory(activity);
        let origin = if has_own {
            Origin::OwnMemory
        } else {
            Origin::Unknown
        };
        let Attribution {
            destinations,
            sources,
            unattributed,
            is_exact,
        } = Attribution::of(activity, flows, origin, ends);
        (
            InProcess {
                transfers: describe::transfers(flows, activity, ends),
                sources,
                destinations,
                unattributed,
            },
            is_exact,
        )
    }
}

/// Whether a process may have changed the memory of another one, so that nothing is proven by
/// memory.
pub(crate) fn may_be_poked(trace: &Trace) -> bool {
    HiddenWays::of(trace).poked
}

/// With which processes a process can be merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Mergeable {
    /// With all others.
    OfAnyCreator,
    /// With others that were created by the same process, because that may have given them its
    /// memory.
    OfTheSameCreator,
    /// With others that were analysed before.
    Settled,
}

/// With which processes this one can be merged, once it has ended: it has no transfers, and neither
/// those of other processes nor what is exact depends on what it did with which file. `None`: with
/// none. `begun` need not have files yet, `files` are those that rows name.
///
/// Streams are not known yet, but they connect only what was read with what was written, and such a
/// process is not merged.
pub(crate) fn mergeable(process: &Process, begun: &Trace, files: &[File]) -> Option<Mergeable> {
    let activity = Activity::of(process, begun, files);
    let is_simple = activity.cut_off.is_empty()
        && activity.copies.is_empty()
        && activity.lent.is_empty()
        && activity.from_buffers.is_empty();
    let is_simple = is_simple && !hidden::pokes(process, files);
    let has_ring = process
        .threads
        .iter()
        .any(|thread| !thread.ring_rows.is_empty() || !thread.parts.is_empty());
    if !is_simple || has_ring || activity.has_unseen_operations {
        return None;
    }
    // A process without a program of its own shares what it read with its creator.
    let is_own = activity.writes.is_empty() && process.exe.is_some();
    if is_own {
        return Some(Mergeable::OfAnyCreator);
    }
    let mut flows = by_buffer::flows(&activity);
    by_order::add(&mut flows, &activity, |_, _| u64::MAX);
    flows.retain(|flow| by_buffer::is_worth_showing(flow, &activity));
    (activity.reads_nothing() && flows.is_empty()).then_some(Mergeable::OfTheSameCreator)
}

/// The flows within one process.
fn in_process<'a>(
    activity: &Activity<'a>,
    conduits: &Conduits<'_>,
    first_reads: &FirstReads,
    has_own_memory: bool,
) -> Vec<Flow<'a>> {
    let mut flows = by_call::flows(activity);
    flows.extend(by_buffer::flows(activity));
    by_stream::add(&mut flows, activity);
    by_order::add(&mut flows, activity, |from, to| {
        by_stream::common_bytes(from, to, activity)
    });
    flows.retain(|flow| by_buffer::is_worth_showing(flow, activity));
    if !activity.sees_memory {
        by_totals::add(&mut flows, activity);
    }
    lower_bounds::disprove_memory(&mut flows, activity);
    lower_bounds::limit_to_length(&mut flows, activity);
    lower_bounds::mark(&mut flows, activity, first_reads);
    let mut flows = pipes::join(flows, activity, conduits, has_own_memory);
    by_call::add_attempts(&mut flows, activity);
    flows
}

#[cfg(test)]
mod tests;
