//! Where a byte came from.

use std::collections::HashMap;

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
