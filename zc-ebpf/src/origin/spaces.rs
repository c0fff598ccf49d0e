//! What is known of each address space, and how it is forgotten.

use zc_ebpf::{Loss, MEMORIES as MEMORY_COUNT, SharedMemory, Task, fills, origin::memory};

use crate::{
    kernel::{argument, entries::exchange, helpers::repeat, registers::untagged},
    maps::{MEMORIES, count_loss},
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

/// What is known about an address space. `None` if there is no entry; with `is_needed` it is made,
/// if there is room.
#[inline(always)]
pub fn memory_of(space: u32, is_needed: bool) -> Option<*mut SharedMemory> {
    let home = entry(space)?;
    if space_of(home) == u64::from(space) {
        return Some(home);
    }
    match find_entry(space, is_needed.into()) {
        NONE => None,
        index => entry(index),
    }
}

/// The entry that a number of an address space chooses, or an index.
#[inline(always)]
fn entry(index: u32) -> Option<*mut SharedMemory> {
    MEMORIES.get_ptr_mut(index & (MEMORY_COUNT - 1))
}

/// The address space that an entry is of. Volatile because other CPUs set it.
#[inline(always)]
fn space_of(shared: *mut SharedMemory) -> u64 {
    // SAFETY: an entry of the map.
    unsafe { (&raw const (*shared).space).read_volatile() }
}

/// How many entries an address space may have, from the one on that its number chooses.
const PLACES: u32 = 16;

/// The state of the loops.
#[repr(C)]
struct EntrySearch {
    space: u32,
    /// The index of the entry that was found, or [`NONE`].
    found: u32,
}

/// No entry was found.
const NONE: u32 = u32::MAX;

/// The index of the entry of an address space, or [`NONE`]. If it `is_needed`, a free one is taken.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn find_entry(space: u32, is_needed: u32) -> u32 {
    let mut search = EntrySearch { space, found: NONE };
    repeat(PLACES, look_at, &mut search);
    if search.found == NONE && is_needed != 0 {
        repeat(PLACES, take_free, &mut search);
        if search.found == NONE {
            count_loss(Loss::UnknownOrigin);
        }
    }
    search.found
}

/// One round of the first loop. Returns 1 to end it: the entry is that of the address space.
extern "C" fn look_at(round: u64, search: &mut EntrySearch) -> i64 {
    let index = search.space.wrapping_add(round as u32);
    let is_found = entry(index).is_some_and(|shared| space_of(shared) == u64::from(search.space));
    if is_found {
        search.found = index & (MEMORY_COUNT - 1);
    }
    is_found.into()
}

/// One round of the second loop. Returns 1 to end it: the entry was free, and is taken.
extern "C" fn take_free(round: u64, search: &mut EntrySearch) -> i64 {
    let index = search.space.wrapping_add(round as u32);
    let Some(shared) = entry(index) else { return 1 };
    // SAFETY: an entry of the map; nobody uses the memory of a free one.
    unsafe {
        if exchange(&raw mut (*shared).is_taken, 1) != 0 {
            return 0;
        }
        (*shared).lock = 0;
        (*shared).is_stale = 0;
        (*shared).memory.forget();
        exchange(&raw mut (*shared).space, search.space.into());
    }
    search.found = index & (MEMORY_COUNT - 1);
    1
}

/// Leaves the entries of an address space to others: its last task has ended, or executed a program.
/// The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn give_up(space: u32) -> u32 {
    let mut search = EntrySearch { space, found: NONE };
    repeat(PLACES, free, &mut search);
    0
}

/// One round of that loop. Two threads may have taken an entry each, so there is no end. Returns 0,
/// to go on.
extern "C" fn free(round: u64, search: &mut EntrySearch) -> i64 {
    if let Some(shared) = entry(search.space.wrapping_add(round as u32))
        && space_of(shared) == u64::from(search.space)
    {
        // SAFETY: an entry of the map.
        unsafe {
            exchange(&raw mut (*shared).space, 0);
            exchange(&raw mut (*shared).is_taken, 0);
        }
    }
    0
}

/// Forgets everything about an address space. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn forget(space: u32) -> u32 {
    if let Some(shared) = memory_of(space, false)
        && let Some(memory) = lock(shared, true)
    {
        memory.forget();
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
        memory::remove(memory, 0, start, start.saturating_add(length));
        unlock_for(task, shared);
    }
    0
}
