//! A thread of the tracer that is itself in scope, from when it says so until it says otherwise.
//!
//! The program runs in the thread that calls `bpf(BPF_PROG_TEST_RUN)`: nobody else can bring a thread into scope or out of it, and
//! nothing that it does can be missed.

use aya_ebpf::helpers::{bpf_ktime_get_ns, generated::bpf_get_current_task};
use zc_ebpf::{Control, Ended, Loss, Task, event_kind, phase, scope};

use crate::{
    fields::{self, KernelPtr},
    follow::{self, Identity},
    maps::{CONTROL, TASKS, fetch_add, lose},
};

/// What the current thread wants, as one of [`scope`]'s constants.
#[inline(always)]
pub fn change(wanted: u64) {
    match wanted {
        scope::ENTER => {
            if enter().is_none() {
                lose(Loss::UnfollowedTask);
            }
        }
        scope::PAUSE => pause(),
        _ => leave(),
    }
}

/// The current thread becomes the root. `None` if it cannot be followed.
#[inline(always)]
fn enter() -> Option<()> {
    // SAFETY: the helper has no preconditions.
    let current = unsafe { bpf_get_current_task() };
    let control: *mut Control = CONTROL.get_ptr_mut(0)?;
    let level = fields::pidns_level(current as KernelPtr)?;
    let (tid, pid) = fields::ids(current as KernelPtr, level)?;
    // SAFETY: CONTROL has one entry; a trace has one root, so nobody else writes the level.
    let serial = unsafe {
        (*control).pidns_level = level;
        fetch_add(&raw mut (*control).last_serial, 1) as u32 + 1
    };
    let task = follow::insert(current, &Identity { serial, process: serial, tid, pid, phase: phase::ACTIVE })?;
    // Threads that were there before share it, and are not followed.
    task.space = follow::new_space(control);
    tell(event_kind::ENTERED, task, current);
    Some(())
}

/// The current thread is not counted from here on. A call that a signal ended has returned: the thread has gone on to this one.
#[inline(always)]
fn pause() {
    let Some(task) = follow::current() else { return };
    // SAFETY: an entry of TASKS is written by its own task only, which is the current one.
    unsafe { (*task).phase = phase::ARMED };
}

/// The current thread is followed no longer.
#[inline(always)]
fn leave() {
    // SAFETY: the helper has no preconditions.
    let current = unsafe { bpf_get_current_task() };
    // SAFETY: an entry of TASKS is written by its own task only, which is the current one.
    let Some(task) = TASKS.get_ptr(current).map(|task| unsafe { &*task }) else { return };
    tell(event_kind::ENDED, task, current);
    let _ = TASKS.remove(current);
}

#[inline(always)]
fn tell(kind: u32, task: &Task, current: u64) {
    // SAFETY: the helper has no preconditions.
    let now = unsafe { bpf_ktime_get_ns() };
    let of = current as KernelPtr;
    follow::send(Ended { header: follow::header(kind, task, now, 0, of), counters: fields::counters(of) });
}
