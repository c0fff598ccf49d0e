//! A task that is followed: its entry is added and removed, and messages about it are sent.

use aya_log_ebpf::debug;
use zc_ebpf::{
    COMM_BYTES, Control, Ended, EventHeader, KernelLoss, Task, event_kind, phase, state, zeroed,
};

use crate::{
    kernel::entries::{EntryPtr, field},
    kernel::fields::{self, KernelPtr, offset_of_field},
    kernel::helpers::now_ns,
    maps::{EVENTS, count_loss, send_to, wakeup},
    origin::spaces,
    tasks,
};

/// `TASK_DEAD` of the kernel's include/linux/sched.h: the state of a task that is switched out for
/// the last time.
pub const TASK_DEAD: u32 = 0x80;

/// Whether two tasks have the same struct at this offset. A kernel thread has none.
#[inline(always)]
pub fn have_same(one: KernelPtr, other: KernelPtr, offset: u32) -> bool {
    let of = |task| fields::probe_or_zero::<u64>(task, offset);
    of(one) != 0 && of(one) == of(other)
}

/// New tasks are copied from this one, because a task is too large for the stack.
static NEW_TASK: Task = Task {
    phase: phase::ARMED,
    state: state::NEW,
    ..zeroed()
};

/// Begins to follow a task. It must be the current one, or must not run yet. `None` if there is no
/// room for it.
#[inline(always)]
pub fn insert(address: u64, serial: u32, (tid, pid): (u32, u32)) -> Option<&'static mut Task> {
    let task = tasks::insert(address, &NEW_TASK)?;
    (task.serial, task.program) = (serial, serial);
    (task.tid, task.pid) = (tid, pid);
    Some(task)
}

/// Gives out the number of a new task. Tasks fork on several CPUs at once.
#[inline(always)]
pub fn new_serial(control: EntryPtr<Control>) -> u32 {
    field!(control, last_serial).fetch_add(1) as u32 + 1
}

/// The call returns in which the current task was when it was found. What it has written to memory is
/// not known.
#[inline(always)]
pub fn first_return(task: &mut Task) {
    tasks::settle_current();
    spaces::forget(task.space);
    task.state = state::IDLE;
    count_loss(KernelLoss::UnderWayAtAttach);
}

/// Whether a task is dead: it is switched out for the last time, or has been.
#[inline(always)]
pub fn is_dead(task: KernelPtr) -> bool {
    fields::probe_or_zero::<u32>(task, offset_of_field!(task_state)) == TASK_DEAD
}

/// A task is dead, and its counters are final. If it is followed, tells user space.
#[inline(always)]
pub fn ended(dead: KernelPtr) {
    let key = fields::as_number(dead);
    let Some(task) = tasks::find(key) else { return };
    // SAFETY: nothing writes to the entry of a dead task until it is removed.
    let task = unsafe { task.as_ref() };
    let header = header(event_kind::ENDED, task, now_ns(), task.hooks, dead);
    let (exited_ns, entered_ns, slot) = (task.exited_ns, task.entered_ns, task.slot);
    let (other_calls, fault) = (task.other_calls, task.fault);
    if !remove(task, key) {
        return;
    }
    let Some(mut entry) = EVENTS.reserve::<Ended>(0) else {
        return count_loss(KernelLoss::LostEvent);
    };
    // SAFETY: room for an Ended in the ring buffer, which is made of numbers. All of it is written
    // before it is submitted.
    let event: &mut Ended = unsafe { &mut *entry.as_mut_ptr() };
    (event.header, event.other_calls, event.fault) = (header, other_calls, fault);
    (event.exited_ns, event.entered_ns) = (exited_ns, entered_ns);
    (event.slot, event.reserved) = (slot, 0);
    // Not on the stack, where there is no room for all of the event.
    event.counters = fields::counters(dead);
    // The kernel adds a thread's counters to its process before the thread is switched out for the
    // last time, so this switch is not among them. For the leader that depends on timing.
    if header.tid != header.pid {
        let switches = &mut event.counters.voluntary_switches;
        *switches = switches.saturating_sub(1);
    }
    entry.submit(wakeup());
    debug!((), "task {} ended", header.tid);
}

/// Follows the task at this address no longer. `false`: another program has removed it at the same
/// time.
#[inline(always)]
pub fn remove(task: &Task, address: u64) -> bool {
    let space = task.space;
    let is_removed = tasks::remove(address);
    if is_removed {
        spaces::add_tasks(space, u64::MAX);
    }
    is_removed
}

/// The header of an event about a task. The name is read from `of`, its `task_struct`.
#[inline(always)]
pub fn header(kind: u32, task: &Task, time_ns: u64, extra: u32, of: KernelPtr) -> EventHeader {
    let comm: [u8; COMM_BYTES] = fields::probe_or_zero(of, offset_of_field!(task_comm));
    EventHeader {
        kind,
        serial: task.serial,
        program: task.program,
        tid: task.tid,
        pid: task.pid,
        extra,
        time_ns,
        comm,
    }
}

/// Sends an event, or counts its loss.
#[inline(always)]
pub fn send<T: Copy + 'static>(event: T) {
    send_to(&EVENTS, event, wakeup(), KernelLoss::LostEvent);
}
