//! Remembers where in an address space reads have put the bytes of files.
//!
//! A read fills a [`Range`], and whatever else the kernel writes into that memory ends it. A write
//! whose buffer lies in a range has its bytes from the range's file if a sample of the bytes is the
//! same as it was at the read. The samples are needed because nothing sees the program's own
//! stores. Forgetting a range is always safe: the write then has no known source.

#![expect(
    clippy::cast_possible_truncation,
    reason = "there are few ranges and samples, and no call moves 4 GiB"
)]

use super::{
    SPREAD, argument,
    blocks::{BLOCK_BYTES, Blocks},
    range::{Plan, Range},
};
use crate::{
    FileNumber,
    opaque::{if_set, is_less, larger, rounds, smaller},
};

/// How many ranges of an address space are remembered.
pub const RANGES: usize = 24;

/// How many source files of one call are distinguished.
pub const SOURCES: usize = 16;

/// How many reads are sampled densely, at [`SAMPLES`](super::range::SAMPLES) places: the first ones
/// of a file, and those after a write of a piece that held no sampled word.
const DENSE_READS: u32 = 32;

/// After how many reads one word of each is enough. Writes of such a piece and of bytes that were
/// written before start the count again.
const STEADY_READS: u32 = 1024;

/// How many blocks of a densely sampled read go into its checksum: all bytes of up to 64 KiB.
const MOST_BLOCKS: u64 = 128;

/// Of the reads after the first ones, one in this many gets a checksum.
const SUMMED_READS: u32 = 16;

/// The same after [`STEADY_READS`].
const STEADY_SUMMED_READS: u32 = 64;

/// How many blocks of such a read go into its checksum.
const FEW_BLOCKS: u64 = 32;

/// A read of at least this many bytes is always sampled densely: that costs little compared with
/// copying them.
const LARGE_READ_BYTES: u64 = 16 << 10;

/// Whether the read with this [`number`](Memory::varying) gets a checksum, if it is one of a loop
/// that [is steady](Memory::is_steady).
#[inline(always)]
pub const fn is_summed_when_steady(number: u32) -> bool {
    number.wrapping_mul(SPREAD) < u32::MAX / STEADY_SUMMED_READS
}

/// Where the bytes of one call came from.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The file, perhaps with [`CHANGED`](crate::CHANGED) or [`UNSAMPLED`](crate::UNSAMPLED). 0:
    /// none.
    pub file: FileNumber,
    /// How many of the call's bytes came from there.
    pub bytes: u32,
}

/// What is known about an address space.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// 1: locked.
    pub lock: u64,
    /// 1: something was written into this memory by a program that could not get the lock, so no
    /// range is certain.
    pub is_stale: u64,
    /// Counts how often bytes of a file were overwritten by something else.
    pub generation: u32,
    /// How many ranges were ever in use: those from this index on are empty.
    pub used: u32,
    /// The range that is given up next.
    pub next: u32,
    /// Reads since there was a reason to sample densely. [`sample_more`](Self::sample_more) sets it
    /// back.
    pub reads: u32,
    /// Counts the reads, and so varies which of them get a checksum, and the places of samples.
    pub varying: u32,
    /// While a read is added: the range that its bytes continue.
    continued: u32,
    /// While a read is added: the range that ends where its bytes begin, but whose last read got
    /// all that it wanted.
    adjacent: u32,
    /// While a read is added: an empty range.
    empty: u32,
    /// The file that was read last.
    last_file: FileNumber,
    /// The file that the call under way writes to. Of a read: 0, or a number that no file has if it
    /// only peeks.
    pub output: FileNumber,
    /// Where the bytes of the call under way came from. The first ones are filled.
    pub sources: [Source; SOURCES],
    /// The ranges. From `low` to `high`, they do not overlap.
    pub ranges: [Range; RANGES],
}

impl Memory {
    /// Nothing was read yet.
    pub const NOTHING: Self = Self {
        lock: 0,
        is_stale: 0,
        generation: 0,
        used: 0,
        next: 0,
        reads: 0,
        varying: 0,
        continued: 0,
        adjacent: 0,
        empty: 0,
        last_file: 0,
        output: 0,
        sources: [Source { file: 0, bytes: 0 }; SOURCES],
        ranges: [Range::EMPTY; RANGES],
    };

    /// How to sample the next read, which is of this file and length, and whether it gets a
    /// checksum.
    #[inline(always)]
    pub const fn plan(&mut self, file: FileNumber, length: u64) -> (Plan, bool) {
        if file != self.last_file {
            self.last_file = file;
            self.reads = 0;
        }
        self.reads = self.reads.saturating_add(1);
        self.varying = self.varying.wrapping_add(1);
        // Neither the reads with a checksum nor its blocks may keep step with what a program does
        // every so many calls.
        let random = self.varying.wrapping_mul(SPREAD);
        if self.reads <= DENSE_READS {
            return (Plan::Dense, true);
        }
        let is_steady = self.is_steady();
        let plan = if Self::is_large(length) {
            Plan::Dense
        } else if is_steady {
            Plan::One(self.varying)
        } else {
            Plan::Few(self.varying)
        };
        (
            plan,
            if is_steady {
                is_summed_when_steady(self.varying)
            } else {
                random < u32::MAX / SUMMED_READS
            },
        )
    }

    /// What goes into the checksum of so many bytes, the last of which were just read.
    #[inline(always)]
    pub const fn summed_blocks(&self, bytes: u64) -> Blocks {
        let most = if self.reads <= DENSE_READS {
            MOST_BLOCKS
        } else {
            FEW_BLOCKS
        };
        let blocks = bytes.div_ceil(BLOCK_BYTES);
        // A number that varies where the blocks are if they do not cover everything.
        let number = self.varying.wrapping_mul(self.varying.wrapping_mul(SPREAD));
        Blocks::new(if blocks < most { blocks } else { most } as u32, number)
    }

    /// Whether so much was read without a reason to sample densely that one word of each read is
    /// enough.
    #[inline(always)]
    pub const fn is_steady(&self) -> bool {
        self.reads > STEADY_READS
    }

    /// Whether a read of this length is always sampled densely.
    #[inline(always)]
    pub const fn is_large(length: u64) -> bool {
        length >= LARGE_READ_BYTES
    }

    /// Samples the next reads densely. Used after a write of a piece that held no sampled word: a
    /// program that writes pieces of what it reads needs more samples.
    #[inline(always)]
    pub const fn sample_densely(&mut self) {
        self.reads = 0;
    }

    /// Samples more than one word of each of the next reads. Used after a write of bytes that were
    /// written before: one word that is 0 would not show whether they are still there.
    #[inline(always)]
    pub const fn sample_more(&mut self) {
        if self.reads > DENSE_READS {
            self.reads = DENSE_READS;
        }
    }

    /// Whether the range of this index was never used, nor any after it. Volatile, because threads
    /// may ask without the lock.
    #[inline(always)]
    pub fn is_unused(&self, index: u32) -> bool {
        // SAFETY: a field of its own.
        index >= unsafe { core::ptr::read_volatile(&raw const self.used) }
    }

    /// Adds bytes of the call under way. If there is no room for another source, these bytes have
    /// none.
    #[inline(always)]
    pub fn add_source(&mut self, file: FileNumber, bytes: u64) {
        for index in rounds(SOURCES) {
            let source = &mut self.sources[index as usize & (SOURCES - 1)];
            if source.file == file || source.file == 0 {
                source.file = file;
                source.bytes += bytes as u32;
                return;
            }
        }
    }
}

/// Remembers that these bytes of a file are here now, instead of what was here before. Returns the
/// index of their range. `hint` is the range that the thread filled last.
///
/// The caller sets `wanted_to` in the range, and samples it by its [`Plan`].
///
/// The extern functions here are global functions of the kernel side, so that the verifier checks
/// each of them once.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub extern "C" fn fill_range(
    memory: *mut Memory,
    hint: u32,
    file: FileNumber,
    start: u64,
    end: u64,
) -> u64 {
    let Some(memory) = argument(memory) else {
        return 0;
    };
    if let Some(range) = memory.ranges.get_mut(hint as usize)
        && range.file == file
        && range.low <= start
        && end <= range.high
        && (start <= range.start || range.written_to > range.start)
    {
        // This is what every loop over one buffer does.
        (range.start, range.end, range.written_to) = (start, end, 0);
        return hint.into();
    }
    let index = take_room(memory, file, start, end);
    if let Some(range) = memory.ranges.get_mut(index as usize) {
        if range.continues_with(file, start) {
            range.end = end;
            range.high = if range.high > end { range.high } else { end };
        } else {
            *range = Range {
                low: start,
                high: end,
                start,
                end,
                file,
                ..Range::EMPTY
            };
        }
    }
    index
}

/// Ends every range in this memory, and finds the range that these bytes continue, or else room for
/// a new one. Returns its index. The index has 64 bits, because the verifier of 6.1 forgets the
/// limits of a number that is widened.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
extern "C" fn take_room(memory: *mut Memory, file: FileNumber, start: u64, end: u64) -> u64 {
    let Some(memory) = argument(memory) else {
        return 0;
    };
    // These are in the map because the verifier would follow every value that variables can have.
    (memory.continued, memory.adjacent, memory.empty) =
        (RANGES as u32, RANGES as u32, RANGES as u32);
    for index in rounds(RANGES) {
        if memory.is_unused(index) {
            break;
        }
        remove(memory, index, file, start, end);
    }
    if memory.continued < RANGES as u32 {
        return memory.continued.into();
    }
    if memory.empty < RANGES as u32 {
        return memory.empty.into();
    }
    let unused = memory.used;
    if unused < RANGES as u32 {
        memory.used = unused + 1;
        return unused.into();
    }
    // Two reads that share a range are better than another file that loses its range.
    if memory.adjacent < RANGES as u32 {
        return memory.adjacent.into();
    }
    let index = memory.next;
    memory.next = if index + 1 < RANGES as u32 {
        index + 1
    } else {
        0
    };
    index.into()
}

/// Removes this memory from the range of this index, and notes what that makes of the range. The
/// result means nothing.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
extern "C" fn remove(
    memory: *mut Memory,
    index: u32,
    file: FileNumber,
    start: u64,
    end: u64,
) -> u32 {
    let Some(memory) = argument(memory) else {
        return 0;
    };
    let Some(range) = memory.ranges.get_mut(index as usize) else {
        return 0;
    };
    match cut(range, file, start, end) {
        Cut::FOREIGN => memory.generation = memory.generation.wrapping_add(1),
        Cut::CONTINUED => memory.continued = index,
        Cut::ADJACENT => memory.adjacent = index,
        _ => {}
    }
    if range.end == 0 && index < memory.empty {
        memory.empty = index;
    }
    0
}

/// What [`cut`] did to a range.
struct Cut;

impl Cut {
    /// Nothing that matters to the caller.
    const NOTHING: u32 = 0;
    /// Bytes of a file were overwritten by something else.
    const FOREIGN: u32 = 1;
    /// The new bytes are those that the range's last read wanted and did not get.
    const CONTINUED: u32 = 2;
    /// The new bytes begin where those of the range end, but in another buffer.
    const ADJACENT: u32 = 3;
}

/// Removes this memory from a range, because bytes of `file` are there now (0: of no file).
#[inline(always)]
fn cut(range: &mut Range, file: FileNumber, start: u64, end: u64) -> u32 {
    if range.continues_with(file, start) {
        // Its buffer now ends with its bytes.
        range.high = start;
        return if end <= range.wanted_to {
            Cut::CONTINUED
        } else {
            Cut::ADJACENT
        };
    }
    if range.low >= end || range.high <= start {
        return Cut::NOTHING;
    }
    // What lies beyond the range does not matter. From here on there are no branches: the verifier
    // follows this for each range.
    let end = if end > range.high { range.high } else { end };
    let is_overwritten = is_less(larger(range.start, start), smaller(range.end, end));
    let before = length(range.start, smaller(range.end, start));
    let after = length(larger(range.start, end), range.end);
    // The program no longer needs the bytes that it has written, and reuses their memory.
    let is_reused = is_overwritten & is_less(range.start, range.written_to);
    let is_cut_before = is_reused | is_less(before, after);
    let rest = larger(if_set(is_reused, range.written_to, range.start), end);
    range.end = if_set(is_cut_before, range.end, smaller(range.end, start));
    range.start = if_set(is_cut_before, rest, range.start);
    if range.start >= range.end {
        range.empty();
    } else {
        (range.low, range.high) = (range.start, range.end);
    }
    if is_overwritten != 0 && range.file != file {
        Cut::FOREIGN
    } else {
        Cut::NOTHING
    }
}

/// The number of bytes between these addresses, 0 if the second is not larger.
#[inline(always)]
fn length(start: u64, end: u64) -> u64 {
    if_set(is_less(start, end), end.wrapping_sub(start), 0)
}

/// Ends all ranges, because something was written into this address space at an unknown place. The
/// result means nothing.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub extern "C" fn forget_all(memory: *mut Memory) -> u32 {
    let Some(memory) = argument(memory) else {
        return 0;
    };
    memory.generation = memory.generation.wrapping_add(1);
    for range in &mut memory.ranges {
        range.empty();
    }
    0
}

/// Ends the ranges in this memory, because bytes of no file are there now. The result means
/// nothing.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub extern "C" fn clear(memory: *mut Memory, start: u64, end: u64) -> u32 {
    let Some(memory) = argument(memory) else {
        return 0;
    };
    for index in rounds(RANGES) {
        if memory.is_unused(index) {
            break;
        }
        remove(memory, index, 0, start, end);
    }
    0
}

/// Whether nothing is known of these bytes: they are in no range, nor in the memory that belongs to
/// one. 1: nothing is known.
///
/// This may be asked without the lock. Another thread may be changing the ranges at this moment, by
/// a call of its own that reads into this memory. Then the program itself does not know which bytes
/// it writes, and none are credited to a file.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub extern "C" fn is_unknown(memory: *mut Memory, start: u64, end: u64) -> u32 {
    let Some(memory) = argument(memory) else {
        return 0;
    };
    let mut overlapping = 0;
    for index in rounds(RANGES) {
        if memory.is_unused(index) {
            break;
        }
        if let Some(range) = memory.ranges.get(index as usize) {
            overlapping |= is_less(range.low, end) & is_less(start, range.high);
        }
    }
    u32::from(overlapping == 0)
}

#[cfg(test)]
mod tests;
