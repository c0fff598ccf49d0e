//! Where a byte came from, and the books in which every byte that is read or written is entered.

use std::collections::{BTreeMap, HashMap};

use zc_tests::truth::{At, Leg, Moved, Overlaid, Truth, Way};

/// A file, pipe or socket end of the program, by its place in the list.
pub(crate) type Thing = usize;

/// A process of the program, by its place in the list.
pub(crate) type Process = usize;

/// How a call brings bytes to an end.
pub(crate) type Manner = &'static str;

/// Out of memory.
pub(crate) const FROM_MEMORY: Manner = "memory";

/// What became of bytes between the memory that they were brought to and the call that wrote them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Fate {
    /// Nothing.
    Unchanged,
    /// The program copied them to other memory.
    Copied,
    /// The program computed other bytes from them.
    Changed,
}

/// A place that a byte was taken out of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Stop {
    pub(crate) thing: Thing,
    /// The process that wrote it elsewhere; not known before that.
    pub(crate) process: Process,
    /// How that wrote it; likewise.
    pub(crate) manner: Manner,
    pub(crate) fate: Fate,
    /// It was taken by a mapping, and not by a call.
    pub(crate) is_mapped: bool,
}

impl Stop {
    /// How a byte from here is written: out of memory, the byte itself tells whether that is a mapping.
    pub(crate) fn manner_of(&self, call: Manner) -> Manner {
        if call == FROM_MEMORY && self.is_mapped { "mapping" } else { call }
    }
}

/// A list of the places that a byte has been, by its number; [`OWN`] is the empty one.
pub(crate) type Origin = u32;

/// Of bytes that the program or the kernel made.
pub(crate) const OWN: Origin = 0;

/// How many places are remembered of a byte.
const MOST_STOPS: usize = 4;

/// All origins that there are.
#[derive(Debug)]
pub(crate) struct Origins {
    all: Vec<Vec<Stop>>,
    numbers: HashMap<Vec<Stop>, Origin>,
}

impl Origins {
    pub(crate) fn new() -> Self {
        Self { all: vec![Vec::new()], numbers: HashMap::from([(Vec::new(), OWN)]) }
    }

    pub(crate) fn stops(&self, origin: Origin) -> &[Stop] {
        &self.all[origin as usize]
    }

    fn number(&mut self, stops: Vec<Stop>) -> Origin {
        if let Some(&known) = self.numbers.get(&stops) {
            return known;
        }
        let number = Origin::try_from(self.all.len()).expect("there are few");
        self.all.push(stops.clone());
        self.numbers.insert(stops, number);
        number
    }

    /// Of a byte of this origin, once it is taken out of `thing`.
    pub(crate) fn taken_from(&mut self, origin: Origin, thing: Thing, is_mapped: bool) -> Origin {
        let mut stops = self.stops(origin).to_vec();
        if stops.len() == MOST_STOPS {
            stops.remove(0);
        }
        stops.push(Stop { thing, process: 0, manner: "", fate: Fate::Unchanged, is_mapped });
        self.number(stops)
    }

    /// Of a byte that the program handled like this.
    pub(crate) fn handled(&mut self, origin: Origin, fate: Fate) -> Origin {
        self.with_last(origin, |last| last.fate = last.fate.max(fate))
    }

    /// Of a byte that this process wrote in this manner.
    pub(crate) fn written_by(&mut self, origin: Origin, process: Process, manner: Manner) -> Origin {
        self.with_last(origin, |last| (last.process, last.manner) = (process, last.manner_of(manner)))
    }

    fn with_last(&mut self, origin: Origin, change: impl FnOnce(&mut Stop)) -> Origin {
        let mut stops = self.stops(origin).to_vec();
        let Some(last) = stops.last_mut() else { return origin };
        change(last);
        self.number(stops)
    }
}

/// A byte whose value is not known: the kernel chose it.
pub(crate) const ANY_VALUE: u16 = 256;

/// A byte, wherever it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) origin: Origin,
    /// In memory: the origin of what was brought here last. It may have been overwritten by the program.
    pub(crate) under: Origin,
    /// Likewise, its value.
    pub(crate) under_value: u16,
    /// Which of all reads brought it.
    pub(crate) under_read: u32,
    pub(crate) value: u16,
    pub(crate) lender: Lender,
}

/// Who has the page of a byte that a pipe or a socket only refers to: if it changed the byte, the byte in the pipe would change, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lender {
    Nobody,
    Thing(Thing),
    Memory(Process),
}

impl Cell {
    /// Whether what was brought here last had the same value: nobody could tell the two apart.
    pub(crate) fn is_alike(&self) -> bool {
        self.value == self.under_value && self.value != ANY_VALUE
    }

    /// A byte that the program made.
    pub(crate) const fn own(value: u16) -> Self {
        Self { origin: OWN, under: OWN, under_value: value, under_read: 0, value, lender: Lender::Nobody }
    }
}

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
