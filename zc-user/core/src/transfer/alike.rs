//! Sources and destinations whose bytes are the same wherever they were sampled.
//!
//! A program may copy what it read to another buffer before it writes it, or hand it to another thread: no call connects the two ends,
//! and no buffer. The kernel side looks at both streams at the same places ([`zc_ebpf::Stream`]). If they are equally long and no
//! place differs, one is very likely the other; that is no proof, since most bytes were not looked at.

use std::collections::BTreeMap;

use super::{
    activity::Activity,
    balance::MANY,
    flow::{Condition, Flow, Source, first_moved, first_order, moving_calls, sum_bytes},
};
use crate::{
    trace::{FileId, Row, Stream},
    transfer::{Api, Evidence},
};

/// So many places with something else than zeroes must agree: zeroes are alike in many files.
const LEAST_TELLING: u64 = 8;

/// A stream that this process alone read, or wrote.
struct End<'r, 'a> {
    file: FileId,
    stream: Stream,
    rows: &'r [&'a Row],
}

/// Adds the flows between streams that are alike, and completes those that are known in part.
pub(super) fn add<'a>(flows: &mut Vec<Flow<'a>>, activity: &Activity<'a>) {
    let mut sources: BTreeMap<(u64, u64), Vec<End<'_, 'a>>> = BTreeMap::new();
    for end in ends(&activity.reads, activity, |file| activity.file(file)?.streams.read) {
        sources.entry((end.stream.bytes, end.stream.sum)).or_default().push(end);
    }
    for to in ends(&activity.writes, activity, |file| activity.file(file)?.streams.written) {
        let alike = sources.get(&(to.stream.bytes, to.stream.sum)).map(Vec::as_slice).unwrap_or_default();
        // Of several that are alike, nobody knows which one it was.
        let [from] = alike else { continue };
        if from.file != to.file && from.comes_before(&to) {
            connect(flows, from, &to);
        }
    }
}

/// Flows that nothing but the order of calls tells of are of bytes that were changed, if the two streams are equally long and differ. A
/// single read and a single write are as long as each other by chance too easily: then they are no flow.
pub(super) fn judge_order(flows: &mut Vec<Flow<'_>>, activity: &Activity<'_>) {
    flows.retain_mut(|flow| {
        let is_by_order = flow.evidence == Evidence::Order && flow.is_loop() && flow.proven_bytes == Some(0);
        if !is_by_order || !differ(flow, activity) {
            return true;
        }
        flow.condition = Condition::Changed;
        [&flow.reading, &flow.writing].iter().all(|rows| moving_calls(rows) >= MANY)
    });
}

/// Whether the streams of a flow, as long as it, are not the same.
fn differ(flow: &Flow<'_>, activity: &Activity<'_>) -> bool {
    let streams = || {
        let read = activity.file(flow.from.file()?)?.streams.read?;
        Some((read, activity.file(flow.to)?.streams.written?))
    };
    let is_whole = |stream: &Stream| Some(stream.bytes) == flow.bytes;
    streams().is_some_and(|(read, written)| is_whole(&read) && is_whole(&written) && read.sum != written.sum)
}

/// The streams of the files on one side that tell something, and that nobody else has a part of.
fn ends<'r, 'a>(
    side: &'r BTreeMap<Option<FileId>, Vec<&'a Row>>,
    activity: &Activity<'a>,
    stream: impl Fn(FileId) -> Option<Stream>,
) -> Vec<End<'r, 'a>> {
    let end = |(file, rows): (&Option<FileId>, &'r Vec<&'a Row>)| {
        let file = file.filter(|&file| activity.carries_bytes(file))?;
        let stream = stream(file).filter(|stream| stream.telling >= LEAST_TELLING && sum_bytes(rows) == Some(stream.bytes))?;
        Some(End { file, stream, rows })
    };
    side.iter().filter_map(end).collect()
}

impl End<'_, '_> {
    /// Whether something was there before the other began to be written.
    fn comes_before(&self, other: &Self) -> bool {
        first_moved(self.rows).zip(first_order(other.rows)).is_none_or(|(read, written)| read < written)
    }
}

fn connect<'a>(flows: &mut Vec<Flow<'a>>, from: &End<'_, 'a>, to: &End<'_, 'a>) {
    let source = Source::File(from.file);
    let bytes = to.stream.bytes;
    if flows.iter().any(|flow| flow.to == to.file && flow.from != source && flow.written_to().is_some() && flow.bytes != Some(0))
    {
        return;
    }
    let known = flows.iter().position(|flow| flow.is_loop() && flow.from == source && flow.to == to.file);
    let index = known.unwrap_or_else(|| {
        // No operation of a ring is in a stream.
        flows.push(Flow::inferred(from.file, to.file, Api::ReadWrite, Evidence::Totals, 0));
        flows.len() - 1
    });
    let flow = &mut flows[index];
    // Samples of memory are many more than those of streams: what they saw to be changed is.
    if flow.proven_bytes != Some(bytes) && flow.condition == Condition::AsRead {
        flow.infer(bytes.saturating_sub(flow.bytes.unwrap_or(0)), Evidence::Totals, from.rows, to.rows);
    }
}
