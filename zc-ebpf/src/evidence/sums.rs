//! Checksums over the caller's memory. They show whether bytes were changed between a read and a
//! write.

use aya_ebpf::{macros::map, maps::PerCpuArray};
use zc_ebpf::{
    opaque::rounds,
    pairing::{
        FACTOR,
        blocks::{BLOCK_BYTES, SEGMENTS},
        range::{Range, Sum},
    },
};

use crate::kernel::{
    argument,
    entries::{Entries as _, exchange},
    helpers::{fill_from_user, fill_part_from_user, repeat},
};

/// A checksum while it is computed. It is in a map, because it is too large for the stack, and
/// because the verifier follows less of what is in maps.
#[repr(C)]
pub struct Summing {
    /// 1: a program is using it. Some kernels preempt programs; 7.3 preempts those on tracepoints.
    is_taken: u64,
    /// The block that is read last.
    words: [u64; BLOCK_BYTES as usize / 8],
    /// Where the next block begins.
    at: u64,
    /// Where no block begins after.
    last_at: u64,
    /// Bytes from each block to the next.
    stride: u64,
    /// The number of the next block.
    number: u32,
    /// How many blocks a segment has.
    per_segment: u32,
    /// The sum of all before. 0: a block could not be read.
    sum: u64,
    /// What the sum is after each segment.
    sums: [u16; SEGMENTS],
}

/// The checksum that this CPU computes.
#[map]
static SUMMING: PerCpuArray<Summing> = PerCpuArray::with_max_entries(1, 0);

/// What a checksum is at the beginning.
const SEED: u64 = FACTOR >> 48;

/// Computes the checksum of all bytes of a range, whose `summed_blocks` are set.
#[inline(always)]
pub fn sum_up(range: &mut Range) {
    range.summed_bytes = (range.end - range.start) as u32;
    sum_segments(range, range.start, range.end, 1);
}

/// Compares the checksum of these bytes of the range with that of the bytes that are there now.
#[inline(always)]
pub fn compare_sum(range: &mut Range, start: u64, end: u64) -> Sum {
    match sum_segments(range, start, end, 0) {
        SAME => Sum::Same,
        DIFFERENT => Sum::Different,
        LOST => Sum::Lost,
        _ => Sum::Unknown,
    }
}

/// What [`sum_segments`] returns for [`Sum::Unknown`].
const UNKNOWN: u32 = 0;

/// The same for [`Sum::Same`].
const SAME: u32 = 1;

/// The same for [`Sum::Different`].
const DIFFERENT: u32 = 2;

/// The same for [`Sum::Lost`].
const LOST: u32 = 3;

/// Computes the checksum of the segments in which these bytes of the range lie. If `is_kept` is 1,
/// they are all of its bytes, and the range remembers the sums. Else compares them with those that
/// it remembers. Global, so that the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn sum_segments(range: *mut Range, start: u64, end: u64, is_kept: u32) -> u32 {
    let (Some(range), Some(summing)) = (argument::as_mut(range), SUMMING.entry(0)) else {
        return UNKNOWN;
    };
    if range.has_changed != 0 {
        return DIFFERENT;
    }
    if range.summed_bytes == 0 {
        return UNKNOWN;
    }
    let Some((first, last)) = range.segments(start, end) else {
        return LOST;
    };
    if exchange(&mut summing.is_taken, 1) != 0 {
        range.summed_bytes = 0;
        return UNKNOWN;
    }
    summing.sum = if first == 0 {
        SEED
    } else {
        range.sums[(first as usize - 1) & (SEGMENTS - 1)].into()
    };
    if u64::from(range.summed_bytes) < BLOCK_BYTES {
        add_part(summing, range);
    } else {
        add_blocks(summing, range, first, last + 1);
    }
    if is_kept != 0 {
        // Not as a whole, for which the compiler would call `memmove`.
        for index in rounds(SEGMENTS) {
            let index = index as usize & (SEGMENTS - 1);
            range.sums[index] = summing.sums[index];
        }
    }
    let sum = summing.sum;
    exchange(&mut summing.is_taken, 0);
    if sum == 0 {
        // Memory that cannot be read now cannot be compared later.
        range.summed_bytes = 0;
        return UNKNOWN;
    }
    if sum == u64::from(range.sums[last as usize & (SEGMENTS - 1)]) {
        return SAME;
    }
    range.has_changed = 1;
    DIFFERENT
}

/// What is remembered of a sum. It is never 0.
#[inline(always)]
const fn shortened(sum: u64) -> u16 {
    let short = (sum >> 48) as u16;
    if short == 0 { 1 } else { short }
}

/// The state of the loops.
#[repr(C)]
struct State<'s> {
    summing: &'s mut Summing,
}

/// Adds the bytes of a range that do not fill a block.
#[inline(always)]
fn add_part(summing: &mut Summing, range: &Range) {
    let length = u64::from(range.summed_bytes);
    if !fill_part_from_user(range.origin, &mut summing.words, length) {
        summing.sum = 0;
        return;
    }
    // Bytes that are left.
    summing.at = length;
    repeat(length.div_ceil(8) as u32, add_word, &mut State { summing });
    summing.sums[0] = shortened(summing.sum);
    summing.sum = summing.sums[0].into();
}

/// One round of the loop: adds a word of the block. A loop of the program itself would be checked
/// round by round.
extern "C" fn add_word(index: u64, State { summing }: &mut State<'_>) -> i64 {
    let Some(&word) = summing.words.get(index as usize) else {
        return 1;
    };
    // What is behind the bytes is from another sum.
    let bytes = if summing.at < 8 { summing.at } else { 8 };
    summing.sum = (summing.sum ^ (word << ((64 - 8 * bytes) & 63))).wrapping_mul(FACTOR);
    summing.at -= bytes;
    0
}

/// Adds the blocks of the segments from `first` to before `end`.
#[inline(always)]
fn add_blocks(summing: &mut Summing, range: &Range, first: u32, end: u32) {
    let (blocks, length) = (range.summed_blocks, u64::from(range.summed_bytes));
    summing.per_segment = blocks.per_segment();
    summing.stride = blocks.stride(length);
    summing.number = first * summing.per_segment;
    summing.at = range.origin
        + blocks.first_place(summing.stride - BLOCK_BYTES)
        + u64::from(summing.number) * summing.stride;
    summing.last_at = range.origin + length - BLOCK_BYTES;
    let end = end * summing.per_segment;
    let end = if end < blocks.count() {
        end
    } else {
        blocks.count()
    };
    let left = end.saturating_sub(summing.number);
    repeat(left, add_block, &mut State { summing });
}

/// One round of the loop: adds a block. Returns 1 to end the loop.
extern "C" fn add_block(_index: u64, State { summing }: &mut State<'_>) -> i64 {
    let at = if summing.at < summing.last_at {
        summing.at
    } else {
        summing.last_at
    };
    if !fill_from_user(at, &mut summing.words) {
        summing.sum = 0;
        return 1;
    }
    // Four sums side by side: each multiplication waits for the one before it. Eight words a round,
    // since the verifier follows every round.
    let before = summing.sum;
    let mut sums = [before, !before, before << 1, !before << 1];
    for words in summing.words.as_chunks::<8>().0 {
        for words in words.as_chunks::<4>().0 {
            for (sum, word) in sums.iter_mut().zip(words) {
                *sum = (*sum ^ word).wrapping_mul(FACTOR);
            }
        }
    }
    let sum = shortened(
        sums.into_iter()
            .fold(before, |all, sum| (all ^ sum).wrapping_mul(FACTOR)),
    );
    // The last block of a segment leaves its sum there.
    let segment = summing.number.checked_div(summing.per_segment).unwrap_or(0);
    summing.sums[segment as usize & (SEGMENTS - 1)] = sum;
    summing.sum = sum.into();
    summing.number += 1;
    summing.at += summing.stride;
    0
}
