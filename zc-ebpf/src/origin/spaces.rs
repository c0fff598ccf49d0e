//! What is known of each address space, and how it is forgotten.

use aya_ebpf::bindings::BPF_NOEXIST;
use zc_ebpf::{SharedMemory, Task, fills, origin::memory};

use crate::{
    kernel::{argument, registers::untagged},
    maps::{MEMORIES, NEW_MEMORY},
    origin::lock::{lock, lock_for, unlock, unlock_for},
};

/// Mask for a number of elements. No address space is larger, so a larger number is wrong.
const ADDRESSES: u64 = (1 << 48) - 1;

/// What is known about the address space of a task. `None` if there is no entry; with `is_needed`
/// it is made.
#[inline(always)]
pub fn memory_of_task(task: &mut Task, is_needed: bool) -> Option<*mut SharedMemory> {
    if is_needed {
        task.has_memory = 1;
    } else if !task.may_have_memory() {
        return None;
    }
    memory_of(task.space, is_needed)
}

/// What is known about an address space. `None` if there is no entry; with `is_needed` it is made.
#[inline(always)]
pub fn memory_of(space: u32, is_needed: bool) -> Option<*mut SharedMemory> {
    let known = MEMORIES.get_ptr_mut(space);
    if known.is_some() || !is_needed {
        return known;
    }
    #[expect(
        clippy::needless_borrows_for_generic_args,
        reason = "a copy would be too large for the stack"
    )]
    let _ = MEMORIES.insert(space, &NEW_MEMORY, BPF_NOEXIST.into());
    MEMORIES.get_ptr_mut(space)
}

/// Forgets everything about an address space. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn forget(space: u32) -> u32 {
    if let Some(shared) = memory_of(space, false)
        && let Some(memory) = lock(shared, true)
    {
        memory::forget_all(memory);
        unlock(shared);
    }
    0
}

/// Forgets the memory that the kernel overwrites in the call that the task enters.
#[inline(always)]
pub fn overwrite(task: &mut Task) {
    if task.spec.fills != fills::NONE {
        overwrite_argument(task);
    }
}

/// Does so for the memory that an argument of the call points to. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn overwrite_argument(task: *mut Task) -> u32 {
    let Some(task) = argument::as_mut(task) else {
        return 0;
    };
    if task.spec.fills == fills::ALL {
        return forget(task.space);
    }
    let (start, length) = if task.spec.fills == fills::ABOVE {
        (task.arguments.get(0), fills::ABOVE_BYTES)
    } else {
        let is_one = task.spec.fills_count == 0;
        let count = if is_one {
            1
        } else {
            task.arguments.get(task.spec.fills_count.wrapping_sub(1)) & ADDRESSES
        };
        (
            untagged(task.arguments.get(task.spec.fills.wrapping_sub(1))),
            count.saturating_mul(task.spec.fills_bytes.into()),
        )
    };
    if start != 0
        && let Some(shared) = memory_of_task(task, false)
        && let Some(memory) = lock_for(task, shared, true)
    {
        memory::clear(memory, start, start.saturating_add(length));
        unlock_for(task, shared);
    }
    0
}
