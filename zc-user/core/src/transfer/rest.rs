//! Rule 9: what a process wrote from its own memory, and what it read and kept.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashSet},
};

use super::{
    buffers::{WritePart, moving_calls},
    facts::{ProcessFacts, sum_bytes},
    flow::Flow,
};
use crate::{
    ends::EndTable,
    trace::{Content, FileId, Input, Row},
    transfer::{BufferTotals, DestinationTotals, Evidence, SourceTotals},
    units::sum_all,
};

fn transfer_legs<'f, 'a>(flows: &'f [Flow<'a>]) -> impl Iterator<Item = &'f Flow<'a>> {
    let transfers = flows.iter().filter(|flow| flow.is_transfer());
    transfers.flat_map(Flow::legs)
}

/// What a process wrote to each file, those with the most bytes first.
pub(super) fn destination_totals(
    facts: &ProcessFacts<'_>,
    flows: &[Flow<'_>],
    ends: &EndTable<'_>,
) -> Vec<DestinationTotals> {
    let mut transferred: BTreeMap<Option<FileId>, u64> = BTreeMap::new();
    for leg in transfer_legs(flows) {
        let sum = transferred.entry(Some(leg.to)).or_default();
        *sum = sum.saturating_add(leg.bytes.unwrap_or(0));
    }
    let rows = transfer_legs(flows).flat_map(|leg| &leg.writing);
    let used: HashSet<*const Row> = rows.map(|row| std::ptr::from_ref::<Row>(row)).collect();
    let unseen = facts.sum_counts(|thread| &thread.unseen_mappings);
    let mut buffers = buffers_in_no_transfer(facts, flows, ends);
    let mut all = Vec::new();
    for (&file, rows) in &facts.all_writes {
        let (mut in_transfers, mut own) = (rows.clone(), rows.clone());
        in_transfers.retain(|row| used.contains(&std::ptr::from_ref(*row)));
        own.retain(|row| !used.contains(&std::ptr::from_ref(*row)));
        let (transferred_calls, own_memory_calls) =
            (moving_calls(&in_transfers), moving_calls(&own));
        let written_bytes = sum_bytes(rows);
        let transferred_bytes = transferred.get(&file).copied().unwrap_or(0);
        let mut totals = DestinationTotals {
            file: None,
            written_bytes,
            written_calls: transferred_calls + own_memory_calls,
            transferred_bytes,
            transferred_calls,
            own_memory_bytes: written_bytes.map(|bytes| bytes.saturating_sub(transferred_bytes)),
            own_memory_calls,
            buffers: Vec::new(),
            unseen_mappings: 0,
        };
        if let Some(file) = file {
            totals.file = Some(ends.find_end(file));
            totals.buffers.extend(
                buffers
                    .remove(&file)
                    .into_iter()
                    .flat_map(BTreeMap::into_values),
            );
            totals.unseen_mappings = unseen.get(&file).copied().unwrap_or(0);
        }
        all.push(totals);
    }
    all.sort_by_key(|one| Reverse(one.written_bytes));
    all
}

/// What a process read from each file, likewise.
pub(super) fn source_totals(
    facts: &ProcessFacts<'_>,
    flows: &[Flow<'_>],
    ends: &EndTable<'_>,
) -> Vec<SourceTotals> {
    let mut transferred: BTreeMap<Option<FileId>, u64> = BTreeMap::new();
    // What a mapping gave was not read.
    for leg in transfer_legs(flows).filter(|leg| leg.evidence != Evidence::Mapping) {
        let sum = transferred.entry(Some(leg.from)).or_default();
        *sum = sum.saturating_add(leg.bytes.unwrap_or(0));
    }
    let forgotten = facts.sum_counts(|thread| &thread.forgotten);
    let unseen = facts.sum_counts(|thread| &thread.unseen_mappings);
    let mut mapped: BTreeSet<Option<FileId>> = BTreeSet::new();
    if !unseen.is_empty() {
        mapped.extend(facts.mappings.keys().copied().map(Some));
    }
    let files = facts.all_reads.keys().chain(forgotten.keys());
    let files: BTreeSet<Option<FileId>> = files.chain(&mapped).copied().collect();
    let mut all = Vec::new();
    for file in files {
        let rows = facts.all_reads.get(&file).map_or(&[][..], Vec::as_slice);
        let read_bytes = sum_bytes(rows);
        let in_transfers = transferred.get(&file).copied().unwrap_or(0);
        all.push(SourceTotals {
            file: file.map(|file| ends.find_end(file)),
            read_bytes,
            read_calls: moving_calls(rows),
            kept_bytes: read_bytes.and_then(|bytes| bytes.checked_sub(in_transfers)),
            forgotten_buffers: forgotten.get(&file).copied().unwrap_or(0),
            may_be_mapped: mapped.contains(&file),
        });
    }
    all.sort_by_key(|one| Reverse(one.read_bytes));
    all
}

/// What was written from buffers and is in no transfer, by destination and source.
fn buffers_in_no_transfer(
    facts: &ProcessFacts<'_>,
    flows: &[Flow<'_>],
    ends: &EndTable<'_>,
) -> BTreeMap<FileId, BTreeMap<FileId, BufferTotals>> {
    // Equal sums explain all that the other rules do not.
    let by_totals = transfer_legs(flows).filter(|leg| leg.evidence == Evidence::Totals);
    let by_totals: BTreeSet<FileId> = by_totals.map(|leg| leg.to).collect();
    let mut all: BTreeMap<FileId, BTreeMap<FileId, BufferTotals>> = BTreeMap::new();
    for piece in &facts.pieces {
        let Input::Buffer(from, content) = piece.from else {
            continue;
        };
        let is_in_transfer = match facts.words[&(from, piece.to)] {
            Some(evidence) if content != Content::OtherUse => evidence != Evidence::Changed,
            _ => by_totals.contains(&piece.to),
        };
        if !is_in_transfer {
            let of_file = all.entry(piece.to).or_default();
            let sums = of_file.entry(from).or_insert_with(|| BufferTotals {
                from: ends.find_end(from),
                ..BufferTotals::default()
            });
            sums.add_totals(&BufferTotals::of_piece(piece, content));
        }
    }
    all
}

impl DestinationTotals {
    /// Adds what was written to it by others.
    pub(crate) fn add_totals(&mut self, more: Self) {
        self.written_bytes = sum_all([self.written_bytes, more.written_bytes]);
        self.written_calls += more.written_calls;
        self.transferred_bytes = self
            .transferred_bytes
            .saturating_add(more.transferred_bytes);
        self.transferred_calls += more.transferred_calls;
        self.own_memory_bytes = sum_all([self.own_memory_bytes, more.own_memory_bytes]);
        self.own_memory_calls += more.own_memory_calls;
        for buffers in more.buffers {
            let mut known = self.buffers.iter_mut();
            match known.find(|known| known.from == buffers.from) {
                Some(known) => known.add_totals(&buffers),
                None => self.buffers.push(buffers),
            }
        }
        self.unseen_mappings += more.unseen_mappings;
    }
}

impl SourceTotals {
    /// Adds what others read from it.
    pub(crate) fn add_totals(&mut self, more: &Self) {
        self.read_bytes = sum_all([self.read_bytes, more.read_bytes]);
        self.read_calls += more.read_calls;
        self.kept_bytes = sum_all([self.kept_bytes, more.kept_bytes]);
        self.forgotten_buffers += more.forgotten_buffers;
        self.may_be_mapped |= more.may_be_mapped;
    }
}

impl BufferTotals {
    fn of_piece(piece: &WritePart<'_>, content: Content) -> Self {
        let mut sums = Self {
            bytes: piece.bytes,
            compared_words: piece.words.compared,
            changed_words: piece.words.changed,
            calls: piece.calls,
            ..Self::default()
        };
        let by_content = match content {
            Content::Same | Content::Zeros => &mut sums.same_bytes,
            Content::Changed => &mut sums.changed_bytes,
            Content::OtherUse => &mut sums.other_use_bytes,
            Content::Uncompared => &mut sums.uncompared_bytes,
        };
        *by_content = piece.bytes;
        sums
    }

    /// Adds what was written from buffers of the same file.
    fn add_totals(&mut self, more: &Self) {
        for (sum, more) in [
            (&mut self.bytes, more.bytes),
            (&mut self.same_bytes, more.same_bytes),
            (&mut self.changed_bytes, more.changed_bytes),
            (&mut self.other_use_bytes, more.other_use_bytes),
            (&mut self.uncompared_bytes, more.uncompared_bytes),
            (&mut self.compared_words, more.compared_words),
            (&mut self.changed_words, more.changed_words),
            (&mut self.calls, more.calls),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}
