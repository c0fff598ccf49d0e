//! A loop that copies a file through one buffer: what its reads and writes do to a [`Memory`],
//! without the memory.
//!
//! Such a loop makes the same small change to the same range again and again. So its task keeps a
//! copy of that range. A read or write that goes on as before changes only the copy; anything else
//! [`end`](CopyLoop::end)s the loop first, which brings the memory up to date.

#![expect(
    clippy::cast_possible_truncation,
    reason = "no round of a loop moves 4 GiB"
)]

use super::{
    memory::{Memory, is_summed_when_steady},
    range::{WORD_BYTES, one_place},
};
use crate::{FileNumber, opaque::opaque};

/// Reads of fewer bytes have samples of another kind.
const LEAST_BYTES: u64 = 2 * WORD_BYTES;

/// What a loop has changed since the memory was up to date. The fields named as those of
/// [`Range`](super::range::Range) mean the same.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyLoop {
    /// Where the range's own memory begins.
    low: u64,
    /// Where it ends.
    high: u64,
    /// Where the bytes of the last read begin.
    start: u64,
    /// Where they end.
    end: u64,
    /// Up to where they have been written.
    written_to: u64,
    /// Where the buffer of the last read ends.
    wanted_to: u64,
    /// The file that is read. 0: there is no loop.
    file: FileNumber,
    /// The index of the range.
    index: u32,
    /// [`Memory::reads`].
    reads: u32,
    /// [`Memory::varying`].
    varying: u32,
    /// Where the sampled word is, in bytes from the start.
    place: u32,
    /// The sampled word, [`folded`](super::range::folded).
    word: u32,
    /// The files to which bytes of the last read were written.
    outputs: u32,
    /// Unused; keeps the layout free of padding.
    reserved: u32,
}

impl CopyLoop {
    /// There is no loop.
    pub const NONE: Self = Self {
        low: 0,
        high: 0,
        start: 0,
        end: 0,
        written_to: 0,
        wanted_to: 0,
        file: 0,
        index: 0,
        reads: 0,
        varying: 0,
        place: 0,
        word: 0,
        outputs: 0,
        reserved: 0,
    };

    /// Whether there is a loop.
    #[inline(always)]
    pub const fn is_under_way(&self) -> bool {
        self.file != 0
    }

    /// Begins a loop with the read that has just filled the range of this index, if that read is
    /// like those of a loop: one of many, with a single word as its sample.
    #[inline(always)]
    pub fn begin(&mut self, memory: &Memory, index: u32) {
        let Some(range) = memory.ranges.get(opaque(index.into()) as usize) else {
            return;
        };
        let has_one_word = range.samples == 1
            && u64::from(range.sampled_bytes) == WORD_BYTES
            && range.summed_bytes == 0;
        if !memory.is_steady()
            || !has_one_word
            || range.origin != range.start
            || range.outputs != 0
            || range.has_changed != 0
        {
            return;
        }
        *self = Self {
            low: range.low,
            high: range.high,
            start: range.start,
            end: range.end,
            written_to: range.written_to,
            wanted_to: range.wanted_to,
            file: range.file,
            index,
            reads: memory.reads,
            varying: memory.varying,
            place: range.places[0],
            word: range.words[0],
            outputs: 0,
            reserved: 0,
        };
    }

    /// The address of the word to sample, if a read of these bytes of `file` goes on with the loop.
    /// The next call is then [`read`](Self::read), unless that word cannot be read.
    #[inline(always)]
    pub const fn next_sample(&self, file: FileNumber, start: u64, length: u64) -> Option<u64> {
        let is_same_buffer = self.file == file
            && file != 0
            && self.low <= start
            && start.saturating_add(length) <= self.high;
        let is_next = start <= self.start || self.written_to > self.start;
        let number = self.varying.wrapping_add(1);
        if !is_same_buffer
            || !is_next
            || length < LEAST_BYTES
            || Memory::is_large(length)
            || is_summed_when_steady(number)
        {
            return None;
        }
        Some(start + one_place((length - WORD_BYTES) as u32, number))
    }

    /// A read has filled these bytes. `word` is what is at the address that
    /// [`next_sample`](Self::next_sample) chose, folded. `wanted` is the size of the buffer.
    #[inline(always)]
    pub const fn read(&mut self, start: u64, length: u64, wanted: u64, sampled_at: u64, word: u32) {
        (self.start, self.end, self.written_to) = (start, start + length, 0);
        self.wanted_to = start.saturating_add(wanted);
        self.reads = self.reads.saturating_add(1);
        self.varying = self.varying.wrapping_add(1);
        (self.place, self.word, self.outputs) = ((sampled_at - start) as u32, word, 0);
    }

    /// The address of the sampled word, if a write of these bytes can be judged by it: they are
    /// bytes of the last read, were not written yet, and `wanted`, the size of the written buffer,
    /// covers all that is left of them.
    #[inline(always)]
    pub const fn sample_of(&self, start: u64, length: u64, wanted: u64) -> Option<u64> {
        let end = start.saturating_add(length);
        let at = self.start + self.place as u64;
        let is_new = self.start <= start && self.written_to <= start && end <= self.end;
        let is_rest = start.saturating_add(wanted) >= self.end
            && (start == self.start || start == self.written_to);
        if self.file != 0 && is_new && is_rest && start <= at && at + WORD_BYTES <= end {
            Some(at)
        } else {
            None
        }
    }

    /// Bytes were written to `output`, and `word`, folded, is now where
    /// [`sample_of`](Self::sample_of) said. Returns the file that they came from, or 0 if they have
    /// changed. Then the loop must end, and the memory says what they are.
    #[inline(always)]
    pub const fn write(
        &mut self,
        start: u64,
        length: u64,
        word: u32,
        output: FileNumber,
    ) -> FileNumber {
        if word != self.word {
            return 0;
        }
        self.written_to = start + length;
        self.outputs |= 1 << (output & 31);
        self.file
    }

    /// Ends the loop, and brings the memory up to date.
    #[inline(always)]
    pub fn end(&mut self, memory: &mut Memory) {
        let file = self.file;
        self.file = 0;
        let Some(range) = memory
            .ranges
            .get_mut(opaque(self.index.into()) as usize)
            .filter(|_| file != 0)
        else {
            return;
        };
        (range.start, range.end, range.written_to) = (self.start, self.end, self.written_to);
        (range.wanted_to, range.origin, range.outputs) = (self.wanted_to, self.start, self.outputs);
        (range.places[0], range.words[0]) = (self.place, self.word);
        (memory.reads, memory.varying) = (self.reads, self.varying);
    }
}
