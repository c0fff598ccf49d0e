//! Sums up the calls that have no rows, so that the report accounts for all time in calls. A call
//! costs an addition to two sums, whatever it is.

use zc_ebpf::{OTHER_CALLS_IN_BLOCK, OtherCalls, Outcome, Task, is_restart, other, recorded};

use crate::{
    kernel::argument,
    kernel::entries::{Entries as _, fetch_add},
    maps::{OTHER_CALLS, records},
};

/// A call enters the kernel that has no row. Its slot is known.
#[inline(always)]
pub fn enter(task: &mut Task) {
    if records(recorded::OTHER_CALLS) {
        task.other = other::UNDER_WAY;
    }
}

/// That call returns with the result and the time in [`Task::outcome`].
#[inline(always)]
pub fn returned(task: &mut Task) {
    let Outcome {
        errno, duration_ns, ..
    } = task.outcome;
    if is_restart(errno) {
        task.other = other::INTERRUPTED;
        task.interruption.duration_ns = duration_ns;
        return;
    }
    add_other_call(task, (errno != 0).into(), duration_ns);
}

/// The task goes on after a signal ended the call, so the call has returned.
#[inline(always)]
pub fn record_interrupted(task: &mut Task) {
    add_other_call(task, FAILED, task.interruption.duration_ns);
}

/// The call will never return.
#[inline(always)]
pub fn abandon(task: &mut Task) {
    add_other_call(task, UNFINISHED, 0);
}

/// How a call ended: it failed. 0: it succeeded.
const FAILED: u32 = 1;
/// It never returns.
const UNFINISHED: u32 = 2;

/// Adds the call in [`Task::slot`] to both sums. A global function, so that the verifier checks it
/// once. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn add_other_call(task: *mut Task, end: u32, ns: u64) -> u32 {
    let Some(task) = argument::as_mut(task) else {
        return 0;
    };
    task.other = other::NONE;
    let is_unfinished = u64::from(end == UNFINISHED);
    let is_untimed = u64::from(ns == Outcome::UNTIMED);
    let call = OtherCalls {
        calls: 1 - is_unfinished,
        errors: u64::from(end == FAILED),
        unfinished: is_unfinished,
        untimed: is_untimed,
        total_ns: if is_untimed == 0 { ns } else { 0 },
    };
    let sum = &mut task.other_calls;
    sum.calls += call.calls;
    sum.errors += call.errors;
    sum.unfinished += call.unfinished;
    sum.untimed += call.untimed;
    sum.total_ns += call.total_ns;
    let Some(block) = OTHER_CALLS.entry(task.slot / OTHER_CALLS_IN_BLOCK) else {
        return 0;
    };
    let sum = &mut block.calls[(task.slot % OTHER_CALLS_IN_BLOCK) as usize];
    // Atomic, because another program may have been preempted here on this CPU.
    let parts = [
        (&mut sum.calls, call.calls),
        (&mut sum.errors, call.errors),
        (&mut sum.unfinished, call.unfinished),
        (&mut sum.untimed, call.untimed),
        (&mut sum.total_ns, call.total_ns),
    ];
    for (sum, addend) in parts {
        if addend > 0 {
            fetch_add(sum, addend);
        }
    }
    0
}
