//! The calls that took longer than a limit.

use zc_ebpf::SlowCallEvent;
use zctrace_core::{
    errno,
    slow_calls::{SlowCall, SlowCalls, SlowestCalls},
};

use super::{task_table::TaskTable, totals::KernelTotals};
use crate::{
    backend::ebpf::read::{
        events::{ListedCallers, text},
        file_table::NumberedFiles,
    },
    syscalls::Call,
    trace::File,
};

/// The call of a message. It began at this time of `CLOCK_MONOTONIC`.
pub(super) fn slow_call(
    reported: &SlowCallEvent,
    tasks: &TaskTable,
    files: &NumberedFiles,
) -> SlowCall {
    let ends = [reported.ends.input, reported.ends.output];
    let mut known = ends.into_iter().filter_map(|number| files.known(number));
    let has_failed = reported.errno != 0;
    let header = &reported.header;
    SlowCall {
        at_ns: Some(header.time_ns),
        ns: reported.duration_ns,
        call: Call::from_id(reported.call).name.into_owned(),
        path: known.find_map(File::label).map(str::to_owned),
        result: (!has_failed).then_some(reported.result),
        error: has_failed.then(|| errno::name(reported.errno)),
        program: tasks.name_of_program(header.program),
        thread: Some(text(&header.comm)),
        pid: Some(header.pid),
        tid: Some(header.tid),
        stack: None,
    }
}

/// The calls of a trace that began then, and who made them.
pub(super) fn finish(
    slowest: SlowestCalls,
    slower_than_ns: u64,
    began_ns: Option<u64>,
    totals: &KernelTotals,
    callers: &ListedCallers,
) -> SlowCalls {
    let lost = totals.loss_count(zc_ebpf::KernelLoss::UnreportedSlowCall);
    let untimed = totals.loss_count(zc_ebpf::KernelLoss::UntimedCall);
    let before = totals.loss_count(zc_ebpf::KernelLoss::UnderWayAtAttach);
    let mut slow = slowest.finish(slower_than_ns, lost, untimed + before);
    for call in &mut slow.calls {
        let key = call.tid.zip(call.at_ns);
        let stack = key.and_then(|key| callers.get(&key));
        call.stack = stack.map(|stack| stack.0 as usize);
        let since = call.at_ns.zip(began_ns);
        call.at_ns = since.and_then(|(at, began)| at.checked_sub(began));
    }
    slow
}
