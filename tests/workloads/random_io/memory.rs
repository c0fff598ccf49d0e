//! The address model: for each byte of an address space, which call put it there last. The values
//! are those of the real memory. A copy of the bytes that reads put there, the shadow, tells which
//! of them the program has changed since.

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use crate::world::EndpointId;

/// The address of the plain memory of each process.
pub(crate) const ARENA: usize = 0x1000_0000_0000;

/// The length of that memory. Nothing is mapped behind it.
pub(crate) const ARENA_BYTES: usize = 160 << 10;

/// The address of the first mapping of a file, and the distance between mappings.
pub(crate) const MAPPINGS: usize = ARENA + MAPPING_DISTANCE;
pub(crate) const MAPPING_DISTANCE: usize = 0x100_0000;

/// The most files that a process maps at the same time.
pub(crate) const MAX_MAPPINGS: usize = 3;

/// How far the shadow of a byte is from the byte.
const SHADOW: usize = 0x0800_0000_0000;

/// How many of the first bytes strace shows.
const SHOWN: usize = 16;

/// How many ranges of an address space zctrace remembers.
const MAX_RANGES: usize = 48;

/// How many elements of a vector zctrace looks at.
const MAX_ELEMENTS: usize = 16;

/// Maps the plain memory, and the shadow of that and of all mappings. Whether there was room.
pub(crate) fn map_memory() -> bool {
    let shadow_bytes = MAPPING_DISTANCE * (MAX_MAPPINGS + 2);
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
    let memories = [(ARENA, ARENA_BYTES), (ARENA + SHADOW, shadow_bytes)];
    memories.into_iter().all(|(start, length)| {
        // SAFETY: if something else is mapped there, the call fails.
        let at = unsafe { mmap_anonymous(start as *mut _, length, access, flags) };
        at.is_ok_and(|at| at as usize == start)
    })
}

/// The bytes in these parts of memory, and those of their shadow, in order.
fn bytes_and_shadow(vector: &[libc::iovec]) -> impl Iterator<Item = (u8, *mut u8)> {
    let addresses = |part: &libc::iovec| {
        let start = part.iov_base as usize;
        start..start + part.iov_len
    };
    vector.iter().flat_map(addresses).map(|address| {
        // SAFETY: the vector names memory of regions, which nobody changes at the moment.
        let byte = unsafe { (address as *const u8).read() };
        (byte, (address + SHADOW) as *mut u8)
    })
}

/// Remembers what a read of so many bytes has put into these parts of memory. Returns the first of
/// them.
pub(crate) fn remember(vector: &[libc::iovec], bytes: usize) -> Vec<u8> {
    let mut first = Vec::new();
    for (byte, shadow) in bytes_and_shadow(vector).take(bytes) {
        // SAFETY: all regions have a shadow, and nobody else uses that at the moment.
        unsafe { shadow.write(byte) };
        if first.len() < SHOWN {
            first.push(byte);
        }
    }
    first
}

/// What is in memory when a call is about to write it.
pub(crate) struct MemoryLook {
    /// The first bytes.
    pub(crate) first: Vec<u8>,
    /// Which bytes differ from what the last read has put there.
    pub(crate) is_changed: Vec<bool>,
}

/// Looks at these parts of memory.
pub(crate) fn look_at(vector: &[libc::iovec]) -> MemoryLook {
    let first = bytes_and_shadow(vector).take(SHOWN).map(|(byte, _)| byte);
    // SAFETY: all regions have a shadow.
    let differs = |(byte, shadow): (u8, *mut u8)| unsafe { shadow.read() } != byte;
    MemoryLook {
        first: first.collect(),
        is_changed: bytes_and_shadow(vector).map(differs).collect(),
    }
}

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
    /// Whether zctrace must know it.
    pub(crate) is_seen: bool,
}

/// A byte of memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) fill: MemoryFill,
    /// The files that calls have written it to since, as bits.
    pub(crate) written_to: u32,
}

impl Cell {
    const fn new(fill: MemoryFill) -> Self {
        Self {
            fill,
            written_to: 0,
        }
    }

    /// Whether a call has written it to this file since it was filled.
    pub(crate) const fn is_written_to(&self, file: EndpointId) -> bool {
        self.written_to & 1 << file != 0
    }
}

/// Memory that nobody has filled.
const UNUSED: MemoryFill = MemoryFill {
    origin: ByteOrigin::NoFile,
    is_seen: true,
};

/// A region of an address space.
#[derive(Debug, Clone)]
pub(crate) struct Region {
    pub(crate) start: usize,
    pub(crate) cells: Vec<Cell>,
    /// Whether the program or a call put other bytes into it: then a private mapping has pages of
    /// its own, and zctrace need not take it for the file.
    pub(crate) is_dirty: bool,
}

impl Region {
    /// Memory that nobody has used yet.
    fn unused(start: usize, length: usize) -> Self {
        Self {
            start,
            cells: vec![Cell::new(UNUSED); length],
            is_dirty: false,
        }
    }

    /// A new private mapping of so many bytes of a file, with zeroes to the end of the last page.
    pub(crate) fn mapping(start: usize, from: EndpointId, bytes: usize) -> Self {
        let mut region = Self::unused(start, bytes.next_multiple_of(4096));
        let origin = ByteOrigin::Mapping(from);
        region.cells[..bytes].fill(Cell::new(MemoryFill { origin, ..UNUSED }));
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

/// The part of each of these pieces that belongs to the `bytes` bytes from byte `from` on; nothing
/// is left of some.
pub(crate) fn parts(
    pieces: &[MemoryPiece],
    from: usize,
    bytes: usize,
) -> impl Iterator<Item = MemoryPiece> {
    let (mut skip, mut left) = (from, bytes);
    pieces.iter().map(move |piece| {
        let skipped = skip.min(piece.length);
        skip -= skipped;
        let length = (piece.length - skipped).min(left);
        left -= length;
        let offset = piece.offset + skipped;
        MemoryPiece {
            offset,
            length,
            ..*piece
        }
    })
}

/// The memory of a process: the first region is plain memory, the others are mappings.
#[derive(Debug, Clone)]
pub(crate) struct AddressSpace {
    pub(crate) regions: Vec<Region>,
    /// The ranges that calls have filled, as their ends; they do not overlap.
    ranges: Vec<[usize; 2]>,
    /// Whether a call put bytes where zctrace does not look, so that it forgets everything.
    pub(crate) is_forgetful: bool,
    /// Whether there were more ranges at a time than zctrace remembers.
    pub(crate) is_crowded: bool,
}

impl AddressSpace {
    pub(crate) fn new() -> Self {
        Self {
            regions: vec![Region::unused(ARENA, ARENA_BYTES)],
            ranges: Vec::new(),
            is_forgetful: false,
            is_crowded: false,
        }
    }

    /// The memory of a child. What its creator has read was not read in this address space.
    pub(crate) fn inherited(&self) -> Self {
        let mut regions = self.regions.clone();
        for cell in regions.iter_mut().flat_map(|region| &mut region.cells) {
            if let ByteOrigin::Read(_) = cell.fill.origin {
                cell.fill.origin = ByteOrigin::NoFile;
            }
        }
        Self {
            regions,
            ..Self::new()
        }
    }

    fn cells_mut(&mut self, piece: MemoryPiece) -> &mut [Cell] {
        &mut self.regions[piece.region].cells[piece.offset..piece.offset + piece.length]
    }

    /// The address of a piece.
    pub(crate) fn address(&self, piece: MemoryPiece) -> usize {
        self.regions[piece.region].start + piece.offset
    }

    /// A call puts so many bytes into these pieces, in order.
    pub(crate) fn fill(&mut self, pieces: &[MemoryPiece], bytes: usize, origin: ByteOrigin) {
        for (index, piece) in parts(pieces, 0, bytes).enumerate() {
            let is_seen = index < MAX_ELEMENTS;
            let fill = MemoryFill { origin, is_seen };
            self.forget_written_beside(piece);
            self.cells_mut(piece).fill(Cell::new(fill));
            self.regions[piece.region].is_dirty = true;
            // What went beyond may be anywhere, so zctrace forgets everything.
            self.is_forgetful |= !is_seen && piece.length > 0;
            self.note_range(piece);
        }
    }

    /// A call may put something into all of this memory. When it is entered, zctrace forgets what was
    /// read there, also what the call then leaves as it is.
    pub(crate) fn forget_read(&mut self, piece: MemoryPiece) {
        self.forget_written_beside(piece);
        self.note_range(piece);
        for cell in self.cells_mut(piece) {
            cell.fill.is_seen &= !matches!(cell.fill.origin, ByteOrigin::Read(_));
        }
    }

    /// When a part of a buffer that was written whole is filled, zctrace forgets all of it: what is
    /// left before the part and behind it.
    fn forget_written_beside(&mut self, piece: MemoryPiece) {
        let end = piece.offset + piece.length;
        let (before, rest) = self.regions[piece.region].cells.split_at_mut(piece.offset);
        let (filled, behind) = rest.split_at_mut(end - piece.offset);
        let (Some(first), Some(last)) = (filled.first(), filled.last()) else {
            return;
        };
        let is_rest = |cell: &Cell, of: &Cell| {
            cell.fill.origin == of.fill.origin && cell.written_to != 0 && of.written_to != 0
        };
        let before = before.iter_mut().rev();
        let behind = behind.iter_mut();
        let before = before.take_while(|cell| is_rest(cell, first));
        for cell in before.chain(behind.take_while(|cell| is_rest(cell, last))) {
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
        self.is_crowded |= self.ranges.len() > MAX_RANGES;
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
        for (index, piece) in parts(pieces, 0, bytes).enumerate() {
            let is_clean = !self.regions[piece.region].is_dirty && first == Some(piece.region);
            for cell in self.cells_mut(piece) {
                let mut now = *cell;
                cell.written_to |= 1 << to;
                let can_see = matches!(now.fill.origin, ByteOrigin::Read(_)) || is_clean;
                now.fill.is_seen &= can_see && index < MAX_ELEMENTS;
                written.push(now);
            }
        }
        written
    }
}
