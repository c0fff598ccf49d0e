//! Flows that meet in a pipe or a connection between two processes: chains.
//!
//! A conduit hands on all bytes that come in, so the bytes of one way in and those of one way out overlap by what they have in excess of
//! all bytes together. Where the whole conduit was filled by one source, or emptied into one destination, that is the figure to the
//! byte: `cat in | tee out`. Otherwise it is a lower bound: an HTTP server writes a header before the file, and a client keeps all that
//! follows it.

use std::collections::{HashMap, HashSet};

use super::{activity::Activity, conduits::Conduits, flow::Flow};
use crate::{
    trace::{FileId, Process},
    transfer::{Api, Certainty, Evidence},
};

/// Flows of which each begins where the one before it ended, in another process.
#[derive(Debug)]
pub(super) struct Chain<'f, 'a> {
    pub(super) hops: Vec<Hop<'f, 'a>>,
    /// What went all the way.
    pub(super) carried: Carried,
}

/// One process's part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hop<'f, 'a> {
    pub(super) process: &'a Process,
    pub(super) flow: &'f Flow<'a>,
}

/// What went from the source of a chain to the end of one of its hops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Carried {
    /// To the byte if it is exact, at least so many bytes if it is inferred.
    pub(super) bytes: u64,
    /// Those of them that are proven.
    pub(super) proven_bytes: u64,
    /// Exact if every hop is, nothing can have come between them unseen, and no conduit had other bytes on both of its sides.
    pub(super) certainty: Certainty,
    /// The weakest evidence that they rest on.
    pub(super) evidence: Evidence,
}

/// Where the flow into a conduit meets a flow out of it.
#[derive(Debug, Clone, Copy)]
struct Meeting {
    /// The flow out of it.
    out: usize,
    /// All that was written into the conduit.
    written_bytes: u64,
    /// All that was read out of it.
    read_bytes: u64,
    /// Whether the trace has all of both.
    is_closed: bool,
}

/// The chains of a trace, each as long as it can be.
pub(super) fn chains<'f, 'a>(
    activities: &[Activity<'a>],
    flows: &'f [Vec<Flow<'a>>],
    conduits: &Conduits<'_>,
) -> Vec<Chain<'f, 'a>> {
    let hops = activities.iter().zip(flows);
    let hops: Vec<Hop> =
        hops.flat_map(|(activity, flows)| flows.iter().map(|flow| Hop { process: activity.process, flow })).collect();
    let meetings = meetings(&hops, conduits);
    let mut search = Search { hops: &hops, meetings: &meetings, path: Vec::new(), chains: Vec::new() };
    let is_inner: HashSet<usize> = meetings.values().flatten().map(|meeting| meeting.out).collect();
    for start in (0..hops.len()).filter(|start| meetings.contains_key(start) && !is_inner.contains(start)) {
        if let Some(carried) = Carried::by(hops[start].flow) {
            search.go_on(start, carried);
        }
    }
    search.chains
}

/// A walk along all chains from a flow.
struct Search<'s, 'f, 'a> {
    hops: &'s [Hop<'f, 'a>],
    meetings: &'s HashMap<usize, Vec<Meeting>>,
    /// The flows so far.
    path: Vec<usize>,
    chains: Vec<Chain<'f, 'a>>,
}

impl Search<'_, '_, '_> {
    fn go_on(&mut self, hop: usize, carried: Carried) {
        self.path.push(hop);
        let mut has_next = false;
        let meetings = self.meetings;
        for meeting in meetings.get(&hop).into_iter().flatten() {
            let next = carried.through(meeting, self.hops[meeting.out].flow).filter(|_| !self.path.contains(&meeting.out));
            if let Some(next) = next {
                has_next = true;
                self.go_on(meeting.out, next);
            }
        }
        if !has_next && self.path.len() > 1 {
            let hops = self.path.iter().map(|&hop| self.hops[hop]).collect();
            self.chains.push(Chain { hops, carried });
        }
        self.path.pop();
    }
}

impl Carried {
    /// What a flow brings to its end.
    fn by(flow: &Flow<'_>) -> Option<Self> {
        let (bytes, proven_bytes) = (flow.bytes?, flow.proven_bytes.unwrap_or(0));
        (bytes > 0).then_some(Self { bytes, proven_bytes, certainty: flow.certainty(), evidence: flow.evidence })
    }

    /// What of it a flow out of the conduit takes further; `None`: nothing, for all that is known.
    fn through(self, meeting: &Meeting, out: &Flow<'_>) -> Option<Self> {
        let Meeting { written_bytes, read_bytes, is_closed, .. } = *meeting;
        let out = Self::by(out)?;
        let overlap = |came: u64, went: u64| came.checked_add(went)?.checked_sub(written_bytes).filter(|&bytes| bytes > 0);
        let weakest = self.evidence.max(out.evidence);
        if !is_closed {
            // Others may have written and read: only if all figures agree, it is likely that they are of the same bytes.
            let is_all = [self.bytes, out.bytes, read_bytes].iter().all(|&bytes| bytes == written_bytes);
            let evidence = weakest.max(Evidence::Totals);
            return is_all.then_some(Self { bytes: written_bytes, proven_bytes: 0, certainty: Certainty::Inferred, evidence });
        }
        let is_whole = self.bytes == written_bytes || out.bytes == written_bytes;
        let are_exact = [self.certainty, out.certainty].iter().all(|&certainty| certainty == Certainty::Exact);
        Some(Self {
            bytes: overlap(self.bytes, out.bytes)?,
            proven_bytes: overlap(self.proven_bytes, out.proven_bytes).unwrap_or(0),
            certainty: if is_whole && are_exact { Certainty::Exact } else { Certainty::Inferred },
            evidence: weakest,
        })
    }
}

/// Where flows of different processes meet, by the flow into the conduit.
fn meetings(hops: &[Hop<'_, '_>], conduits: &Conduits<'_>) -> HashMap<usize, Vec<Meeting>> {
    // What `tee` brings stays where it was, too.
    let movers = || hops.iter().enumerate().filter(|(_, hop)| hop.flow.api != Api::Tee);
    let mut outs: HashMap<FileId, Vec<usize>> = HashMap::new();
    for (out, hop) in movers() {
        if let Some(from) = hop.flow.from.file() {
            outs.entry(from).or_default().push(out);
        }
    }
    let mut meetings = HashMap::new();
    for (into, hop) in movers() {
        let Some(outlet) = conduits.outlet(hop.flow.to) else { continue };
        let (Some(written_bytes), Some(read_bytes)) = (conduits.written(hop.flow.to), conduits.read(outlet)) else { continue };
        // What comes out of a conduit came in: else somebody who is not traced has written to it.
        if read_bytes > written_bytes {
            continue;
        }
        let is_closed = conduits.is_closed(outlet) && conduits.is_closed(hop.flow.to);
        let of_others = outs.get(&outlet).into_iter().flatten().filter(|&&out| hops[out].process.pid != hop.process.pid);
        let found: Vec<_> = of_others.map(|&out| Meeting { out, written_bytes, read_bytes, is_closed }).collect();
        if !found.is_empty() {
            meetings.insert(into, found);
        }
    }
    meetings
}
