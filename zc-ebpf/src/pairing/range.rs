//! Memory that a read filled with bytes of a file, and how it is told whether they are still the same when it is written.
//!
//! Stores of the program itself are seen by nobody. So a read takes samples: some words, and now and then a sum of blocks.

#![expect(clippy::cast_possible_truncation, reason = "there are few samples, and no call moves 4 GiB")]

use super::FACTOR;
use crate::FileNumber;

/// Most words that are sampled of a range.
pub const SAMPLES: usize = 8;

/// Bytes of a block that is summed up.
pub const BLOCK_BYTES: u64 = 512;

/// Bytes of a sampled word.
const WORD_BYTES: u64 = 8;

/// Memory that a read of a file filled, or several that went on where the one before had ended.
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
    /// Where the buffer of the last read ends: what it did not get, the next read may bring.
    pub wanted_to: u64,
    /// What the places of the samples count from.
    pub origin: u64,
    /// Bytes from the origin that [`sum`](Self::sum) is of; 0: there is no sum.
    pub summed_bytes: u32,
    /// A sum of all these bytes, or of blocks all over them if there are many.
    pub sum: u32,
    /// Words that are sampled.
    pub samples: u32,
    /// The file.
    pub file: FileNumber,
    /// Blocks that are summed up.
    pub summed_blocks: u32,
    /// Bytes of a sampled word that are the file's: fewer than a word's if the read was shorter.
    pub sampled_bytes: u32,
    /// Where the sampled words stand, in bytes from the origin.
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
        sum: 0,
        samples: 0,
        file: 0,
        summed_blocks: 0,
        sampled_bytes: 0,
        places: [0; SAMPLES],
        words: [0; SAMPLES],
    };

    /// Whether all these bytes are the file's.
    #[inline(always)]
    pub const fn holds(&self, start: u64, end: u64) -> bool {
        self.start <= start && end <= self.end && start < end
    }

    /// Whether bytes of this file that begin here go on where those of the range end, of which none was written so far.
    #[inline(always)]
    pub const fn goes_on_with(&self, file: FileNumber, start: u64) -> bool {
        self.file == file && self.end == start && self.start < start && self.written_to <= self.start
    }

    /// The range is over. Volatile: the compiler would call a function that clears bytes, one more on the stack.
    #[inline(always)]
    pub(super) fn empty(&mut self) {
        for bound in [&mut self.low, &mut self.high, &mut self.start, &mut self.end] {
            // SAFETY: a field of its own.
            unsafe { core::ptr::write_volatile(bound, 0) };
        }
    }

    /// Chooses where a read of these bytes, the last ones of the range, is sampled. Returns the index of the first new sample: a read
    /// that goes on with another keeps some of that one's.
    #[inline(always)]
    pub fn plan_samples(&mut self, start: u64, length: u64, plan: Plan) -> u32 {
        let all_bytes = start - self.start + length;
        let is_first = start == self.start || all_bytes < WORD_BYTES || u64::from(self.sampled_bytes) < WORD_BYTES;
        if is_first {
            self.origin = self.start;
            self.set_samples(0);
        } else {
            self.thin_samples(start);
        }
        let kept = self.samples();
        self.summed_bytes = 0;
        self.sampled_bytes = if all_bytes < WORD_BYTES { all_bytes as u32 } else { WORD_BYTES as u32 };
        if length < 2 * WORD_BYTES {
            // Its last word, which may begin in the read before.
            let end = start + length;
            self.place(if all_bytes < WORD_BYTES { self.start } else { end - WORD_BYTES });
            return kept;
        }
        // No call moves 4 GiB: MAX_RW_COUNT of the kernel's include/linux/fs.h is 2 GiB less a page.
        let room = (length - WORD_BYTES) as u32;
        self.place(start);
        match plan {
            Plan::Dense => {
                let last = if is_first { SAMPLES as u32 - 1 } else { SAMPLES as u32 / 2 - 1 };
                let stride = room / last;
                for index in 1..SAMPLES as u32 - 1 {
                    if index < last {
                        self.place(start + u64::from(stride * index));
                    }
                }
            }
            // A multiplication spreads the place over the room without a division.
            Plan::Few(varying) => self.place(start + ((u64::from(room) * u64::from(varying.wrapping_mul(0x9e37_79b1))) >> 32)),
        }
        self.place(start + u64::from(room));
        kept
    }

    /// Gives up every second sample, to make room for those of a read to here, and those of what lay here before.
    #[inline(always)]
    fn thin_samples(&mut self, end: u64) {
        for index in 0..SAMPLES as u32 {
            if index < self.samples() && self.sampled_at(index) + WORD_BYTES > end {
                self.set_samples(index);
            }
        }
        for index in 1..SAMPLES / 2 {
            self.places[index] = self.places[2 * index];
            self.words[index] = self.words[2 * index];
        }
        self.set_samples(self.samples().div_ceil(2));
    }

    /// Adds a sample.
    #[inline(always)]
    fn place(&mut self, at: u64) {
        let index = self.samples() & (SAMPLES as u32 - 1);
        self.places[index as usize] = (at - self.origin) as u32;
        self.set_samples(index + 1);
    }

    /// The number of samples. Volatile, so that it stays in the map: in a register, the verifier would follow each value.
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

    /// Where the word of a sample stands.
    #[inline(always)]
    pub const fn sampled_at(&self, index: u32) -> u64 {
        self.origin + self.places[index as usize & (SAMPLES - 1)] as u64
    }

    /// Whether a sample lies in all of these bytes of the range.
    #[inline(always)]
    pub const fn sample_lies_in(&self, index: u32, start: u64, end: u64) -> bool {
        let at = self.sampled_at(index);
        index < self.samples && start <= at && at + self.sampled_bytes as u64 <= end && self.start <= at
    }

    /// Whether the sum is of these bytes.
    #[inline(always)]
    pub const fn has_sum_of(&self, start: u64, end: u64) -> bool {
        self.summed_bytes != 0 && start == self.origin && end - start == self.summed_bytes as u64
    }

    /// Which bits of a sampled word are the file's.
    #[inline(always)]
    pub const fn mask(&self) -> u64 {
        if self.sampled_bytes as u64 >= WORD_BYTES { u64::MAX } else { (1 << (8 * (self.sampled_bytes & 7))) - 1 }
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
    /// The comparison that is the sum of such numbers of [`compared`].
    #[inline(always)]
    pub const fn unpack(sums: u64) -> Self {
        Self { equal: sums as u32 & 0xff, different: sums as u32 >> 8 & 0xff, telling: sums as u32 >> 16 & 0xff }
    }
}

/// What a word adds to a [`Comparison`], with a byte for each number: what it was, [`folded`], and what it is now.
///
/// One number, and without branches: the verifier would follow each combination of three sums.
#[inline(always)]
pub fn compared(then: u32, now: u64, mask: u64) -> u64 {
    let differs = is_not_zero((then ^ folded(now, mask)).into());
    let is_telling = is_not_zero(now & mask) & is_not_zero(!now & mask);
    let equal = 1 ^ differs;
    equal | differs << 8 | (is_telling & equal) << 16
}

/// Those bits of a word that are the file's, so that few words look alike.
#[inline(always)]
pub const fn folded(word: u64, mask: u64) -> u32 {
    ((word & mask).wrapping_mul(FACTOR) >> 32) as u32
}

/// 1 for any number but 0; not as a comparison, which the compiler makes a branch.
#[inline(always)]
fn is_not_zero(number: u64) -> u64 {
    let mut sign = number | number.wrapping_neg();
    #[cfg(target_arch = "bpf")]
    // SAFETY: a shift.
    unsafe {
        core::arch::asm!("{sign} >>= 63", sign = inout(reg) sign, options(pure, nomem, nostack));
    }
    #[cfg(not(target_arch = "bpf"))]
    {
        sign >>= 63;
    }
    sign
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
    /// Nothing but the place speaks for it: no sample lies in it.
    Unsampled,
    /// It was written before, and what the samples say of it now could be chance.
    Undecided,
}

impl Range {
    /// Judges a piece of the range, which begins at `start`.
    #[inline(always)]
    pub const fn judge(&self, start: u64, compared: Comparison) -> Verdict {
        let again = start < self.written_to;
        if compared.different > 0 {
            // A buffer that was written and holds other bytes by now is in use for something else, as the records of an archive are.
            if again { Verdict::Reused } else { Verdict::Changed }
        } else if again && compared.telling == 0 {
            Verdict::Undecided
        } else if compared.equal == 0 {
            Verdict::Unsampled
        } else {
            Verdict::Same
        }
    }
}

/// How many numbers lie in both ranges.
///
/// In the kernel a global function, so that the verifier looks at it once, and not at every way through it for every range.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub extern "C" fn common_length(start: u64, end: u64, other_start: u64, other_end: u64) -> u64 {
    overlap(start, end, other_start, other_end)
}

/// The same without a call, where there is no room for one on the stack.
#[inline(always)]
pub(super) const fn overlap(start: u64, end: u64, other_start: u64, other_end: u64) -> u64 {
    let start = if start > other_start { start } else { other_start };
    let end = if end < other_end { end } else { other_end };
    end.saturating_sub(start)
}
