//! The books in which a thread enters every call of its own that moves bytes.

use std::collections::{BTreeMap, BTreeSet};

use zc_tests::truth::{BUFFER, MAPPING, MovedBytes, SEQUENCE, Sums, Truth, Used};

use crate::{
    memory::{ByteOrigin, Cell, MemoryLook},
    world::EndpointId,
};

/// A process of the program, as an index.
pub(crate) type ProcessIndex = usize;

/// What a thread has read last.
#[derive(Debug, Clone)]
struct ThreadRead {
    endpoint: EndpointId,
    bytes: usize,
    first: Vec<u8>,
}

/// Bytes and calls, by file.
type UsedFiles = BTreeMap<EndpointId, [u64; 2]>;

/// Everything that was moved so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Books {
    moved: BTreeMap<(EndpointId, EndpointId, &'static str), Sums>,
    written: UsedFiles,
    read: UsedFiles,
    twice: BTreeSet<(EndpointId, EndpointId)>,
    /// After the thread has peeked at something, that, and what it read before.
    last_reads: Vec<ThreadRead>,
}

/// Counts a call that moved this many bytes.
fn count(sums: &mut UsedFiles, endpoint: EndpointId, bytes: usize) {
    let [all, calls] = sums.entry(endpoint).or_default();
    *all += bytes as u64;
    *calls += 1;
}

impl Books {
    /// The thread read so many bytes into memory, or peeked at them.
    pub(crate) fn read(&mut self, from: EndpointId, bytes: usize, first: Vec<u8>, is_peek: bool) {
        if !is_peek {
            count(&mut self.read, from, bytes);
            self.last_reads.clear();
        }
        self.last_reads.push(ThreadRead {
            endpoint: from,
            bytes,
            first,
        });
    }

    /// A call that names both ends moved this many bytes.
    pub(crate) fn call(&mut self, [from, to]: [EndpointId; 2], how: &'static str, bytes: usize) {
        count(&mut self.read, from, bytes);
        count(&mut self.written, to, bytes);
        let bytes = bytes as u64;
        self.add(
            (from, to, how),
            &Sums {
                bytes,
                seen: bytes,
                calls: 1,
                ..Sums::default()
            },
        );
    }

    fn add(&mut self, key: (EndpointId, EndpointId, &'static str), sums: &Sums) {
        self.moved.entry(key).or_default().add(sums);
    }

    /// The thread wrote these bytes from memory.
    pub(crate) fn write(&mut self, to: EndpointId, cells: &[Cell], look: &MemoryLook) {
        count(&mut self.written, to, cells.len());
        let mut of_call: BTreeMap<(EndpointId, &'static str), (Sums, bool)> = BTreeMap::new();
        let mut start = 0;
        for run in cells.chunk_by(|one, other| one.fill == other.fill) {
            let is_changed = &look.is_changed[start..start + run.len()];
            start += run.len();
            let fill = run[0].fill;
            let from = match fill.origin {
                ByteOrigin::Read(from) => (from, BUFFER),
                ByteOrigin::Mapping(from) => (from, MAPPING),
                ByteOrigin::NoFile => continue,
            };
            let (sums, is_any_changed) = of_call.entry(from).or_default();
            let bytes = run.len() as u64;
            sums.add(&Sums {
                bytes,
                seen: if fill.is_seen { bytes } else { 0 },
                reads: BTreeSet::from([fill.number]),
                ..Sums::default()
            });
            // What maps a file was not read to.
            *is_any_changed |= from.1 == BUFFER && is_changed.contains(&true);
            if run.iter().any(|cell| cell.written_to & 1 << to != 0) {
                self.twice.insert((from.0, to));
            }
        }
        for ((from, how), (mut sums, is_any_changed)) in of_call {
            sums.calls = 1;
            sums.changed = if is_any_changed { sums.bytes } else { 0 };
            self.add((from, to, how), &sums);
        }
        self.write_in_sequence(to, cells.len(), &look.first);
    }

    fn write_in_sequence(&mut self, to: EndpointId, bytes: usize, first: &[u8]) {
        let is_it = |last: &&ThreadRead| last.bytes == bytes && first.starts_with(&last.first);
        let likely: Vec<EndpointId> = self
            .last_reads
            .iter()
            .filter(is_it)
            .map(|last| last.endpoint)
            .collect();
        for from in likely {
            let sums = Sums {
                bytes: bytes as u64,
                calls: 1,
                ..Sums::default()
            };
            self.add((from, to, SEQUENCE), &sums);
        }
    }

    /// Adds what another thread of the same process moved.
    pub(crate) fn merge(&mut self, other: Self) {
        for (key, sums) in other.moved {
            self.add(key, &sums);
        }
        for (sums, others) in [
            (&mut self.written, other.written),
            (&mut self.read, other.read),
        ] {
            for (endpoint, [bytes, calls]) in others {
                let known = sums.entry(endpoint).or_default();
                *known = [known[0] + bytes, known[1] + calls];
            }
        }
        self.twice.extend(other.twice);
    }

    /// The record of what this process moved, with the names of endpoints.
    pub(crate) fn truth(&self, names: &[String], pid: u32) -> Truth {
        let moved = self
            .moved
            .iter()
            .map(|(&(from, to, how), sums)| MovedBytes {
                pid,
                from: names[from].clone(),
                to: names[to].clone(),
                how: how.to_owned(),
                sums: sums.clone(),
            });
        let used = |(&file, &[bytes, calls]): (&EndpointId, &[u64; 2])| Used {
            pid,
            file: names[file].clone(),
            bytes,
            calls,
        };
        let twice = self.twice.iter();
        Truth {
            moved: moved.collect(),
            written: self.written.iter().map(used).collect(),
            read: self.read.iter().map(used).collect(),
            twice: twice
                .map(|&(from, to)| (pid, names[from].clone(), names[to].clone()))
                .collect(),
            ..Truth::default()
        }
    }
}
