//! Flows between a source and a destination whose streams have the same length and the same bytes at all sampled places.
//!
//! If a program copies what it read to another buffer before it writes it, or hands it to another thread, neither a call nor a buffer
//! connects the two ends. The kernel side samples both streams at the same places ([`zc_ebpf::Stream`]). Equal length and equal samples
//! make it very likely that one is a copy of the other. They do not prove it, because most bytes were not sampled.

use std::collections::BTreeMap;

use super::{
    activity::Activity,
    flow::{Condition, Flow, Source, first_moved, first_order, moving_calls, sum_bytes},
    inference::MANY_CALLS,
};
use crate::{
    trace::{FileId, Row, Stream},
    transfer::{Api, Evidence},
};

/// At least this many equal samples must not be zero, because many files contain zeroes.
const LEAST_NONZERO_SAMPLES: u64 = 8;

/// A file whose whole stream this process read, or wrote.
struct StreamEnd<'r, 'a> {
    file: FileId,
    stream: Stream,
    rows: &'r [&'a Row],
}

/// Adds the flows between equal streams, and completes flows that are known in part.
pub(super) fn add<'a>(flows: &mut Vec<Flow<'a>>, activity: &Activity<'a>) {
    let mut sources: BTreeMap<(u64, u64), Vec<StreamEnd<'_, 'a>>> = BTreeMap::new();
    for end in stream_ends(&activity.reads, activity, |file| activity.file(file)?.streams.read) {
        sources.entry((end.stream.bytes, end.stream.sum)).or_default().push(end);
    }
    for to in stream_ends(&activity.writes, activity, |file| activity.file(file)?.streams.written) {
        let equal = sources.get(&(to.stream.bytes, to.stream.sum)).map(Vec::as_slice).unwrap_or_default();
        // With several equal sources, nobody knows which one it was.
        let [from] = equal else { continue };
        if from.file != to.file && from.comes_before(&to) {
            connect(flows, from, &to);
        }
    }
}

/// Checks flows that rest only on the order of calls: if their two streams have the same length and differ, the program changed the bytes.
/// With few calls, the equal length may be chance, and the flow is dropped.
pub(super) fn mark_or_drop_changed(flows: &mut Vec<Flow<'_>>, activity: &Activity<'_>) {
    flows.retain_mut(|flow| {
        let is_by_order = flow.evidence == Evidence::Order && flow.is_loop() && flow.proven_bytes == Some(0);
        if !is_by_order || !differ(flow, activity) {
            return true;
        }
        flow.condition = Condition::Changed;
        [&flow.reading, &flow.writing].iter().all(|rows| moving_calls(rows) >= MANY_CALLS)
    });
}

/// Whether both streams of a flow are as long as the flow, and differ.
fn differ(flow: &Flow<'_>, activity: &Activity<'_>) -> bool {
    let streams = || {
        let read = activity.file(flow.from.file()?)?.streams.read?;
        Some((read, activity.file(flow.to)?.streams.written?))
    };
    let is_whole = |stream: &Stream| Some(stream.bytes) == flow.bytes;
    streams().is_some_and(|(read, written)| is_whole(&read) && is_whole(&written) && read.sum != written.sum)
}

/// The files of one side whose stream has enough samples that are not zero, and is all of this process.
fn stream_ends<'r, 'a>(
    side: &'r BTreeMap<Option<FileId>, Vec<&'a Row>>,
    activity: &Activity<'a>,
    stream: impl Fn(FileId) -> Option<Stream>,
) -> Vec<StreamEnd<'r, 'a>> {
    let end = |(file, rows): (&Option<FileId>, &'r Vec<&'a Row>)| {
        let file = file.filter(|&file| activity.carries_bytes(file))?;
        let stream =
            stream(file).filter(|stream| stream.telling >= LEAST_NONZERO_SAMPLES && sum_bytes(rows) == Some(stream.bytes))?;
        Some(StreamEnd { file, stream, rows })
    };
    side.iter().filter_map(end).collect()
}

impl StreamEnd<'_, '_> {
    /// Whether the first bytes had been read before the other stream was first written to.
    fn comes_before(&self, other: &Self) -> bool {
        first_moved(self.rows).zip(first_order(other.rows)).is_none_or(|(read, written)| read < written)
    }
}

fn connect<'a>(flows: &mut Vec<Flow<'a>>, from: &StreamEnd<'_, 'a>, to: &StreamEnd<'_, 'a>) {
    let source = Source::File(from.file);
    let bytes = to.stream.bytes;
    if flows.iter().any(|flow| flow.to == to.file && flow.from != source && flow.written_to().is_some() && flow.bytes != Some(0))
    {
        return;
    }
    let known = flows.iter().position(|flow| flow.is_loop() && flow.from == source && flow.to == to.file);
    let index = known.unwrap_or_else(|| {
        // Streams contain no io_uring operations.
        flows.push(Flow::inferred(from.file, to.file, Api::ReadWrite, Evidence::Totals, 0));
        flows.len() - 1
    });
    let flow = &mut flows[index];
    // Memory has many more samples than streams have. If they show that the bytes were changed, that stands.
    if flow.proven_bytes != Some(bytes) && flow.condition == Condition::AsRead {
        flow.infer(bytes.saturating_sub(flow.bytes.unwrap_or(0)), Evidence::Totals, from.rows, to.rows);
    }
}
