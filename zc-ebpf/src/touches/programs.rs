//! The programs, as typed tracepoints and as the perf events that replace them where the kernel may
//! preempt those.

use aya_ebpf::{
    EbpfContext as _,
    macros::{btf_tracepoint, raw_tracepoint, tracepoint},
    programs::{BtfTracePointContext, RawTracePointContext, TracePointContext},
};
use zc_ebpf::records;

use super::calls;
use crate::{
    hooks::{follow, not_preempted::read},
    kernel::{fields::TypedPtr, registers::Registers},
    tasks,
};

/// `sys_enter(struct pt_regs *regs, long id)`
#[btf_tracepoint(function = "sys_enter")]
fn touch_enter(ctx: BtfTracePointContext) -> i32 {
    let registers = Registers::of_tracepoint(&ctx);
    if tasks::may_follow_caller(registers) {
        calls::entered(registers, ctx.arg(1), TypedPtr::current_task());
    }
    0
}

/// `sys_exit(struct pt_regs *regs, long ret)`
#[btf_tracepoint(function = "sys_exit")]
fn touch_exit(ctx: BtfTracePointContext) -> i32 {
    let registers = Registers::of_tracepoint(&ctx);
    if tasks::may_follow_caller(registers) {
        calls::returned(registers, ctx.arg(1), TypedPtr::current_task());
    }
    0
}

/// `sched_process_exec(struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm)`
#[raw_tracepoint(tracepoint = "sched_process_exec")]
fn touch_exec(ctx: RawTracePointContext) -> i32 {
    calls::executed(follow::filename(ctx.arg(2)));
    0
}

/// `sys_enter`: `long id; unsigned long args[6]`
#[tracepoint]
fn touch_enter_event(ctx: TracePointContext) -> u32 {
    let registers = Registers::of_current();
    if tasks::may_follow_caller(registers) {
        let number = read::<i64, { records::CALL_NUMBER.offset }>(&ctx);
        calls::entered(registers, number, TypedPtr::current_task());
    }
    0
}

/// `sys_exit`: `long id; long ret`
#[tracepoint]
fn touch_exit_event(ctx: TracePointContext) -> u32 {
    let registers = Registers::of_current();
    if tasks::may_follow_caller(registers) {
        let result = read::<i64, { records::CALL_RESULT.offset }>(&ctx);
        calls::returned(registers, result, TypedPtr::current_task());
    }
    0
}

/// `sched_process_exec`: `__data_loc char[] filename; pid_t pid; pid_t old_pid`
#[tracepoint]
fn touch_exec_event(ctx: TracePointContext) -> u32 {
    let filename = read::<u32, { records::EXEC_FILENAME.offset }>(&ctx) & 0xffff;
    calls::executed(ctx.as_ptr().cast::<u8>().wrapping_add(filename as usize));
    0
}
