//! The books in which every call that moves bytes is entered.

use std::collections::{BTreeMap, BTreeSet};

use zc_tests::truth::{BUFFER, MAPPING, Moved, SEQUENCE, Sums, Truth, Used};

use crate::{
    memory::{ANY_VALUE, ByteOrigin, Cell},
    world::EndpointId,
};

/// A process of the program, as an index.
pub(crate) type Process = usize;

/// How many of the first bytes strace shows.
const SHOWN: usize = 16;

/// What a thread has read last.
#[derive(Debug)]
struct ThreadRead {
    endpoint: EndpointId,
    bytes: usize,
    shown: Vec<u16>,
}

/// Everything that was moved so far.
#[derive(Debug, Default)]
pub(crate) struct Books {
    moved: BTreeMap<(Process, EndpointId, EndpointId, &'static str), Sums>,
    written: BTreeMap<(Process, EndpointId), [u64; 2]>,
    read: BTreeMap<(Process, EndpointId), [u64; 2]>,
    twice: BTreeSet<(Process, EndpointId, EndpointId)>,
    /// By thread. After it has peeked at something, that, and what it read before.
    last_reads: BTreeMap<usize, Vec<ThreadRead>>,
}

/// Counts a call that moved this many bytes.
fn count(
    sums: &mut BTreeMap<(Process, EndpointId), [u64; 2]>,
    process: Process,
    endpoint: EndpointId,
    bytes: usize,
) {
    let [all, calls] = sums.entry((process, endpoint)).or_default();
    *all += bytes as u64;
    *calls += 1;
}

fn shown(values: impl Iterator<Item = u16>) -> Vec<u16> {
    values.take(SHOWN).collect()
}

impl Books {
    /// A call took this many bytes out of `from`.
    pub(crate) fn take(&mut self, process: Process, from: EndpointId, bytes: usize) {
        count(&mut self.read, process, from, bytes);
    }

    /// A thread read so many bytes into memory, or peeked at them. Then the memory has `values`.
    pub(crate) fn read(
        &mut self,
        actor: usize,
        from: EndpointId,
        bytes: usize,
        values: impl Iterator<Item = u16>,
        is_peek: bool,
    ) {
        let last = self.last_reads.entry(actor).or_default();
        if !is_peek {
            last.clear();
        }
        last.push(ThreadRead {
            endpoint: from,
            bytes,
            shown: shown(values),
        });
    }

    /// A call that names both ends moved this many bytes.
    pub(crate) fn call(
        &mut self,
        process: Process,
        [from, to]: [EndpointId; 2],
        how: &'static str,
        bytes: usize,
    ) {
        count(&mut self.written, process, to, bytes);
        let bytes = bytes as u64;
        self.moved
            .entry((process, from, to, how))
            .or_default()
            .add(&Sums {
                bytes,
                seen: bytes,
                calls: 1,
                ..Sums::default()
            });
    }

    /// A thread wrote these bytes from memory.
    pub(crate) fn write(&mut self, process: Process, actor: usize, to: EndpointId, cells: &[Cell]) {
        count(&mut self.written, process, to, cells.len());
        let mut of_call: BTreeMap<(EndpointId, &'static str), (Sums, bool)> = BTreeMap::new();
        for run in cells.chunk_by(|one, other| one.fill == other.fill) {
            let fill = run[0].fill;
            let from = match fill.origin {
                ByteOrigin::Read(from) => (from, BUFFER),
                ByteOrigin::Mapping(from) => (from, MAPPING),
                ByteOrigin::NoFile => continue,
            };
            let (sums, is_touched) = of_call.entry(from).or_default();
            let bytes = run.len() as u64;
            sums.add(&Sums {
                bytes,
                seen: if fill.is_seen { bytes } else { 0 },
                reads: BTreeSet::from([fill.number]),
                ..Sums::default()
            });
            *is_touched |= run.iter().any(Cell::is_touched);
            if run.iter().any(|cell| cell.written_to & 1 << to != 0) {
                self.twice.insert((process, from.0, to));
            }
        }
        for ((from, how), (mut sums, is_touched)) in of_call {
            sums.calls = 1;
            sums.changed = if is_touched { sums.bytes } else { 0 };
            self.moved
                .entry((process, from, to, how))
                .or_default()
                .add(&sums);
        }
        self.write_in_sequence(process, actor, to, cells);
    }

    fn write_in_sequence(
        &mut self,
        process: Process,
        actor: usize,
        to: EndpointId,
        cells: &[Cell],
    ) {
        let written = shown(cells.iter().map(|cell| cell.value));
        let may_be =
            |(one, other): (&u16, &u16)| one == other || [*one, *other].contains(&ANY_VALUE);
        for last in self.last_reads.get(&actor).into_iter().flatten() {
            if last.bytes == cells.len() && last.shown.iter().zip(&written).all(may_be) {
                let sums = self
                    .moved
                    .entry((process, last.endpoint, to, SEQUENCE))
                    .or_default();
                sums.bytes += last.bytes as u64;
                sums.calls += 1;
            }
        }
    }

    /// The record, with the names of endpoints and the ids of processes.
    pub(crate) fn truth(&self, names: &[String], pids: &[u32]) -> Truth {
        let moved = |(&(process, from, to, how), sums): (
            &(Process, EndpointId, EndpointId, &str),
            &Sums,
        )| Moved {
            pid: pids[process],
            from: names[from].clone(),
            to: names[to].clone(),
            how: how.to_owned(),
            sums: sums.clone(),
        };
        let used =
            |(&(process, file), &[bytes, calls]): (&(Process, EndpointId), &[u64; 2])| Used {
                pid: pids[process],
                file: names[file].clone(),
                bytes,
                calls,
            };
        Truth {
            pids: pids.to_vec(),
            moved: self.moved.iter().map(moved).collect(),
            written: self.written.iter().map(used).collect(),
            read: self.read.iter().map(used).collect(),
            twice: self
                .twice
                .iter()
                .map(|&(process, from, to)| (pids[process], names[from].clone(), names[to].clone()))
                .collect(),
            ..Truth::default()
        }
    }
}
