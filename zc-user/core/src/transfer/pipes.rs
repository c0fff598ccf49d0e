//! Rule 7: what went into a pipe and out of it again within one process is one flow, with the pipe
//! as its hop. It stands only if the whole trace shows that nothing else went in or came out.

use std::collections::BTreeSet;

use super::{Step, chains::Conduits, facts::ProcessFacts, flow::Flow};
use crate::{trace::FileId, transfer::Api};

/// Joins the only flow into a pipe with the only flow out of it, if both have as many bytes.
pub(super) fn join_through_pipes<'a>(
    mut flows: Vec<Flow<'a>>,
    facts: &ProcessFacts<'a>,
) -> Vec<Flow<'a>> {
    let sources: BTreeSet<FileId> = flows.iter().map(|flow| flow.from).collect();
    for pipe in sources {
        if !facts.is_nameless_pipe(pipe) {
            continue;
        }
        let [into, out] = [
            index_of_only(&flows, |flow| flow.to == pipe),
            index_of_only(&flows, |flow| flow.from == pipe),
        ];
        let (Some(into), Some(out)) = (into, out) else {
            continue;
        };
        let bytes = flows[into].bytes;
        let has_equal = bytes.is_some_and(|bytes| bytes > 0) && flows[out].bytes == bytes;
        // `tee` leaves its bytes in the pipe.
        let are_transfers = flows[into].is_transfer() && flows[out].is_transfer();
        if into != out && has_equal && are_transfers && flows[out].api != Api::Tee {
            let joined = joined_flow(&flows[into], &flows[out]);
            flows[into] = joined;
            flows.remove(out);
        }
    }
    flows
}

/// The step itself, if no other bytes went through its pipes. Otherwise its hops, which stand by
/// themselves.
pub(super) fn whole_or_hops(step: Step, conduits: &Conduits<'_>) -> Vec<Step> {
    let has_pipe_alone =
        |into: &Step| conduits.seen_completely(into.to, into.to) == step.transfer.bytes;
    match step.hops.split_last() {
        Some((_, before)) if !before.iter().all(has_pipe_alone) => step.into_hops(),
        _ => vec![step],
    }
}

impl Step {
    /// The hops, or the step itself if it has none.
    pub(crate) fn into_hops(self) -> Vec<Self> {
        if self.hops.is_empty() {
            vec![self]
        } else {
            self.hops
        }
    }
}

fn index_of_only<'a>(flows: &[Flow<'a>], is_meant: impl Fn(&Flow<'a>) -> bool) -> Option<usize> {
    let first = flows.iter().position(&is_meant)?;
    let is_only = !flows[first + 1..].iter().any(is_meant);
    is_only.then_some(first)
}

/// The flow from the source of `into` to the destination of `out`.
fn joined_flow<'a>(into: &Flow<'a>, out: &Flow<'a>) -> Flow<'a> {
    let api = costlier_api(into.api, out.api);
    let steps = [into, out].map(|flow| (flow.bytes, flow.observed_bytes));
    Flow {
        evidence: into.evidence.max(out.evidence),
        bytes: into.bytes,
        observed_bytes: into.bytes.map(|bytes| observed_in_all(bytes, steps)),
        hops: [into, out].map(Flow::legs).concat(),
        ..Flow::by_copies(into.from, out.to, api, Vec::new())
    }
}

/// How many of the bytes of several steps, given with those that were observed, were observed at
/// each, at least: what one has not observed may be what another one has.
pub(super) fn observed_in_all(
    bytes: u64,
    steps: impl IntoIterator<Item = (Option<u64>, Option<u64>)>,
) -> u64 {
    let mut left = bytes;
    for (all, observed) in steps {
        let unobserved = all.unwrap_or(0).saturating_sub(observed.unwrap_or(0));
        left = left.saturating_sub(unobserved);
    }
    left
}

/// The interfaces that copy bytes to or from user memory. The first ones cost more.
const COPYING: [Api; 3] = [Api::ReadWrite, Api::IoUring, Api::MmapWrite];

/// The interface that costs more; the first one if both cost the same.
pub(super) fn costlier_api(one: Api, other: Api) -> Api {
    let mut copying = COPYING.into_iter();
    let costlier = copying.find(|api| [one, other].contains(api));
    costlier.unwrap_or(one)
}
