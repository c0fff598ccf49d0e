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

use crate::FileNumber;

/// Ranges that are remembered of an address space.
pub const RANGES: usize = 26;

/// Most words that are sampled of a range.
pub const SAMPLES: usize = 8;

/// Files that one call may write from and still be told apart.
pub const SOURCES: usize = 16;

/// Words that are sampled of each read while a program copies whole buffers: the first, the last, and one at a varying place.
const FEW_SAMPLES: u32 = 3;

/// Reads that are sampled at [`SAMPLES`] places, at first and after a write of a piece that held no sampled word.
const DENSE_READS: u32 = 32;

/// From so many bytes on, a read is sampled densely each time: that costs little beside the copying.
const LARGE_READ_BYTES: u64 = 16 << 10;

/// Bytes of a sampled word.
const WORD_BYTES: u64 = 8;

/// Memory that one or several adjacent reads of a file filled.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Where the memory begins that no other range has a part of.
    pub low: u64,
    /// Where that memory ends; 0: the range is empty.
    pub high: u64,
    /// Where the file's bytes begin.
    pub start: u64,
    /// Where they end.
    pub end: u64,
    /// Up to where they have been written.
    pub written_to: u64,
    /// Where the sampled read began.
    pub origin: u64,
    /// Bytes of the sampled read.
    pub length: u64,
    /// Where the samples between the first and the last begin, in bytes from the origin.
    pub phase: u32,
    /// Bytes from each of these to the next.
    pub stride: u32,
    /// Words that are sampled.
    pub samples: u32,
    /// The file.
    pub file: FileNumber,
    /// The sampled words.
    pub words: [u64; SAMPLES],
}

impl Range {
    /// No memory.
    pub const EMPTY: Self = Self {
        low: 0,
        high: 0,
        start: 0,
        end: 0,
        written_to: 0,
        origin: 0,
        length: 0,
        phase: 0,
        stride: 0,
        samples: 0,
        file: 0,
        words: [0; SAMPLES],
    };

    /// Whether all these bytes are the file's.
    #[inline(always)]
    pub const fn holds(&self, start: u64, end: u64) -> bool {
        self.start <= start && end <= self.end && start < end
    }

    /// Chooses where a read of these bytes is sampled.
    #[inline(always)]
    pub const fn plan_samples(&mut self, start: u64, length: u64, plan: Plan) {
        self.origin = start;
        self.length = length;
        if length < 2 * WORD_BYTES {
            self.samples = 1;
            return;
        }
        // No call moves 4 GiB: MAX_RW_COUNT of the kernel's include/linux/fs.h is 2 GiB less a page.
        let room = (length - WORD_BYTES) as u32;
        match plan {
            Plan::Dense => {
                self.samples = SAMPLES as u32;
                self.stride = room / (SAMPLES as u32 - 1);
                self.phase = self.stride;
            }
            Plan::Few(varying) => {
                self.samples = FEW_SAMPLES;
                self.stride = 0;
                // A multiplication spreads the place over the room without a division.
                self.phase = ((room as u64 * (varying.wrapping_mul(0x9e37_79b1) as u64)) >> 32) as u32;
            }
        }
    }

    /// Where the word of a sample stands.
    #[inline(always)]
    pub const fn sampled_at(&self, index: u32) -> u64 {
        match index {
            0 => self.origin,
            1 => self.origin + self.length - WORD_BYTES,
            _ => self.origin + self.phase as u64 + self.stride as u64 * (index - 2) as u64,
        }
    }

    /// Whether a sample lies in all of these bytes of the range.
    #[inline(always)]
    pub const fn sample_lies_in(&self, index: u32, start: u64, end: u64) -> bool {
        let at = self.sampled_at(index);
        index < self.samples && start <= at && at + self.sampled_bytes() <= end && self.start <= at
    }

    /// Which bits of a sampled word are the file's: fewer than all if the read was shorter than a word.
    #[inline(always)]
    pub const fn mask(&self) -> u64 {
        if self.length >= WORD_BYTES { u64::MAX } else { (1 << (8 * (self.length & 7))) - 1 }
    }

    #[inline(always)]
    const fn sampled_bytes(&self) -> u64 {
        if self.length < WORD_BYTES { self.length } else { WORD_BYTES }
    }
}

/// How densely a read is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// At [`SAMPLES`] places, evenly.
    Dense,
    /// At the beginning, the end, and a place that this number chooses.
    Few(u32),
}

/// What comparing the samples of a piece of a range came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Words that are the same.
    pub equal: u32,
    /// Words that differ.
    pub different: u32,
    /// Of the equal ones, those that chance does not make: neither zeroes nor ones alone.
    pub telling: u32,
}

impl Comparison {
    /// Adds a word: what it was, and what it is now.
    ///
    /// Without branches: the verifier would follow each combination of the three sums.
    #[inline(always)]
    pub const fn add(&mut self, then: u64, now: u64, mask: u64) {
        let differs = is_not_zero((now ^ then) & mask);
        let is_telling = is_not_zero(then & mask) & is_not_zero(!then & mask);
        self.different += differs;
        self.equal += 1 ^ differs;
        self.telling += is_telling & (1 ^ differs);
    }
}

/// 1 for any number but 0.
#[inline(always)]
const fn is_not_zero(number: u64) -> u32 {
    ((number | number.wrapping_neg()) >> 63) as u32
}

/// What a piece of a range is to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The bytes are the file's.
    Same,
    /// The program changed the file's bytes where they lay.
    Changed,
    /// The memory was used for something else: the range is over.
    Reused,
    /// No sample speaks for it.
    Unproven,
}

impl Range {
    /// Judges a piece of the range, which begins at `start`.
    #[inline(always)]
    pub const fn judge(&self, start: u64, compared: Comparison) -> Verdict {
        let again = start < self.written_to;
        if compared.different > 0 {
            // A buffer that was written and holds other bytes by now is in use for something else, as the records of an archive are.
            if again { Verdict::Reused } else { Verdict::Changed }
        } else if compared.equal == 0 || (again && compared.telling == 0) {
            Verdict::Unproven
        } else {
            Verdict::Same
        }
    }
}

/// Where the bytes of one call came from.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The file, with [`CHANGED`](crate::CHANGED) if its bytes are not the same any more; 0: none.
    pub file: FileNumber,
    /// Unused; keeps the layout free of padding.
    pub reserved: u32,
    /// How many of the call's bytes.
    pub bytes: u64,
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
    /// While a read is added: the range that its bytes continue.
    continued: u32,
    /// Unused; keeps the layout free of padding.
    reserved: u32,
    /// Where the bytes of the call under way came from: the first are filled.
    pub sources: [Source; SOURCES],
    /// The ranges. They have no memory in common, from `low` to `high`.
    pub ranges: [Range; RANGES],
}

/// How many numbers lie in both ranges.
///
/// In the kernel a global function, so that the verifier looks at it once, and not at every way through it for every range.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub extern "C" fn common_length(start: u64, end: u64, other_start: u64, other_end: u64) -> u64 {
    let start = if start > other_start { start } else { other_start };
    let end = if end < other_end { end } else { other_end };
    end.saturating_sub(start)
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
        reserved: 0,
        sources: [Source { file: 0, reserved: 0, bytes: 0 }; SOURCES],
        ranges: [Range::EMPTY; RANGES],
    };

    /// The range that these bytes of a file fill; `hint` is the one that the caller filled last. What lay there before is over.
    ///
    /// The caller samples the range as [`Plan`] says.
    #[inline(always)]
    pub fn fill(&mut self, hint: u32, file: FileNumber, start: u64, end: u64) -> u32 {
        if let Some(range) = self.ranges.get_mut(hint as usize)
            && range.file == file
            && range.low <= start
            && end <= range.high
            && (start <= range.start || range.written_to > range.start)
        {
            // As in every loop over one buffer.
            (range.start, range.end, range.written_to) = (start, end, 0);
            return hint;
        }
        let room = take_room(self, file, start, end);
        let index = room & !CONTINUES;
        if let Some(range) = self.ranges.get_mut(index as usize) {
            if room & CONTINUES != 0 {
                range.end = end;
                range.high = if range.high > end { range.high } else { end };
            } else {
                *range = Range { low: start, high: end, start, end, file, ..Range::EMPTY };
            }
        }
        index
    }

    /// How the next read, of so many bytes, is sampled.
    #[inline(always)]
    pub const fn plan(&mut self, length: u64) -> Plan {
        if length >= LARGE_READ_BYTES {
            return Plan::Dense;
        }
        if self.dense_reads > 0 {
            self.dense_reads -= 1;
            return Plan::Dense;
        }
        self.varying = self.varying.wrapping_add(1);
        Plan::Few(self.varying)
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
                source.bytes += bytes;
                return;
            }
        }
    }
}

/// In what [`take_room`] returns: the bytes continue those of the range.
const CONTINUES: u32 = 1 << 31;

/// Ends every range that has some of this memory, and finds the one that these bytes continue, or else room for a new one. Returns its
/// index.
///
/// Global, so that the verifier looks at it once; likewise the next ones.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
extern "C" fn take_room(memory: *mut Memory, file: FileNumber, start: u64, end: u64) -> u32 {
    // SAFETY: null, or what the caller has.
    let Some(memory) = (unsafe { memory.as_mut() }) else { return 0 };
    // Kept in the map: of a variable, the verifier would follow each value that it can have.
    memory.continued = RANGES as u32;
    for index in 0..RANGES as u32 {
        let Some(range) = memory.ranges.get_mut(index as usize) else { break };
        match cut(range, file, start, end) {
            Cut::FOREIGN => memory.generation = memory.generation.wrapping_add(1),
            Cut::CONTINUED => memory.continued = index,
            _ => {}
        }
    }
    if memory.continued < RANGES as u32 {
        return memory.continued | CONTINUES;
    }
    let index = memory.next;
    memory.next = if index + 1 < RANGES as u32 { index + 1 } else { 0 };
    index
}

/// What became of a range, as a global function says it.
struct Cut;

impl Cut {
    /// Nothing that matters.
    const NOTHING: u32 = 0;
    /// Bytes of a file were overwritten by something else.
    const FOREIGN: u32 = 1;
    /// The new bytes go on where those of the range end.
    const CONTINUED: u32 = 2;
}

/// Takes this memory from a range, for bytes of `file` (0: of none).
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
extern "C" fn cut(range: *mut Range, file: FileNumber, start: u64, end: u64) -> u32 {
    // SAFETY: null, or what the caller has.
    let Some(range) = (unsafe { range.as_mut() }) else { return Cut::NOTHING };
    if range.low >= end || range.high <= start {
        let continues = range.file == file && range.end == start && range.start < start && range.written_to <= range.start;
        return if continues { Cut::CONTINUED } else { Cut::NOTHING };
    }
    let is_overwritten = common_length(range.start, range.end, start, end) > 0;
    if range.file == file && range.end == start && range.start < start && range.written_to <= range.start {
        // The rest of its own room: the bytes go on.
        range.high = start;
        return Cut::CONTINUED;
    }
    let before = common_length(range.start, range.end, 0, start);
    let after = common_length(range.start, range.end, end, u64::MAX);
    if is_overwritten && range.written_to > range.start {
        // The program is done with these bytes and uses the memory for the next ones.
        (range.start, range.end) = (0, 0);
    } else if before >= after {
        range.end = if range.end < start { range.end } else { start };
    } else {
        range.start = if range.start > end { range.start } else { end };
    }
    if range.start >= range.end {
        (range.start, range.end) = (0, 0);
    }
    (range.low, range.high) = (range.start, range.end);
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
        (range.low, range.high, range.start, range.end) = (0, 0, 0, 0);
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
