//! Sums up the calls that have no rows, so that the report accounts for all time in calls. A call
//! costs an addition to two sums, whatever it is.

use zc_ebpf::{
    CallReturn, OTHER_CALLS_IN_BLOCK, OtherCallSums, Task,
    opaque::{if_set, is_not_zero, larger},
    recorded, traits,
};

use crate::{
    kernel::argument,
    kernel::entries::{Entries as _, field},
    maps::{OTHER_CALLS, records},
};

/// `ETIMEDOUT` of the kernel's include/uapi/asm-generic/errno.h.
const ETIMEDOUT: u32 = 110;

/// Adds the call in [`Task::slot`] to both sums, which has no row, and which ended as
/// [`Task::outcome`] says. A global function, so that the verifier checks it once. The result means
/// nothing.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn add_other_call(task: *mut Task) -> u32 {
    let Some(task) = argument::as_mut(task).filter(|_| records(recorded::OTHER_CALLS)) else {
        return 0;
    };
    let outcome = &task.outcome;
    // Without branches, because the verifier follows each.
    let is_unfinished = 1 - is_not_zero((outcome.result ^ CallReturn::NEVER) as u64);
    let is_untimed = 1 - is_not_zero(outcome.duration_ns ^ CallReturn::UNTIMED);
    let ns = if_set(is_untimed, 0, outcome.duration_ns);
    let is_timed_out = is_untimed == 0 && is_timed_out(task);
    let call = OtherCallSums {
        calls: 1 - is_unfinished,
        errors: is_not_zero(outcome.errno.into()),
        unfinished: is_unfinished,
        untimed: is_untimed & (1 - is_unfinished),
        total_ns: ns,
        max_ns: ns,
        timed_out: is_timed_out.into(),
        timed_out_ns: if is_timed_out { ns } else { 0 },
    };
    let sum = &mut task.other_calls;
    sum.calls += call.calls;
    sum.errors += call.errors;
    sum.unfinished += call.unfinished;
    sum.untimed += call.untimed;
    sum.total_ns += call.total_ns;
    sum.max_ns = larger(sum.max_ns, ns);
    sum.timed_out += call.timed_out;
    sum.timed_out_ns += call.timed_out_ns;
    let Some(block) = OTHER_CALLS.entry(task.slot / OTHER_CALLS_IN_BLOCK) else {
        return 0;
    };
    let sum = field!(block, calls[(task.slot % OTHER_CALLS_IN_BLOCK) as usize]);
    // Atomic, because another program may have been preempted here on this CPU.
    let parts = [
        (field!(sum, calls), call.calls),
        (field!(sum, errors), call.errors),
        (field!(sum, unfinished), call.unfinished),
        (field!(sum, untimed), call.untimed),
        (field!(sum, total_ns), call.total_ns),
    ];
    for (part, addend) in parts {
        if addend > 0 {
            part.fetch_add(addend);
        }
    }
    if is_timed_out {
        field!(sum, timed_out).fetch_add(1);
        field!(sum, timed_out_ns).fetch_add(ns);
    }
    let max_ns = field!(sum, max_ns);
    if ns > max_ns.load() {
        // A program that preempted this one meanwhile may have stored a longer time.
        let other = max_ns.exchange(ns);
        if other > ns {
            max_ns.exchange(other);
        }
    }
    0
}

/// Whether the call in the task ended because its time limit had passed.
#[inline(always)]
fn is_timed_out(task: &Task) -> bool {
    let outcome = &task.outcome;
    match task.spec.traits & (traits::RETURNS_0_IF_TIMED_OUT | traits::FAILS_IF_TIMED_OUT) {
        traits::RETURNS_0_IF_TIMED_OUT => outcome.result == 0,
        traits::FAILS_IF_TIMED_OUT => outcome.errno == ETIMEDOUT,
        _ => false,
    }
}
