//! Which bytes went from where to where: from the rows of a trace to transfers. Pure.
//!
//! ```text
//! rows ──activity──▶ per process: copies, reads and writes by file
//!        ──direct, memory──▶ proven flows ──alike, loops, totals──▶ inferred ones
//!        ──pipes (conduits)──▶ flows through a pipe joined ──attempts──▶ what failed before
//!        ──crossing (conduits)──▶ chains over several processes
//!        ──accounts──▶ what is attributed of each file ──describe (ends, facts, verdict, rules, hint)──▶ the report's transfers
//! ```
//!
//! A flow is made of rows, and every figure of it is a sum over them; nothing is estimated. A flow is exact or inferred, and what is
//! inferred is a lower bound. What no rule explains stays with its file, unattributed.

mod accounts;
mod activity;
mod alike;
mod attempts;
mod balance;
mod bounds;
mod conduits;
mod crossing;
mod describe;
mod direct;
mod doubt;
mod ends;
mod errors;
mod facts;
mod flow;
mod hint;
mod left;
mod loops;
mod memory;
mod model;
mod pipes;
mod rules;
mod shared;
mod totals;
mod verdict;

pub(crate) use activity::Role;
pub(crate) use direct::api as api_of_call;
pub(crate) use ends::Ends;
pub use model::{
    Api, Attempt, Certainty, DestinationTotals, End, Evidence, Hop, Inode, Reason, Share, SourceTotals, Transfer, Unattributed,
};

use crate::trace::Trace;
use accounts::{Accounts, Origin};
use activity::Activity;
use bounds::FirstReads;
use conduits::Conduits;
use flow::Flow;

/// What the analysis found in a trace.
#[derive(Debug)]
pub(crate) struct Analysis {
    /// Process by process, in the order of the trace.
    pub processes: Vec<InProcess>,
    /// Transfers that cross processes.
    pub across: Vec<Transfer>,
    /// Whether all that was written is in exact transfers, or known to come from memory, and nothing was lost:
    /// [`Report::transfers_exact`](crate::report::Report::transfers_exact).
    pub is_exact: bool,
}

/// What it found in one process.
#[derive(Debug, Default)]
pub(crate) struct InProcess {
    /// Transfers within the process, those with the most bytes first.
    pub transfers: Vec<Transfer>,
    /// Files that it read.
    pub sources: Vec<SourceTotals>,
    /// Files that it wrote.
    pub destinations: Vec<DestinationTotals>,
    /// Bytes that stand in no transfer.
    pub unattributed: Unattributed,
}

/// Analyses a trace.
pub(crate) fn analyse(trace: &Trace) -> Analysis {
    let ends = Ends::new(trace);
    let activities: Vec<Activity> = trace.processes.iter().map(|process| Activity::of(process, trace)).collect();
    let conduits = Conduits::of(trace, &activities);
    let own_memory = accounts::own_memory(&activities);
    let first_reads = FirstReads::of(&activities);
    let has_own_memory = |activity: &Activity<'_>| own_memory.contains(&activity.process.pid);
    let flows: Vec<Vec<Flow>> =
        activities.iter().map(|activity| in_process(activity, &conduits, &first_reads, has_own_memory(activity))).collect();
    let mut is_exact = conduits.has_all_files();
    let processes = activities.iter().zip(&flows).map(|(activity, flows)| {
        let has_own = conduits.has_all_files() && has_own_memory(activity);
        let origin = if has_own { Origin::OwnMemory } else { Origin::Unknown };
        let Accounts { destinations, sources, unattributed, is_exact: are_exact } = Accounts::of(activity, flows, origin, &ends);
        is_exact &= are_exact;
        InProcess { transfers: describe::transfers(flows, activity, &ends), sources, destinations, unattributed }
    });
    let processes = processes.collect();
    let across = crossing::chains(&activities, &flows, &conduits);
    Analysis { processes, across: describe::chains(&across, &ends), is_exact }
}

/// The flows within one process.
fn in_process<'a>(
    activity: &Activity<'a>,
    conduits: &Conduits<'_>,
    first_reads: &FirstReads,
    has_own_memory: bool,
) -> Vec<Flow<'a>> {
    let mut flows = direct::flows(activity);
    flows.extend(memory::flows(activity));
    alike::add(&mut flows, activity);
    loops::add(&mut flows, activity);
    alike::judge_order(&mut flows, activity);
    flows.retain(|flow| memory::is_worth_showing(flow, activity));
    if !activity.sees_memory {
        totals::add(&mut flows, activity);
    }
    bounds::mark(&mut flows, activity, first_reads);
    let mut flows = pipes::join(flows, activity, conduits, has_own_memory);
    attempts::add(&mut flows, activity);
    flows
}

#[cfg(test)]
mod tests;
