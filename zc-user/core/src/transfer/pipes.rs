//! Joins a flow into a pipe with the flow out of it, within one process: the pipe becomes a hop.

use std::collections::BTreeMap;

use super::{
    activity::Activity,
    by_totals,
    conduits::Conduits,
    flow::{Flow, Leg, Source, moving_calls},
    lower_bounds::has_unknown_bytes,
};
use crate::{
    trace::{FileId, FileKind, Input, Row},
    transfer::{Api, Certainty, Evidence},
};

/// Joins what was spliced (or lent by `vmsplice`) into a pipe with what was spliced out of it. If
/// anything else went into the pipe or came out of it, nobody knows whose bytes came out, and the
/// flows stay separate.
pub(super) fn join<'a>(
    flows: Vec<Flow<'a>>,
    activity: &Activity<'a>,
    conduits: &Conduits<'_>,
    has_own_memory: bool,
) -> Vec<Flow<'a>> {
    let mut joined = Vec::new();
    let mut pipes: BTreeMap<FileId, Pipe<'a>> = BTreeMap::new();
    for flow in flows {
        let names_both_ends =
            flow.api == Api::Splice || (flow.api == Api::IoUring && !flow.is_loop());
        let is_splice = names_both_ends && flow.bytes.is_some_and(|bytes| bytes > 0);
        match flow
            .from
            .file()
            .filter(|&from| is_splice && is_pipe(activity, from))
        {
            Some(from) => pipes.entry(from).or_default().outs.push(flow),
            None if is_splice && is_pipe(activity, flow.to) => {
                pipes.entry(flow.to).or_default().ins.push(flow)
            }
            None => joined.push(flow),
        }
    }
    for flow in vmsplice_flows(activity, has_own_memory) {
        pipes.entry(flow.to).or_default().ins.push(flow);
    }
    for (file, pipe) in pipes {
        joined.extend(pipe.join(file, conduits, activity));
    }
    joined
}

fn is_pipe(activity: &Activity<'_>, file: FileId) -> bool {
    activity.kind(file) == Some(FileKind::Pipe)
}

/// The flows of `vmsplice` into pipes. If the process `has_own_memory`, bytes of no known file are
/// proven to be its own.
fn vmsplice_flows<'a>(activity: &Activity<'a>, has_own_memory: bool) -> Vec<Flow<'a>> {
    let mut by_ends: BTreeMap<(Option<Input>, FileId), Vec<&Row>> = BTreeMap::new();
    for (&to, rows) in &activity.lent {
        for &row in rows {
            let is_known = |input: &Input| match *input {
                Input::ByMapping(file) => !activity.is_program(file),
                Input::ByBuffer(file)
                | Input::ByBufferAgain(file)
                | Input::ByUnsampledBuffer(file) => activity.carries_bytes(file),
                // Changed bytes may be something else by now; one call is not enough to tell.
                Input::Named(_) | Input::ByOrder(_) | Input::ByChangedBuffer(_) => false,
            };
            let input = row.ends.input.filter(is_known).map(|input| match input {
                Input::ByBufferAgain(file) => Input::ByBuffer(file),
                input => input,
            });
            by_ends.entry((input, to)).or_default().push(row);
        }
    }
    let flow = |((input, to), rows): ((Option<Input>, FileId), Vec<&'a Row>)| {
        let covered = rows
            .iter()
            .map(|row| row.paired_bytes)
            .fold(0, u64::saturating_add);
        let from = input.map_or(Source::Memory, |input| Source::File(input.file()));
        let flow = Flow::direct(from, to, Api::Vmsplice, rows);
        let by_total = || {
            flow.bytes
                .and_then(|bytes| by_totals::mapped_source(activity, bytes))
        };
        // Otherwise the process may lend what it read before.
        let from_memory = if has_own_memory { flow.bytes } else { Some(0) };
        let (from, evidence, proven_bytes) = match input {
            Some(Input::ByMapping(_)) => (
                from,
                Evidence::Mapping,
                Some(if activity.hidden_ways.poked {
                    0
                } else {
                    covered
                }),
            ),
            // The pipe refers to the memory, so the program may change it until somebody reads the
            // pipe: no sample shows what was read.
            Some(_) => (from, Evidence::Memory, Some(0)),
            None => by_total().map_or((from, Evidence::Call, from_memory), |file| {
                (Source::File(file), Evidence::Totals, Some(0))
            }),
        };
        let calls = if evidence == Evidence::Memory {
            None
        } else {
            Some(&activity.mappings)
        };
        let reading = from
            .file()
            .and_then(|from| calls?.get(&from))
            .cloned()
            .unwrap_or_default();
        // If part of the memory held bytes of a file, nothing is known of the rest.
        let bytes = if input.is_some() {
            Some(covered)
        } else {
            flow.bytes
        };
        let is_partly_known = |to| {
            activity
                .lent
                .get(&to)
                .is_some_and(|rows| rows.iter().any(|row| has_unknown_bytes(row)))
        };
        let is_short = activity.has_unseen_operations || activity.is_cut_off(flow.to);
        let may_be_more = is_short || (input.is_some() && is_partly_known(flow.to));
        Flow {
            from,
            evidence,
            bytes,
            proven_bytes,
            may_be_more,
            reading,
            ..flow
        }
    };
    by_ends.into_iter().map(flow).collect()
}

/// The flows into and out of one pipe.
#[derive(Debug, Default)]
struct Pipe<'a> {
    ins: Vec<Flow<'a>>,
    outs: Vec<Flow<'a>>,
}

/// How the sources of a pipe match its destinations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Joint {
    /// All bytes come from one source, or all went to one destination.
    Single,
    /// For each source, one destination took all its bytes before the next source began.
    InTurn,
    /// The same, but only the times when calls began show it.
    SeemsInTurn,
}

impl<'a> Pipe<'a> {
    /// The flows through the pipe, and those into and out of it that cannot be joined.
    ///
    /// A backend that does not see memory cannot tell whether a `vmsplice` moved bytes into the
    /// pipe or out of it. So there, flows of `vmsplice` that cannot be joined are dropped.
    fn join(
        mut self,
        file: FileId,
        conduits: &Conduits<'_>,
        activity: &Activity<'a>,
    ) -> Vec<Flow<'a>> {
        let (came, went) = (sum(&self.ins), sum(&self.outs));
        // Nothing is sampled of what is spliced, so nothing speaks against bytes that were there
        // before the launch.
        let is_only_way = !conduits.is_inherited(file)
            && conduits.written(file) == Some(came)
            && conduits.read(file) == Some(went)
            && went <= came;
        self.ins.sort_by_key(Flow::order);
        self.outs.sort_by_key(Flow::order);
        let joint = self
            .joint(came == went, activity.process.threads.len() == 1)
            .filter(|_| is_only_way && went > 0);
        let Some(joint) = joint else {
            self.ins
                .retain(|flow| flow.api != Api::Vmsplice || activity.sees_memory);
            return self.ins.into_iter().chain(self.outs).collect();
        };
        let is_proven = joint != Joint::SeemsInTurn && conduits.is_closed(file);
        let pairs: Vec<(usize, usize)> = match (self.ins.len(), self.outs.len()) {
            (1, outs) => (0..outs).map(|out| (0, out)).collect(),
            (ins, 1) => (0..ins).map(|into| (into, 0)).collect(),
            (ins, _) => (0..ins).map(|index| (index, index)).collect(),
        };
        let bytes_of = |flows: &[Flow<'_>]| -> Vec<u64> {
            flows.iter().map(|flow| flow.bytes.unwrap_or(0)).collect()
        };
        let (mut left, mut wanted) = (bytes_of(&self.ins), bytes_of(&self.outs));
        let mut joined = Vec::new();
        for (into, out) in pairs {
            let bytes = left[into].min(wanted[out]);
            left[into] -= bytes;
            wanted[out] -= bytes;
            if bytes > 0 {
                joined.push(through(&self.ins[into], &self.outs[out], bytes, is_proven));
            }
        }
        // What stayed in the pipe.
        let stayed = self
            .ins
            .into_iter()
            .zip(left)
            .filter(|(_, bytes)| *bytes > 0);
        joined.extend(stayed.map(|(into, bytes)| {
            let proven_bytes = if into.certainty() == Certainty::Exact {
                bytes
            } else {
                0
            };
            Flow {
                bytes: Some(bytes),
                proven_bytes: Some(proven_bytes),
                ..into
            }
        }));
        joined
    }

    /// How sources and destinations match, if they do. Both must be sorted by order.
    fn joint(&self, is_empty: bool, is_one_thread: bool) -> Option<Joint> {
        match (self.ins.len(), self.outs.len()) {
            (0, _) | (_, 0) => None,
            (1, _) => Some(Joint::Single),
            // If some bytes stayed in the pipe, nobody knows whose they are.
            (_, 1) => is_empty.then_some(Joint::Single),
            _ if !self.took_turns() => None,
            _ => {
                let flows = || self.ins.iter().chain(&self.outs);
                let is_one_call = |flow: &Flow<'_>| moving_calls(&flow.writing) == 1;
                // Only the beginning of a call is known. A call of another thread, or an io_uring
                // operation, may end much later.
                let is_after_another = is_one_thread && flows().all(|flow| flow.api == Api::Splice);
                Some(if is_after_another || flows().all(is_one_call) {
                    Joint::InTurn
                } else {
                    Joint::SeemsInTurn
                })
            }
        }
    }

    /// Whether each source was followed by a destination with the same number of bytes, and both
    /// ended before the next source began.
    fn took_turns(&self) -> bool {
        let in_turn = |(into, out): (&Flow<'_>, &Flow<'_>)| {
            into.bytes == out.bytes && into.order() < out.order()
        };
        let is_before = |flow: &Flow<'_>, next: &Flow<'_>| {
            flow.last_order()
                .zip(next.order())
                .is_some_and(|(last, first)| last < first)
        };
        let pairs = || self.ins.iter().zip(&self.outs);
        let next = pairs()
            .zip(self.ins.iter().skip(1))
            .all(|((into, out), next)| is_before(into, next) && is_before(out, next));
        self.ins.len() == self.outs.len() && next && pairs().all(in_turn)
    }
}

fn sum(flows: &[Flow<'_>]) -> u64 {
    flows
        .iter()
        .map(|flow| flow.bytes.unwrap_or(0))
        .fold(0, u64::saturating_add)
}

/// The flow from the source of `into` to the destination of `out`.
fn through<'a>(into: &Flow<'a>, out: &Flow<'a>, bytes: u64, is_proven: bool) -> Flow<'a> {
    let are_exact = is_proven
        && [into, out]
            .iter()
            .all(|flow| flow.certainty() == Certainty::Exact);
    let evidence = into.evidence.max(out.evidence);
    let leg = |flow: &Flow<'_>| Leg::of(flow).with_bytes(bytes);
    Flow {
        from: into.from,
        to: out.to,
        api: into.api,
        evidence: if is_proven {
            evidence
        } else {
            Evidence::Totals
        },
        bytes: Some(bytes),
        proven_bytes: Some(if are_exact { bytes } else { 0 }),
        again_bytes: into.again_bytes.saturating_add(out.again_bytes),
        is_partly_unsampled: false,
        may_be_more: into.may_be_more || out.may_be_more,
        condition: out.condition,
        reading: into.rows().collect(),
        writing: out.writing.clone(),
        parts: Vec::new(),
        attempts: Vec::new(),
        hops: vec![leg(into), leg(out)],
    }
}
