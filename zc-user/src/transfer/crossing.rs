//! Flows that meet in a pipe or a connection between two processes: chains.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{activity::Activity, conduits::Conduits, flow::Flow};
use crate::{
    report::{Api, Certainty},
    trace::{FileId, Process},
};

/// Flows of which each begins where the one before it ended, in another process.
#[derive(Debug)]
pub(super) struct Chain<'f, 'a> {
    pub(super) hops: Vec<Hop<'f, 'a>>,
    /// Exact if every hop is, and nothing can have come between them unseen.
    pub(super) certainty: Certainty,
}

/// One process's part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hop<'f, 'a> {
    pub(super) process: &'a Process,
    pub(super) flow: &'f Flow<'a>,
}

/// Which hop comes next, and whether what lies between is closed.
type Next = HashMap<usize, (usize, bool)>;

/// The chains of a trace.
///
/// Two flows of two processes belong together if nothing else was ever written into what is between them, nothing else was read out of
/// it, and all these bytes are exactly as many.
pub(super) fn chains<'f, 'a>(
    activities: &[Activity<'a>],
    flows: &'f [Vec<Flow<'a>>],
    conduits: &Conduits<'_>,
) -> Vec<Chain<'f, 'a>> {
    let hops = activities.iter().zip(flows);
    let hops: Vec<Hop> =
        hops.flat_map(|(activity, flows)| flows.iter().map(|flow| Hop { process: activity.process, flow })).collect();
    let next = next_hops(&hops, conduits);
    let inner: HashSet<usize> = next.values().map(|(next, _)| *next).collect();
    let starts: BTreeSet<usize> = next.keys().copied().filter(|index| !inner.contains(index)).collect();
    let chain = |start| {
        let path: Vec<usize> = std::iter::successors(Some(start), |index| Some(next.get(index)?.0)).collect();
        let are_closed = path.iter().filter_map(|index| next.get(index)).all(|(_, is_closed)| *is_closed);
        let are_exact = path.iter().all(|&index| hops[index].flow.certainty() == Certainty::Exact);
        let certainty = if are_closed && are_exact { Certainty::Exact } else { Certainty::Inferred };
        Chain { hops: path.into_iter().map(|index| hops[index]).collect(), certainty }
    };
    starts.into_iter().map(chain).collect()
}

fn next_hops(hops: &[Hop<'_, '_>], conduits: &Conduits<'_>) -> Next {
    let mut into: HashMap<FileId, Vec<usize>> = HashMap::new();
    let mut out: HashMap<FileId, Vec<usize>> = HashMap::new();
    for (index, hop) in hops.iter().enumerate().filter(|(_, hop)| hop.flow.api != Api::Tee) {
        if let Some(outlet) = conduits.outlet(hop.flow.to) {
            into.entry(outlet).or_default().push(index);
        }
        if let Some(from) = hop.flow.from.file() {
            out.entry(from).or_default().push(index);
        }
    }
    let mut next = Next::new();
    for (outlet, into) in into {
        if let (&[first], Some(&[second])) = (into.as_slice(), out.get(&outlet).map(Vec::as_slice)) {
            let [into, out] = [hops[first].flow, hops[second].flow];
            let all = [into.bytes, out.bytes, conduits.written(into.to), conduits.read(outlet)];
            let is_all = all[0].is_some_and(|bytes| bytes > 0) && all.iter().all(|bytes| *bytes == all[0]);
            if is_all && hops[first].process.pid != hops[second].process.pid {
                next.insert(first, (second, conduits.is_closed(outlet) && conduits.is_closed(into.to)));
            }
        }
    }
    next
}
