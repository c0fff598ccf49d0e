//! Where in an address space reads have put the bytes of files.
//!
//! A read fills a [`Range`], and whatever else the kernel writes into that memory cuts it. A write
//! has its bytes from the files of the ranges in which they lie.
//!
//! The extern functions here are global functions of the kernel side, so that the verifier checks
//! each of them once.

#![expect(clippy::cast_possible_truncation, reason = "there are few ranges")]

use super::range::Range;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::{
    FileNumber, Origin, RowKey, argument,
    opaque::{if_set, is_less, is_not_zero, opaque},
    repeat::repeat,
};

/// How many ranges of an address space are remembered.
pub const RANGES: usize = 48;

/// How many origins of one call are distinguished.
pub const ORIGINS: usize = 8;

/// What is known about an address space. All zeroes: nothing was read yet.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, Immutable, IntoBytes)]
pub struct Memory {
    /// How many ranges may be in use: those from this index on are not.
    pub used: u32,
    /// How many reads have filled memory so far. It wraps.
    pub reads: u32,
    /// The file of a range that was forgotten to make room for another one, [`SEVERAL`] for those of
    /// two files. Whoever counts it sets it back to 0.
    pub forgotten: FileNumber,
    /// While a read is added: the range that it fills, or makes longer. It is here because the
    /// verifier would follow every value that a variable can have.
    found: u32,
    /// How many of the origins are in use.
    pub origins_used: u32,
    /// How many times there was no room for an origin. Whoever counts that sets it back.
    pub origins_lost: u32,
    /// While a place is looked for: the range that is needed least so far, and how little.
    place: u64,
    rank: u64,
    /// What the call under way does.
    pub exchange: Exchange,
    /// While an origin, or a part, is added: what is added.
    pub added: Origin,
    /// While memory is removed from the ranges: what is behind it of a range that it divides.
    rest: Range,
    /// Where the bytes of the call under way came from.
    pub origins: [Origin; ORIGINS],
    /// The ranges. They do not overlap.
    pub ranges: [Range; RANGES],
}

/// What is done with the buffers of a call, or of an operation of `io_uring`, that has moved bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, Immutable, IntoBytes)]
pub struct Exchange {
    /// The key of the row of the call, with the files that it names.
    pub key: RowKey,
    /// One of [`intent`]'s constants.
    pub intent: u32,
    /// [`UNREADABLE`] if the memory cannot be read, because another address space is the current
    /// one. Else 0.
    pub unreadable: u32,
    /// How many bytes it has moved, from or to all its buffers.
    pub bytes: u64,
}

/// In [`Memory::forgotten`]: ranges of several files.
pub const SEVERAL: FileNumber = FileNumber::MAX;

/// In [`Exchange::unreadable`].
pub const UNREADABLE: u32 = 1;

/// What [`Exchange::intent`] says.
pub mod intent {
    /// The call put bytes of its file there: remember them.
    pub const FILL: u32 = 0;
    /// It put other bytes there: forget what was there.
    pub const CLEAR: u32 = 1;
    /// It wrote from there: find out which files the bytes came from.
    pub const CREDIT: u32 = 2;
    /// It has not touched any memory that matters.
    pub const NONE: u32 = 3;
}

/// Stands for a range that does not exist.
pub const NO_RANGE: u32 = u32::MAX;

impl Memory {
    /// The range of this index.
    #[inline(always)]
    pub fn range(&mut self, index: u32) -> Option<&mut Range> {
        self.ranges.get_mut(opaque(index.into()) as usize)
    }

    /// Forgets all ranges, because something was written into this address space at an unknown
    /// place.
    #[inline(always)]
    pub const fn forget(&mut self) {
        self.used = 0;
    }

    /// Adds bytes of the call under way that came from there, if there is room.
    #[inline(always)]
    pub fn add_origin(&mut self, added: Origin) {
        // Nearly all calls have one.
        if self.origins_used == 0 {
            (self.origins[0], self.origins_used) = (added, 1);
            return;
        }
        self.added = added;
        add_another_origin(self);
    }
}

/// Adds what is being added to one of the origins. The result means nothing.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
extern "C" fn add_another_origin(memory: *mut Memory) -> u32 {
    if let Some(memory) = argument::as_mut(memory) {
        let mut addition = Addition { memory, is_done: 0 };
        repeat(ORIGINS as u32, add_to_origin, &mut addition);
        addition.memory.origins_lost += 1 - addition.is_done;
    }
    0
}

/// The state of the loop over the origins.
#[repr(C)]
struct Addition<'m> {
    memory: &'m mut Memory,
    /// 1: what is being added was added.
    is_done: u32,
}

/// One round of the loop: adds what is being added to the origin of this index, if that is the same
/// one or unused. Returns 1 then, which ends the loop.
extern "C" fn add_to_origin(index: u64, addition: &mut Addition<'_>) -> i64 {
    let memory = &mut *addition.memory;
    let added = memory.added;
    let is_new = index >= memory.origins_used.into();
    let origin = &mut memory.origins[index as usize & (ORIGINS - 1)];
    if is_new {
        *origin = added;
        memory.origins_used = index as u32 + 1;
    } else if origin.file == added.file
        && let Some(how) = origin.how.with(added.how)
    {
        origin.how = how;
        origin.bytes += added.bytes;
        origin.words.add(added.words);
        origin.repeated_bytes += added.repeated_bytes;
    } else {
        return 0;
    }
    addition.is_done = 1;
    1
}

/// Remembers that these bytes of a file are here now, instead of what was here before. Returns the
/// index of their range, in 64 bits, because the verifier of 6.1 forgets the limits of a number that
/// is widened.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub extern "C" fn fill_range(memory: *mut Memory, file: FileNumber, start: u64, end: u64) -> u64 {
    let Some(memory) = argument::as_mut(memory) else {
        return 0;
    };
    remove(memory, file, start, end);
    let is_found = memory.found < RANGES as u32;
    let index = if is_found {
        memory.found.into()
    } else {
        free_place(memory)
    };
    if let Some(range) = memory.ranges.get_mut(index as usize) {
        if is_found && range.is_continued_at(file, start) {
            range.grow_to(end);
        } else if !is_found || !range.is_refilled_by(file, start, end) {
            *range = Range::filled(file, start, end);
        }
    }
    index
}

/// Removes this memory from all ranges, because bytes of `file` are there now, or of no file if it
/// is 0. The range of which they become a part keeps them. The result means nothing.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub extern "C" fn remove(memory: *mut Memory, file: FileNumber, start: u64, end: u64) -> u32 {
    let Some(memory) = argument::as_mut(memory) else {
        return 0;
    };
    memory.found = NO_RANGE;
    let used = memory.used;
    let mut arrival = Arrival {
        memory,
        file,
        start,
        end,
    };
    repeat(used, make_way, &mut arrival);
    let memory = arrival.memory;
    if memory.rest.end != 0 {
        let index = free_place(memory);
        if let Some(range) = memory.ranges.get_mut(index as usize) {
            *range = memory.rest;
        }
        memory.rest.end = 0;
    }
    0
}

/// This memory is elsewhere now, so many bytes further on. What lies in it as a whole goes with it;
/// what does not is forgotten. The result means nothing.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub extern "C" fn shift(memory: *mut Memory, start: u64, end: u64, distance: u64) -> u32 {
    let Some(found) = argument::as_mut(memory) else {
        return 0;
    };
    let used = found.used;
    let mut shift = Shift {
        memory: found,
        start,
        end,
        distance,
    };
    repeat(used, shift_range, &mut shift);
    remove(memory, 0, start, end)
}

/// Memory that is elsewhere now.
#[repr(C)]
struct Shift<'m> {
    memory: &'m mut Memory,
    start: u64,
    end: u64,
    distance: u64,
}

/// One round of the loop over the ranges.
extern "C" fn shift_range(index: u64, shift: &mut Shift<'_>) -> i64 {
    let Some(range) = shift.memory.ranges.get_mut(index as usize) else {
        return 1;
    };
    if shift.start <= range.start && range.end <= shift.end {
        range.shift(shift.distance);
    }
    0
}

/// The index of an empty range. If there is none, one is forgotten.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
extern "C" fn free_place(memory: *mut Memory) -> u64 {
    let Some(memory) = argument::as_mut(memory) else {
        return 0;
    };
    let used = memory.used;
    (memory.place, memory.rank) = (0, 0);
    let mut search = PlaceSearch { memory };
    repeat(used, look_for_place, &mut search);
    let memory = search.memory;
    if memory.rank != rank::EMPTY {
        if used < RANGES as u32 {
            memory.used = used + 1;
            return used.into();
        }
        note_forgotten(memory);
    }
    memory.place
}

/// The range that was found is forgotten.
#[inline(always)]
fn note_forgotten(memory: &mut Memory) {
    if let Some(range) = memory.ranges.get(memory.place as usize) {
        let file = range.file;
        memory.forgotten = if memory.forgotten == 0 || memory.forgotten == file {
            file
        } else {
            SEVERAL
        };
    }
}

/// The search for the range whose place is needed least.
#[repr(C)]
struct PlaceSearch<'m> {
    memory: &'m mut Memory,
}

/// How little a range is needed: first those that were written whole, which programs are mostly done
/// with, then the one that was read first. The age of a range is added, in reads.
mod rank {
    pub(super) const KEPT: u64 = 1;
    pub(super) const WRITTEN: u64 = 1 << 33;
    pub(super) const EMPTY: u64 = 1 << 34;
}

/// One round of the search. Returns 1 to end it.
extern "C" fn look_for_place(index: u64, search: &mut PlaceSearch<'_>) -> i64 {
    let memory = &mut *search.memory;
    let Some(range) = memory.ranges.get(index as usize) else {
        return 1;
    };
    // Without branches: the verifier would follow each of them.
    let age = u64::from(memory.reads.wrapping_sub(range.read));
    let is_written = u64::from(range.is_written_whole());
    let is_used = is_not_zero(range.end);
    let rank = if_set(is_written, rank::WRITTEN, rank::KEPT) + age;
    let rank = if_set(is_used, rank, rank::EMPTY);
    let is_less_needed = is_less(memory.rank, rank);
    memory.rank = if_set(is_less_needed, rank, memory.rank);
    memory.place = if_set(is_less_needed, index, memory.place);
    i64::from(is_used as u32 ^ 1)
}

/// Bytes that are in memory now: of a file, or of no file if that is 0.
#[repr(C)]
struct Arrival<'m> {
    memory: &'m mut Memory,
    file: FileNumber,
    start: u64,
    end: u64,
}

/// One round of the loop over the ranges: removes this memory from the range of this index, unless
/// its bytes become bytes of that range.
extern "C" fn make_way(index: u64, arrival: &mut Arrival<'_>) -> i64 {
    let Arrival {
        memory,
        file,
        start,
        end,
    } = arrival;
    let (file, start, end) = (*file, *start, *end);
    let Some(range) = memory.ranges.get_mut(index as usize) else {
        return 1;
    };
    if range.is_refilled_by(file, start, end) {
        memory.found = index as u32;
    } else if range.is_continued_at(file, start) {
        // Another range may have the bytes already.
        if memory.found == NO_RANGE {
            memory.found = index as u32;
        }
    } else if range.touches(start, end) {
        if range.is_written_whole() {
            // The program is done with it.
            range.end = 0;
        } else {
            if range.is_divided_by(start, end) {
                memory.rest = range.rest_from(end);
            }
            range.cut(start, end);
        }
    }
    0
}
