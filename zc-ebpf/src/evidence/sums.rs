//! Checksums over the caller's memory. They show whether bytes were changed between a read and a write.

use aya_ebpf::{macros::map, maps::PerCpuArray};
use zc_ebpf::pairing::{
    FACTOR,
    range::{BLOCK_BYTES, Blocks, Range, Sum},
};

use crate::kernel::{
    entries::{Entries as _, exchange},
    helpers::{fill_from_user, fill_part_from_user, repeat},
};

/// Room for a block of memory while its checksum is computed.
#[repr(C)]
pub struct Block {
    /// 1: a program is using it. Some kernels preempt programs; 7.3 preempts those on tracepoints.
    is_taken: u64,
    words: Words,
}

/// A block of memory for checksums: too large for the stack.
#[map]
static BLOCK: PerCpuArray<Block> = PerCpuArray::with_max_entries(1, 0);

/// Computes the checksum of these bytes, which are the first ones of the range.
#[inline(always)]
pub fn sum_up(range: &mut Range, start: u64, length: u64) {
    range.sum = sum_of(start, length, range.summed_blocks.0);
    range.summed_bytes = if range.sum == 0 { 0 } else { length as u32 };
}

/// Compares the checksum of the range with the bytes that are there now.
#[inline(always)]
pub fn compare_sum(range: &Range) -> Sum {
    if !range.has_sum() {
        return Sum::Unknown;
    }
    match sum_of(range.origin, range.summed_bytes.into(), range.summed_blocks.0) {
        0 => Sum::Unknown,
        now if now == range.sum => Sum::Same,
        _ => Sum::Different,
    }
}

/// A checksum of these blocks (a [`Blocks`]), spread evenly over the bytes. It covers every byte if there are enough blocks. 0: not
/// available.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn sum_of(start: u64, length: u64, blocks: u32) -> u32 {
    let Some(block) = BLOCK.entry(0) else { return 0 };
    if exchange(&mut block.is_taken, 1) != 0 {
        return 0;
    }
    let words = &mut block.words;
    let sum = if length < BLOCK_BYTES {
        sum_of_part(words, start, length)
    } else {
        sum_of_blocks(words, start, length, Blocks(blocks))
    };
    exchange(&mut block.is_taken, 0);
    if sum == 0 { 0 } else { (sum >> 32) as u32 | 1 }
}

/// The words of a block.
type Words = [u64; BLOCK_BYTES as usize / 8];

/// The sum of bytes that do not fill a block. 0: not available.
#[inline(always)]
fn sum_of_part(words: &mut Words, start: u64, length: u64) -> u64 {
    if !fill_part_from_user(start, words, length) {
        return 0;
    }
    let mut summing = SummingPart { words, left: length, sum: FACTOR };
    repeat(length.div_ceil(8) as u32, add_word, &mut summing);
    summing.sum ^ summing.sum >> 32 | 1
}

/// The state of the loop.
#[repr(C)]
struct SummingPart<'w> {
    words: &'w Words,
    /// Bytes that are left.
    left: u64,
    sum: u64,
}

/// One round of the loop: adds a word of the block. A loop of the program itself would be checked round by round.
extern "C" fn add_word(index: u64, summing: &mut SummingPart<'_>) -> i64 {
    let Some(word) = summing.words.get(index as usize) else { return 1 };
    // What is behind the bytes is from another sum.
    let bytes = if summing.left < 8 { summing.left } else { 8 };
    summing.sum = (summing.sum ^ (word << ((64 - 8 * bytes) & 63))).wrapping_mul(FACTOR);
    summing.left -= bytes;
    0
}

/// The sum of these blocks of the bytes. 0: not available.
#[inline(always)]
fn sum_of_blocks(words: &mut Words, start: u64, length: u64, blocks: Blocks) -> u64 {
    let last = u64::from(blocks.count().saturating_sub(1));
    let room = length - BLOCK_BYTES;
    let stride = if last == 0 || room <= last * BLOCK_BYTES { BLOCK_BYTES } else { room / last };
    let mut summing = Summing { words, start, first: blocks.first_place(stride - BLOCK_BYTES), room, stride, sum: FACTOR };
    repeat(blocks.count(), add_block, &mut summing);
    summing.sum
}

/// The state of the loop.
#[repr(C)]
struct Summing<'w> {
    words: &'w mut Words,
    start: u64,
    /// Where the first block begins, in bytes from the start.
    first: u64,
    /// Where the last block begins, in bytes from the start.
    room: u64,
    /// Bytes from each block to the next.
    stride: u64,
    /// 0: a block could not be read.
    sum: u64,
}

/// One round of the loop: adds a block. Returns 1 to end the loop.
extern "C" fn add_block(index: u64, summing: &mut Summing<'_>) -> i64 {
    let at = summing.first + index * summing.stride;
    let at = summing.start + if at < summing.room { at } else { summing.room };
    if !fill_from_user(at, summing.words) {
        summing.sum = 0;
        return 1;
    }
    // Four sums side by side: each multiplication waits for the one before it. Eight words a round, since the verifier follows every round.
    let mut sums = [summing.sum, !summing.sum, summing.sum << 1, !summing.sum << 1];
    for words in summing.words.as_chunks::<8>().0 {
        for words in words.as_chunks::<4>().0 {
            for (sum, word) in sums.iter_mut().zip(words) {
                *sum = (*sum ^ word).wrapping_mul(FACTOR);
            }
        }
    }
    let sum = sums.into_iter().fold(summing.sum, |all, sum| (all ^ sum).wrapping_mul(FACTOR));
    summing.sum = sum ^ sum >> 32 | 1;
    0
}
