//! Keeps the truth: every byte that is read or written is entered here.

use std::collections::{BTreeMap, HashMap};

use zc_tests::truth::{At, Leg, Moved, Overlaid, Truth, Way};

use crate::origin::{Cell, FROM_MEMORY, Fate, Manner, Origin, Origins, Process, Stop, Thing};

/// What is not a thing: the program's memory, as the source of `vmsplice`.
const MEMORY: Thing = Thing::MAX;

/// Who took bytes on from which ends, and how.
type Path = Vec<(Process, Thing, Manner)>;

/// What was moved so far.
#[derive(Debug, Default)]
pub(crate) struct Books {
    legs: BTreeMap<(Process, Thing, Thing, Manner), Moved>,
    ways: BTreeMap<(Path, Thing), Moved>,
    written: BTreeMap<(Process, Thing), u64>,
    own: BTreeMap<(Process, Thing), u64>,
    read: BTreeMap<(Process, Thing), u64>,
    overlaid: BTreeMap<(Process, Thing, Thing), [u64; 2]>,
}

impl Books {
    /// A call took so many bytes out of `thing`.
    pub(crate) fn read(&mut self, process: Process, thing: Thing, bytes: usize) {
        if bytes > 0 {
            *self.read.entry((process, thing)).or_default() += bytes as u64;
        }
    }

    /// A call wrote these bytes to `to`.
    pub(crate) fn write(&mut self, origins: &Origins, process: Process, to: Thing, manner: Manner, cells: &[Cell]) {
        if cells.is_empty() {
            return;
        }
        let mut groups: HashMap<(Origin, Origin, bool), u64> = HashMap::new();
        for cell in cells {
            *groups.entry((cell.origin, cell.under, cell.is_alike())).or_default() += 1;
        }
        *self.written.entry((process, to)).or_default() += cells.len() as u64;
        for ((origin, under, is_alike), bytes) in groups {
            self.enter(origins.stops(origin), process, to, manner, bytes);
            let last = origins.stops(origin).last();
            // Only what lies in memory can hide something else.
            let under = if manner == FROM_MEMORY { origins.stops(under).last() } else { None };
            if let Some(under) =
                under.filter(|under| last.is_none_or(|last| last.thing != under.thing || last.fate == Fate::Changed))
            {
                let of = self.overlaid.entry((process, under.thing, to)).or_default();
                of[0] += bytes;
                of[1] += if is_alike { bytes } else { 0 };
            }
        }
    }

    fn enter(&mut self, stops: &[Stop], process: Process, to: Thing, manner: Manner, bytes: u64) {
        let is_lent = manner == "vmsplice";
        if is_lent {
            // Whatever lay in memory: only the program's own bytes come from nowhere else.
            let fate = if stops.is_empty() { Fate::Unchanged } else { Fate::Changed };
            *self.legs.entry((process, MEMORY, to, manner)).or_default() =
                self.leg(process, MEMORY, to, manner).plus(moved(fate, bytes));
        }
        let Some(last) = stops.last() else {
            *self.own.entry((process, to)).or_default() += bytes;
            return;
        };
        let manner = last.manner_of(manner);
        let leg = self.leg(process, last.thing, to, manner).plus(moved(last.fate, bytes));
        self.legs.insert((process, last.thing, to, manner), leg);
        for first in 0..stops.len() - 1 {
            let stops = &stops[first..];
            let fate = stops.iter().map(|stop| stop.fate).max().expect("it has several");
            let inner = &stops[..stops.len() - 1];
            let through =
                inner.iter().map(|stop| (stop.process, stop.thing, stop.manner)).chain([(process, last.thing, manner)]).collect();
            let way = self.ways.entry((through, to)).or_default();
            *way = way.plus(moved(fate, bytes));
        }
    }

    fn leg(&self, process: Process, from: Thing, to: Thing, manner: Manner) -> Moved {
        self.legs.get(&(process, from, to, manner)).copied().unwrap_or_default()
    }

    /// The truth, with the names of things and the ids of processes.
    pub(crate) fn told(&self, names: &[String], pids: &[u32]) -> Truth {
        let name = |thing: Thing| names.get(thing).cloned().unwrap_or_else(|| "memory".to_owned());
        let at = |sums: &BTreeMap<(Process, Thing), u64>| {
            sums.iter().map(|(&(process, thing), &bytes)| At { pid: pids[process], end: name(thing), bytes }).collect()
        };
        let leg = |(&(process, from, to, manner), &moved): (&(_, _, _, Manner), &Moved)| Leg {
            pid: pids[process],
            from: name(from),
            to: name(to),
            manner: manner.to_owned(),
            moved,
        };
        let way = |((through, to), &moved): (&(Path, Thing), &Moved)| Way {
            through: through.iter().map(|&(process, thing, manner)| (pids[process], name(thing), manner.to_owned())).collect(),
            to: name(*to),
            moved,
        };
        let overlaid = |(&(process, from, to), &[bytes, alike]): (&(Process, Thing, Thing), &[u64; 2])| Overlaid {
            pid: pids[process],
            from: name(from),
            to: name(to),
            bytes,
            alike,
        };
        Truth {
            pids: pids.to_vec(),
            legs: self.legs.iter().map(leg).collect(),
            ways: self.ways.iter().map(way).collect(),
            written: at(&self.written),
            own: at(&self.own),
            read: at(&self.read),
            overlaid: self.overlaid.iter().map(overlaid).collect(),
            ..Truth::default()
        }
    }
}

fn moved(fate: Fate, bytes: u64) -> Moved {
    let none = Moved::default();
    match fate {
        Fate::Unchanged => Moved { unchanged: bytes, ..none },
        Fate::Copied => Moved { copied: bytes, ..none },
        Fate::Changed => Moved { changed: bytes, ..none },
    }
}
