//! Flows and chains as the report's transfers.

use std::cmp::Reverse;

use super::{
    Ends,
    activity::Activity,
    crossing::{Carried, Chain},
    facts::{Facts, user_memory_bytes},
    flow::{Flow, Leg, Source},
    hint,
    rules::{self, Case, Way},
    shared::Shared,
    verdict,
};
use crate::transfer::{Api, End, Hop, Transfer};

/// A verdict names the work of so many processes.
const MOST_HOPS: usize = 8;

/// The transfers of one process, those with the most bytes first; of as many, the first to begin.
pub(super) fn transfers(flows: &[Flow<'_>], activity: &Activity<'_>, ends: &Ends<'_>) -> Vec<Transfer> {
    let mut flows: Vec<&Flow> = flows.iter().collect();
    flows.sort_by_key(|flow| (Reverse(flow.bytes), flow.order()));
    let shared = Shared::of(flows.iter().copied());
    flows.into_iter().map(|flow| transfer(flow, &shared, activity, ends)).collect()
}

fn transfer(flow: &Flow<'_>, shared: &Shared, activity: &Activity<'_>, ends: &Ends<'_>) -> Transfer {
    let facts = Facts::of(flow, shared);
    let (from, to) = (source(flow.from, ends), ends.end(flow.to));
    let case = Case {
        process: activity.process,
        way: Way::of(flow, activity.sees_memory),
        api: flow.api,
        from: &from,
        to: &to,
        bytes: flow.bytes,
        facts: &facts,
    };
    let reason = rules::reason(&case);
    let verdict = verdict::sentence(&case, reason.as_ref());
    let hint = hint::hint(&case);
    let hops = flow.hops.iter().map(|leg| described_hop(leg, activity.process.pid, ends)).collect();
    Transfer { reason, hint, hops, ..described(flow, from, to, facts, verdict, user_memory_bytes(flow)) }
}

/// The transfers that cross processes, those with the most bytes first.
pub(super) fn chains(chains: &[Chain<'_, '_>], ends: &Ends<'_>) -> Vec<Transfer> {
    let shared = Shared::of(chains.iter().flat_map(|chain| &chain.hops).map(|hop| hop.flow));
    let mut transfers: Vec<Transfer> = chains.iter().filter_map(|chain| across(chain, &shared, ends)).collect();
    transfers.sort_by_key(|transfer| Reverse(transfer.bytes));
    transfers
}

fn across(chain: &Chain<'_, '_>, shared: &Shared, ends: &Ends<'_>) -> Option<Transfer> {
    let (first, last) = (chain.hops.first()?, chain.hops.last()?);
    let each: Vec<Facts> = chain.hops.iter().map(|hop| Facts::of(hop.flow, shared)).collect();
    let hops = chain.hops.iter().zip(&each).take(MOST_HOPS).map(|(hop, facts)| {
        let name = hop.process.comm.clone().unwrap_or_else(|| hop.process.pid.to_string());
        format!("{name}: {}", verdict::clause(hop.flow.api, hop.flow.bytes, facts))
    });
    let mut verdict = format!("through {} processes: {}", chain.hops.len(), hops.collect::<Vec<_>>().join("; "));
    if let Some(more @ 1..) = chain.hops.len().checked_sub(MOST_HOPS) {
        verdict = format!("{verdict}; and {more} more");
    }
    let user_memory = chain.hops.iter().map(|hop| user_memory_bytes(hop.flow)).reduce(|a, b| a?.checked_add(b?)).flatten();
    let Carried { bytes, proven_bytes, certainty, evidence } = chain.carried;
    let hops = chain.hops.iter().flat_map(|hop| hop.flow.legs().map(|leg| described_hop(&leg, hop.process.pid, ends))).collect();
    let costliest = chain.hops.iter().map(|hop| hop.flow).max_by_key(|flow| cost(flow.api))?;
    let facts = each.into_iter().reduce(Facts::then)?;
    let (from, to) = (source(first.flow.from, ends), ends.end(last.flow.to));
    let pids = chain.hops.iter().map(|hop| hop.process.pid).collect();
    Some(Transfer {
        api: costliest.api,
        evidence: Some(evidence),
        certainty,
        bytes: Some(bytes),
        proven_bytes: Some(proven_bytes),
        pids,
        hops,
        ..described(last.flow, from, to, facts, verdict, user_memory)
    })
}

/// How dear an interface is, by what becomes of a byte: copied twice, copied once, or left in the kernel.
const fn cost(api: Api) -> u8 {
    match api {
        Api::ReadWrite => 3,
        Api::IoUring => 2,
        Api::MmapWrite => 1,
        Api::Sendfile | Api::Splice | Api::Tee | Api::Vmsplice | Api::CopyFileRange | Api::Reflink => 0,
    }
}

fn source(source: Source, ends: &Ends<'_>) -> End {
    match source {
        Source::File(file) => ends.end(file),
        Source::Memory => Ends::memory(),
    }
}

fn described(flow: &Flow<'_>, from: End, to: End, facts: Facts, verdict: String, user_memory_bytes: Option<u64>) -> Transfer {
    Transfer {
        from,
        to,
        api: flow.api,
        evidence: Some(flow.evidence),
        certainty: flow.certainty(),
        bytes: flow.bytes,
        proven_bytes: flow.proven_bytes,
        calls: facts.calls(),
        mean_bytes: flow.bytes.and_then(|bytes| bytes.checked_div(facts.moving_calls)),
        crossings: facts.crossings(),
        user_memory_bytes,
        calls_by_syscall: facts.by_syscall.into_iter().map(|(name, called)| (name, called.calls)).collect(),
        attempts: facts.attempts,
        short_calls: facts.short_calls,
        zero_calls: facts.zero_calls,
        retries: facts.retries,
        errors: facts.errors,
        total_ns: facts.total_ns,
        verdict,
        reason: None,
        hint: None,
        pids: Vec::new(),
        hops: Vec::new(),
    }
}

fn described_hop(leg: &Leg, pid: u32, ends: &Ends<'_>) -> Hop {
    let Leg { from, to, api, evidence, certainty, bytes, proven_bytes } = *leg;
    Hop { pid, from: source(from, ends), to: ends.end(to), api, bytes, proven_bytes, evidence, certainty }
}
