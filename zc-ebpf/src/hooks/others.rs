//! Sums up the calls that have no rows, so that the report accounts for all time in calls. A call costs an addition to two sums, whatever it
//! is.

use zc_ebpf::{OtherCalls, Outcome, Task, is_restart, other, recorded};

use crate::{
    hooks::count::is_error,
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
    let result = task.outcome.result;
    if is_error(result) && is_restart(-result as u32) {
        task.other = other::INTERRUPTED;
        task.interruption.duration_ns = task.outcome.duration_ns;
        return;
    }
    let failed = u64::from(is_error(result));
    add(task, OtherCalls { calls: 1, errors: failed, ..lasting(task.outcome.duration_ns) });
}

/// The time of a call.
#[inline(always)]
fn lasting(ns: u64) -> OtherCalls {
    if ns == Outcome::UNTIMED {
        OtherCalls { untimed: 1, ..OtherCalls::NONE }
    } else {
        OtherCalls { total_ns: ns, ..OtherCalls::NONE }
    }
}

/// That call returns, but its entry was not seen.
#[inline(always)]
pub fn returned_unseen(task: &mut Task) {
    let failed = u64::from(is_error(task.outcome.result));
    add(task, OtherCalls { calls: 1, errors: failed, ..lasting(Outcome::UNTIMED) });
}

/// The task goes on after a signal ended the call, so the call has returned.
#[inline(always)]
pub fn record_interrupted(task: &mut Task) {
    add(task, OtherCalls { calls: 1, errors: 1, ..lasting(task.interruption.duration_ns) });
}

/// The call will never return.
#[inline(always)]
pub fn abandon(task: &mut Task) {
    add(task, OtherCalls { unfinished: 1, ..OtherCalls::NONE });
}

/// Adds the call in [`Task::slot`] to both sums.
#[inline(always)]
fn add(task: &mut Task, call: OtherCalls) {
    task.other = other::NONE;
    let sum = &mut task.other_calls;
    sum.calls += call.calls;
    sum.errors += call.errors;
    sum.unfinished += call.unfinished;
    sum.untimed += call.untimed;
    sum.total_ns += call.total_ns;
    let Some(sum) = OTHER_CALLS.entry(task.slot) else { return };
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
}
