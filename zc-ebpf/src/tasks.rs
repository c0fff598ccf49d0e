//! The tasks that are followed, found by the addresses of their `task_struct`s.
//!
//! Each call of each task on the machine looks for its task twice. Most tasks are not followed, and
//! a table of numbers says so after one load. To find its place there takes no helper: the
//! registers of a caller, which each program has as its argument, are at the top of the task's
//! kernel stack, so their page stands for the task. The tasks that are followed are in an array,
//! which programs read without calling the kernel. A task is in the slot that its address chooses,
//! its home, unless that is taken. Then it is in the next free slot, and a hash says in which.

use aya_ebpf::{
    Global,
    bindings::BPF_NOEXIST,
    macros::map,
    maps::{Array, HashMap},
};
use zc_ebpf::{FACTOR, Task, TaskSlot, repeat::repeat};

use crate::kernel::{
    entries::{Entries as _, EntryPtr, field},
    fields::{self, KernelPtr, TypedPtr, offset_of_field},
    helpers::current_task,
    registers::Registers,
};
use crate::maps::attaches;

/// The slots. Preallocated, so that following a task does not depend on free memory.
#[map]
static TASKS: Array<TaskSlot> = Array::with_max_entries(1, 0);

/// Address of a `task_struct` -> the index of its slot, for all tasks that are followed. User space
/// finds the tasks by this, too.
#[map]
static TASK_SLOTS: HashMap<u64, u32> = HashMap::with_max_entries(1, 0);

/// The index of the last slot. The number of slots is a power of two.
#[unsafe(no_mangle)]
static LAST_SLOT: Global<u32> = Global::new(0);

/// How many of the tasks that are followed have their kernel stack's number here, by [`mix`] of the
/// page that [`page_of`] says. In a section of its own, because user space expects only `IS_OVER`
/// in `.bss`.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".data.followed")]
static mut FOLLOWED: [u64; NUMBERS] = [0; NUMBERS];

/// The length of [`FOLLOWED`], a power of two.
const NUMBERS: usize = 1 << 13;

/// The current task, if it is followed.
#[inline(always)]
pub fn current() -> Option<&'static mut Task> {
    // SAFETY: only the task itself writes its entry, and this is the task.
    find(current_task() as u64).map(|task| unsafe { task.as_mut() })
}

/// As [`current`], where its `task_struct` is at hand. No helper is called if the task is at home.
#[inline(always)]
pub fn of_current(current: TypedPtr) -> Option<&'static mut Task> {
    let home = TASKS.entry(home_of(current.lower_half()))?;
    if field!(home, home_address).load() == current.address() as u64 {
        let task = field!(home, task);
        // SAFETY: as for `current`.
        Some(unsafe { task.as_mut() })
    } else {
        self::current()
    }
}

/// Whether the task that called with these registers may be followed. No: it is not. Yes: [`find`]
/// knows. No helper is called.
#[inline(always)]
pub fn may_follow_caller(registers: Registers) -> bool {
    stack_number(page_of(registers)).load() != 0
}

/// Stands for the kernel stack that a caller's registers are at the top of: their page, of the
/// lower half of their address.
#[inline(always)]
fn page_of(registers: Registers) -> u64 {
    registers.pointer().lower_half() >> PAGE_SHIFT
}

/// Any kernel stack is larger than a page of this size, and `struct pt_regs` is smaller.
const PAGE_SHIFT: u64 = 12;

/// The page of the registers of the task whose `task_struct` is at this address, as [`page_of`]
/// says. They lie at the same distance from the beginning of each task's stack.
#[inline(always)]
fn page_of_task(address: u64) -> u64 {
    let current = TypedPtr::current_task();
    let registers = Registers::of_task(current).pointer().lower_half();
    let stack = |task| fields::probe_or_zero::<u64>(task, offset_of_field!(task_stack));
    let distance = registers.wrapping_sub(stack(current.address()));
    let page = stack(address as KernelPtr).wrapping_add(distance);
    u64::from(page as u32) >> PAGE_SHIFT
}

/// The task whose `task_struct` is at this address, if it is followed. Unless it is the current one,
/// it may change at any time.
#[inline(always)]
pub fn find(address: u64) -> Option<EntryPtr<Task>> {
    let home = TASKS.entry(home_of(address))?;
    if field!(home, home_address).load() == address {
        return Some(field!(home, task));
    }
    let slot = TASKS.entry(TASK_SLOTS.entry(address)?.load())?;
    Some(field!(slot, task))
}

/// Makes room for a task, and fills it with this state. The task must be the current one, or must
/// not run yet. `None` if there is no room.
#[inline(always)]
pub fn insert(address: u64, state: &Task) -> Option<&'static mut Task> {
    // The end of an earlier task may have been missed, whose `task_struct` was at this address. But a
    // walk may have found the new one.
    if !attaches() {
        remove(address);
    }
    let slot = insert_slot(address, state, |_| ())?;
    field!(slot, home_address).store(address);
    let task = field!(slot, task);
    // SAFETY: it is the current task's, or that of a task that does not run yet.
    Some(unsafe { task.as_mut() })
}

/// As [`insert`], for a task that may run on another CPU: `fill` completes its state before anybody
/// can find it. `false` if there is no room, or the task is followed already.
#[inline(always)]
pub fn insert_running(address: u64, state: &Task, fill: impl FnOnce(&mut Task)) -> bool {
    insert_slot(address, state, fill).is_some()
}

#[inline(always)]
fn insert_slot(
    address: u64,
    state: &Task,
    fill: impl FnOnce(&mut Task),
) -> Option<EntryPtr<TaskSlot>> {
    let index = claim_slot(address);
    let slot = TASKS.entry(index)?;
    let task = field!(slot, task);
    // SAFETY: the slot is claimed, and nobody can find it yet.
    let task = unsafe { task.as_mut() };
    *task = *state;
    fill(task);
    (publish(address, index) != 0).then_some(slot)
}

/// The current task is followed, but another one has inserted it: lets its further calls find it
/// without the hash. Only the task itself may do so: nobody can remove it meanwhile.
#[inline(always)]
pub fn settle_current() {
    let address = current_task() as u64;
    if let Some(index) = TASK_SLOTS.entry(address)
        && let Some(slot) = TASKS.entry(index.load())
    {
        field!(slot, home_address).store(address);
    }
}

/// Takes a free slot for the task whose `task_struct` is at this address, and returns its index, or
/// [`NO_SLOT`]. A global function, so that the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn claim_slot(address: u64) -> u32 {
    let mut claim = Claim {
        home: home_of(address),
        index: 0,
        is_taken: 0,
    };
    repeat(LAST_SLOT.load().wrapping_add(1), claim_next, &mut claim);
    if claim.is_taken == 0 {
        NO_SLOT
    } else {
        claim.index
    }
}

/// Lets everybody find the task in this slot. Returns 1, or 0 if there is no room in the hash, or
/// the task is in it already; then the slot is free again. A global function, as [`claim_slot`] is.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn publish(address: u64, index: u32) -> u32 {
    let Some(slot) = TASKS.entry(index) else {
        return 0;
    };
    let page = page_of_task(address);
    field!(slot, address).store(address);
    field!(slot, page).store(page);
    stack_number(page).fetch_add(1);
    // This is the moment from which on the task is followed.
    if TASK_SLOTS
        .insert(address, index, BPF_NOEXIST.into())
        .is_ok()
    {
        return 1;
    }
    free(index);
    0
}

/// Stands for a slot that does not exist. No array is so large.
const NO_SLOT: u32 = u32::MAX;

/// Removes a task. By now nothing is counted for it any more. `false`: it was not followed, or
/// another program has removed it at the same time.
#[inline(always)]
pub fn remove(address: u64) -> bool {
    let Some(index) = TASK_SLOTS.entry(address).map(EntryPtr::load) else {
        return false;
    };
    if TASK_SLOTS.remove(address).is_err() {
        return false;
    }
    free(index);
    true
}

/// Leaves a slot to other tasks.
#[inline(always)]
fn free(index: u32) {
    let Some(slot) = TASKS.entry(index) else {
        return;
    };
    let page = field!(slot, page).load();
    field!(slot, address).store(0);
    field!(slot, home_address).store(0);
    field!(slot, is_taken).exchange(0);
    stack_number(page).fetch_add(u64::MAX);
}

/// The index of the slot that an address chooses.
#[inline(always)]
fn home_of(address: u64) -> u32 {
    mix(address) as u32 & LAST_SLOT.load()
}

/// A number that the lower half of an address chooses: see [`TypedPtr::lower_half`].
#[inline(always)]
fn mix(address: u64) -> u64 {
    u64::from(address as u32).wrapping_mul(FACTOR) >> 32
}

/// The number in [`FOLLOWED`] that a page chooses.
#[inline(always)]
fn stack_number(page: u64) -> EntryPtr<u64> {
    let numbers = (&raw mut FOLLOWED).cast::<u64>();
    // SAFETY: within the array, to which there is no reference.
    unsafe { EntryPtr::new(numbers.wrapping_add(mix(page) as usize & (NUMBERS - 1))) }
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
    let Some(slot) = TASKS.entry(claim.index) else {
        return 1;
    };
    if field!(slot, is_taken).exchange(1) != 0 {
        return 0;
    }
    claim.is_taken = 1;
    1
}
