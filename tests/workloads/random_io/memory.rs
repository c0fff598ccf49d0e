//! The address model: for each byte of an address space, which call put it there last, its value
//! then, and its value now.

use crate::world::EndpointId;

/// The value of a byte that the program does not know.
pub(crate) const ANY_VALUE: u16 = 256;

/// How many ranges of an address space zctrace remembers.
const MOST_RANGES: usize = 24;

/// How many elements of a vector zctrace looks at.
const MOST_ELEMENTS: usize = 16;

/// Where the bytes came from that a call put into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteOrigin {
    /// No file, or nobody has put anything there.
    NoFile,
    /// A read of this file.
    Read(EndpointId),
    /// A mapping of this file.
    Mapping(EndpointId),
}

/// The call that filled memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryFill {
    pub(crate) origin: ByteOrigin,
    /// The number of the call.
    pub(crate) number: u32,
    /// Whether zctrace must know it.
    pub(crate) is_seen: bool,
}

/// A byte of memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) value: u16,
    pub(crate) fill: MemoryFill,
    /// Its value when the call filled it.
    filled: u16,
    /// Whether the program stored something there since.
    is_stored: bool,
    /// The files that calls have written it to since, as bits.
    pub(crate) written_to: u32,
}

impl Cell {
    /// A byte that a call has put into memory.
    fn filled(value: u16, fill: MemoryFill) -> Self {
        Self {
            value,
            fill,
            filled: value,
            is_stored: false,
            written_to: 0,
        }
    }

    /// Whether the program may have changed it since it was filled.
    pub(crate) fn is_touched(&self) -> bool {
        let is_known = self.value != ANY_VALUE && self.filled != ANY_VALUE;
        self.is_stored && !(is_known && self.value == self.filled)
    }
}

/// A byte that was always zero.
const ZERO: Cell = Cell {
    value: 0,
    fill: MemoryFill {
        origin: ByteOrigin::NoFile,
        number: 0,
        is_seen: true,
    },
    filled: 0,
    is_stored: false,
    written_to: 0,
};

/// A region of an address space.
#[derive(Debug, Clone)]
pub(crate) struct Region {
    pub(crate) start: usize,
    pub(crate) cells: Vec<Cell>,
    /// Whether the program or a call put other bytes into it: then a private mapping has pages of
    /// its own, and zctrace need not take it for the file.
    is_dirty: bool,
}

impl Region {
    /// Memory that nobody has used yet.
    pub(crate) fn zeroes(start: usize, length: usize) -> Self {
        Self {
            start,
            cells: vec![ZERO; length],
            is_dirty: false,
        }
    }

    /// A new private mapping of a file, with zeroes to the end of the last page.
    pub(crate) fn mapping(start: usize, length: usize, from: EndpointId, bytes: &[u16]) -> Self {
        let mut region = Self::zeroes(start, length);
        let fill = MemoryFill {
            origin: ByteOrigin::Mapping(from),
            ..ZERO.fill
        };
        for (cell, &value) in region.cells.iter_mut().zip(bytes) {
            *cell = Cell::filled(value, fill);
        }
        region
    }
}

/// A range of memory in one region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryPiece {
    pub(crate) region: usize,
    pub(crate) offset: usize,
    pub(crate) length: usize,
}

/// The parts of these pieces that a call uses that moves this many bytes.
fn used(pieces: &[MemoryPiece], bytes: usize) -> impl Iterator<Item = MemoryPiece> {
    pieces.iter().scan(bytes, |left, piece| {
        let length = piece.length.min(*left);
        *left -= length;
        Some(MemoryPiece { length, ..*piece })
    })
}

/// The memory of a process: the first region is plain memory, the others are mappings.
#[derive(Debug, Clone)]
pub(crate) struct AddressSpace {
    pub(crate) regions: Vec<Region>,
    /// The ranges that calls have filled, as their ends; they do not overlap.
    ranges: Vec<[usize; 2]>,
    /// Whether there were more ranges at a time than zctrace remembers.
    pub(crate) is_forgetful: bool,
}

impl AddressSpace {
    pub(crate) fn new(memory: Region) -> Self {
        Self {
            regions: vec![memory],
            ranges: Vec::new(),
            is_forgetful: false,
        }
    }

    /// The memory of a child. What its creator has read was not read in this address space.
    pub(crate) fn inherited(&self) -> Self {
        let mut child = Self::new(self.regions[0].clone());
        child.regions.extend_from_slice(&self.regions[1..]);
        for cell in child
            .regions
            .iter_mut()
            .flat_map(|region| &mut region.cells)
        {
            if let ByteOrigin::Read(_) = cell.fill.origin {
                cell.fill.origin = ByteOrigin::NoFile;
            }
        }
        child
    }

    /// The cells of a piece.
    pub(crate) fn cells(&self, piece: MemoryPiece) -> &[Cell] {
        &self.regions[piece.region].cells[piece.offset..piece.offset + piece.length]
    }

    fn cells_mut(&mut self, piece: MemoryPiece) -> &mut [Cell] {
        &mut self.regions[piece.region].cells[piece.offset..piece.offset + piece.length]
    }

    /// The address of a piece.
    pub(crate) fn address(&self, piece: MemoryPiece) -> usize {
        self.regions[piece.region].start + piece.offset
    }

    /// A call puts these bytes into these pieces, in order.
    pub(crate) fn fill(
        &mut self,
        pieces: &[MemoryPiece],
        values: &[u16],
        origin: ByteOrigin,
        number: u32,
    ) {
        let mut values = values.iter();
        for (index, piece) in used(pieces, values.len()).enumerate() {
            let fill = MemoryFill {
                origin,
                number,
                is_seen: index < MOST_ELEMENTS,
            };
            for (cell, &value) in self.cells_mut(piece).iter_mut().zip(&mut values) {
                *cell = Cell::filled(value, fill);
            }
            self.regions[piece.region].is_dirty = true;
            self.forget_written_behind(piece, origin);
            // What went beyond may be anywhere, so zctrace forgets everything.
            self.is_forgetful |= !fill.is_seen && piece.length > 0;
            self.note_range(piece);
        }
    }

    /// Of a buffer that is filled anew, zctrace forgets what was written and lies behind.
    fn forget_written_behind(&mut self, piece: MemoryPiece, origin: ByteOrigin) {
        let end = piece.offset + piece.length;
        for cell in &mut self.regions[piece.region].cells[end..] {
            if cell.fill.origin != origin || cell.written_to == 0 {
                break;
            }
            cell.fill.is_seen = false;
        }
    }

    /// Notes a range that was filled, in place of what was there.
    fn note_range(&mut self, piece: MemoryPiece) {
        let start = self.address(piece);
        let end = start + piece.length;
        let outside = |[from, to]: [usize; 2]| [[from, to.min(start)], [from.max(end), to]];
        let known = self.ranges.iter().copied().flat_map(outside);
        self.ranges = known
            .chain([[start, end]])
            .filter(|[from, to]| from < to)
            .collect();
        self.is_forgetful |= self.ranges.len() > MOST_RANGES;
    }

    /// The program stores these bytes in a piece.
    pub(crate) fn store(&mut self, piece: MemoryPiece, values: &[u16]) {
        for (cell, &value) in self.cells_mut(piece).iter_mut().zip(values) {
            (cell.value, cell.is_stored) = (value, true);
        }
        self.regions[piece.region].is_dirty = true;
    }

    /// The bytes that a call writes from these pieces to a file, in order.
    pub(crate) fn write(
        &mut self,
        pieces: &[MemoryPiece],
        bytes: usize,
        to: EndpointId,
    ) -> Vec<Cell> {
        let mut written = Vec::with_capacity(bytes);
        // Of several mappings in a call, only the first counts.
        let mut mappings = pieces.iter().map(|piece| piece.region);
        let first = mappings.find(|region| *region > 0);
        for (index, piece) in used(pieces, bytes).enumerate() {
            let is_clean = !self.regions[piece.region].is_dirty && first == Some(piece.region);
            for cell in self.cells_mut(piece) {
                let mut now = *cell;
                cell.written_to |= 1 << to;
                let can_see = matches!(now.fill.origin, ByteOrigin::Read(_)) || is_clean;
                now.fill.is_seen &= can_see && index < MOST_ELEMENTS;
                written.push(now);
            }
        }
        written
    }

    /// Whether the memory has the values that the program thinks it has.
    pub(crate) fn is_as_known(&self, piece: MemoryPiece) -> bool {
        let address = self.address(piece) as *const u8;
        // SAFETY: the region has this much readable memory, and nobody changes it at the moment.
        let bytes = unsafe { std::slice::from_raw_parts(address, piece.length) };
        let is_it =
            |(&byte, cell): (&u8, &Cell)| [ANY_VALUE, u16::from(byte)].contains(&cell.value);
        bytes.iter().zip(self.cells(piece)).all(is_it)
    }
}

/// The values of these cells.
pub(crate) fn values(cells: &[Cell]) -> Vec<u16> {
    cells.iter().map(|cell| cell.value).collect()
}
