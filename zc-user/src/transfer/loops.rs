//! Loops of reads and writes in one thread, and writes out of a mapping.
//!
//! Backends remember, thread by thread, how much of what was read last is not yet written ([`zc_ebpf::Unwritten`]). That a thread reads
//! one file and then writes another does not make it a copy: the dynamic loader reads 832 bytes of libc before the first message is
//! written. A source is taken for one only if the bytes balance:
//!
//! - at least 3/4 of what the thread read from it was written on, and at least 3/4 of the bytes written then are covered by that;
//! - exactly all of both, if there were fewer than [`MANY`] reads or writes: a single read and a single write agree in size by chance
//!   much more easily than a loop does;
//! - exactly all of both, if source and destination are one file (a socket that answers with as much as it was asked).

use std::collections::BTreeMap;

use super::{
    activity::{Activity, ThreadLoops},
    flow::{Flow, Source, moving_calls, only_failed, sum_bytes},
};
use crate::{
    report::Api,
    trace::{FileId, Row},
};

/// From so many reads and writes on, the bytes need not agree exactly.
const MANY: u64 = 8;

/// A write from a mapping of fewer bytes, and not of the whole file, is one of constants of the program.
const LEAST_MAPPED_BYTES: u64 = 4096;

/// Adds the flows of loops in a thread, and those out of mappings.
pub(super) fn add<'a>(flows: &mut Vec<Flow<'a>>, activity: &Activity<'a>) {
    let mut pairs: BTreeMap<(FileId, FileId), Flow<'a>> = BTreeMap::new();
    for thread in &activity.loops {
        for (&from, by_destination) in &thread.writes {
            if activity.carries_bytes(from) {
                for flow in balanced(activity, thread, from, by_destination) {
                    merge(&mut pairs, flow);
                }
            }
        }
    }
    flows.extend(pairs.into_values());
    flows.extend(mapped(activity));
}

/// The flows of one thread from one source, if its bytes balance.
fn balanced<'a>(
    activity: &Activity<'a>,
    thread: &ThreadLoops<'a>,
    from: FileId,
    by_destination: &BTreeMap<FileId, Vec<&'a Row>>,
) -> Vec<Flow<'a>> {
    let reading = thread.reads.get(&from).map(Vec::as_slice).unwrap_or_default();
    let Some(read) = sum_bytes(reading) else { return Vec::new() };
    let candidates: Vec<(FileId, Loop)> = by_destination
        .iter()
        .filter(|(to, _)| activity.carries_bytes(**to))
        .map(|(&to, rows)| (to, Loop::of(rows)))
        .filter(|(to, one)| if from == *to { one.exact() } else { one.covered() })
        .collect();
    let written_on: u64 = candidates.iter().map(|(_, one)| one.paired).sum();
    let exact = written_on == read && candidates.iter().all(|(_, one)| one.exact());
    let is_many = moving_calls(reading) >= MANY && candidates.iter().map(|(_, one)| moving_calls(one.rows)).sum::<u64>() >= MANY;
    if read == 0 || !(exact || (is_many && covers(written_on, read) && !by_destination.contains_key(&from))) {
        return Vec::new();
    }
    let flow = |(to, one): (FileId, Loop<'_, 'a>)| Flow {
        from: Source::File(from),
        to,
        api: Api::ReadWrite,
        bytes: Some(one.paired),
        reading: reading.iter().copied().filter(|row| !only_failed(row)).collect(),
        writing: one.rows.iter().copied().filter(|row| !only_failed(row)).collect(),
        attempts: Vec::new(),
    };
    candidates.into_iter().map(flow).collect()
}

/// What a thread wrote to one destination after it had read from one source.
#[derive(Clone, Copy)]
struct Loop<'r, 'a> {
    rows: &'r [&'a Row],
    paired: u64,
    written: Option<u64>,
}

impl<'r, 'a> Loop<'r, 'a> {
    fn of(rows: &'r [&'a Row]) -> Self {
        Self { rows, paired: rows.iter().map(|row| row.paired_bytes).sum(), written: sum_bytes(rows) }
    }

    fn exact(self) -> bool {
        self.paired > 0 && self.written == Some(self.paired)
    }

    fn covered(self) -> bool {
        self.paired > 0 && self.written.is_some_and(|written| covers(self.paired, written))
    }
}

/// Whether a part is at least 3/4 of the whole.
fn covers(part: u64, whole: u64) -> bool {
    u128::from(part) * 4 >= u128::from(whole) * 3
}

fn merge<'a>(pairs: &mut BTreeMap<(FileId, FileId), Flow<'a>>, flow: Flow<'a>) {
    let Some(from) = flow.from.file() else { return };
    match pairs.entry((from, flow.to)) {
        std::collections::btree_map::Entry::Vacant(entry) => {
            entry.insert(flow);
        }
        std::collections::btree_map::Entry::Occupied(mut entry) => {
            let sum = entry.get_mut();
            sum.bytes = sum.bytes.zip(flow.bytes).and_then(|(a, b)| a.checked_add(b));
            sum.reading.extend(flow.reading);
            sum.writing.extend(flow.writing);
        }
    }
}

/// Writes whose buffer lies in a mapping: where the bytes came from is certain. Constants of the program itself are no transfer.
fn mapped<'a>(activity: &Activity<'a>) -> impl Iterator<Item = Flow<'a>> {
    let flow = |(&(from, to), rows): (&(FileId, FileId), &Vec<&'a Row>)| {
        let bytes = sum_bytes(rows)?;
        let size = activity.file(from)?.size_bytes;
        let is_whole = size.is_some_and(|size| covers(bytes, size));
        let is_transfer = bytes > 0 && (bytes >= LEAST_MAPPED_BYTES || is_whole) && !activity.is_program(from);
        let reading = activity.mappings.get(&from).cloned().unwrap_or_default();
        is_transfer.then(|| Flow { reading, ..Flow::direct(Source::File(from), to, Api::MmapWrite, rows.clone()) })
    };
    activity.mapped.iter().filter_map(flow)
}
