//! The programs: at the entry and the exit of each call, as typed tracepoints and as the perf events
//! that replace them where the kernel may preempt those.

use aya_ebpf::{
    macros::{btf_tracepoint, tracepoint},
    programs::{BtfTracePointContext, TracePointContext},
};
use zc_ebpf::records;

use super::calls;
use crate::{
    hooks::not_preempted::read,
    kernel::{fields::TypedPtr, registers::Registers},
    tasks,
};

/// `sys_enter(struct pt_regs *regs, long id)`
#[btf_tracepoint(function = "sys_enter")]
fn sync_enter(ctx: BtfTracePointContext) -> i32 {
    let registers = Registers::of_tracepoint(&ctx);
    if tasks::may_follow_caller(registers) {
        calls::entered(registers, ctx.arg(1), TypedPtr::current_task());
    }
    0
}

/// `sys_exit(struct pt_regs *regs, long ret)`
#[btf_tracepoint(function = "sys_exit")]
fn sync_exit(ctx: BtfTracePointContext) -> i32 {
    let registers = Registers::of_tracepoint(&ctx);
    if tasks::may_follow_caller(registers) {
        calls::returned(registers, ctx.arg(1), TypedPtr::current_task());
    }
    0
}

/// `sys_enter`: `long id; unsigned long args[6]`
#[tracepoint]
fn sync_enter_event(ctx: TracePointContext) -> u32 {
    let registers = Registers::of_current();
    if tasks::may_follow_caller(registers) {
        let number = read::<i64, { records::CALL_NUMBER.offset }>(&ctx);
        calls::entered(registers, number, TypedPtr::current_task());
    }
    0
}

/// `sys_exit`: `long id; long ret`
#[tracepoint]
fn sync_exit_event(ctx: TracePointContext) -> u32 {
    let registers = Registers::of_current();
    if tasks::may_follow_caller(registers) {
        let result = read::<i64, { records::CALL_RESULT.offset }>(&ctx);
        calls::returned(registers, result, TypedPtr::current_task());
    }
    0
}
