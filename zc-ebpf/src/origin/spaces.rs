//! What is known of each address space, and how it is forgotten.
//!
//! An address space has a place in [`MEMORIES`] as long as it has tasks. Its number chooses that
//! place, so a new one gets the first number whose place is free.

use zc_ebpf::{
    KernelLoss, MEMORIES as MEMORY_COUNT, SharedMemory, Task, opaque::smaller, origin::memory,
    overwrites, repeat::repeat,
};

use crate::{
    kernel::{
        argument,
        entries::{Entries as _, EntryPtr, field},
        registers::untagged,
    },
    maps::{CONTROL, MEMORIES, count_loss},
    origin::lock::{lock, lock_for},
};

/// Mask for a number of elements. No address space is larger, so a larger number is wrong.
const ADDRESSES: u64 = (1 << 48) - 1;

/// What `mremap` rounds lengths up to, unless pages are larger.
const PAGE: u64 = 4096;

/// How many numbers are tried until an address space has none.
const ATTEMPTS: u32 = 16;

/// What is known about an address space. `None` if there was no place for it.
#[inline(always)]
pub fn memory_of(space: u32) -> Option<EntryPtr<SharedMemory>> {
    place(space).filter(|&shared| {
        field!(shared, space).load() == u64::from(space) && field!(shared, tasks).load() != 0
    })
}

/// As [`memory_of`], where a call needs it. If there is none, the bytes that the call moves have an
/// unknown origin, which is counted.
#[inline(always)]
pub fn needed_memory(space: u32) -> Option<EntryPtr<SharedMemory>> {
    let memory = memory_of(space);
    if memory.is_none() {
        count_loss(KernelLoss::UnknownOrigin);
    }
    memory
}

/// The place that the number of an address space chooses.
#[inline(always)]
fn place(space: u32) -> Option<EntryPtr<SharedMemory>> {
    MEMORIES.entry(space & (MEMORY_COUNT - 1))
}

/// Gives a new address space, which has one task, a number.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn new_space() -> u32 {
    let mut space = 0;
    repeat(ATTEMPTS, take_number, &mut space);
    space
}

/// One round of the loop: takes the next number. Returns 1 to end the loop: its place was free.
extern "C" fn take_number(_round: u64, space: &mut u32) -> i64 {
    let Some(control) = CONTROL.entry(0) else {
        return 1;
    };
    // Tasks fork on several CPUs at once.
    *space = field!(control, last_space).fetch_add(1) as u32 + 1;
    let Some(shared) = place(*space) else {
        return 1;
    };
    let tasks = field!(shared, tasks);
    if tasks.fetch_add(1) != 0 {
        tasks.fetch_add(u64::MAX);
        return 0;
    }
    field!(shared, lock).store(0);
    field!(shared, is_stale).store(0);
    let memory = field!(shared, memory);
    // SAFETY: nobody uses the memory of a place that was free.
    unsafe { memory.as_mut() }.forget();
    field!(shared, space).exchange((*space).into());
    1
}

/// Notes that another task has this address space, or with `u64::MAX` that a task has ended or has
/// another address space now. Without a task, the place is free.
#[inline(always)]
pub fn add_tasks(space: u32, number: u64) {
    if let Some(shared) = memory_of(space) {
        field!(shared, tasks).fetch_add(number);
    }
}

/// Forgets everything about an address space. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn forget(space: u32) -> u32 {
    if let Some(shared) = memory_of(space)
        && let Some(mut memory) = lock(shared, true)
    {
        memory.forget();
    }
    0
}

/// Forgets the memory that the kernel overwrites in the call that the task enters.
#[inline(always)]
pub fn overwrite(task: &mut Task) {
    if task.spec.overwrites != overwrites::NONE {
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
    if task.spec.overwrites == overwrites::ALL {
        return forget(task.space);
    }
    if task.spec.overwrites == overwrites::MOVED {
        return 0;
    }
    let (start, length) = if task.spec.overwrites == overwrites::ABOVE {
        (task.arguments.get(0), overwrites::ABOVE_BYTES)
    } else if task.spec.overwrites == overwrites::DISCARDED {
        let advice = task.arguments.get(2);
        if advice <= overwrites::LAST_ADVICE && 1 << advice & overwrites::DISCARDING_ADVICES == 0 {
            return 0;
        }
        (
            untagged(task.arguments.get(0)),
            task.arguments.get(1) & ADDRESSES,
        )
    } else {
        let is_one = task.spec.overwrites_count == 0;
        let count = if is_one {
            1
        } else {
            task.arguments
                .get(task.spec.overwrites_count.wrapping_sub(1))
                & ADDRESSES
        };
        (
            untagged(task.arguments.get(task.spec.overwrites.wrapping_sub(1))),
            count.saturating_mul(task.spec.overwrites_bytes.into()),
        )
    };
    if start != 0
        && let Some(shared) = memory_of(task.space)
        && let Some(mut memory) = lock_for(task, shared, true)
    {
        memory::remove(&raw mut *memory, 0, start, start.saturating_add(length));
        if memory.forgotten != 0 {
            memory.forgotten = 0;
            count_loss(KernelLoss::UnknownOrigin);
        }
    }
    0
}

/// `mremap` has moved a mapping of the task to this address, made it longer or shorter, or put it in
/// the place of another one. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn mapping_moved(task: *mut Task, to: u64) -> u32 {
    let Some(task) = argument::as_mut(task) else {
        return 0;
    };
    let pages = |bytes: u64| (bytes & ADDRESSES).wrapping_add(PAGE - 1) & !(PAGE - 1);
    let from = untagged(task.arguments.get(0));
    let (before, now) = (pages(task.arguments.get(1)), pages(task.arguments.get(2)));
    let (kept, longer) = (smaller(before, now), before.max(now));
    if let Some(shared) = memory_of(task.space)
        && let Some(mut memory) = lock_for(task, shared, true)
    {
        let memory = &raw mut *memory;
        // What is new there is not what was there before.
        if to == from {
            memory::remove(
                memory,
                0,
                from.wrapping_add(kept),
                from.wrapping_add(longer),
            );
        } else {
            memory::remove(memory, 0, to, to.wrapping_add(now));
            memory::shift(memory, from, from.wrapping_add(kept), to.wrapping_sub(from));
            memory::remove(memory, 0, from, from.wrapping_add(before));
        }
    }
    0
}
