//! How much of a stack is in use, so that a sample has no more room than it needs.

use zc_ebpf::{CHUNK_BYTES, MAX_CHUNKS};

use crate::{
    kernel::fields::{self, KernelPtr, offset_of_field},
    kernel::helpers::current_task,
    kernel::vma::vma_at,
};

/// A stack that reaches further up than this is none of its own: goroutines and coroutines have
/// theirs within a larger mapping.
const MAX_BYTES: u64 = 1 << 20;
/// How many pieces are copied of a stack whose end is unknown.
const USUAL_CHUNKS: u64 = 16;

/// How many pieces there are from this one, where the stack pointer is, up to the end of the stack.
/// At most [`MAX_CHUNKS`].
#[inline(always)]
pub fn chunks(first: u64) -> u64 {
    let in_the_first_stack = bytes_to_start(first);
    let bytes = if in_the_first_stack < MAX_BYTES {
        in_the_first_stack
    } else {
        bytes_to_end(first)
    };
    if bytes >= MAX_BYTES {
        return USUAL_CHUNKS;
    }
    let chunks = bytes / CHUNK_BYTES as u64 + 1;
    if chunks > MAX_CHUNKS as u64 {
        MAX_CHUNKS as u64
    } else {
        chunks
    }
}

/// How far above this address the stack of the process begins, which is that of its first thread.
/// Very far for a stack above it, and if it is unknown.
#[inline(always)]
fn bytes_to_start(address: u64) -> u64 {
    let mm: KernelPtr = fields::probe_or_zero(current_task(), offset_of_field!(task_mm));
    fields::probe_or_zero::<u64>(mm, offset_of_field!(mm_start_stack)).wrapping_sub(address)
}

/// How far above this address its mapping ends. `u64::MAX` if it is unknown, also because another
/// thread is changing the mappings.
#[inline(always)]
fn bytes_to_end(address: u64) -> u64 {
    vma_at(address).map_or(u64::MAX, |vma| vma.end.wrapping_sub(address))
}
