//! Memory that a read filled with bytes of a file, and how a write checks whether the bytes are
//! still the same.
//!
//! Nothing sees the program's own stores. So the bytes are sampled at the read: some words, and for
//! some reads a checksum of blocks.

#![expect(
    clippy::cast_possible_truncation,
    reason = "there are few samples, and no call moves 4 GiB"
)]

use super::{
    FACTOR, SPREAD, argument,
    blocks::{Blocks, SEGMENTS},
};
use crate::FileNumber;
use crate::opaque::{is_less, is_not_zero, rounds};

/// The most words that are sampled in a range.
pub const SAMPLES: usize = 8;

/// Size of a sampled word, bytes.
pub const WORD_BYTES: u64 = 8;

/// So many bytes have a checksum however small the reads were that filled them.
const SMALL_BYTES: u64 = 4096;

/// Memory that a read of a file filled, or several reads, each of which continued where the one
/// before had ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Where the memory begins that belongs to this range alone.
    pub low: u64,
    /// Where that memory ends. 0: the range is empty.
    pub high: u64,
    /// Where the file's bytes begin.
    pub start: u64,
    /// Where they end.
    pub end: u64,
    /// Up to where they have been written.
    pub written_to: u64,
    /// Where the buffer of the last read ends. If the read was short, the next one may fill the
    /// rest.
    pub wanted_to: u64,
    /// The address that [`places`](Self::places) are relative to.
    pub origin: u64,
    /// How many bytes, from the origin, [`sums`](Self::sums) are of. 0: there is no checksum.
    pub summed_bytes: u32,
    /// How many words are sampled.
    pub samples: u32,
    /// The file.
    pub file: FileNumber,
    /// What the checksum is made of.
    pub summed_blocks: Blocks,
    /// The files to which bytes of it were written, see [`writes_again`](Self::writes_again).
    pub outputs: u32,
    /// How many bytes of a sampled word are the file's: fewer than a word has if the read was
    /// shorter.
    pub sampled_bytes: u16,
    /// 1: a piece was written, or a read continued, when the checksum was no longer the same.
    pub has_changed: u16,
    /// A checksum of all these bytes or, if there are many, of blocks spread over them: after each
    /// segment, of what came up to there.
    pub sums: [u16; SEGMENTS],
    /// Where the sampled words are, in bytes from the origin.
    pub places: [u32; SAMPLES],
    /// The sampled words, each [`folded`].
    pub words: [u32; SAMPLES],
}

impl Range {
    /// No memory.
    pub const EMPTY: Self = Self {
        low: 0,
        high: 0,
        start: 0,
        end: 0,
        written_to: 0,
        wanted_to: 0,
        origin: 0,
        summed_bytes: 0,
        samples: 0,
        file: 0,
        summed_blocks: Blocks::NONE,
        outputs: 0,
        sampled_bytes: 0,
        has_changed: 0,
        sums: [0; SEGMENTS],
        places: [0; SAMPLES],
        words: [0; SAMPLES],
    };

    /// Whether all these bytes are in the range.
    #[inline(always)]
    pub const fn holds(&self, start: u64, end: u64) -> bool {
        self.start <= start && end <= self.end && start < end
    }

    /// Whether bytes of this file that begin at `start` continue those of the range, of which none
    /// was written yet.
    #[inline(always)]
    pub const fn continues_with(&self, file: FileNumber, start: u64) -> bool {
        self.file == file
            && self.end == start
            && self.start < start
            && self.written_to <= self.start
    }

    /// Forgets what was known of the bytes that the range had before, since a read has filled it
    /// anew.
    #[inline(always)]
    pub const fn begin(&mut self) {
        (self.summed_bytes, self.outputs, self.has_changed) = (0, 0, 0);
    }

    /// Ends the range. The writes are volatile so that the compiler does not call `memset` instead,
    /// which would take more stack.
    #[inline(always)]
    pub(super) fn empty(&mut self) {
        for bound in [
            &mut self.low,
            &mut self.high,
            &mut self.start,
            &mut self.end,
        ] {
            // SAFETY: a field of its own.
            unsafe { core::ptr::write_volatile(bound, 0) };
        }
    }

    /// Chooses where to sample a read of these bytes, which are the last ones of the range. Returns
    /// the index of the first new sample: a read that continues another one keeps some of its
    /// samples.
    #[inline(always)]
    pub fn plan_samples(&mut self, start: u64, length: u64, plan: Plan) -> u32 {
        let all_bytes = start - self.start + length;
        let is_first = start == self.start
            || all_bytes < WORD_BYTES
            || u64::from(self.sampled_bytes) < WORD_BYTES;
        if is_first {
            self.origin = self.start;
            self.set_samples(0);
        } else {
            thin_samples(self, start);
        }
        let kept = self.samples();
        self.sampled_bytes = if all_bytes < WORD_BYTES {
            all_bytes as u16
        } else {
            WORD_BYTES as u16
        };
        if length < 2 * WORD_BYTES {
            // The last word, which may begin in the read before.
            let end = start + length;
            self.place(if all_bytes < WORD_BYTES {
                self.start
            } else {
                end - WORD_BYTES
            });
            return kept;
        }
        // No call moves 4 GiB: MAX_RW_COUNT of the kernel's include/linux/fs.h is 2 GiB less a
        // page.
        let room = (length - WORD_BYTES) as u32;
        let end = start + u64::from(room);
        match plan {
            Plan::Dense => {
                self.place(start);
                let last = if is_first {
                    SAMPLES as u32 - 1
                } else {
                    SAMPLES as u32 / 2 - 1
                };
                place_evenly(self, start, room / last, last);
                self.place(end);
            }
            Plan::Few(number) => {
                self.place(start);
                self.place(start + varying_place(room, number));
                self.place(end);
            }
            Plan::One(number) => self.place(start + one_place(room, number)),
        }
        kept
    }

    /// Adds a sample.
    #[inline(always)]
    fn place(&mut self, at: u64) {
        let index = self.samples() & (SAMPLES as u32 - 1);
        self.places[index as usize] = (at - self.origin) as u32;
        self.set_samples(index + 1);
    }

    /// The number of samples. Volatile, so that it stays in the map: the verifier would follow each
    /// value in a register.
    #[inline(always)]
    fn samples(&self) -> u32 {
        // SAFETY: a field of its own.
        unsafe { core::ptr::read_volatile(&raw const self.samples) }
    }

    #[inline(always)]
    fn set_samples(&mut self, samples: u32) {
        // SAFETY: as above.
        unsafe { core::ptr::write_volatile(&raw mut self.samples, samples) };
    }

    /// The address of a sampled word.
    #[inline(always)]
    pub const fn sampled_at(&self, index: u32) -> u64 {
        self.origin + self.places[index as usize & (SAMPLES - 1)] as u64
    }

    /// Whether the whole sample lies within these bytes of the range.
    #[inline(always)]
    pub const fn sample_lies_in(&self, index: u32, start: u64, end: u64) -> bool {
        let at = self.sampled_at(index);
        index < self.samples
            && start <= at
            && at + self.sampled_bytes as u64 <= end
            && self.start <= at
    }

    /// Whether the range has a checksum of all its bytes before `start`, which are unchanged as far
    /// as is known: a read that begins there goes on with it. Of many small reads the checksum
    /// would cost more than it tells.
    #[inline(always)]
    pub const fn goes_on_with_sum(&self, start: u64, length: u64) -> bool {
        let all_bytes = start - self.start + length;
        self.summed_bytes != 0 && (all_bytes <= SMALL_BYTES || all_bytes <= length << 6)
    }

    /// The segments of the checksum in which these bytes of the range lie, the first and the last
    /// one. `None`: some bytes of these segments no longer belong to the range, or the checksum is
    /// not of them.
    #[inline(always)]
    pub fn segments(&self, start: u64, end: u64) -> Option<(u32, u32)> {
        let length = u64::from(self.summed_bytes);
        let (from, to) = (
            start.wrapping_sub(self.origin),
            end.wrapping_sub(self.origin),
        );
        let (first, last) = (
            self.summed_blocks.segment(length, from),
            self.summed_blocks.segment(length, to.wrapping_sub(1)),
        );
        let begin = self.origin
            + self
                .summed_blocks
                .end_of_segment(length, first.wrapping_sub(1));
        let finish = self.origin + self.summed_blocks.end_of_segment(length, last);
        let is_outside = is_less(start, self.origin)
            | is_less(length, to)
            | is_less(begin, self.start)
            | is_less(self.end, finish);
        if is_outside == 0 {
            Some((first, last))
        } else {
            None
        }
    }

    /// Notes that bytes from `start` on are written to `output`. Returns whether they may have been
    /// written there before: not if they went to other files, as `tee` writes them.
    #[inline(always)]
    pub const fn writes_again(&mut self, start: u64, output: FileNumber) -> bool {
        let bit = 1 << (output & 31);
        let is_known = self.outputs & bit != 0;
        self.outputs |= bit;
        is_known && start < self.written_to
    }

    /// Notes that the bytes were only peeked at, so that they may be read and written again.
    #[inline(always)]
    pub const fn peeked(&mut self) {
        (self.outputs, self.written_to) = (u32::MAX, self.end);
    }

    /// Whether these bytes, the first ones that a call writes or wants to write, are all that is
    /// left to write of the range.
    #[inline(always)]
    pub const fn is_rest(&self, start: u64, end: u64) -> bool {
        end == self.end && (start == self.start || start <= self.written_to)
    }

    /// Which bits of a sampled word are the file's.
    #[inline(always)]
    pub const fn mask(&self) -> u64 {
        if self.sampled_bytes as u64 >= WORD_BYTES {
            u64::MAX
        } else {
            (1 << (8 * (self.sampled_bytes & 7))) - 1
        }
    }
}

/// Where the only sampled word of a read is, between 0 and `room`: at the beginning, at the end and
/// at two places between them, in turn.
#[inline(always)]
pub const fn one_place(room: u32, number: u32) -> u64 {
    match number & 3 {
        0 => 0,
        1 => room as u64,
        _ => varying_place(room, number),
    }
}

/// A place between 0 and `room` that this number chooses: by a multiplication, since a division is
/// slow.
#[inline(always)]
const fn varying_place(room: u32, number: u32) -> u64 {
    (room as u64 * number.wrapping_mul(SPREAD) as u64) >> 32
}

/// Adds samples at this distance from each other, after the one at `start`, so that there are
/// `last`. The result means nothing.
///
/// A global function of the kernel side, so that the verifier checks it once, and not on every path
/// that leads to it.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
extern "C" fn place_evenly(range: *mut Range, start: u64, stride: u32, last: u32) -> u32 {
    let Some(range) = argument(range) else {
        return 0;
    };
    for index in rounds(SAMPLES - 1) {
        if 0 < index && index < last {
            range.place(start + u64::from(stride * index));
        }
    }
    0
}

/// Removes every second sample, to make room for those of a read that begins at `end`, and the
/// samples beyond `end`. The result means nothing. A global function for the same reason.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
extern "C" fn thin_samples(range: *mut Range, end: u64) -> u32 {
    let Some(range) = argument(range) else {
        return 0;
    };
    for index in 0..SAMPLES as u32 {
        if index < range.samples() && range.sampled_at(index) + WORD_BYTES > end {
            range.set_samples(index);
        }
    }
    for index in 1..SAMPLES / 2 {
        range.places[index] = range.places[2 * index];
        range.words[index] = range.words[2 * index];
    }
    range.set_samples(range.samples().div_ceil(2));
    0
}

/// How densely a read is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// At [`SAMPLES`] places, evenly spread.
    Dense,
    /// At the beginning, at the end, and at a place that this number chooses.
    Few(u32),
    /// At one of these places, which this number chooses.
    One(u32),
}

/// The result of comparing the samples in a piece of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Words that are the same.
    pub equal: u32,
    /// Words that differ.
    pub different: u32,
    /// Equal words that are not so by chance: their bits are neither all 0 nor all 1.
    pub telling: u32,
    /// What the checksum of the piece says.
    pub sum: Sum,
}

/// What the checksum of a range says about a piece of it: about the segments in which it lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sum {
    /// Nothing: there is none.
    #[default]
    Unknown,
    /// Nothing any more: some bytes of the segments have been overwritten, or came later.
    Lost,
    /// They are the same.
    Same,
    /// Some are not, or were not when an earlier piece was written.
    Different,
}

impl Comparison {
    /// From the sum of the numbers that [`compared`] returned.
    #[inline(always)]
    pub const fn unpack(sums: u64) -> Self {
        Self {
            equal: sums as u32 & 0xff,
            different: sums as u32 >> 8 & 0xff,
            telling: sums as u32 >> 16 & 0xff,
            sum: Sum::Unknown,
        }
    }
}

/// What a word adds to a [`Comparison`], with a byte for each count. `then` is the [`folded`] word
/// at the read, `now` the word now.
///
/// It is one number and has no branches, because the verifier would follow each combination of
/// three sums.
#[inline(always)]
pub fn compared(then: u32, now: u64, mask: u64) -> u64 {
    let differs = is_not_zero((then ^ folded(now, mask)).into());
    let is_telling = is_not_zero(now & mask) & is_not_zero(!now & mask);
    let equal = 1 ^ differs;
    equal | differs << 8 | (is_telling & equal) << 16
}

/// A hash of those bits of a word that are the file's.
#[inline(always)]
pub const fn folded(word: u64, mask: u64) -> u32 {
    ((word & mask).wrapping_mul(FACTOR) >> 32) as u32
}

/// What is concluded about a piece of a range that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The bytes are the file's.
    Same,
    /// The program changed the file's bytes in place.
    Changed,
    /// The program used the memory for something else, so the range ends.
    Reused,
    /// The same, but some of the range's bytes may still have been there.
    Overlaid,
    /// Too few samples lie in it, so the address is the only evidence.
    Unsampled,
    /// It may be the file's, or something else: it was written before, and its samples may be equal
    /// by chance. Or it is a piece of a range in which other bytes have changed.
    Undecided,
}

impl Range {
    /// How many samples of a piece must be the same. A program that uses its buffer for something
    /// else may begin it alike, for example with the same header, so that one word of a piece is
    /// not enough.
    #[inline(always)]
    const fn least_equal(&self, start: u64, end: u64) -> u32 {
        if self.is_rest(start, end) { 1 } else { 2 }
    }

    /// Judges the piece of the range from `start` to `end`. `is_whole`: the buffer that is written
    /// lies in the range with all its bytes.
    #[inline(always)]
    pub const fn judge(
        &self,
        start: u64,
        end: u64,
        is_whole: bool,
        compared: Comparison,
    ) -> Verdict {
        let again = start < self.written_to;
        let is_all = start == self.start && end == self.end;
        let has_changed = matches!(compared.sum, Sum::Different);
        if compared.different > 0 || (has_changed && is_all) {
            // A buffer that was written before and holds other bytes now is used for something
            // else, like a buffer for archive records. So is, most likely, one that only overlaps
            // the range: two functions have used the same part of the stack.
            if again {
                Verdict::Reused
            } else if is_whole {
                Verdict::Changed
            } else {
                Verdict::Overlaid
            }
        } else if has_changed || (again && compared.telling == 0) {
            Verdict::Undecided
        } else {
            let is_sampled = match compared.sum {
                Sum::Same => true,
                Sum::Unknown => compared.equal >= self.least_equal(start, end),
                Sum::Lost | Sum::Different => false,
            };
            if is_sampled {
                Verdict::Same
            } else {
                Verdict::Unsampled
            }
        }
    }
}

/// The length that two intervals have in common.
///
/// A global function of the kernel side, so that the verifier checks it once, and does not follow
/// each path through it for each range.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub extern "C" fn common_length(start: u64, end: u64, other_start: u64, other_end: u64) -> u64 {
    let start = if start > other_start {
        start
    } else {
        other_start
    };
    let end = if end < other_end { end } else { other_end };
    end.saturating_sub(start)
}
