//! How much of a stack is in use, so that a sample has no more room than it needs.

use core::ffi::c_void;

use aya_ebpf::{bindings::task_struct, helpers::generated::bpf_find_vma};
use zc_ebpf::{ABSENT, CHUNK_BYTES, MOST_CHUNKS};

use crate::{
    kernel::fields::{self, KernelPtr, TypedPtr, offset_of_field},
    kernel::helpers::current_task,
};

/// A stack that reaches further up than this is none of its own: goroutines and coroutines have
/// theirs within a larger mapping.
const MOST_BYTES: u64 = 1 << 20;
/// How many pieces are copied of a stack whose end is unknown.
const USUAL_CHUNKS: u64 = 16;

/// How many pieces there are from this one, where the stack pointer is, up to the end of the stack.
/// At most [`MOST_CHUNKS`].
#[inline(always)]
pub fn chunks(first: u64) -> u64 {
    let in_the_first_stack = bytes_to_start(first);
    let bytes = if in_the_first_stack < MOST_BYTES {
        in_the_first_stack
    } else {
        bytes_to_end(first)
    };
    if bytes >= MOST_BYTES {
        return USUAL_CHUNKS;
    }
    let chunks = bytes / CHUNK_BYTES as u64 + 1;
    if chunks > MOST_CHUNKS as u64 {
        MOST_CHUNKS as u64
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
    if offset_of_field!(vma_file) == ABSENT {
        return u64::MAX;
    }
    let mut end = 0_u64;
    let task = TypedPtr::current_task().address().cast_mut().cast();
    // SAFETY: `take_end` has the signature that the helper calls, and `end` lives longer than the
    // call.
    let result = unsafe {
        bpf_find_vma(
            task,
            address,
            take_end as *mut c_void,
            (&raw mut end).cast(),
            0,
        )
    };
    if result == 0 {
        end.wrapping_sub(address)
    } else {
        u64::MAX
    }
}

/// Called by the helper with the mapping that was found.
extern "C" fn take_end(_task: *mut task_struct, vma: TypedPtr, end: &mut u64) -> i64 {
    *end = vma.load(offset_of_field!(vma_end));
    0
}
