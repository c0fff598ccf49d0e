//! Reports each call that took longer than a limit. Without a limit, the verifier removes all of this.

use aya_ebpf::{
    Global,
    bindings::{BPF_RB_AVAIL_DATA, BPF_RB_RING_SIZE},
};
use zc_ebpf::{CallReturn, KernelLoss, SlowCallEvent, Task, event_kind, recorded};

use crate::{
    hooks::followed,
    kernel::argument,
    kernel::helpers::current_task,
    maps::{EVENTS, count_loss, records, send_to, wakeup},
};

#[unsafe(no_mangle)]
static SLOWER_THAN_NS: Global<u64> = Global::new(0);

/// The call in [`Task::outcome`], which has a row, returned to its caller. Reports it if it was slow.
/// Returns whether it was, and there was room.
#[inline(always)]
pub fn report_if_slow(task: &Task) -> bool {
    let ns = task.outcome.duration_ns;
    records(recorded::SLOW_CALLS)
        && ns > SLOWER_THAN_NS.load()
        && ns != CallReturn::UNTIMED
        && send_slow_call(task) != 0
}

/// Reports the call in [`Task::outcome`]. Returns 0 if it counts instead that there was no room. A global
/// function, so that the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn send_slow_call(task: *const Task) -> u32 {
    let Some(task) = argument::as_ref(task).filter(|_| records(recorded::SLOW_CALLS)) else {
        return 0;
    };
    // The other half is for starts and ends of tasks, without which more would be missing.
    if EVENTS.query(BPF_RB_AVAIL_DATA.into()) > EVENTS.query(BPF_RB_RING_SIZE.into()) / 2 {
        count_loss(KernelLoss::UnreportedSlowCall);
        return 0;
    }
    let kind = event_kind::SLOW_CALL;
    let call = SlowCallEvent {
        header: followed::header(kind, task, task.entered_ns, 0, current_task()),
        result: task.outcome.result,
        duration_ns: task.outcome.duration_ns,
        call: task.outcome.call,
        errno: task.outcome.errno,
        ends: task.ends,
        reserved: 0,
    };
    send_to(&EVENTS, call, wakeup(), KernelLoss::UnreportedSlowCall);
    1
}
