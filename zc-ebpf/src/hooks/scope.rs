//! Lets a thread of the tracer enter the scope by itself, and leave it again.
//!
//! The program runs in the thread that calls `bpf(BPF_PROG_TEST_RUN)`. So a thread can change only
//! its own scope, and nothing that it does in scope is missed.

use aya_ebpf::helpers::bpf_get_current_comm;
use zc_ebpf::{Ended, KernelLoss, Task, WATCHER_COMM, event_kind, phase, scope};

use crate::{
    hooks::{count, followed, wakes},
    kernel::entries::{Entries as _, field},
    kernel::fields::{self, KernelPtr, TypedPtr, offset_of_field},
    kernel::helpers::{current_task, now_ns},
    kernel::registers::Registers,
    maps::{CONTROL, count_loss, is_over, scoped_process, set_scoped_process},
    origin::spaces,
    tasks,
};

/// Whether a call may concern somebody that is followed: its caller, or a thread that has entered the
/// scope by itself.
#[inline(always)]
pub fn may_concern(registers: Registers) -> bool {
    tasks::may_follow_caller(registers) || scoped_process() != 0
}

/// The current task, which may be followed, enters a call.
#[inline(always)]
pub fn call_entered(registers: Registers, number: i64, current: TypedPtr) {
    if is_over() {
        return;
    }
    match tasks::of_current(current) {
        Some(task) => count::enter(task, registers, number, current),
        None => note_untraced(registers, number, current),
    }
}

/// A task that is not followed enters a call. If it may work for the thread in scope, that is a
/// loss. The calls of its process's other threads are only summed up for a note.
#[inline(always)]
fn note_untraced(registers: Registers, number: i64, current: TypedPtr) {
    // If only variants of a call are counted, this counts every call: it does not look at the
    // arguments.
    if !is_in_scoped_process() || !count::is_selected(registers, number, current) {
        return;
    }
    if wakes::was_woken(current.address()) {
        count_loss(KernelLoss::OtherThread);
    } else if bpf_get_current_comm().ok() != Some(WATCHER_COMM) {
        count_loss(KernelLoss::UnrelatedCall);
    }
}

/// Whether the current task belongs to the process of the thread in scope. The field is read with a
/// helper: for each load of a pointer from the current task the verifier searches all types.
#[inline(always)]
fn is_in_scoped_process() -> bool {
    let process = scoped_process();
    process != 0
        && process == fields::probe_or_zero(current_task(), offset_of_field!(task_group_leader))
}

/// Does what the current thread asks for: one of the constants in [`scope`].
#[inline(always)]
pub fn change(wanted: u64) {
    match wanted {
        scope::ENTER => {
            if enter_scope().is_none() {
                count_loss(KernelLoss::UnfollowedTask);
            }
        }
        scope::PAUSE => pause_scope(),
        _ => leave_scope(),
    }
}

/// The current thread becomes the root. `None` if it cannot be followed.
#[inline(always)]
fn enter_scope() -> Option<()> {
    let current = current_task();
    let control = CONTROL.entry(0)?;
    // A trace has one root, so nobody else writes the level.
    let level = fields::pidns_level(current);
    field!(control, pidns_level).store(level);
    let ids = fields::ids(current, level);
    let task = followed::insert(current as u64, followed::new_serial(control), ids)?;
    task.phase = phase::ACTIVE;
    // The process's other threads share this address space and the table of descriptors, but they
    // are not followed.
    task.space = spaces::new_space();
    task.shares_files = 1;
    set_scoped_process(fields::probe_or_zero(
        current,
        offset_of_field!(task_group_leader),
    ));
    send_current(event_kind::ENTERED, task, current);
    Some(())
}

/// Stops counting the current thread. A call that a signal had ended is already counted, because
/// the thread has gone on to this call.
#[inline(always)]
fn pause_scope() {
    set_scoped_process(0);
    if let Some(task) = tasks::current() {
        task.phase = phase::ARMED;
    }
}

/// Stops following the current thread.
#[inline(always)]
fn leave_scope() {
    let current = current_task();
    let Some(task) = tasks::current() else { return };
    send_current(event_kind::ENDED, task, current);
    followed::remove(task, current as u64);
}

/// Sends an event about the current thread, with its counters.
#[inline(always)]
fn send_current(kind: u32, task: &Task, current: KernelPtr) {
    let now = now_ns();
    followed::send(Ended {
        header: followed::header(kind, task, now, task.hooks, current),
        exited_ns: now,
        slot: 0,
        reserved: 0,
        entered_ns: 0,
        counters: fields::counters(current),
        other_calls: task.other_calls,
        fault: task.fault,
    });
}
