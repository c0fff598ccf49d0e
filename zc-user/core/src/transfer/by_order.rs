//! Flows that only the order of a thread's calls shows: it read from one file and then wrote as
//! much to another. Never proven.
//!
//! Where memory does not show the source of a write, backends say what its thread had read before
//! ([`zc_ebpf::UnwrittenRead`]). A write after a read is not always a copy: the dynamic loader
//! reads 832 bytes of libc before a program writes its first message. So a loop is shown only if
//! its bytes balance:
//!
//! - at least 3/4 of what was read from the source was written on, and at least 3/4 of what was
//!   written to the destination had been read;
//! - with fewer than [`MANY_CALLS`] reads or writes, exactly all of both;
//! - under a backend that does not see memory, no call moves a vector;
//! - at least [`LEAST_BYTES`], or the same first bytes;
//! - source and destination are not the same file, because an answer may be as long as the
//!   question;
//! - the other threads read less than 3/4 as much from any other file, because threads may hand
//!   work to each other, and a thread may write what another one has read.
//!
//! Where the backend sees memory, the two streams must also have bytes in common
//! ([`by_stream::common_bytes`](super::by_stream::common_bytes)): a program that reads one file may
//! write as many bytes of its own.
//!
//! The figure is low: bytes of the source that memory accounts for do not count, whichever thread
//! wrote them. Bytes that other threads read and did not write themselves, or that this thread read
//! meanwhile from other files, may be among those written, so they are subtracted. It is no lower
//! bound, because the program may have changed or replaced the bytes.

use std::collections::{BTreeMap, HashSet};

use super::{
    activity::{Activity, ThreadActivity},
    flow::{Condition, Flow, Source, moving_calls, sum_bytes},
    inference::{LEAST_BYTES, MANY_CALLS, ReadMeanwhile, Unclaimed, is_most_of, is_worth_adding},
};
use crate::{
    trace::{FileId, Input, Row},
    transfer::{Api, Evidence},
};

/// Adds the loops that balance. `limit` says how many bytes of the second file can be the first
/// one's.
pub(super) fn add<'a>(
    flows: &mut Vec<Flow<'a>>,
    activity: &Activity<'a>,
    limit: impl Fn(FileId, FileId) -> u64,
) {
    let settled = Settled::of(flows);
    let mut unclaimed = Unclaimed::of(flows, activity);
    let mut found: BTreeMap<(FileId, FileId), ProcessLoop<'a>> = BTreeMap::new();
    let threads = Threads::of(activity);
    for (index, thread) in activity
        .threads
        .iter()
        .enumerate()
        .filter(|(_, thread)| !thread.writes_after.is_empty())
    {
        for in_thread in ThreadBalance::of(activity, thread, &threads, index).all() {
            let ends = (in_thread.from, in_thread.to);
            let bytes = unclaimed.take(ends.0, ends.1, in_thread.bytes);
            if bytes > 0 && settled.allows(ends) {
                let sum = found.entry(ends).or_default();
                sum.bytes += bytes;
                sum.reading.extend(in_thread.reading);
                sum.writing.extend(in_thread.writing);
            }
        }
    }
    for ((from, to), found) in found {
        let known = flows
            .iter_mut()
            .find(|flow| flow.is_loop() && flow.from == Source::File(from) && flow.to == to);
        let known_bytes = known.as_ref().and_then(|flow| flow.bytes).unwrap_or(0);
        let bytes = found.bytes.min(limit(from, to).saturating_sub(known_bytes));
        match known {
            Some(flow) if is_worth_adding(bytes, known_bytes) => {
                flow.infer(bytes, Evidence::Order, &found.reading, &found.writing);
            }
            None if bytes > 0 && is_most_of(bytes, found.bytes) => {
                flows.push(found.flow(from, to, bytes))
            }
            _ => {}
        }
    }
}

/// What all threads of the process together moved from one file to another.
#[derive(Default)]
struct ProcessLoop<'a> {
    bytes: u64,
    reading: Vec<&'a Row>,
    writing: Vec<&'a Row>,
}

impl<'a> ProcessLoop<'a> {
    fn flow(self, from: FileId, to: FileId, bytes: u64) -> Flow<'a> {
        let mut flow = Flow::inferred(from, to, Api::ReadWrite, Evidence::Order, 0);
        flow.infer(bytes, Evidence::Order, &self.reading, &self.writing);
        flow
    }
}

/// The ends of flows whose calls wrote nothing else, and did not change the bytes. A loop between
/// one of these ends and a third file is more likely a message of the program, such as its
/// progress.
struct Settled {
    ends: HashSet<FileId>,
    pairs: HashSet<(FileId, FileId)>,
}

impl Settled {
    fn of(flows: &[Flow<'_>]) -> Self {
        let pairs = || {
            flows
                .iter()
                .filter_map(|flow| Some((flow.read_from()?, flow.to)))
        };
        let is_whole = |flow: &&Flow<'_>| {
            let paired = flow
                .writing
                .iter()
                .map(|row| row.paired_bytes)
                .fold(0, u64::saturating_add);
            flow.condition == Condition::AsRead && sum_bytes(&flow.writing) == Some(paired)
        };
        let ends = flows
            .iter()
            .filter(is_whole)
            .filter_map(|flow| Some([flow.read_from()?, flow.to]));
        Self {
            ends: ends.flatten().collect(),
            pairs: pairs().collect(),
        }
    }

    fn allows(&self, (from, to): (FileId, FileId)) -> bool {
        self.pairs.contains(&(from, to)) || !(self.ends.contains(&from) || self.ends.contains(&to))
    }
}

/// What the threads of a process read and did not write themselves.
struct Threads {
    /// For each thread, how many bytes it read and did not write.
    kept: Vec<u64>,
    /// The bytes of each file that memory accounts for.
    explained: BTreeMap<FileId, u64>,
    /// For each thread, the two files of which other threads read the most bytes that memory does
    /// not account for.
    by_others: Vec<[(u64, Option<FileId>); 2]>,
}

impl Threads {
    fn of(activity: &Activity<'_>) -> Self {
        let mut explained: BTreeMap<FileId, u64> = BTreeMap::new();
        for (&file, &bytes) in activity.threads.iter().flat_map(|thread| &thread.explained) {
            let sum = explained.entry(file).or_default();
            *sum = sum.saturating_add(bytes);
        }
        let by_others = |thread: &ThreadActivity<'_>| {
            let mut most = [(0, None); 2];
            for (file, rows) in &activity.reads {
                let Some(file) = file.filter(|&file| activity.carries_bytes(file)) else {
                    continue;
                };
                let own = thread
                    .reads
                    .get(&Some(file))
                    .map_or(Some(0), |rows| sum_bytes(rows));
                let others = sum_bytes(rows)
                    .zip(own)
                    .map_or(u64::MAX, |(all, own)| all.saturating_sub(own));
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
            kept: activity
                .threads
                .iter()
                .map(|thread| kept(thread, activity))
                .collect(),
            by_others: activity.threads.iter().map(by_others).collect(),
            explained,
        }
    }

    /// The most bytes that other threads read of one file other than this.
    fn most_of_another(&self, thread: usize, file: FileId) -> u64 {
        self.by_others[thread]
            .iter()
            .find(|(_, other)| *other != Some(file))
            .map_or(0, |(bytes, _)| *bytes)
    }

    /// Bytes that other threads read, did not write, and may have handed to this one.
    fn kept_by_others(&self, thread: usize) -> u64 {
        let others = self
            .kept
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != thread);
        others.map(|(_, &bytes)| bytes).fold(0, u64::saturating_add)
    }
}

fn kept(thread: &ThreadActivity<'_>, activity: &Activity<'_>) -> u64 {
    let read = thread
        .reads
        .iter()
        .filter(|(file, _)| activity.is_data(**file));
    let read = read
        .map(|(_, rows)| sum_bytes(rows).unwrap_or(u64::MAX))
        .fold(0, u64::saturating_add);
    let written = thread
        .writes_after
        .values()
        .flatten()
        .flat_map(|(_, rows)| rows)
        .map(|row| row.paired_bytes);
    let written = written
        .chain(thread.explained.values().copied())
        .fold(0, u64::saturating_add);
    read.saturating_sub(written)
}

/// Compares what a thread read with what it wrote.
struct ThreadBalance<'b, 'a> {
    activity: &'b Activity<'a>,
    thread: &'b ThreadActivity<'a>,
    threads: &'b Threads,
    index: usize,
    /// All that was written, by destination. Summed once, because thousands of sources may share a
    /// destination.
    written: BTreeMap<FileId, Written<'b, 'a>>,
    /// What it read and, by the order of its calls, did not write.
    read_meanwhile: ReadMeanwhile,
}

/// What one thread moved from one file to another.
struct ThreadLoop<'b, 'a> {
    from: FileId,
    to: FileId,
    bytes: u64,
    reading: &'b [&'a Row],
    writing: &'b [&'a Row],
}

impl<'b, 'a> ThreadBalance<'b, 'a> {
    fn of(
        activity: &'b Activity<'a>,
        thread: &'b ThreadActivity<'a>,
        threads: &'b Threads,
        index: usize,
    ) -> Self {
        let written = thread
            .writes
            .iter()
            .map(|(&to, rows)| (to, Written::of(rows)))
            .collect();
        let left = |(&file, rows): (&Option<FileId>, &'b Vec<&'a Row>)| {
            let in_turn = file
                .and_then(|file| thread.writes_after.get(&file))
                .into_iter()
                .flatten();
            let in_turn = in_turn
                .flat_map(|(_, rows)| rows)
                .map(|row| row.paired_bytes);
            let explained = file
                .and_then(|file| threads.explained.get(&file))
                .copied()
                .unwrap_or(0);
            let known = in_turn.fold(explained, u64::saturating_add);
            (
                file,
                rows.as_slice(),
                sum_bytes(rows).unwrap_or(u64::MAX).saturating_sub(known),
            )
        };
        let read_meanwhile = ReadMeanwhile::of(thread.reads.iter().map(left), activity);
        Self {
            activity,
            thread,
            threads,
            index,
            written,
            read_meanwhile,
        }
    }

    /// The loops from all sources.
    fn all(&self) -> impl Iterator<Item = ThreadLoop<'b, 'a>> {
        let sources = self
            .thread
            .writes_after
            .keys()
            .filter(|&&from| self.activity.carries_bytes(from));
        sources.flat_map(|&from| self.loops_from(from))
    }

    /// The loops from one source, if its bytes balance.
    fn loops_from(&self, from: FileId) -> Vec<ThreadLoop<'b, 'a>> {
        let reading = self
            .thread
            .reads
            .get(&Some(from))
            .map(Vec::as_slice)
            .unwrap_or_default();

        let Some(read) = self.read(from, reading) else {
            return Vec::new();
        };
        let Some(by_destination) = self.thread.writes_after.get(&from) else {
            return Vec::new();
        };
        let mut candidates: Vec<(FileId, Written)> = by_destination
            .iter()
            .filter(|(to, _)| from != **to && self.activity.carries_bytes(**to))
            .map(|(&to, rows)| (to, Written::of(rows)))
            .filter(|(to, one)| one.covered() && self.is_covered(*to))
            .collect();
        if let Some(whole) = self.whole(from, read, by_destination) {
            candidates = vec![whole];
        }
        let written_on: u64 = candidates
            .iter()
            .map(|(_, one)| one.paired)
            .fold(0, u64::saturating_add);
        let exact = written_on == read && candidates.iter().all(|(_, one)| one.exact());
        let is_many = moving_calls(reading) >= MANY_CALLS
            && candidates
                .iter()
                .map(|(_, one)| moving_calls(one.rows))
                .sum::<u64>()
                >= MANY_CALLS;
        let near = is_many
            && written_on <= read
            && is_most_of(written_on, read)
            && !by_destination.contains_key(&from);
        // Few bytes have nothing in common but their number, unless they begin in the same way.
        let begins_as_read = |row: &&Row| {
            reading
                .iter()
                .any(|read| read.first_bytes.is_telling_match(&row.first_bytes))
        };
        let mut rows = reading
            .iter()
            .chain(candidates.iter().flat_map(|(_, one)| one.rows));
        // A log shows how a vector begins, and not what its other elements have to do with what was
        // read.
        let is_chance =
            !self.activity.sees_memory && rows.any(|row| row.call.spec().requested.is_vector());
        candidates.retain(|(_, one)| read >= LEAST_BYTES || one.rows.iter().all(begins_as_read));
        if read == 0 || is_chance || !(exact || near) {
            return Vec::new();
        }
        let explained = |all: &BTreeMap<FileId, u64>| all.get(&from).copied().unwrap_or(0);
        // Other threads may have written what this one read.
        let written_by_others =
            explained(&self.threads.explained).saturating_sub(explained(&self.thread.explained));
        let doubtful = self
            .threads
            .kept_by_others(self.index)
            .saturating_add(written_by_others);
        let found = |(to, one): (FileId, Written<'b, 'a>)| {
            let doubtful =
                doubtful.saturating_add(self.read_meanwhile.bytes_during(from, reading, one.rows));
            let bytes = one.paired.saturating_sub(doubtful);
            ThreadLoop {
                from,
                to,
                bytes,
                reading,
                writing: one.rows,
            }
        };
        candidates.into_iter().map(found).collect()
    }

    /// Bytes read from a file that memory does not account for. `None` if unknown, or if other
    /// threads read at least 3/4 as much from another file.
    fn read(&self, from: FileId, reading: &[&Row]) -> Option<u64> {
        let read = sum_bytes(reading)?;
        let of_another = self.threads.most_of_another(self.index, from);
        if of_another > 0 && is_most_of(of_another, read) {
            return None;
        }
        Some(read.saturating_sub(self.thread.explained.get(&from).copied().unwrap_or(0)))
    }

    /// Whether most of what was written to this destination had been read somewhere.
    fn is_covered(&self, to: FileId) -> bool {
        self.written.get(&to).is_some_and(|all| all.covered())
    }

    /// The only destination that got exactly as many bytes as were read from this source, and none
    /// of another source. Then writes to other destinations in between, such as progress messages,
    /// came from the program itself.
    ///
    /// Writes without a known source count as well, unless their first bytes differ from those of
    /// every read of the source.
    fn whole(
        &self,
        from: FileId,
        read: u64,
        by_destination: &BTreeMap<FileId, Vec<&'a Row>>,
    ) -> Option<(FileId, Written<'b, 'a>)> {
        let reading = self
            .thread
            .reads
            .get(&Some(from))
            .map(Vec::as_slice)
            .unwrap_or_default();
        let is_from_here = |row: &&Row| match row.ends.input {
            Some(Input::ByOrder(file)) => file == from,
            Some(_) => false,
            None => reading
                .iter()
                .any(|read| !read.first_bytes.differs_from(&row.first_bytes)),
        };
        let is_whole = |to: FileId, all: &Written<'_, '_>| {
            let is_likely = from != to && self.activity.carries_bytes(to) && all.covered();
            is_likely && all.bytes == Some(read) && all.rows.iter().all(is_from_here)
        };
        let ends = by_destination
            .keys()
            .filter_map(|&to| Some((to, *self.written.get(&to)?)));
        let mut found = ends
            .filter(|(to, all)| is_whole(*to, all))
            .map(|(to, all)| {
                (
                    to,
                    Written {
                        paired: read,
                        ..all
                    },
                )
            });
        found.next().filter(|_| found.next().is_none())
    }
}

/// What was written to one destination, from one source or in all.
#[derive(Clone, Copy)]
struct Written<'r, 'a> {
    rows: &'r [&'a Row],
    /// Bytes whose source is known by order.
    paired: u64,
    /// All bytes; `None`: unknown.
    bytes: Option<u64>,
}

impl<'r, 'a> Written<'r, 'a> {
    fn of(rows: &'r [&'a Row]) -> Self {
        Self {
            rows,
            paired: rows
                .iter()
                .map(|row| row.paired_bytes)
                .fold(0, u64::saturating_add),
            bytes: sum_bytes(rows),
        }
    }

    fn exact(self) -> bool {
        self.paired > 0 && self.bytes == Some(self.paired)
    }

    fn covered(self) -> bool {
        self.paired > 0
            && self
                .bytes
                .is_some_and(|bytes| is_most_of(self.paired, bytes))
    }
}
