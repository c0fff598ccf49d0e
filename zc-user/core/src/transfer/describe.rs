//! Describes flows and chains as the transfers of the report.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    Step,
    facts::{ProcessFacts, sum_bytes},
    flow::Flow,
    hint, pipes,
    rules::{self, RuleCase},
    work,
};
use crate::{
    ends::EndTable,
    report::Callers,
    trace::{FileId, FileKind},
    transfer::{Certainty, Edge, Evidence, Hop, Transfer},
    units::short_bytes,
    verdict_words::{self, MovingCalls},
};

/// A verdict describes at most this many processes.
const MAX_PROCESSES: usize = 8;

/// The flows of one process as its steps: those with the most bytes first, then in order of time.
pub(super) fn steps_by_size(
    flows: &[Flow<'_>],
    facts: &ProcessFacts<'_>,
    ends: &EndTable<'_>,
) -> Vec<Step> {
    let mut ways: BTreeMap<FileId, BTreeSet<FileId>> = BTreeMap::new();
    for flow in flows {
        ways.entry(flow.from).or_default().insert(flow.to);
    }
    let mut flows: Vec<&Flow> = flows.iter().collect();
    flows.sort_by_key(|flow| (Reverse(flow.bytes), flow.first_write_order()));
    let mut steps = Vec::new();
    for flow in flows {
        let mut step = describe_flow(flow, facts, ends);
        // A call that names both ends takes the bytes out of a pipe or a connection.
        let is_taken = facts.moved.contains_key(&flow.from) && ways[&flow.from].len() > 1;
        if is_taken || flow.is_loop() && !is_whole(flow, facts) {
            step.transfer.hint = None;
        }
        steps.push(step);
    }
    steps
}

/// Whether the process read nearly nothing else of the source, and wrote nothing else to the destination,
/// so that it may only have copied.
fn is_whole(flow: &Flow<'_>, facts: &ProcessFacts<'_>) -> bool {
    let bytes = |rows: Option<&Vec<_>>| rows.and_then(|rows| sum_bytes(rows)).unwrap_or(0);
    let moved = flow.bytes.unwrap_or(0);
    let read = bytes(facts.all_reads.get(&Some(flow.from)));
    read <= moved.saturating_add(moved / 100)
        && bytes(facts.all_writes.get(&Some(flow.to))) <= moved
}

fn describe_flow(flow: &Flow<'_>, facts: &ProcessFacts<'_>, ends: &EndTable<'_>) -> Step {
    let hops = steps_of_hops(flow, facts, ends);
    let pid = facts.process.pid;
    let edge = Edge {
        from: ends.find_end(flow.from),
        to: ends.find_end(flow.to),
        api: flow.api,
        evidence: flow.evidence,
        certainty: flow.weakest_certainty(),
        bytes: flow.bytes,
    };
    let mut transfer = Transfer {
        observed_bytes: flow.observed_bytes,
        compared_words: flow.words.compared,
        changed_words: flow.words.changed,
        pids: vec![pid],
        hops: hops.iter().map(Step::as_hop).collect(),
        callers: ends.stacks.and_then(|stacks| {
            let rows = flow.own_rows().chain(flow.attempts.iter().copied());
            Callers::of_rows(rows, stacks)
        }),
        ..Transfer::without_calls(edge)
    };
    work::add_work(&mut transfer, flow);
    let case = RuleCase {
        process: facts.process,
        transfer: &transfer,
        flow,
        stacks: ends.stacks,
    };
    let (reason, hint) = (rules::reason_for(&case), hint::hint_for(&case));
    let moving = MovingCalls {
        calls: flow.moving_calls(),
        least_and_most_bytes: flow.least_and_most_bytes(),
    };
    let clause = verdict_words::what_calls_did(&transfer, moving);
    let mut legs = flow.legs().iter();
    let is_cut_off = legs.any(|leg| facts.cut_off.contains(&Some(leg.to)));
    (transfer.reason, transfer.hint) = (reason, hint);
    transfer.verdict = verdict_words::verdict_sentence(&clause, &transfer, is_cut_off);
    Step {
        pid,
        program: facts.process.comm.clone(),
        from: flow.from,
        to: flow.to,
        takes_all: takes_all(flow, facts),
        clause,
        hops,
        transfer,
    }
}

/// The hops of a flow, as if each stood by itself. What was tried before belongs to the first.
fn steps_of_hops(flow: &Flow<'_>, facts: &ProcessFacts<'_>, ends: &EndTable<'_>) -> Vec<Step> {
    let mut attempts = flow.attempts.clone();
    let alone = flow.hops.iter().map(|hop| Flow {
        attempts: std::mem::take(&mut attempts),
        ..hop.clone()
    });
    alone.map(|hop| describe_flow(&hop, facts, ends)).collect()
}

impl Step {
    /// Whether a chain of so many bytes has all that this step moved.
    fn is_of(&self, bytes: u64) -> bool {
        self.transfer.bytes == Some(bytes)
    }

    fn as_hop(&self) -> Hop {
        Hop {
            pid: self.pid,
            edge: self.transfer.edge.clone(),
        }
    }
}

/// Whether a flow took every byte out of its source that the process took, and brought each to its
/// destination once: it has as many bytes, and of every read, some. If it is inferred, other bytes
/// that the process wrote there may be the same ones again.
fn takes_all(flow: &Flow<'_>, facts: &ProcessFacts<'_>) -> bool {
    let taken = facts.moved.get(&flow.from).and_then(|moved| moved.read);
    let uses_every_read = !flow.legs()[0].has_other_reads;
    uses_every_read
        && taken.is_some()
        && taken == flow.bytes
        && (flow.weakest_certainty() == Certainty::Observed
            || flow.bytes == facts.written_to(flow.to))
}

impl Transfer {
    /// One of unknown bytes, made by no calls so far.
    fn without_calls(edge: Edge) -> Self {
        Self {
            edge,
            calls: Some(0),
            crossings: Some(0),
            user_memory_bytes: Some(0),
            total_ns: Some(0),
            ..Self::default()
        }
    }
}

/// A chain of these steps, of which there are several, as a transfer.
pub(super) fn transfer_of_chain(steps: &[&Step], bytes: u64) -> Transfer {
    let (first, last) = (steps[0], steps[steps.len() - 1]);
    let mut edge = Edge {
        to: last.transfer.to.clone(),
        bytes: Some(bytes),
        ..first.transfer.edge.clone()
    };
    for step in steps {
        edge.api = pipes::costlier_api(edge.api, step.transfer.api);
        edge.evidence = edge.evidence.max(step.transfer.evidence);
        edge.certainty = edge.certainty.max(step.transfer.certainty);
    }
    let transfers = steps.iter().map(|step| &step.transfer);
    let of_steps = transfers.map(|one| (one.bytes, one.observed_bytes));
    let mut observed = pipes::observed_in_all(bytes, of_steps);
    if is_joined_by_addresses(steps) {
        edge.evidence = edge.evidence.max(Evidence::Addresses);
        observed = 0;
    }
    edge.certainty = edge.certainty.max(edge.evidence.certainty());
    let mut chain = Transfer {
        observed_bytes: Some(observed),
        mean_bytes: last.transfer.mean_bytes.filter(|_| last.is_of(bytes)),
        verdict: verdict_of_chain(steps, bytes),
        ..Transfer::without_calls(edge)
    };
    for step in steps {
        if step.is_of(bytes) {
            chain.add_figures(&step.transfer);
        } else {
            chain.forget_undivided();
        }
        chain.attempts.extend_from_slice(&step.transfer.attempts);
        chain.pids.push(step.pid);
        if step.hops.is_empty() {
            chain.hops.push(step.as_hop());
        } else {
            chain.hops.extend_from_slice(&step.transfer.hops);
        }
    }
    chain
}

/// Whether a TCP connection joins some of these steps. Nothing but addresses tells which two
/// sockets are its ends.
fn is_joined_by_addresses(steps: &[&Step]) -> bool {
    let mut joints = steps.iter().skip(1).map(|step| &step.transfer.from);
    joints.any(|end| end.kind.as_deref() == Some(FileKind::Tcp.name()))
}

/// What each process did: `through 2 processes: cat: read + write, 8 calls of 8 KiB; dd: ...`. Of a
/// step that also moved other bytes the calls are left out.
fn verdict_of_chain(steps: &[&Step], bytes: u64) -> String {
    let mut clauses = Vec::new();
    for step in steps.iter().take(MAX_PROCESSES) {
        let name = step.program.clone().unwrap_or(step.pid.to_string());
        let api = step.transfer.api.in_words();
        clauses.push(match step.transfer.bytes {
            Some(all) if all != bytes => format!("{name}: {api}, {} in all", short_bytes(all)),
            _ => format!("{name}: {}", step.clause),
        });
    }
    let (count, clauses) = (steps.len(), clauses.join("; "));
    let probably = if is_joined_by_addresses(steps) {
        ", as only the addresses of connections show"
    } else {
        ""
    };
    let verdict = format!("through {count} processes{probably}: {clauses}");
    match steps.len().checked_sub(MAX_PROCESSES) {
        Some(more @ 1..) => format!("{verdict}; and {more} more"),
        _ => verdict,
    }
}
