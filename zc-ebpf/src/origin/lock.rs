//! The lock of a [`SharedMemory`].

use core::ops::{Deref, DerefMut};

use zc_ebpf::{KernelLoss, Memory, SharedMemory, Task, repeat::repeat};

use crate::{
    kernel::entries::{EntryPtr, field},
    maps::count_loss,
};

/// How often the lock is tried: for some 100 us. Its holder needs less than one, but an interrupt or
/// a hypervisor may take its CPU away. With 1,000 attempts, 16 threads that copied on two virtual
/// CPUs lost 8 to 200 of 640,000 calls; with these none, or one.
const ATTEMPTS: u32 = 1 << 14;

/// What is known of a memory that nobody else uses now, because it is locked or the current task is
/// the only one that can use it. Dropping this releases the lock.
pub struct LockedMemory(EntryPtr<SharedMemory>);

impl Deref for LockedMemory {
    type Target = Memory;

    #[inline(always)]
    fn deref(&self) -> &Memory {
        let memory = field!(self.0, memory);
        // SAFETY: nobody else uses it.
        unsafe { memory.as_ref() }
    }
}

impl DerefMut for LockedMemory {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Memory {
        let memory = field!(self.0, memory);
        // SAFETY: nobody else uses it.
        unsafe { memory.as_mut() }
    }
}

impl Drop for LockedMemory {
    #[inline(always)]
    fn drop(&mut self) {
        let lock = field!(self.0, lock);
        // Nobody else can have locked it.
        if lock.load() != 0 {
            lock.exchange(0);
        }
    }
}

/// What is known of the memory of the current task, locked unless nobody else can use it. Otherwise
/// as [`lock`].
///
/// Nobody else can if no other task has this address space, and the task has made no `io_uring`,
/// whose operations complete on any CPU. Only the task itself can change that, by another call.
#[inline(always)]
pub fn lock_for(task: &Task, shared: EntryPtr<SharedMemory>, writes: bool) -> Option<LockedMemory> {
    lock_if(!is_alone(task), shared, writes)
}

/// As [`lock_for`], without the call of a function for a task that is alone.
#[inline(always)]
pub fn lock_inlined(
    task: &Task,
    shared: EntryPtr<SharedMemory>,
    writes: bool,
) -> Option<LockedMemory> {
    if !is_alone(task) {
        return lock(shared, writes);
    }
    forget_stale(shared);
    Some(LockedMemory(shared))
}

/// Whether nobody else can use the task's address space.
#[inline(always)]
const fn is_alone(task: &Task) -> bool {
    task.shares_space | task.has_ring == 0
}

/// Takes the lock. `None` if others hold it for too long. If this call changes what is known
/// (`writes`), it must then be forgotten.
#[inline(always)]
pub fn lock(shared: EntryPtr<SharedMemory>, writes: bool) -> Option<LockedMemory> {
    lock_if(true, shared, writes)
}

/// As [`lock`], but takes the lock only if somebody else `may` have it.
#[inline(always)]
fn lock_if(may: bool, shared: EntryPtr<SharedMemory>, writes: bool) -> Option<LockedMemory> {
    let is_locked = take_lock(shared.address(), writes.into(), may.into()) != 0;
    is_locked.then_some(shared).map(LockedMemory)
}

/// Takes the lock, if somebody else may have it, and forgets what has become unknown since. Returns 1
/// if nobody else uses the memory now.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn take_lock(shared: *mut SharedMemory, writes: u32, may_be_locked: u32) -> u32 {
    if shared.is_null() {
        return 0;
    }
    // SAFETY: an entry of the map.
    let shared = unsafe { EntryPtr::new(shared) };
    if may_be_locked != 0 && !attempt(shared) {
        let mut waiting = Waiting {
            shared,
            is_locked: 0,
        };
        repeat(ATTEMPTS, try_again, &mut waiting);
        if waiting.is_locked == 0 {
            if writes != 0 {
                field!(shared, is_stale).exchange(1);
            }
            count_loss(KernelLoss::UnknownOrigin);
            return 0;
        }
    }
    forget_stale(shared);
    1
}

/// Forgets what has become unknown. The caller holds the lock, or is alone.
#[inline(always)]
fn forget_stale(shared: EntryPtr<SharedMemory>) {
    let is_stale = field!(shared, is_stale);
    // First a plain load, because it is hardly ever set.
    if is_stale.load() != 0 && is_stale.exchange(0) != 0 {
        let memory = field!(shared, memory);
        // SAFETY: nobody else uses it.
        unsafe { memory.as_mut() }.forget();
    }
}

/// The state of the loop.
#[repr(C)]
struct Waiting {
    shared: EntryPtr<SharedMemory>,
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
fn attempt(shared: EntryPtr<SharedMemory>) -> bool {
    field!(shared, lock).exchange(1) == 0
}
