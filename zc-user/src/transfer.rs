//! Which bytes went from where to where: from the rows of a trace to transfers. Pure.
//!
//! ```text
//! rows ──activity──▶ per process: copies, reads and writes by file
//!        ──direct, loops, totals──▶ flows ──pipes──▶ flows through a pipe joined ──attempts──▶ what failed before
//!        ──crossing──▶ chains over several processes
//!        ──describe (ends, facts, verdict, rules, hint)──▶ the report's transfers
//! ```
//!
//! A flow is made of rows, and every figure of it is a sum over them; nothing is estimated. What no rule explains stays with its file,
//! unattributed.

mod activity;
mod attempts;
mod balance;
mod crossing;
mod describe;
mod direct;
mod ends;
mod errors;
mod facts;
mod flow;
mod hint;
mod left;
mod loops;
mod memory;
mod pipes;
mod rules;
mod shared;
mod totals;
mod unattributed;
mod verdict;

pub(crate) use activity::Role;
pub(crate) use direct::api as api_of_call;
pub(crate) use ends::Ends;

use crate::{
    report::{Transfer, Unattributed},
    trace::Trace,
};
use activity::Activity;
use pipes::Joined;

/// What the analysis found in a trace.
#[derive(Debug)]
pub(crate) struct Analysis {
    /// Process by process, in the order of the trace.
    pub processes: Vec<InProcess>,
    /// Transfers that cross processes.
    pub across: Vec<Transfer>,
    /// Whether all that was written is in exact transfers, or known to come from memory: [`Report::transfers_exact`](crate::Report).
    pub is_exact: bool,
}

/// What it found in one process.
#[derive(Debug, Default)]
pub(crate) struct InProcess {
    /// Transfers within the process, those with the most bytes first.
    pub transfers: Vec<Transfer>,
    /// Bytes that stand in none of them.
    pub unattributed: Unattributed,
}

/// Analyses a trace.
pub(crate) fn analyse(trace: &Trace) -> Analysis {
    let ends = Ends::new(trace);
    let activities: Vec<Activity> = trace.processes.iter().map(|process| Activity::of(process, trace)).collect();
    let joined: Vec<Joined> = activities.iter().map(in_process).collect();
    let processes = activities.iter().zip(&joined).map(|(activity, joined)| InProcess {
        transfers: describe::transfers(&joined.flows, activity, &ends),
        unattributed: unattributed::shares(activity, joined, &ends),
    });
    let processes = processes.collect();
    let across = crossing::chains(&activities, &joined, &trace.files);
    Analysis { processes, across: describe::chains(&across, &ends), is_exact: false }
}

/// The flows within one process.
fn in_process<'a>(activity: &Activity<'a>) -> Joined<'a> {
    let mut flows = direct::flows(activity);
    flows.extend(memory::flows(activity));
    loops::add(&mut flows, activity);
    totals::add(&mut flows, activity);
    let mut joined = pipes::join(flows, activity);
    attempts::add(&mut joined.flows, activity);
    joined
}

#[cfg(test)]
mod tests;
