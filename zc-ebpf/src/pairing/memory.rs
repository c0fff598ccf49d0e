//! Where in an address space the bytes lie that its reads brought there.
//!
//! A read fills a [`Range`]; whatever else the kernel writes into that memory ends it. A write whose buffer lies in a range has its
//! bytes from the range's file, if a sample of the bytes is the same as at the time of the read: stores of the program itself are seen
//! by nobody. Forgetting a range is always safe, since the write then has no known source.

#![expect(clippy::cast_possible_truncation, reason = "there are few ranges and samples, and no call moves 4 GiB")]
#![expect(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "the verifier knows what a pointer of a global function points to, or that it is null"
)]

use super::range::{BLOCK_BYTES, Plan, Range, overlap};
use crate::FileNumber;

/// Ranges that are remembered of an address space.
pub const RANGES: usize = 26;

/// Files that one call may write from and still be told apart.
pub const SOURCES: usize = 16;

/// Reads that are sampled at [`SAMPLES`] places, at first and after a write of a piece that held no sampled word.
const DENSE_READS: u32 = 32;

/// Blocks of each of the first reads that are summed up: all bytes of up to 64 KiB.
const MOST_BLOCKS: u64 = 128;

/// Later, one read in so many is summed up,
const SUMMED_READS: u32 = 16;

/// and of this, so many blocks.
const FEW_BLOCKS: u64 = 32;

/// From so many bytes on, a read is sampled densely each time: that costs little beside the copying.
const LARGE_READ_BYTES: u64 = 16 << 10;

/// How many blocks so many bytes have, but no more than `most`; none if they are too few for one.
#[inline(always)]
const fn blocks(bytes: u64, most: u64) -> u32 {
    let blocks = if bytes < BLOCK_BYTES { 0 } else { bytes.div_ceil(BLOCK_BYTES) };
    (if blocks < most { blocks } else { most }) as u32
}

/// Where the bytes of one call came from.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The file, with [`CHANGED`](crate::CHANGED) if its bytes are not the same any more, or [`UNSAMPLED`](crate::UNSAMPLED); 0: none.
    pub file: FileNumber,
    /// How many of the call's bytes.
    pub bytes: u32,
}

/// What is known of an address space.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// 1: somebody works on it.
    pub lock: u64,
    /// 1: somebody wrote into this memory and could not get the lock, so that no range is certain.
    pub is_stale: u64,
    /// Rises whenever bytes of a file are overwritten by something else.
    pub generation: u32,
    /// The range that is given up next.
    pub next: u32,
    /// The reads that will still be sampled densely.
    pub dense_reads: u32,
    /// Chooses the varying place of samples.
    pub varying: u32,
    /// While a read is added: the range that goes on with its bytes.
    continued: u32,
    /// Likewise, the range that ends where its bytes begin, but had all that it wanted.
    adjacent: u32,
    /// Likewise, a range that is empty.
    empty: u32,
    /// The file that was read last.
    last_file: FileNumber,
    /// Where the bytes of the call under way came from: the first are filled.
    pub sources: [Source; SOURCES],
    /// The ranges. They have no memory in common, from `low` to `high`.
    pub ranges: [Range; RANGES],
}

impl Memory {
    /// Nothing was read, as when a program begins.
    pub const NOTHING: Self = Self {
        lock: 0,
        is_stale: 0,
        generation: 0,
        next: 0,
        dense_reads: DENSE_READS,
        varying: 0,
        continued: 0,
        adjacent: 0,
        empty: 0,
        last_file: 0,
        sources: [Source { file: 0, bytes: 0 }; SOURCES],
        ranges: [Range::EMPTY; RANGES],
    };

    /// How the next read, of so many bytes of this file, is sampled; and how many blocks of it are summed up.
    #[inline(always)]
    pub const fn plan(&mut self, file: FileNumber, length: u64) -> (Plan, u32) {
        if file != self.last_file {
            self.last_file = file;
            self.dense_reads = DENSE_READS;
        }
        if self.dense_reads > 0 {
            self.dense_reads -= 1;
            return (Plan::Dense, blocks(length, MOST_BLOCKS));
        }
        self.varying = self.varying.wrapping_add(1);
        let plan = if length >= LARGE_READ_BYTES { Plan::Dense } else { Plan::Few(self.varying) };
        (plan, if self.varying.is_multiple_of(SUMMED_READS) { blocks(length, FEW_BLOCKS) } else { 0 })
    }

    /// A piece was written that held no sampled word: programs that write pieces of what they read need more of them.
    #[inline(always)]
    pub const fn sample_densely(&mut self) {
        self.dense_reads = DENSE_READS;
    }

    /// Adds bytes of the call under way. Without room for one more source they have none.
    #[inline(always)]
    pub fn add_source(&mut self, file: FileNumber, bytes: u64) {
        for source in &mut self.sources {
            if source.file == file || source.file == 0 {
                source.file = file;
                source.bytes += bytes as u32;
                return;
            }
        }
    }
}

/// The index of the range that these bytes of a file fill; `hint` is the range that the caller filled last. What lay there before is over.
///
/// The caller says how much was wanted, and samples the range as [`Plan`] says.
///
/// Global, so that the verifier looks at it once, and compares the index with the number of ranges anew; likewise the next ones.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub extern "C" fn fill_range(memory: *mut Memory, hint: u32, file: FileNumber, start: u64, end: u64) -> u64 {
    // SAFETY: null, or what the caller has.
    let Some(memory) = (unsafe { memory.as_mut() }) else { return 0 };
    if let Some(range) = memory.ranges.get_mut(hint as usize)
        && range.file == file
        && range.low <= start
        && end <= range.high
        && (start <= range.start || range.written_to > range.start)
    {
        // As in every loop over one buffer.
        (range.start, range.end, range.written_to) = (start, end, 0);
        return hint.into();
    }
    let index = take_room(memory, file, start, end);
    if let Some(range) = memory.ranges.get_mut(index as usize) {
        if range.goes_on_with(file, start) {
            range.end = end;
            range.high = if range.high > end { range.high } else { end };
        } else {
            *range = Range { low: start, high: end, start, end, file, ..Range::EMPTY };
        }
    }
    index
}

/// Ends every range that has some of this memory, and finds the one that goes on with these bytes, or else room for a new one. Returns its
/// index: 64 bits wide, as the verifier of 6.1 loses what it knows of a number that is widened again.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
extern "C" fn take_room(memory: *mut Memory, file: FileNumber, start: u64, end: u64) -> u64 {
    // SAFETY: null, or what the caller has.
    let Some(memory) = (unsafe { memory.as_mut() }) else { return 0 };
    // Kept in the map: of variables, the verifier would follow each value that they can have.
    (memory.continued, memory.adjacent, memory.empty) = (RANGES as u32, RANGES as u32, RANGES as u32);
    for index in 0..RANGES as u32 {
        let Some(range) = memory.ranges.get_mut(index as usize) else { break };
        match cut(range, file, start, end) {
            Cut::FOREIGN => memory.generation = memory.generation.wrapping_add(1),
            Cut::CONTINUED => memory.continued = index,
            Cut::ADJACENT => memory.adjacent = index,
            _ => {}
        }
        if range.end == 0 && index < memory.empty {
            memory.empty = index;
        }
    }
    if memory.continued < RANGES as u32 {
        return memory.continued.into();
    }
    if memory.empty < RANGES as u32 {
        return memory.empty.into();
    }
    // Better one range for two reads than none for another file.
    if memory.adjacent < RANGES as u32 {
        return memory.adjacent.into();
    }
    let index = memory.next;
    memory.next = if index + 1 < RANGES as u32 { index + 1 } else { 0 };
    index.into()
}

/// What became of a range, as a global function says it.
struct Cut;

impl Cut {
    /// Nothing that matters.
    const NOTHING: u32 = 0;
    /// Bytes of a file were overwritten by something else.
    const FOREIGN: u32 = 1;
    /// The new bytes are what the range's last read wanted and did not get.
    const CONTINUED: u32 = 2;
    /// The new bytes go on where those of the range end, in another buffer.
    const ADJACENT: u32 = 3;
}

/// Takes this memory from a range, for bytes of `file` (0: of none).
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
extern "C" fn cut(range: *mut Range, file: FileNumber, start: u64, end: u64) -> u32 {
    // SAFETY: null, or what the caller has.
    let Some(range) = (unsafe { range.as_mut() }) else { return Cut::NOTHING };
    if range.goes_on_with(file, start) {
        // What room it had beyond its bytes, it has no more.
        range.high = start;
        return if end <= range.wanted_to { Cut::CONTINUED } else { Cut::ADJACENT };
    }
    if range.low >= end || range.high <= start {
        return Cut::NOTHING;
    }
    let is_overwritten = overlap(range.start, range.end, start, end) > 0;
    let before = overlap(range.start, range.end, 0, start);
    let after = overlap(range.start, range.end, end, u64::MAX);
    if is_overwritten && range.written_to > range.start {
        // The program is done with the bytes that it has written, and uses their memory for the next ones.
        range.start = if range.written_to > end { range.written_to } else { end };
    } else if before >= after {
        range.end = if range.end < start { range.end } else { start };
    } else {
        range.start = if range.start > end { range.start } else { end };
    }
    if range.start >= range.end {
        range.empty();
    } else {
        (range.low, range.high) = (range.start, range.end);
    }
    if is_overwritten && range.file != file { Cut::FOREIGN } else { Cut::NOTHING }
}

/// Gives up all ranges: something was written into this memory, and nobody knows where.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub extern "C" fn forget_all(memory: *mut Memory) -> u32 {
    // SAFETY: null, or what the caller has.
    let Some(memory) = (unsafe { memory.as_mut() }) else { return 0 };
    memory.generation = memory.generation.wrapping_add(1);
    for range in &mut memory.ranges {
        range.empty();
    }
    0
}

/// Something that comes from no file was written into this memory. The result means nothing: a global function must have one.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub extern "C" fn clear(memory: *mut Memory, start: u64, end: u64) -> u32 {
    // SAFETY: null, or what the caller has.
    let Some(memory) = (unsafe { memory.as_mut() }) else { return 0 };
    for range in &mut memory.ranges {
        if cut(range, 0, start, end) == Cut::FOREIGN {
            memory.generation = memory.generation.wrapping_add(1);
        }
    }
    0
}

#[cfg(test)]
mod tests;
