//! Which threads may work for a closure: an idle worker sleeps until there is work, so who hands it
//! work wakes it.
//!
//! Woken are those of the process's threads outside the scope that a task in scope wakes, and those
//! that a woken one wakes or creates. A thread that is awake can take work unseen, so user space waits
//! until none is, before the closure begins.

use aya_ebpf::{macros::map, maps::HashMap};
use zc_ebpf::{COMM_BYTES, KernelLoss, WATCHER_COMM};

use crate::{
    kernel::entries::Entries as _,
    kernel::fields::{self, KernelPtr, offset_of_field},
    kernel::helpers::current_task,
    kernel::registers::Registers,
    maps::{count_loss, scoped_process},
    tasks,
};

/// `TASK_UNINTERRUPTIBLE` of the kernel's include/linux/sched.h: the state of a task that waits for
/// a lock in the kernel, or for a disk. A task that waits for another one to do something can be
/// interrupted: by a futex, a pipe, `epoll_wait`. A task that is about to sleep may have set its state
/// back by itself; then it is not known what it waited for, and it counts as woken.
const UNINTERRUPTIBLE: u32 = 2;

/// Allocated at the start, because no memory can be allocated where tasks are woken.
#[map]
static WOKEN: HashMap<u64, u32> = HashMap::with_max_entries(1024, 0);

/// Whether this thread was woken, so that it may work for the thread in scope.
#[inline(always)]
pub fn was_woken(task: KernelPtr) -> bool {
    WOKEN.entry(fields::as_number(task)).is_some()
}

/// The current task wakes another one, or has created it.
#[inline(always)]
pub fn wake(task: KernelPtr) {
    let process = scoped_process();
    if process == 0 || process != fields::probe_or_zero(task, offset_of_field!(task_group_leader)) {
        return;
    }
    let state: u32 = fields::probe_or_zero(task, offset_of_field!(task_state));
    if state & UNINTERRUPTIBLE == 0 && may_hand_over_work() && may_take_work(task) {
        note_woken(fields::as_number(task));
    }
}

/// Whether the current task is in scope or was woken, and is in a call. Else it is an interrupt that
/// wakes, and has nothing to do with the task that it interrupts.
#[inline(always)]
fn may_hand_over_work() -> bool {
    is_in_call() && (tasks::current().is_some() || was_woken(current_task()))
}

/// Whether the current task entered the kernel by a call, and not by an interrupt or a fault: those
/// leave a negative number in its registers (`syscall_get_nr` of the kernel's
/// arch/*/include/asm/syscall.h). A task that works on after its call has returned is in it, too, as
/// one that closes files.
#[inline(always)]
fn is_in_call() -> bool {
    Registers::of_current().number() >= 0
}

/// Whether this thread of the process is neither in scope nor the tracer's own.
#[inline(always)]
fn may_take_work(task: KernelPtr) -> bool {
    let name: [u8; COMM_BYTES] = fields::probe_or_zero(task, offset_of_field!(task_comm));
    tasks::find(fields::as_number(task)).is_none() && name != WATCHER_COMM
}

/// Without room, something is lost.
#[inline(always)]
fn note_woken(task: u64) {
    if WOKEN.insert(task, 1, 0).is_err() {
        count_loss(KernelLoss::OtherThread);
    }
}
