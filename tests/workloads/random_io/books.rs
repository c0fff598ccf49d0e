//! The books in which a thread enters every call of its own that moves bytes.

use std::collections::{BTreeMap, BTreeSet};

use zc_tests::truth::{BUFFER, MAPPING, MovedBytes, SEQUENCE, Sums, Truth, UsedBytes, UsedSums};

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

/// What calls moved, by file.
type UsedFiles = BTreeMap<EndpointId, UsedSums>;

/// The number of a call, and the first bytes that it moved.
type FirstBytes = (u32, Vec<u8>);

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

/// Counts a call that moved this many bytes. `first`: between a file and memory.
fn count(sums: &mut UsedFiles, endpoint: EndpointId, bytes: usize, first: Option<FirstBytes>) {
    let (bytes, calls) = (bytes as u64, 1);
    let [memory_bytes, memory_calls] = if first.is_some() { [bytes, 1] } else { [0; 2] };
    sums.entry(endpoint).or_default().add(&UsedSums {
        bytes,
        calls,
        memory_bytes,
        memory_calls,
        first,
    });
}

/// Sums up the bytes of one origin that lie side by side in a call to a file, each with whether it
/// differs from what was read.
fn sums_of_run(run: &[(&Cell, bool)], to: EndpointId, was_read: bool) -> Sums {
    let count = |is_meant: &dyn Fn(&Cell, bool) -> bool| {
        let meant = run
            .iter()
            .filter(|(cell, differs)| is_meant(cell, was_read && *differs));
        meant.count() as u64
    };
    let bytes = run.len() as u64;
    let (once, intact) = (
        count(&|cell, _| !cell.is_written_to(to)),
        count(&|_, is_changed| !is_changed),
    );
    let if_changed = |is_it: bool| if intact < bytes && is_it { bytes } else { 0 };
    Sums {
        bytes,
        seen: count(&|cell, _| cell.fill.is_seen),
        once,
        intact,
        once_intact: count(&|cell, is_changed| !is_changed && !cell.is_written_to(to)),
        changed: if_changed(once > 0),
        other_use: if_changed(once < bytes),
        calls: 0,
    }
}

impl Books {
    /// The thread read so many bytes into memory, or peeked at them.
    pub(crate) fn read(
        &mut self,
        from: EndpointId,
        bytes: usize,
        first: FirstBytes,
        is_peek: bool,
    ) {
        if is_peek {
            // It is a call that reads the source, and takes no bytes.
            self.read.entry(from).or_default().memory_calls += 1;
        } else {
            count(&mut self.read, from, bytes, Some(first.clone()));
            self.last_reads.clear();
        }
        self.last_reads.push(ThreadRead {
            endpoint: from,
            bytes,
            first: first.1,
        });
    }

    /// A call that names both ends moved this many bytes.
    pub(crate) fn call(&mut self, [from, to]: [EndpointId; 2], how: &'static str, bytes: usize) {
        count(&mut self.read, from, bytes, None);
        count(&mut self.written, to, bytes, None);
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
    pub(crate) fn write(&mut self, to: EndpointId, cells: &[Cell], look: &MemoryLook, number: u32) {
        let first = Some((number, look.first.clone()));
        count(&mut self.written, to, cells.len(), first);
        let mut of_call: BTreeMap<(EndpointId, &'static str), Sums> = BTreeMap::new();
        let bytes: Vec<(&Cell, bool)> = (cells.iter().zip(&look.is_changed))
            .map(|(cell, is_changed)| (cell, *is_changed))
            .collect();
        for run in bytes.chunk_by(|(one, _), (other, _)| one.fill.origin == other.fill.origin) {
            let from = match run[0].0.fill.origin {
                ByteOrigin::Read(from) => (from, BUFFER),
                ByteOrigin::Mapping(from) => (from, MAPPING),
                ByteOrigin::NoFile => continue,
            };
            let sums = of_call.entry(from).or_default();
            // What maps a file was not read to.
            sums.add(&sums_of_run(run, to, from.1 == BUFFER));
            sums.calls = 1;
            if run.iter().any(|(cell, _)| cell.is_written_to(to)) {
                self.twice.insert((from.0, to));
            }
        }
        for ((from, how), mut sums) in of_call {
            // A word that differs marks all bytes of its file in the call.
            if sums.changed + sums.other_use > 0 {
                sums.changed = sums.bytes;
            }
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
            for (endpoint, more) in others {
                sums.entry(endpoint).or_default().add(&more);
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
        let used = |(&file, sums): (&EndpointId, &UsedSums)| UsedBytes {
            pid,
            file: names[file].clone(),
            sums: sums.clone(),
        };
        let twice = self.twice.iter();
        let read = self.read.iter().filter(|(_, sums)| sums.calls > 0);
        Truth {
            moved: moved.collect(),
            written: self.written.iter().map(used).collect(),
            read: read.map(used).collect(),
            twice: twice
                .map(|&(from, to)| (pid, names[from].clone(), names[to].clone()))
                .collect(),
            ..Truth::default()
        }
    }
}
