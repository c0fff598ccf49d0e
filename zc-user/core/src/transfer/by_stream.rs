//! Flows between a source and a destination whose streams have the same length and the same bytes
//! at all sampled places.
//!
//! If a program copies what it read to another buffer before it writes it, or hands it to another
//! thread, neither a call nor a buffer connects the two ends. The kernel side samples both streams
//! at the same places ([`zc_ebpf::Stream`]). Equal length and equal samples make it very likely
//! that one is a copy of the other. They do not prove it, because most bytes were not sampled.

use std::collections::BTreeMap;

use zc_ebpf::pairing::marks::{self, Match};

use super::{
    activity::Activity,
    flow::{Condition, Flow, Source, first_moved, first_order, sum_bytes},
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
    stream: &'r Stream,
    rows: &'r [&'a Row],
}

/// Adds the flows between equal streams, and completes flows that are known in part.
pub(super) fn add<'a>(flows: &mut Vec<Flow<'a>>, activity: &Activity<'a>) {
    let mut sources: BTreeMap<(u64, u64), Vec<StreamEnd<'_, 'a>>> = BTreeMap::new();
    for end in stream_ends(&activity.reads, activity, |file| {
        activity.file(file)?.streams.read.as_ref()
    }) {
        sources
            .entry((end.stream.bytes, end.stream.sum))
            .or_default()
            .push(end);
    }
    for to in stream_ends(&activity.writes, activity, |file| {
        activity.file(file)?.streams.written.as_ref()
    }) {
        let equal = sources
            .get(&(to.stream.bytes, to.stream.sum))
            .map(Vec::as_slice)
            .unwrap_or_default();
        // With several equal sources, nobody knows which one it was.
        let [from] = equal else { continue };
        if from.file != to.file
            && from.comes_before(&to)
            && first_different(from.stream, to.stream).is_none()
        {
            connect(flows, from, &to);
        }
    }
}

/// How many bytes of `to` can be those of `from`: up to the first window in which the two streams
/// have no bytes in common, if they have in one before it. All, if there is no such window. 0:
/// nothing shows that they have anything in common. A backend that does not see memory has no
/// streams, so there is no limit.
pub(super) fn common_bytes(from: FileId, to: FileId, activity: &Activity<'_>) -> u64 {
    if !activity.sees_memory {
        return u64::MAX;
    }
    let streams = || {
        Some((
            activity.file(from)?.streams.read.as_ref()?,
            activity.file(to)?.streams.written.as_ref()?,
        ))
    };
    let Some((read, written)) = streams() else {
        return 0;
    };
    let end = first_different(read, written);
    let before = end.map_or(usize::MAX, |number| number as usize);
    let has_common = matches(read, written)
        .take(before)
        .any(|found| found == Match::Common);
    if has_common {
        end.map_or(u64::MAX, marks::window_start)
    } else {
        0
    }
}

/// What the windows that both streams reached say. One that lacks marks may lack those that it has
/// in common with the other.
fn matches(one: &Stream, other: &Stream) -> impl Iterator<Item = Match> {
    let gaps = one.gaps | other.gaps;
    let windows = (0..).zip(one.windows.iter().zip(&other.windows));
    windows.map(
        move |(number, (one, other))| match marks::compare(one, other) {
            Match::Different if gaps >> number & 1 != 0 => Match::Unknown,
            found => found,
        },
    )
}

/// The number of the first window in which two streams have no bytes in common.
fn first_different(one: &Stream, other: &Stream) -> Option<u32> {
    (0..)
        .zip(matches(one, other))
        .find(|(_, found)| *found == Match::Different)
        .map(|(number, _)| number)
}

/// The files of one side whose stream has enough samples that are not zero, and is all of this
/// process.
fn stream_ends<'r, 'a>(
    side: &'r BTreeMap<Option<FileId>, Vec<&'a Row>>,
    activity: &'r Activity<'a>,
    stream: impl Fn(FileId) -> Option<&'r Stream>,
) -> Vec<StreamEnd<'r, 'a>> {
    let end = |(file, rows): (&Option<FileId>, &'r Vec<&'a Row>)| {
        let file = file.filter(|&file| activity.carries_bytes(file))?;
        let stream = stream(file).filter(|stream| {
            stream.telling >= LEAST_NONZERO_SAMPLES && sum_bytes(rows) == Some(stream.bytes)
        })?;
        Some(StreamEnd { file, stream, rows })
    };
    side.iter().filter_map(end).collect()
}

impl StreamEnd<'_, '_> {
    /// Whether the first bytes had been read before the other stream was first written to.
    fn comes_before(&self, other: &Self) -> bool {
        first_moved(self.rows)
            .zip(first_order(other.rows))
            .is_none_or(|(read, written)| read < written)
    }
}

fn connect<'a>(flows: &mut Vec<Flow<'a>>, from: &StreamEnd<'_, 'a>, to: &StreamEnd<'_, 'a>) {
    let source = Source::File(from.file);
    let bytes = to.stream.bytes;
    if flows.iter().any(|flow| {
        flow.to == to.file
            && flow.from != source
            && flow.written_to().is_some()
            && flow.bytes != Some(0)
    }) {
        return;
    }
    let known = flows
        .iter()
        .position(|flow| flow.is_loop() && flow.from == source && flow.to == to.file);
    let index = known.unwrap_or_else(|| {
        // Streams contain no io_uring operations.
        flows.push(Flow::inferred(
            from.file,
            to.file,
            Api::ReadWrite,
            Evidence::Totals,
            0,
        ));
        flows.len() - 1
    });
    let flow = &mut flows[index];
    // Memory has many more samples than streams have. If they show that the bytes were changed,
    // that stands.
    if flow.proven_bytes != Some(bytes) && flow.condition == Condition::AsRead {
        flow.infer(
            bytes.saturating_sub(flow.bytes.unwrap_or(0)),
            Evidence::Totals,
            from.rows,
            to.rows,
        );
    }
}
