//! The lock of a [`Memory`]: the threads of an address space read and write on several CPUs at
//! once.

use zc_ebpf::{Memory, Task, pairing::memory};

use crate::kernel::{argument, entries::exchange, helpers::repeat};

/// How often the lock is tried. Its holder needs some microseconds, but in a virtual machine the
/// holder's CPU may be taken away for a while: for 100 ms by QEMU, where one thread runs all
/// virtual CPUs. `bpf_loop` allows at most 2^23 rounds.
const ATTEMPTS: u32 = 1 << 20;

/// Takes the lock for the current task, unless nobody else can have it. Otherwise as [`lock`].
///
/// Nobody else can if no other task has this address space, and the task has made no `io_uring`,
/// whose operations complete on any CPU. Only the task itself can change that, by another call.
#[inline(always)]
pub fn lock_for(task: &Task, memory: &mut Memory, writes: bool) -> bool {
    if is_alone(task) {
        forget_stale(memory);
        return true;
    }
    lock(memory, writes)
}

/// Releases what [`lock_for`] took.
#[inline(always)]
pub fn unlock_for(task: &Task, memory: &mut Memory) {
    if !is_alone(task) {
        unlock(memory);
    }
}

/// Whether nobody else can use the task's address space.
#[inline(always)]
pub const fn is_alone(task: &Task) -> bool {
    task.shares_space | task.has_ring == 0
}

/// Takes the lock. If a caller that changes memory (`writes`) cannot get it, everything about that
/// memory becomes unknown.
#[inline(always)]
pub fn lock(memory: *mut Memory, writes: bool) -> bool {
    lock_memory(memory, writes.into()) != 0
}

/// Takes the lock, and forgets what has become unknown since. Returns 1 if it has the lock.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn lock_memory(memory: *mut Memory, writes: u32) -> u32 {
    let Some(memory) = argument::as_mut(memory) else {
        return 0;
    };
    if !attempt(memory) {
        let mut waiting = Waiting {
            memory,
            is_locked: 0,
        };
        repeat(ATTEMPTS, try_again, &mut waiting);
        if waiting.is_locked == 0 {
            if writes != 0 {
                exchange(&mut memory.is_stale, 1);
            }
            return 0;
        }
    }
    forget_stale(memory);
    1
}

/// Whether everything about the memory has become unknown.
#[inline(always)]
pub fn is_stale(memory: &Memory) -> bool {
    // SAFETY: a reference is valid. Volatile because other CPUs set it.
    unsafe { (&raw const memory.is_stale).read_volatile() != 0 }
}

/// Forgets what has become unknown.
#[inline(always)]
fn forget_stale(memory: &mut Memory) {
    // First a plain load, because it is hardly ever set.
    if is_stale(memory) && exchange(&mut memory.is_stale, 0) != 0 {
        memory::forget_all(memory);
    }
}

/// The state of the loop.
#[repr(C)]
struct Waiting<'m> {
    memory: &'m mut Memory,
    is_locked: u64,
}

/// One round of the loop: one attempt. Returns 1 to end the loop.
extern "C" fn try_again(_index: u64, waiting: &mut Waiting<'_>) -> i64 {
    if attempt(waiting.memory) {
        waiting.is_locked = 1;
        return 1;
    }
    0
}

#[inline(always)]
fn attempt(memory: &mut Memory) -> bool {
    exchange(&mut memory.lock, 1) == 0
}

/// Releases the lock. An exchange orders what was written before it, on every architecture.
#[inline(always)]
pub fn unlock(memory: &mut Memory) -> u32 {
    exchange(&mut memory.lock, 0);
    0
}
