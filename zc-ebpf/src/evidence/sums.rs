//! Sums over memory of the caller, by which bytes that were changed on the way are told from those that were not.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::{bpf_loop, bpf_probe_read_user};
use zc_ebpf::pairing::{
    FACTOR,
    range::{BLOCK_BYTES, Range},
};

use crate::maps::{BLOCK, exchange};

/// A block of memory that is summed up.
#[repr(C)]
pub struct Block {
    /// 1: a program is at work on it. Some kernels preempt programs, as 7.3 does those of tracepoints.
    is_taken: u64,
    words: [u64; BLOCK_BYTES as usize / 8],
}

/// Sums up these bytes of a range, the first ones. The result means nothing: a global function must have one.
///
/// Global, so that the verifier looks at it once; likewise the next one.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn sum_up(range: *mut Range, start: u64, length: u64) -> u32 {
    // SAFETY: null or what the caller passes, which points into MEMORIES.
    let Some(range) = (unsafe { range.as_mut() }) else { return 0 };
    range.sum = sum_of(start, length, range.summed_blocks);
    range.summed_bytes = if range.sum == 0 { 0 } else { length as u32 };
    0
}

/// 1: these bytes of a range were summed up, and their sum is another one now.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn sum_differs(range: *const Range, start: u64, end: u64) -> u32 {
    // SAFETY: as above.
    let Some(range) = (unsafe { range.as_ref() }) else { return 0 };
    if !range.has_sum_of(start, end) {
        return 0;
    }
    let now = sum_of(start, end - start, range.summed_blocks);
    u32::from(now != range.sum && now != 0)
}

/// A sum of these bytes, in so many blocks all over them: of every byte, if the blocks are enough for that. 0: it cannot be had.
#[inline(always)]
fn sum_of(start: u64, length: u64, blocks: u32) -> u32 {
    let Some(block) = BLOCK.get_ptr_mut(0) else { return 0 };
    // SAFETY: this CPU's own; a task stays on its CPU while a program runs for it.
    if unsafe { exchange(&raw mut (*block).is_taken, 1) } != 0 {
        return 0;
    }
    let last = u64::from(blocks.saturating_sub(1));
    let room = length.saturating_sub(BLOCK_BYTES);
    let stride = if last == 0 || room <= last * BLOCK_BYTES { BLOCK_BYTES } else { room / last };
    let mut summing = Summing { start, room, stride, sum: FACTOR };
    // SAFETY: `add_block` has the signature that the helper calls, and `summing` lives longer than the call. The helper does the loop, so
    // that the verifier looks at one round of it.
    unsafe { bpf_loop(blocks, add_block as *mut c_void, (&raw mut summing).cast(), 0) };
    // SAFETY: as above.
    unsafe { exchange(&raw mut (*block).is_taken, 0) };
    if summing.sum == 0 { 0 } else { (summing.sum >> 32) as u32 | 1 }
}

/// What the rounds of the loop share.
#[repr(C)]
struct Summing {
    start: u64,
    /// Where the last block begins, in bytes from the start.
    room: u64,
    /// Bytes from each block to the next.
    stride: u64,
    /// 0: a block could not be read.
    sum: u64,
}

/// One round: adds a block. 1 ends the loop.
extern "C" fn add_block(index: u64, summing: *mut c_void) -> i64 {
    // SAFETY: the helper passes on the pointer that `sum_of` gave it.
    let summing = unsafe { &mut *summing.cast::<Summing>() };
    let Some(block) = BLOCK.get_ptr_mut(0) else { return 1 };
    // SAFETY: this CPU's own, which `sum_of` has taken.
    let block = unsafe { &mut (*block).words };
    let at = index * summing.stride;
    let at = summing.start + if at < summing.room { at } else { summing.room };
    // SAFETY: as much as the block has room for; the helper checks the address.
    if unsafe { bpf_probe_read_user(block.as_mut_ptr().cast(), BLOCK_BYTES as u32, at as *const c_void) } != 0 {
        summing.sum = 0;
        return 1;
    }
    let mut sum = summing.sum;
    for word in block.iter() {
        sum = (sum ^ word).wrapping_mul(FACTOR);
    }
    summing.sum = sum ^ sum >> 32 | 1;
    0
}
