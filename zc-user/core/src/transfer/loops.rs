//! Loops of reads and writes that only the order of a thread's calls tells of: always inferred, never proven.
//!
//! Backends tell of a write what its thread had read before ([`zc_ebpf::Sequence`]), where memory does not tell more. That a thread reads
//! one file and then writes another does not make it a copy: the dynamic loader reads 832 bytes of libc before the first message is
//! written. A loop is worth showing only if the bytes balance:
//!
//! - at least 3/4 of what was read from the source was written on, and at least 3/4 of all that was written there had been read somewhere;
//! - exactly all of both, if there were fewer than [`MANY`] reads or writes;
//! - never, if source and destination are one file: an answer may be as long as the question;
//! - never, if other threads read as much of other files: work may be passed on among threads, and what one of them writes next may be
//!   what another has read.
//!
//! The figure is a lower bound: what memory explains of the source has gone elsewhere; and what other threads read and did not write
//! themselves, or this one read meanwhile from other files, may be among the bytes that it wrote.

use std::collections::{BTreeMap, HashSet};

use super::{
    activity::{Activity, Paired},
    balance::{MANY, are_worth_adding, covers},
    doubt::Doubt,
    flow::{Flow, Source, moving_calls, sum_bytes},
    left::Left,
};
use crate::{
    trace::{FileId, Input, Row},
    transfer::{Api, Evidence},
};

/// Adds the loops to what is proven.
pub(super) fn add<'a>(flows: &mut Vec<Flow<'a>>, activity: &Activity<'a>) {
    let settled = Settled::of(flows);
    let mut left = Left::of(flows, activity);
    let mut found: BTreeMap<(FileId, FileId), Found<'a>> = BTreeMap::new();
    let threads = Threads::of(activity);
    for (index, thread) in activity.threads.iter().enumerate().filter(|(_, thread)| !thread.writes.is_empty()) {
        for found_here in Balance::of(activity, thread, &threads, index).all() {
            let ends = (found_here.from, found_here.to);
            let bytes = left.take(ends.0, ends.1, found_here.bytes);
            if bytes > 0 && settled.leaves_room_for(ends) {
                let sum = found.entry(ends).or_default();
                sum.bytes += bytes;
                sum.reading.extend(found_here.reading);
                sum.writing.extend(found_here.writing);
            }
        }
    }
    for ((from, to), found) in found {
        let known = flows.iter_mut().find(|flow| flow.is_loop() && flow.from == Source::File(from) && flow.to == to);
        match known {
            Some(flow) if are_worth_adding(found.bytes, flow.bytes.unwrap_or(0)) => {
                flow.infer(found.bytes, Evidence::Order, &found.reading, &found.writing);
            }
            Some(_) => {}
            None => flows.push(found.flow(from, to)),
        }
    }
}

/// What all threads together seem to have moved from one file to another.
#[derive(Default)]
struct Found<'a> {
    bytes: u64,
    reading: Vec<&'a Row>,
    writing: Vec<&'a Row>,
}

impl<'a> Found<'a> {
    fn flow(self, from: FileId, to: FileId) -> Flow<'a> {
        let mut flow = Flow::inferred(from, to, Api::ReadWrite, Evidence::Order, 0);
        flow.infer(self.bytes, Evidence::Order, &self.reading, &self.writing);
        flow
    }
}

/// The ends of flows from memory whose calls wrote nothing else: a loop with one of them and another end is rather a message of the
/// program, as of its progress.
struct Settled {
    ends: HashSet<FileId>,
    pairs: HashSet<(FileId, FileId)>,
}

impl Settled {
    fn of(flows: &[Flow<'_>]) -> Self {
        let pairs = || flows.iter().filter_map(|flow| Some((flow.read_from()?, flow.to)));
        let is_whole = |flow: &&Flow<'_>| {
            let paired = flow.writing.iter().map(|row| row.paired_bytes).fold(0, u64::saturating_add);
            sum_bytes(&flow.writing) == Some(paired)
        };
        let ends = flows.iter().filter(is_whole).filter_map(|flow| Some([flow.read_from()?, flow.to]));
        Self { ends: ends.flatten().collect(), pairs: pairs().collect() }
    }

    fn leaves_room_for(&self, (from, to): (FileId, FileId)) -> bool {
        self.pairs.contains(&(from, to)) || !(self.ends.contains(&from) || self.ends.contains(&to))
    }
}

/// What the threads of a process read, and did not write on themselves.
struct Threads {
    /// By thread: what it read beyond what it wrote of it.
    kept: Vec<u64>,
    /// How many bytes of each file memory explains.
    explained: BTreeMap<FileId, u64>,
    /// By thread: the two files of which the others read most that memory does not explain, and how much.
    by_others: Vec<[(u64, Option<FileId>); 2]>,
}

impl Threads {
    fn of(activity: &Activity<'_>) -> Self {
        let mut explained: BTreeMap<FileId, u64> = BTreeMap::new();
        for (&file, &bytes) in activity.threads.iter().flat_map(|thread| &thread.explained) {
            let sum = explained.entry(file).or_default();
            *sum = sum.saturating_add(bytes);
        }
        let by_others = |thread: &Paired<'_>| {
            let mut most = [(0, None); 2];
            for (file, rows) in &activity.reads {
                let Some(file) = file.filter(|&file| activity.carries_bytes(file)) else { continue };
                let own = thread.reads.get(&file).map_or(Some(0), |rows| sum_bytes(rows));
                let others = sum_bytes(rows).zip(own).map_or(u64::MAX, |(all, own)| all.saturating_sub(own));
                let others = others.saturating_sub(explained.get(&file).copied().unwrap_or(0));
                if others > most[0].0 {
                    most = [(others, Some(file)), most[0]];
                } else if others > most[1].0 {
                    most[1] = (others, Some(file));
                }
            }
            most
        };
        Self {
            kept: activity.threads.iter().map(|thread| kept(thread, activity)).collect(),
            by_others: activity.threads.iter().map(by_others).collect(),
            explained,
        }
    }

    /// What other threads read of another file at most.
    fn most_of_another(&self, thread: usize, file: FileId) -> u64 {
        self.by_others[thread].iter().find(|(_, other)| *other != Some(file)).map_or(0, |(bytes, _)| *bytes)
    }

    /// What other threads read and may have given to this one.
    fn kept_by_others(&self, thread: usize) -> u64 {
        let others = self.kept.iter().enumerate().filter(|(index, _)| *index != thread);
        others.map(|(_, &bytes)| bytes).fold(0, u64::saturating_add)
    }
}

fn kept(thread: &Paired<'_>, activity: &Activity<'_>) -> u64 {
    let is_data = |file: FileId| activity.carries_bytes(file) && !activity.is_program(file);
    let read = thread.reads.iter().filter(|(file, _)| is_data(**file));
    let read = read.map(|(_, rows)| sum_bytes(rows).unwrap_or(u64::MAX)).fold(0, u64::saturating_add);
    let written = thread.writes.values().flatten().flat_map(|(_, rows)| rows).map(|row| row.paired_bytes);
    let written = written.chain(thread.explained.values().copied()).fold(0, u64::saturating_add);
    read.saturating_sub(written)
}

/// Weighs what a thread read against what it wrote.
struct Balance<'b, 'a> {
    activity: &'b Activity<'a>,
    thread: &'b Paired<'a>,
    threads: &'b Threads,
    index: usize,
    /// All that was written, by destination. Summed once: thousands of sources may have the same one.
    written: BTreeMap<FileId, Loop<'b, 'a>>,
    /// What it read and did not write on, by the order of its calls.
    doubt: Doubt,
}

/// What one thread seems to have moved.
struct FoundHere<'b, 'a> {
    from: FileId,
    to: FileId,
    bytes: u64,
    reading: &'b [&'a Row],
    writing: &'b [&'a Row],
}

impl<'b, 'a> Balance<'b, 'a> {
    fn of(activity: &'b Activity<'a>, thread: &'b Paired<'a>, threads: &'b Threads, index: usize) -> Self {
        let written = thread.written.iter().map(|(&to, rows)| (to, Loop::of(rows))).collect();
        let left = |(&file, rows): (&FileId, &'b Vec<&'a Row>)| {
            let in_turn = thread.writes.get(&file).into_iter().flatten().flat_map(|(_, rows)| rows).map(|row| row.paired_bytes);
            let explained = threads.explained.get(&file).copied().unwrap_or(0);
            let known = in_turn.fold(explained, u64::saturating_add);
            (file, rows.as_slice(), sum_bytes(rows).unwrap_or(u64::MAX).saturating_sub(known))
        };
        let doubt = Doubt::of(thread.reads.iter().map(left), activity);
        Self { activity, thread, threads, index, written, doubt }
    }

    /// The loops from all sources.
    fn all(&self) -> impl Iterator<Item = FoundHere<'b, 'a>> {
        let sources = self.thread.writes.keys().filter(|&&from| self.activity.carries_bytes(from));
        sources.flat_map(|&from| self.found(from))
    }

    /// The loops from one source, if its bytes balance.
    fn found(&self, from: FileId) -> Vec<FoundHere<'b, 'a>> {
        let reading = self.thread.reads.get(&from).map(Vec::as_slice).unwrap_or_default();
        let Some(read) = self.read(from, reading) else { return Vec::new() };
        let Some(by_destination) = self.thread.writes.get(&from) else { return Vec::new() };
        let mut candidates: Vec<(FileId, Loop)> = by_destination
            .iter()
            .filter(|(to, _)| from != **to && self.activity.carries_bytes(**to))
            .map(|(&to, rows)| (to, Loop::of(rows)))
            .filter(|(to, one)| one.covered() && self.is_covered(*to))
            .collect();
        if let Some(whole) = self.whole(from, read, by_destination) {
            candidates = vec![whole];
        }
        let written_on: u64 = candidates.iter().map(|(_, one)| one.paired).fold(0, u64::saturating_add);
        let exact = written_on == read && candidates.iter().all(|(_, one)| one.exact());
        let is_many =
            moving_calls(reading) >= MANY && candidates.iter().map(|(_, one)| moving_calls(one.rows)).sum::<u64>() >= MANY;
        let near = is_many && written_on <= read && covers(written_on, read) && !by_destination.contains_key(&from);
        if read == 0 || !(exact || near) {
            return Vec::new();
        }
        let doubtful = self.threads.kept_by_others(self.index);
        let found = |(to, one): (FileId, Loop<'b, 'a>)| {
            let doubtful = doubtful.saturating_add(self.doubt.meanwhile(from, reading, one.rows));
            let bytes = one.paired.saturating_sub(doubtful);
            FoundHere { from, to, bytes, reading, writing: one.rows }
        };
        candidates.into_iter().map(found).collect()
    }

    /// What was read from a file and did not go, by better evidence, elsewhere.
    fn read(&self, from: FileId, reading: &[&Row]) -> Option<u64> {
        let read = sum_bytes(reading)?;
        let of_another = self.threads.most_of_another(self.index, from);
        if of_another > 0 && covers(of_another, read) {
            return None;
        }
        Some(read.saturating_sub(self.thread.explained.get(&from).copied().unwrap_or(0)))
    }

    /// Whether most of what was written there had been read somewhere.
    fn is_covered(&self, to: FileId) -> bool {
        self.written.get(&to).is_some_and(|all| all.covered())
    }

    /// The one destination that got as many bytes as were read, from nowhere else. What was written to others in between (of the
    /// progress, say) came from the program itself.
    ///
    /// Writes that order does not pair count, too, unless they begin with other bytes than every read of the source.
    fn whole(&self, from: FileId, read: u64, by_destination: &BTreeMap<FileId, Vec<&'a Row>>) -> Option<(FileId, Loop<'b, 'a>)> {
        let reading = self.thread.reads.get(&from).map(Vec::as_slice).unwrap_or_default();
        let is_from_here = |row: &&Row| match row.ends.input {
            Some(Input::LastRead(file)) => file == from,
            Some(_) => false,
            None => reading.iter().any(|read| !read.head.differs_from(&row.head)),
        };
        let is_whole = |to: FileId, all: &Loop<'_, '_>| {
            let is_likely = from != to && self.activity.carries_bytes(to) && all.covered();
            is_likely && all.written == Some(read) && all.rows.iter().all(is_from_here)
        };
        let ends = by_destination.keys().filter_map(|&to| Some((to, *self.written.get(&to)?)));
        let mut found = ends.filter(|(to, all)| is_whole(*to, all)).map(|(to, all)| (to, Loop { paired: read, ..all }));
        found.next().filter(|_| found.next().is_none())
    }
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
        Self { rows, paired: rows.iter().map(|row| row.paired_bytes).fold(0, u64::saturating_add), written: sum_bytes(rows) }
    }

    fn exact(self) -> bool {
        self.paired > 0 && self.written == Some(self.paired)
    }

    fn covered(self) -> bool {
        self.paired > 0 && self.written.is_some_and(|written| covers(self.paired, written))
    }
}
