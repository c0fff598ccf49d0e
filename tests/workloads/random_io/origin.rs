//! The origin of each byte, and the books in which every read and write is entered.

use std::collections::{BTreeMap, HashMap};

use zc_tests::truth::{At, Leg, Moved, Overlaid, Truth, Way};

/// A file, pipe or socket of the program, as an index.
pub(crate) type EndpointId = usize;

/// A process of the program, as an index.
pub(crate) type Process = usize;

/// How a call moves bytes to an end.
pub(crate) type Manner = &'static str;

/// From memory.
pub(crate) const FROM_MEMORY: Manner = "memory";

/// What happened to bytes in memory between the call that read them and the call that wrote them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Fate {
    /// Nothing.
    Unchanged,
    /// The program copied them to other memory.
    Copied,
    /// The program computed other bytes from them.
    Changed,
}

/// An end that a byte was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Stop {
    pub(crate) endpoint: EndpointId,
    /// The process that wrote it to the next end, once it has.
    pub(crate) process: Process,
    /// How that process wrote it, once it has.
    pub(crate) manner: Manner,
    pub(crate) fate: Fate,
    /// Whether it was read through a mapping and not by a call.
    pub(crate) is_mapped: bool,
}

impl Stop {
    /// How a byte from here is written. A write from memory may be one from a mapping, which
    /// depends on the byte.
    pub(crate) fn manner_of(&self, call: Manner) -> Manner {
        if call == FROM_MEMORY && self.is_mapped {
            "mapping"
        } else {
            call
        }
    }
}

/// The number of a list of the ends that a byte has been at. [`OWN`] is the empty list.
pub(crate) type Origin = u32;

/// The origin of bytes that the program or the kernel made.
pub(crate) const OWN: Origin = 0;

/// How many ends are remembered for a byte.
const MOST_STOPS: usize = 4;

/// All origins.
#[derive(Debug)]
pub(crate) struct Origins {
    all: Vec<Vec<Stop>>,
    numbers: HashMap<Vec<Stop>, Origin>,
}

impl Origins {
    pub(crate) fn new() -> Self {
        Self {
            all: vec![Vec::new()],
            numbers: HashMap::from([(Vec::new(), OWN)]),
        }
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

    /// The origin of a byte with this origin after it was read from `endpoint`.
    pub(crate) fn taken_from(
        &mut self,
        origin: Origin,
        endpoint: EndpointId,
        is_mapped: bool,
    ) -> Origin {
        let mut stops = self.stops(origin).to_vec();
        if stops.len() == MOST_STOPS {
            stops.remove(0);
        }
        stops.push(Stop {
            endpoint,
            process: 0,
            manner: "",
            fate: Fate::Unchanged,
            is_mapped,
        });
        self.number(stops)
    }

    /// The origin of a byte after the program copied or changed it.
    pub(crate) fn handled(&mut self, origin: Origin, fate: Fate) -> Origin {
        self.with_last(origin, |last| last.fate = last.fate.max(fate))
    }

    /// The origin of a byte after this process wrote it in this manner.
    pub(crate) fn written_by(
        &mut self,
        origin: Origin,
        process: Process,
        manner: Manner,
    ) -> Origin {
        self.with_last(origin, |last| {
            (last.process, last.manner) = (process, last.manner_of(manner))
        })
    }

    fn with_last(&mut self, origin: Origin, change: impl FnOnce(&mut Stop)) -> Origin {
        let mut stops = self.stops(origin).to_vec();
        let Some(last) = stops.last_mut() else {
            return origin;
        };
        change(last);
        self.number(stops)
    }
}

/// The value of a byte that the kernel chose, so that it is not known.
pub(crate) const ANY_VALUE: u16 = 256;

/// A byte in a file, a pipe, a socket or memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) origin: Origin,
    /// In memory: the origin of what was last read to here. The program may have overwritten it.
    pub(crate) under: Origin,
    /// The value of that.
    pub(crate) under_value: u16,
    /// The number of that read.
    pub(crate) under_read: u32,
    pub(crate) value: u16,
    pub(crate) lender: Lender,
}

/// The owner of the page that a byte in a pipe or a socket refers to. If the owner changed its
/// byte, that in the pipe would change, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lender {
    Nobody,
    Endpoint(EndpointId),
    Memory(Process),
}

impl Cell {
    /// Whether the byte that was last read to here had the same value, so that no tracer can tell
    /// the two apart.
    pub(crate) fn is_alike(&self) -> bool {
        self.value == self.under_value && self.value != ANY_VALUE
    }

    /// A byte that the program made.
    pub(crate) const fn own(value: u16) -> Self {
        Self {
            origin: OWN,
            under: OWN,
            under_value: value,
            under_read: 0,
            value,
            lender: Lender::Nobody,
        }
    }
}

/// The program's memory as the source of `vmsplice`, which is not an endpoint.
const MEMORY: EndpointId = EndpointId::MAX;

/// The steps of a way: the process, the end that it took the bytes from, and the manner.
type Path = Vec<(Process, EndpointId, Manner)>;

/// Everything that was moved so far.
#[derive(Debug, Default)]
pub(crate) struct Books {
    legs: BTreeMap<(Process, EndpointId, EndpointId, Manner), Moved>,
    ways: BTreeMap<(Path, EndpointId), Moved>,
    written: BTreeMap<(Process, EndpointId), u64>,
    own: BTreeMap<(Process, EndpointId), u64>,
    read: BTreeMap<(Process, EndpointId), u64>,
    overlaid: BTreeMap<(Process, EndpointId, EndpointId), [u64; 2]>,
}

impl Books {
    /// A call read this many bytes from `endpoint`.
    pub(crate) fn read(&mut self, process: Process, endpoint: EndpointId, bytes: usize) {
        if bytes > 0 {
            *self.read.entry((process, endpoint)).or_default() += bytes as u64;
        }
    }

    /// A call wrote these bytes to `to`.
    pub(crate) fn write(
        &mut self,
        origins: &Origins,
        process: Process,
        to: EndpointId,
        manner: Manner,
        cells: &[Cell],
    ) {
        if cells.is_empty() {
            return;
        }
        let mut groups: HashMap<(Origin, Origin, bool), u64> = HashMap::new();
        for cell in cells {
            *groups
                .entry((cell.origin, cell.under, cell.is_alike()))
                .or_default() += 1;
        }
        *self.written.entry((process, to)).or_default() += cells.len() as u64;
        for ((origin, under, is_alike), bytes) in groups {
            self.enter(origins.stops(origin), process, to, manner, bytes);
            let last = origins.stops(origin).last();
            // Only memory can have held something else before.
            let under = if manner == FROM_MEMORY {
                origins.stops(under).last()
            } else {
                None
            };
            if let Some(under) = under.filter(|under| {
                last.is_none_or(|last| {
                    last.endpoint != under.endpoint || last.fate == Fate::Changed
                })
            }) {
                let of = self
                    .overlaid
                    .entry((process, under.endpoint, to))
                    .or_default();
                of[0] += bytes;
                of[1] += if is_alike { bytes } else { 0 };
            }
        }
    }

    fn enter(
        &mut self,
        stops: &[Stop],
        process: Process,
        to: EndpointId,
        manner: Manner,
        bytes: u64,
    ) {
        let is_lent = manner == "vmsplice";
        if is_lent {
            // All bytes come from memory. Only the program's own bytes come from nowhere before
            // that.
            let fate = if stops.is_empty() {
                Fate::Unchanged
            } else {
                Fate::Changed
            };
            *self.legs.entry((process, MEMORY, to, manner)).or_default() = self
                .leg(process, MEMORY, to, manner)
                .plus(moved(fate, bytes));
        }
        let Some(last) = stops.last() else {
            *self.own.entry((process, to)).or_default() += bytes;
            return;
        };
        let manner = last.manner_of(manner);
        let leg = self
            .leg(process, last.endpoint, to, manner)
            .plus(moved(last.fate, bytes));
        self.legs.insert((process, last.endpoint, to, manner), leg);
        for first in 0..stops.len() - 1 {
            let stops = &stops[first..];
            let fate = stops
                .iter()
                .map(|stop| stop.fate)
                .max()
                .expect("it has several");
            let inner = &stops[..stops.len() - 1];
            let through = inner
                .iter()
                .map(|stop| (stop.process, stop.endpoint, stop.manner))
                .chain([(process, last.endpoint, manner)])
                .collect();
            let way = self.ways.entry((through, to)).or_default();
            *way = way.plus(moved(fate, bytes));
        }
    }

    fn leg(&self, process: Process, from: EndpointId, to: EndpointId, manner: Manner) -> Moved {
        self.legs
            .get(&(process, from, to, manner))
            .copied()
            .unwrap_or_default()
    }

    /// The record, with the names of endpoints and the ids of processes.
    pub(crate) fn truth(&self, names: &[String], pids: &[u32]) -> Truth {
        let name = |endpoint: EndpointId| {
            names
                .get(endpoint)
                .cloned()
                .unwrap_or_else(|| "memory".to_owned())
        };
        let at = |sums: &BTreeMap<(Process, EndpointId), u64>| {
            sums.iter()
                .map(|(&(process, endpoint), &bytes)| At {
                    pid: pids[process],
                    end: name(endpoint),
                    bytes,
                })
                .collect()
        };
        let leg = |(&(process, from, to, manner), &moved): (&(_, _, _, Manner), &Moved)| Leg {
            pid: pids[process],
            from: name(from),
            to: name(to),
            manner: manner.to_owned(),
            moved,
        };
        let way = |((through, to), &moved): (&(Path, EndpointId), &Moved)| Way {
            through: through
                .iter()
                .map(|&(process, endpoint, manner)| {
                    (pids[process], name(endpoint), manner.to_owned())
                })
                .collect(),
            to: name(*to),
            moved,
        };
        let overlaid = |(&(process, from, to), &[bytes, alike]): (
            &(Process, EndpointId, EndpointId),
            &[u64; 2],
        )| Overlaid {
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
        Fate::Unchanged => Moved {
            unchanged: bytes,
            ..none
        },
        Fate::Copied => Moved {
            copied: bytes,
            ..none
        },
        Fate::Changed => Moved {
            changed: bytes,
            ..none
        },
    }
}
