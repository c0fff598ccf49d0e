//! The tasks that are followed, found by the addresses of their `task_struct`s.
//!
//! Each call of each task on the machine looks for its task twice. So the tasks are in an array, which programs read without calling the
//! kernel. A task is in the slot that its address chooses, its home, unless that is taken. Then it is in the next free slot, and a hash
//! says in which. As long as every task is at home, nobody looks into the hash, not even tasks that are not followed.

use aya_ebpf::{
    Global,
    macros::map,
    maps::{Array, HashMap},
};
use zc_ebpf::{Task, TaskSlot, pairing::FACTOR};

use crate::kernel::{
    entries::{Entries as _, exchange, fetch_add},
    helpers::{current_task, repeat},
};

/// The slots. Preallocated, so that following a task does not depend on free memory.
#[map]
static TASKS: Array<TaskSlot> = Array::with_max_entries(1, 0);

/// Address of a `task_struct` -> the index of its slot, for all tasks that are followed. User space finds the tasks by this, too.
#[map]
static TASK_SLOTS: HashMap<u64, u32> = HashMap::with_max_entries(1, 0);

/// The index of the last slot. The number of slots is a power of two.
#[unsafe(no_mangle)]
static LAST_SLOT: Global<u32> = Global::new(0);

/// How many tasks are not at home. In a section of its own, because user space expects only `IS_OVER` in `.bss`.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".data.away")]
static mut AWAY: u64 = 0;

/// The current task, if it is followed.
#[inline(always)]
pub fn current() -> Option<&'static mut Task> {
    find(current_task() as u64)
}

/// The task whose `task_struct` is at this address, if it is followed.
#[inline(always)]
pub fn find(address: u64) -> Option<&'static mut Task> {
    let home = TASKS.entry(home_of(address))?;
    if home.address == address {
        return Some(&mut home.task);
    }
    if away() == 0 {
        return None;
    }
    Some(&mut TASKS.entry(*TASK_SLOTS.entry(address)?)?.task)
}

/// Makes room for a task, and fills it with this state. The task must be the current one, or must not run yet. `None` if there is no room.
#[inline(always)]
pub fn insert(address: u64, state: &Task) -> Option<&'static mut Task> {
    let slot = TASKS.entry(take_slot(address))?;
    slot.task = *state;
    slot.address = address;
    Some(&mut slot.task)
}

/// Takes a slot for the task whose `task_struct` is at this address, and returns its index, or [`NO_SLOT`]. A global function, so that the
/// verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn take_slot(address: u64) -> u32 {
    // The end of an earlier task may have been missed, whose `task_struct` was at this address.
    remove(address);
    let home = home_of(address);
    let mut claim = Claim { home, index: 0, is_taken: 0 };
    repeat(LAST_SLOT.load().wrapping_add(1), claim_next, &mut claim);
    if claim.is_taken == 0 {
        return NO_SLOT;
    }
    if TASK_SLOTS.insert(address, claim.index, 0).is_err() {
        free(claim.index);
        return NO_SLOT;
    }
    if claim.index != home {
        add_to_away(1);
    }
    claim.index
}

/// Stands for a slot that does not exist. No array is so large.
const NO_SLOT: u32 = u32::MAX;

/// Removes a task. By now nothing is counted for it any more.
#[inline(always)]
pub fn remove(address: u64) {
    let Some(index) = TASK_SLOTS.entry(address).map(|index| *index) else { return };
    let _ = TASK_SLOTS.remove(address);
    free(index);
    if index != home_of(address) {
        add_to_away(u64::MAX);
    }
}

/// Leaves a slot to other tasks.
#[inline(always)]
fn free(index: u32) {
    let Some(slot) = TASKS.entry(index) else { return };
    slot.address = 0;
    exchange(&mut slot.is_taken, 0);
}

/// The index of the slot that an address chooses.
#[inline(always)]
fn home_of(address: u64) -> u32 {
    (address.wrapping_mul(FACTOR) >> 32) as u32 & LAST_SLOT.load()
}

/// The state of the search for a free slot.
#[repr(C)]
struct Claim {
    home: u32,
    index: u32,
    is_taken: u64,
}

/// One round of the search: takes the next slot if it is free. Returns 1 to end the loop.
extern "C" fn claim_next(round: u64, claim: &mut Claim) -> i64 {
    claim.index = claim.home.wrapping_add(round as u32) & LAST_SLOT.load();
    let Some(slot) = TASKS.entry(claim.index) else { return 1 };
    if exchange(&mut slot.is_taken, 1) != 0 {
        return 0;
    }
    claim.is_taken = 1;
    1
}

#[inline(always)]
fn away() -> u64 {
    // SAFETY: there is no reference to it. Volatile because it changes while programs run.
    unsafe { core::ptr::read_volatile(&raw const AWAY) }
}

/// Adds to the number of tasks that are not at home.
#[inline(always)]
fn add_to_away(number: u64) {
    // SAFETY: only this changes it, with an atomic instruction.
    let away = unsafe { &mut *core::ptr::addr_of_mut!(AWAY) };
    fetch_add(away, number);
}
