//! The programs, as typed tracepoints and as the perf events that replace them where the kernel may
//! preempt those.

use aya_ebpf::{
    EbpfContext as _,
    macros::{raw_tracepoint, tracepoint},
    programs::{RawTracePointContext, TracePointContext},
};
use zc_ebpf::records;

use super::calls;
use crate::{
    hooks::{at_calls::at_calls, follow, not_preempted::read},
    tasks,
};

at_calls!("sys_enter", touch_enter, touch_enter_event(CALL_NUMBER), if tasks::may_follow_caller, calls::entered);
at_calls!("sys_exit", touch_exit, touch_exit_event(CALL_RESULT), if tasks::may_follow_caller, calls::returned);

/// `sched_process_exec(struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm)`
#[raw_tracepoint(tracepoint = "sched_process_exec")]
fn touch_exec(ctx: RawTracePointContext) -> i32 {
    calls::executed(follow::filename(ctx.arg(2)));
    0
}

/// `sched_process_exec`: `__data_loc char[] filename; pid_t pid; pid_t old_pid`
#[tracepoint]
fn touch_exec_event(ctx: TracePointContext) -> u32 {
    let filename = read::<u32, { records::EXEC_FILENAME.offset }>(&ctx) & 0xffff;
    calls::executed(ctx.as_ptr().cast::<u8>().wrapping_add(filename as usize));
    0
}
