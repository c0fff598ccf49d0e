//! Loops of reads and writes, and writes out of a mapping.
//!
//! Backends tell of a write where its bytes had been read to, if they see that ([`zc_ebpf::Memory`]), or else what its thread had read
//! before ([`zc_ebpf::Sequence`]). That a thread reads one file and then writes another does not make it a copy: the dynamic loader reads
//! 832 bytes of libc before the first message is written. A source is taken for one only if the bytes balance:
//!
//! - at least 3/4 of what was read from it was written on, and at least 3/4 of all that was written there had been read somewhere;
//! - exactly all of both, if there were fewer than [`MANY`] reads or writes: a single read and a single write agree in size by chance
//!   much more easily than a loop does;
//! - exactly all of both, and from the same memory, if source and destination are one file (a socket that echoes);
//! - only in one thread, if nothing but the order of calls speaks for it: where other threads read as much, work may be passed on among
//!   them, and what one of them writes next may be what another has read.
//!
//! Where some bytes of a source are known by their memory to have gone to one destination, none to another, and as many were read as
//! written there, that is all of them: threads that work is passed on among leave no more to be seen.

use std::collections::{BTreeMap, HashSet};

use super::{
    activity::{Activity, Paired},
    flow::{Flow, Source, moving_calls, only_failed, sum_bytes},
};
use crate::{
    report::{Api, Evidence},
    trace::{FileId, Input, Row},
};

/// From so many reads and writes on, the bytes need not agree exactly.
pub(super) const MANY: u64 = 8;

/// A write from a mapping of fewer bytes, and not of the whole file, is one of constants of the program.
const LEAST_MAPPED_BYTES: u64 = 4096;

/// Adds the flows of loops, and those out of mappings.
pub(super) fn add<'a>(flows: &mut Vec<Flow<'a>>, activity: &Activity<'a>) {
    let mut pairs: BTreeMap<(FileId, FileId), Flow<'a>> = BTreeMap::new();
    for flow in Balance::by_memory(activity).all() {
        merge(&mut pairs, flow);
    }
    // What is all explained has no bytes for anything else.
    let whole: HashSet<Option<FileId>> =
        pairs.values().filter(|flow| is_whole(flow)).flat_map(|flow| [flow.read_from(), flow.written_to()]).collect();
    let is_free = |flow: &Flow<'_>| !whole.contains(&flow.read_from()) && !whole.contains(&flow.written_to());
    for paired in &activity.after {
        for flow in Balance::by_order(activity, paired).all().filter(is_free) {
            merge(&mut pairs, flow);
        }
    }
    flows.extend(pairs.into_values());
    flows.extend(mapped(activity));
}

/// Whether all that was written by its calls belongs to a flow.
fn is_whole(flow: &Flow<'_>) -> bool {
    sum_bytes(&flow.writing) == flow.bytes
}

/// Weighs what was read against what was written.
struct Balance<'b, 'a> {
    activity: &'b Activity<'a>,
    paired: &'b Paired<'a>,
    evidence: Evidence,
    /// All that was written, by destination. Summed once: thousands of sources may have the same one.
    written: BTreeMap<FileId, Loop<'b, 'a>>,
    /// Of what was read, what is known by better evidence to have gone elsewhere, by source.
    explained: BTreeMap<FileId, u64>,
    /// What other threads read of one file at most.
    most_by_others: u64,
}

/// What the other threads of a process read of one file at most.
fn most_read_by_others(activity: &Activity<'_>, thread: &Paired<'_>) -> u64 {
    let by_others = |(file, rows): (&Option<FileId>, &Vec<&Row>)| {
        let file = file.filter(|&file| activity.carries_bytes(file))?;
        let own = thread.reads.get(&file).map_or(Some(0), |rows| sum_bytes(rows));
        Some(sum_bytes(rows).zip(own).map_or(u64::MAX, |(all, own)| all.saturating_sub(own)))
    };
    activity.reads.iter().filter_map(by_others).max().unwrap_or(0)
}

impl<'b, 'a> Balance<'b, 'a> {
    /// What was written from where it had been read to.
    fn by_memory(activity: &'b Activity<'a>) -> Self {
        let paired = &activity.held;
        let written = written(paired);
        Self { activity, paired, evidence: Evidence::Memory, written, explained: BTreeMap::new(), most_by_others: 0 }
    }

    /// What a thread wrote after it had read.
    fn by_order(activity: &'b Activity<'a>, paired: &'b Paired<'a>) -> Self {
        let mut explained = BTreeMap::new();
        for row in paired.written.values().flatten() {
            if let Some(Input::Held(from)) = row.ends.input {
                *explained.entry(from).or_default() += row.paired_bytes;
            }
        }
        let most_by_others = most_read_by_others(activity, paired);
        Self { activity, paired, evidence: Evidence::Order, written: written(paired), explained, most_by_others }
    }

    /// The flows from all sources.
    fn all(&self) -> impl Iterator<Item = Flow<'a>> {
        let sources = self.paired.writes.keys().filter(|&&from| self.activity.carries_bytes(from));
        sources.flat_map(|&from| self.flows(from))
    }

    /// The flows from one source, if its bytes balance.
    fn flows(&self, from: FileId) -> Vec<Flow<'a>> {
        let reading = self.paired.reads.get(&from).map(Vec::as_slice).unwrap_or_default();
        let Some(read) = self.read(from, reading) else { return Vec::new() };
        let Some(by_destination) = self.paired.writes.get(&from) else { return Vec::new() };
        let mut candidates: Vec<(FileId, Loop)> = by_destination
            .iter()
            .filter(|(to, _)| self.activity.carries_bytes(**to))
            .map(|(&to, rows)| (to, Loop::of(rows)))
            .filter(
                |(to, one)| if from == *to { self.sees_memory() && one.exact() } else { one.covered() && self.is_covered(*to) },
            )
            .collect();
        if let Some(whole) = self.whole(from, read, by_destination) {
            candidates = vec![whole];
        }
        let written_on: u64 = candidates.iter().map(|(_, one)| one.paired).sum();
        let exact = written_on == read && candidates.iter().all(|(_, one)| one.exact());
        let is_many =
            moving_calls(reading) >= MANY && candidates.iter().map(|(_, one)| moving_calls(one.rows)).sum::<u64>() >= MANY;
        let near = is_many && written_on <= read && covers(written_on, read) && !by_destination.contains_key(&from);
        if read == 0 || !(exact || near) {
            return Vec::new();
        }
        let flow = |(to, one): (FileId, Loop<'_, 'a>)| Flow {
            from: Source::File(from),
            to,
            api: Api::ReadWrite,
            evidence: self.evidence,
            bytes: Some(one.paired),
            reading: reading.iter().copied().filter(|row| !only_failed(row)).collect(),
            writing: one.rows.iter().copied().filter(|row| !only_failed(row)).collect(),
            attempts: Vec::new(),
        };
        candidates.into_iter().map(flow).collect()
    }

    /// What was read from a file and is not known, by better evidence, to have gone elsewhere.
    fn read(&self, from: FileId, reading: &[&Row]) -> Option<u64> {
        let read = sum_bytes(reading)?;
        if !self.sees_memory() && covers(self.most_by_others, read) {
            return None;
        }
        Some(read.saturating_sub(self.explained.get(&from).copied().unwrap_or(0)))
    }

    /// Whether most of what was written there had been read somewhere.
    fn is_covered(&self, to: FileId) -> bool {
        self.written.get(&to).is_some_and(|all| all.covered())
    }

    /// The one destination that got as many bytes as were read, from nowhere else. What was written to others in between (of the
    /// progress, say) came from the program itself, if only the order of calls says otherwise.
    fn whole(&self, from: FileId, read: u64, by_destination: &BTreeMap<FileId, Vec<&'a Row>>) -> Option<(FileId, Loop<'b, 'a>)> {
        if self.sees_memory() && by_destination.len() > 1 {
            return None;
        }
        let is_from_here = |row: &&Row| match row.ends.input {
            Some(Input::Held(file)) => self.sees_memory() && file == from,
            Some(Input::LastRead(file)) => self.sees_memory() || file == from,
            Some(Input::Named(_) | Input::Changed(_) | Input::Mapped(_)) => false,
            None => true,
        };
        let is_whole = |to: FileId, all: &Loop<'_, '_>| {
            let is_likely = from != to && self.activity.carries_bytes(to) && (self.sees_memory() || all.covered());
            is_likely && all.written == Some(read) && all.rows.iter().all(is_from_here)
        };
        let ends = by_destination.keys().filter_map(|&to| Some((to, *self.written.get(&to)?)));
        let mut found = ends.filter(|(to, all)| is_whole(*to, all)).map(|(to, all)| (to, Loop { paired: read, ..all }));
        found.next().filter(|_| found.next().is_none())
    }

    fn sees_memory(&self) -> bool {
        self.evidence == Evidence::Memory
    }
}

/// All that was written, by destination.
fn written<'b, 'a>(paired: &'b Paired<'a>) -> BTreeMap<FileId, Loop<'b, 'a>> {
    paired.written.iter().map(|(&to, rows)| (to, Loop::of(rows))).collect()
}

/// What was written to one destination: from one source, or all of it.
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
            sum.evidence = sum.evidence.max(flow.evidence);
            sum.reading.extend(flow.reading);
            sum.writing.extend(flow.writing);
        }
    }
}

/// Writes whose buffer lies in a mapping: where the bytes came from is certain. Constants of the program itself are no transfer.
fn mapped<'a>(activity: &Activity<'a>) -> impl Iterator<Item = Flow<'a>> {
    let flow = |(&(from, to), rows): (&(FileId, FileId), &Vec<&'a Row>)| {
        let bytes = rows.iter().map(|row| row.paired_bytes).sum();
        let size = activity.file(from)?.size_bytes;
        let is_whole = size.is_some_and(|size| covers(bytes, size));
        let is_transfer = bytes > 0 && (bytes >= LEAST_MAPPED_BYTES || is_whole) && !activity.is_program(from);
        let reading = activity.mappings.get(&from).cloned().unwrap_or_default();
        let direct = || Flow::direct(Source::File(from), to, Api::MmapWrite, rows.clone());
        is_transfer.then(|| Flow { reading, bytes: Some(bytes), evidence: Evidence::Memory, ..direct() })
    };
    activity.mapped.iter().filter_map(flow)
}
