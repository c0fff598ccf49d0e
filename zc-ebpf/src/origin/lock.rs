//! The lock of a [`SharedMemory`].

use zc_ebpf::{Loss, Memory, SharedMemory, Task, repeat::repeat};

use crate::{kernel::entries::exchange, maps::count_loss};

/// How often the lock is tried: for some 100 us. Its holder needs less than one, but an interrupt or
/// a hypervisor may take its CPU away. With 1,000 attempts, 16 threads that copied on two virtual
/// CPUs lost 8 to 200 of 640,000 calls; with these none, or one.
const ATTEMPTS: u32 = 1 << 14;

/// What is known of the memory of the current task, locked unless nobody else can use it. Otherwise
/// as [`lock`].
///
/// Nobody else can if no other task has this address space, and the task has made no `io_uring`,
/// whose operations complete on any CPU. Only the task itself can change that, by another call.
#[inline(always)]
pub fn lock_for(
    task: &Task,
    shared: *mut SharedMemory,
    writes: bool,
) -> Option<&'static mut Memory> {
    lock_if(!is_alone(task), shared, writes)
}

/// As [`lock_for`], without the call of a function for a task that is alone.
#[inline(always)]
pub fn lock_inlined(
    task: &Task,
    shared: *mut SharedMemory,
    writes: bool,
) -> Option<&'static mut Memory> {
    if !is_alone(task) {
        return lock(shared, writes);
    }
    forget_stale(shared);
    Some(memory_in(shared))
}

/// Releases what [`lock_for`] took.
#[inline(always)]
pub fn unlock_for(task: &Task, shared: *mut SharedMemory) {
    if !is_alone(task) {
        unlock(shared);
    }
}

/// Whether nobody else can use the task's address space.
#[inline(always)]
const fn is_alone(task: &Task) -> bool {
    task.shares_space | task.has_ring == 0
}

/// Takes the lock. `None` if others hold it for too long. If this call changes what is known
/// (`writes`), it must then be forgotten.
#[inline(always)]
pub fn lock(shared: *mut SharedMemory, writes: bool) -> Option<&'static mut Memory> {
    lock_if(true, shared, writes)
}

/// As [`lock`], but takes the lock only if somebody else `may` have it.
#[inline(always)]
fn lock_if(may: bool, shared: *mut SharedMemory, writes: bool) -> Option<&'static mut Memory> {
    if take_lock(shared, writes.into(), may.into()) == 0 {
        return None;
    }
    Some(memory_in(shared))
}

/// What is known of the memory, which nobody else uses now.
#[inline(always)]
fn memory_in(shared: *mut SharedMemory) -> &'static mut Memory {
    // SAFETY: an entry of the map, see `entries`, which the lock makes ours, or that its only task
    // is the current one.
    unsafe { &mut (*shared).memory }
}

/// Takes the lock, if somebody else may have it, and forgets what has become unknown since. Returns 1
/// if nobody else uses the memory now.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn take_lock(shared: *mut SharedMemory, writes: u32, may_be_locked: u32) -> u32 {
    if shared.is_null() {
        return 0;
    }
    if may_be_locked != 0 && !attempt(shared) {
        let mut waiting = Waiting {
            shared,
            is_locked: 0,
        };
        repeat(ATTEMPTS, try_again, &mut waiting);
        if waiting.is_locked == 0 {
            if writes != 0 {
                // SAFETY: an entry of the map.
                exchange(unsafe { &raw mut (*shared).is_stale }, 1);
            }
            count_loss(Loss::UnknownOrigin);
            return 0;
        }
    }
    forget_stale(shared);
    1
}

/// Forgets what has become unknown. The caller holds the lock.
#[inline(always)]
fn forget_stale(shared: *mut SharedMemory) {
    // SAFETY: an entry of the map.
    let is_stale = unsafe { &raw mut (*shared).is_stale };
    // First a plain load, because it is hardly ever set. Volatile because other CPUs set it.
    // SAFETY: as above.
    if unsafe { is_stale.read_volatile() } != 0 && exchange(is_stale, 0) != 0 {
        // SAFETY: as above.
        unsafe { (*shared).memory.forget() };
    }
}

/// The state of the loop.
#[repr(C)]
struct Waiting {
    shared: *mut SharedMemory,
    is_locked: u64,
}

/// One round of the loop: one attempt. Returns 1 to end the loop.
extern "C" fn try_again(_index: u64, waiting: &mut Waiting) -> i64 {
    if attempt(waiting.shared) {
        waiting.is_locked = 1;
        return 1;
    }
    0
}

#[inline(always)]
fn attempt(shared: *mut SharedMemory) -> bool {
    // SAFETY: an entry of the map.
    exchange(unsafe { &raw mut (*shared).lock }, 1) == 0
}

/// Releases the lock. An exchange orders what was written before it, on every architecture.
#[inline(always)]
pub fn unlock(shared: *mut SharedMemory) {
    // SAFETY: an entry of the map.
    exchange(unsafe { &raw mut (*shared).lock }, 0);
}
