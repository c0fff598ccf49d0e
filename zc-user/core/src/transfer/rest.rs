//! Rule 9: what a process wrote from its own memory, and what it read and kept.

use crate::trace::sum_known;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap, HashSet},
};

use super::{
    EndTable,
    facts::{ProcessFacts, moving_calls, sum_bytes},
    flow::Flow,
};
use crate::{
    trace::{FileId, Input, Row},
    transfer::{Changed, DestinationTotals, Evidence, SourceTotals},
};

/// What was written from a buffer where a compared word differed, or nothing was compared: by source and
/// destination.
pub(super) fn changed_by_files(facts: &ProcessFacts<'_>) -> BTreeMap<(FileId, FileId), (u64, u64)> {
    let mut sums: BTreeMap<(FileId, FileId), (u64, u64)> = BTreeMap::new();
    let mut add = |input: Option<Input>, to: FileId, bytes: u64, calls: u64| {
        if let Some(Input::ChangedBuffer(from)) = input {
            let (all_bytes, all_calls) = sums.entry((from, to)).or_default();
            *all_bytes = all_bytes.saturating_add(bytes);
            *all_calls += calls;
        }
    };
    for (&to, rows) in &facts.writes {
        let Some(to) = to else { continue };
        for row in rows {
            add(row.ends.input, to, row.input_bytes, moving_calls(&[row]));
        }
    }
    for part in &facts.parts {
        add(Some(part.from), part.to, part.bytes, part.calls);
    }
    sums
}

/// The bytes of flows by their files, at one end.
fn in_flows<'f, 'a: 'f>(
    steps: impl Iterator<Item = &'f Flow<'a>>,
    end: fn(&Flow<'_>) -> FileId,
) -> HashMap<FileId, u64> {
    let mut sums: HashMap<FileId, u64> = HashMap::new();
    for step in steps {
        let sum = sums.entry(end(step)).or_default();
        *sum = sum.saturating_add(step.bytes.unwrap_or(0));
    }
    sums
}

/// What a process wrote to each file, those with the most bytes first.
pub(super) fn destination_totals(
    facts: &ProcessFacts<'_>,
    flows: &[Flow<'_>],
    ends: &EndTable<'_>,
) -> Vec<DestinationTotals> {
    let transferred = in_flows(flows.iter().flat_map(Flow::steps), |flow| flow.to);
    let rows = flows
        .iter()
        .flat_map(Flow::steps)
        .flat_map(|step| &step.writing);
    let used: HashSet<*const Row> = rows.map(|row| std::ptr::from_ref::<Row>(row)).collect();
    let mut changed_of: BTreeMap<Option<FileId>, Vec<Changed>> = BTreeMap::new();
    for ((from, to), (bytes, calls)) in changed_by_files(facts) {
        let from = ends.end(from);
        let changed = Changed { from, bytes, calls };
        changed_of.entry(Some(to)).or_default().push(changed);
    }
    let mut all: Vec<DestinationTotals> = facts
        .all_writes
        .iter()
        .map(|(&file, rows)| {
            let (in_transfers, own): (Vec<&Row>, Vec<&Row>) = rows
                .iter()
                .copied()
                .partition(|row| used.contains(&std::ptr::from_ref(*row)));
            let written_bytes = sum_bytes(rows);
            let transferred_bytes = file
                .and_then(|file| transferred.get(&file).copied())
                .unwrap_or(0);
            let [transferred_calls, own_memory_calls] =
                [in_transfers, own].map(|rows| moving_calls(&rows));
            DestinationTotals {
                file: file.map(|file| ends.end(file)),
                written_bytes,
                written_calls: transferred_calls + own_memory_calls,
                transferred_bytes,
                transferred_calls,
                own_memory_bytes: written_bytes
                    .map(|bytes| bytes.saturating_sub(transferred_bytes)),
                own_memory_calls,
                changed: changed_of.remove(&file).unwrap_or_default(),
            }
        })
        .collect();
    all.sort_by_key(|one| Reverse(one.written_bytes));
    all
}

/// What a process read from each file, likewise.
pub(super) fn source_totals(
    facts: &ProcessFacts<'_>,
    flows: &[Flow<'_>],
    ends: &EndTable<'_>,
) -> Vec<SourceTotals> {
    // What a mapping gave was not read.
    let read = flows
        .iter()
        .flat_map(Flow::steps)
        .filter(|step| step.evidence != Evidence::Mapping);
    let transferred = in_flows(read, |flow| flow.from);
    let mut all: Vec<SourceTotals> = facts
        .all_reads
        .iter()
        .map(|(&file, rows)| {
            let read_bytes = sum_bytes(rows);
            let in_transfers = file.and_then(|file| transferred.get(&file).copied());
            SourceTotals {
                file: file.map(|file| ends.end(file)),
                read_bytes,
                read_calls: moving_calls(rows),
                kept_bytes: read_bytes
                    .and_then(|bytes| bytes.checked_sub(in_transfers.unwrap_or(0))),
            }
        })
        .collect();
    all.sort_by_key(|one| Reverse(one.read_bytes));
    all
}

/// Adds up what was changed in the buffers of the same file.
pub(super) fn add_changed(sums: &mut Vec<Changed>, more: Vec<Changed>) {
    for one in more {
        match sums.iter_mut().find(|sum| sum.from == one.from) {
            Some(sum) => {
                sum.bytes = sum.bytes.saturating_add(one.bytes);
                sum.calls += one.calls;
            }
            None => sums.push(one),
        }
    }
}

impl DestinationTotals {
    /// Adds what was written to it by others.
    pub(crate) fn add(&mut self, more: Self) {
        self.written_bytes = sum_known(self.written_bytes, more.written_bytes);
        self.written_calls += more.written_calls;
        self.transferred_bytes = self
            .transferred_bytes
            .saturating_add(more.transferred_bytes);
        self.transferred_calls += more.transferred_calls;
        self.own_memory_bytes = sum_known(self.own_memory_bytes, more.own_memory_bytes);
        self.own_memory_calls += more.own_memory_calls;
        add_changed(&mut self.changed, more.changed);
    }
}

impl SourceTotals {
    /// Adds what others read from it.
    pub(crate) fn add(&mut self, more: &Self) {
        self.read_bytes = sum_known(self.read_bytes, more.read_bytes);
        self.read_calls += more.read_calls;
        self.kept_bytes = sum_known(self.kept_bytes, more.kept_bytes);
    }
}
