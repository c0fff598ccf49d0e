//! Into a pipe and out of it again in one process: one flow, of which the pipe is no end.

use std::collections::BTreeMap;

use super::{
    activity::Activity,
    flow::{Flow, Source},
    totals,
};
use crate::{
    report::{Api, Certainty, Evidence},
    trace::{FileId, FileKind, Input, Row},
};

/// What became of the flows of a process.
#[derive(Debug, Default)]
pub(super) struct Joined<'a> {
    pub(super) flows: Vec<Flow<'a>>,
    /// Bytes of a source that stayed in a pipe.
    pub(super) left_in: Vec<(FileId, u64)>,
    /// Bytes that came out of a pipe and that nobody here had brought there.
    pub(super) came_out: Vec<(FileId, u64)>,
}

/// Joins what was spliced (or, with `vmsplice`, lent) into a pipe with what was spliced out of it.
///
/// Many sources and many destinations of one pipe are joined only if they took turns, each pair with the same bytes; else the flows
/// into the pipe and out of it stand by themselves.
pub(super) fn join<'a>(flows: Vec<Flow<'a>>, activity: &Activity<'a>) -> Joined<'a> {
    let mut joined = Joined::default();
    let mut pipes: BTreeMap<FileId, Pipe<'a>> = BTreeMap::new();
    for flow in flows {
        let names_both_ends = flow.api == Api::Splice || (flow.api == Api::IoUring && !flow.is_loop());
        let is_splice = names_both_ends && flow.bytes.is_some_and(|bytes| bytes > 0);
        match flow.from.file().filter(|&from| is_splice && is_pipe(activity, from)) {
            Some(from) => pipes.entry(from).or_default().outs.push(flow),
            None if is_splice && is_pipe(activity, flow.to) => pipes.entry(flow.to).or_default().ins.push(flow),
            None => joined.flows.push(flow),
        }
    }
    for flow in lent(activity) {
        pipes.entry(flow.to).or_default().ins.push(flow);
    }
    for pipe in pipes.into_values() {
        pipe.join(&mut joined);
    }
    joined
}

fn is_pipe(activity: &Activity<'_>, file: FileId) -> bool {
    activity.kind(file) == Some(FileKind::Pipe)
}

/// What `vmsplice` brought into pipes.
fn lent<'a>(activity: &Activity<'a>) -> Vec<Flow<'a>> {
    let mut by_ends: BTreeMap<(Source, FileId), Vec<&Row>> = BTreeMap::new();
    for (&to, rows) in &activity.lent {
        for &row in rows {
            let source = match row.ends.input {
                Some(Input::Mapped(file)) if !activity.is_program(file) => Source::File(file),
                _ => Source::Memory,
            };
            by_ends.entry((source, to)).or_default().push(row);
        }
    }
    let flow = |((from, to), rows)| {
        let flow = Flow::direct(from, to, Api::Vmsplice, rows);
        let by_total = || flow.bytes.and_then(|bytes| totals::mapped_source(activity, bytes));
        let (from, evidence, proven_bytes) = match from.file() {
            Some(_) => (from, Evidence::Mapping, flow.bytes),
            None => by_total().map_or((from, Evidence::Call, flow.bytes), |file| (Source::File(file), Evidence::Totals, Some(0))),
        };
        let reading = from.file().and_then(|from| activity.mappings.get(&from)).cloned().unwrap_or_default();
        Flow { from, evidence, proven_bytes, reading, ..flow }
    };
    by_ends.into_iter().map(flow).collect()
}

/// What went through one pipe.
#[derive(Debug, Default)]
struct Pipe<'a> {
    ins: Vec<Flow<'a>>,
    outs: Vec<Flow<'a>>,
}

impl<'a> Pipe<'a> {
    fn join(mut self, joined: &mut Joined<'a>) {
        self.ins.sort_by_key(Flow::order);
        self.outs.sort_by_key(Flow::order);
        let pairs: Vec<(usize, usize)> = match (self.ins.len(), self.outs.len()) {
            (0, _) | (_, 0) => Vec::new(),
            (1, outs) => (0..outs).map(|out| (0, out)).collect(),
            (ins, 1) => (0..ins).map(|into| (into, 0)).collect(),
            _ if self.took_turns() => (0..self.ins.len()).map(|index| (index, index)).collect(),
            _ => Vec::new(),
        };
        if pairs.is_empty() {
            joined.flows.extend(self.ins.into_iter().chain(self.outs));
            return;
        }
        let bytes_of = |flows: &[Flow<'_>]| -> Vec<u64> { flows.iter().map(|flow| flow.bytes.unwrap_or(0)).collect() };
        let (mut left, mut wanted) = (bytes_of(&self.ins), bytes_of(&self.outs));
        for (into, out) in pairs {
            let bytes = left[into].min(wanted[out]);
            left[into] -= bytes;
            wanted[out] -= bytes;
            if bytes > 0 {
                joined.flows.push(through(&self.ins[into], &self.outs[out], bytes));
            }
        }
        let sources = self.ins.iter().map(|flow| flow.from.file()).zip(left);
        joined.left_in.extend(sources.filter_map(|(file, bytes)| Some((file?, bytes))).filter(|(_, bytes)| *bytes > 0));
        let destinations = self.outs.iter().map(|flow| flow.to).zip(wanted);
        joined.came_out.extend(destinations.filter(|(_, bytes)| *bytes > 0));
    }

    /// Whether every source was followed by a destination of the same bytes before the next one came. To be called in order.
    fn took_turns(&self) -> bool {
        let in_turn = |(into, out): (&Flow<'_>, &Flow<'_>)| into.bytes == out.bytes && into.order() < out.order();
        let next = self.outs.iter().zip(self.ins.iter().skip(1)).all(|(out, into)| out.order() < into.order());
        self.ins.len() == self.outs.len() && next && self.ins.iter().zip(&self.outs).all(in_turn)
    }
}

/// The flow from the source of one to the destination of the other.
fn through<'a>(into: &Flow<'a>, out: &Flow<'a>, bytes: u64) -> Flow<'a> {
    let are_exact = [into, out].iter().all(|flow| flow.certainty() == Certainty::Exact);
    Flow {
        from: into.from,
        to: out.to,
        api: into.api,
        evidence: into.evidence.max(out.evidence),
        bytes: Some(bytes),
        proven_bytes: Some(if are_exact { bytes } else { 0 }),
        condition: out.condition,
        reading: into.rows().collect(),
        writing: out.writing.clone(),
        parts: Vec::new(),
        attempts: Vec::new(),
    }
}
