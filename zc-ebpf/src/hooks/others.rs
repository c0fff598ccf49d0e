//! Sums up the calls that have no rows, so that the report accounts for all time in calls. A call
//! costs an addition to two sums, whatever it is.

use zc_ebpf::{
    OTHER_CALLS_IN_BLOCK, OtherCalls, Outcome, Task,
    opaque::{if_set, is_not_zero},
    recorded,
};

use crate::{
    kernel::argument,
    kernel::entries::{Entries as _, fetch_add},
    maps::{OTHER_CALLS, records},
};

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
    let is_unfinished = 1 - is_not_zero((outcome.result ^ Outcome::NEVER) as u64);
    let is_untimed = 1 - is_not_zero(outcome.duration_ns ^ Outcome::UNTIMED);
    let call = OtherCalls {
        calls: 1 - is_unfinished,
        errors: is_not_zero(outcome.errno.into()),
        unfinished: is_unfinished,
        untimed: is_untimed & (1 - is_unfinished),
        total_ns: if_set(is_untimed, 0, outcome.duration_ns),
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
