//! Flows from memory that holds bytes of a file: a read filled it, or the file is mapped there.
//!
//! The source is proven if calls were sampled and no sample differs. Bytes that were changed on the
//! way or never sampled are inferred to be those of the file, and shown only if the bytes read and
//! written balance ([`is_worth_showing`]).

use super::{
    activity::{Activity, FromBuffer},
    flow::{Condition, Flow, Source, is_by_ring, moving_calls, only_failed, sum_bytes},
    inference::{MANY_CALLS, is_most_of},
};
use crate::{
    trace::{FileId, FileKind, Input, Row},
    transfer::{Api, Evidence},
};

/// The flows from buffers and from mappings.
pub(super) fn flows<'a>(activity: &Activity<'a>) -> Vec<Flow<'a>> {
    let carries =
        |from: &FileId, to: &FileId| activity.carries_bytes(*from) && activity.carries_bytes(*to);
    let held = activity
        .from_buffers
        .iter()
        .filter(|((from, to), _)| carries(from, to));
    held.filter_map(|(&ends, held)| buffer_flow(ends, held, activity))
        .chain(mapping_flows(activity))
        .collect()
}

/// The flow from buffers that reads of a file filled.
fn buffer_flow<'a>(
    (from, to): (FileId, FileId),
    held: &FromBuffer<'a>,
    activity: &Activity<'a>,
) -> Option<Flow<'a>> {
    let sums = Sums::of(held);
    let bytes = sums.shown_bytes()?;
    let is_proven = sums.changed == 0 && sums.checked_calls > 0;
    let reading = activity.reads.get(&Some(from)).cloned().unwrap_or_default();
    let writing = [&held.same, &held.again, &held.changed, &held.unsampled]
        .into_iter()
        .flatten()
        .copied()
        .collect::<Vec<&Row>>();
    // A stored file written back to itself is an update, whose changes the samples may have missed.
    // A socket may echo what came in.
    let is_stored = matches!(
        activity.kind(from),
        Some(FileKind::Regular | FileKind::Memfd | FileKind::Block)
    );
    if from == to && (is_stored || !is_proven) {
        return None;
    }
    let is_ring = reading.iter().chain(&writing).any(|row| is_by_ring(row));
    let used = |rows: Vec<&'a Row>| rows.into_iter().filter(|row| !only_failed(row)).collect();
    Some(Flow {
        from: Source::File(from),
        to,
        api: if is_ring {
            Api::IoUring
        } else {
            Api::ReadWrite
        },
        evidence: Evidence::Memory,
        bytes: Some(bytes),
        proven_bytes: Some(if is_proven { sums.same } else { 0 }),
        again_bytes: sums.again,
        is_partly_unsampled: sums.is_partly_unsampled,
        may_be_more: false,
        condition: sums.condition(),
        reading: used(reading),
        writing: used(writing),
        parts: held.parts.clone(),
        attempts: Vec::new(),
        hops: Vec::new(),
    })
}

/// Sums of what was written of one file to another.
#[derive(Default)]
struct Sums {
    /// Bytes in calls whose samples all agree.
    same: u64,
    /// The part of `same` that may have been written there before.
    again: u64,
    /// Bytes in calls with a sample that differs.
    changed: u64,
    /// Bytes without a sample.
    unsampled: u64,
    /// Whether there are calls (or parts of calls) without a sample.
    is_partly_unsampled: bool,
    /// Calls that were sampled and whose samples all agree.
    checked_calls: u64,
}

impl Sums {
    fn condition(&self) -> Condition {
        match self.changed {
            0 => Condition::AsRead,
            changed if self.same >= changed => Condition::Replaced,
            _ => Condition::Changed,
        }
    }

    /// The bytes that the flow shows. `None` if there are none. Replaced bytes are left out,
    /// because nobody knows how many came from the file.
    fn shown_bytes(&self) -> Option<u64> {
        let changed = if self.condition() == Condition::Changed {
            self.changed
        } else {
            0
        };
        [changed, self.unsampled]
            .into_iter()
            .try_fold(self.same, u64::checked_add)
            .filter(|&bytes| bytes > 0)
    }

    fn of(held: &FromBuffer<'_>) -> Self {
        let mut sums = Self::default();
        let rows = |rows: &[&Row]| {
            rows.iter()
                .map(|row| row.paired_bytes)
                .fold(0, u64::saturating_add)
        };
        sums.again = rows(&held.again);
        sums.same = rows(&held.same).saturating_add(sums.again);
        sums.changed = rows(&held.changed);
        sums.unsampled = rows(&held.unsampled);
        sums.is_partly_unsampled = !held.unsampled.is_empty();
        sums.checked_calls = held
            .same
            .iter()
            .chain(&held.again)
            .map(|row| row.checked_calls)
            .sum();
        for part in &held.parts {
            let sum = match part.from {
                Input::ByBuffer(_) | Input::ByBufferAgain(_) => &mut sums.same,
                Input::ByUnsampledBuffer(_) => &mut sums.unsampled,
                _ => &mut sums.changed,
            };
            *sum = sum.saturating_add(part.bytes);
            match part.from {
                Input::ByBuffer(_) => sums.checked_calls += part.checked_calls,
                Input::ByBufferAgain(_) => {
                    sums.checked_calls += part.checked_calls;
                    sums.again = sums.again.saturating_add(part.bytes);
                }
                Input::ByUnsampledBuffer(_) => sums.is_partly_unsampled = true,
                _ => {}
            }
        }
        sums
    }
}

/// Whether a flow is worth showing: some of it is proven, most of it was written as it had been
/// read, or the bytes read and written balance. If most bytes were changed, their numbers must be
/// equal, over many calls. Otherwise the program probably reused the buffer for something else.
pub(super) fn is_worth_showing(flow: &Flow<'_>, activity: &Activity<'_>) -> bool {
    let Some(bytes) = flow
        .bytes
        .filter(|_| flow.is_loop() && flow.proven_bytes == Some(0))
    else {
        return true;
    };
    let written = activity
        .writes
        .get(&Some(flow.to))
        .map_or(Some(0), |rows| sum_bytes(rows));
    let Some((read, written)) = sum_bytes(&flow.reading).zip(written) else {
        return false;
    };
    let is_many =
        moving_calls(&flow.reading) >= MANY_CALLS && moving_calls(&flow.writing) >= MANY_CALLS;
    let is_near = is_many && bytes <= read && is_most_of(bytes, read) && is_most_of(bytes, written);
    let is_equal = bytes == read && bytes == written;
    match flow.condition {
        Condition::Replaced => true,
        Condition::Changed if flow.evidence == Evidence::Memory => is_many && is_equal,
        Condition::Changed | Condition::AsRead => is_near || is_equal,
    }
}

/// The flows of writes whose buffer lies in a mapping of a file. Constants of the program are not a
/// transfer.
fn mapping_flows<'a>(activity: &Activity<'a>) -> impl Iterator<Item = Flow<'a>> {
    let flow = |(&(from, to), rows): (&(FileId, FileId), &Vec<&'a Row>)| {
        let bytes = rows
            .iter()
            .map(|row| row.paired_bytes)
            .fold(0, u64::saturating_add);
        let reading = activity.mappings.get(&from).cloned().unwrap_or_default();
        let is_transfer = bytes > 0 && !activity.is_program(from) && activity.carries_bytes(to);
        is_transfer.then(|| Flow {
            reading,
            evidence: Evidence::Mapping,
            bytes: Some(bytes),
            proven_bytes: Some(bytes),
            ..Flow::direct(Source::File(from), to, Api::MmapWrite, rows.clone())
        })
    };
    activity.from_mappings.iter().filter_map(flow)
}
