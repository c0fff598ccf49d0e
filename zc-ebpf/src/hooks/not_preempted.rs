//! The programs that replace others where the kernel may preempt those: see
//! `zc_ebpf::programs::Hooked::not_preempted`. Those at calls are in `at_calls`.
//!
//! The layout of an event's record is in `/sys/kernel/tracing/events/*/*/format`. The fields that
//! the programs read are in [`records`].

use aya_ebpf::{
    EbpfContext as _,
    macros::{btf_tracepoint, tracepoint},
    programs::{BtfTracePointContext, TracePointContext},
};
use zc_ebpf::records;

use crate::{
    hooks::{attach::IS_WORKER, follow, ring},
    kernel::fields::{self, KernelPtr, Plain, TypedPtr, offset_of_field},
    kernel::helpers::current_task,
};

/// `sched_wakeup_new(struct task_struct *p)`. The kernel holds the lock of the new task's run
/// queue, so the task cannot run yet. Kernel threads that work for a process come here as well, but
/// do not fire `sched_process_fork`.
#[btf_tracepoint(function = "sched_wakeup_new")]
fn task_woken(ctx: BtfTracePointContext) -> i32 {
    let child: KernelPtr = ctx.arg(0);
    if fields::probe_or_zero::<u32>(child, offset_of_field!(task_flags)) & IS_WORKER == 0 {
        follow::forked(current_task(), child);
    }
    0
}

/// `sched_process_exec`: `__data_loc char[] filename; pid_t pid; pid_t old_pid`
#[tracepoint]
fn exec_event(ctx: TracePointContext) -> u32 {
    let filename = read::<u32, { records::EXEC_FILENAME.offset }>(&ctx) & 0xffff;
    let filename = ctx.as_ptr().cast::<u8>().wrapping_add(filename as usize);
    follow::executed(TypedPtr::current_task().address(), filename);
    0
}

/// `sched_process_exit`
#[tracepoint]
fn exit_event(_ctx: TracePointContext) -> u32 {
    follow::exiting();
    0
}

/// `io_uring_create`: `int fd; void *ctx; u32 sq_entries; u32 cq_entries; u32 flags`
#[tracepoint]
fn ring_create_event(ctx: TracePointContext) -> u32 {
    ring::created(
        read::<KernelPtr, { records::CREATED_RING.offset }>(&ctx),
        read::<u32, { records::CREATED_FLAGS.offset }>(&ctx),
    );
    0
}

/// `io_uring_submit_req`: `void *ctx; void *req; ...`
#[tracepoint]
fn ring_submit_event(ctx: TracePointContext) -> u32 {
    ring::submitted(read::<KernelPtr, { records::SUBMITTED_REQUEST.offset }>(
        &ctx,
    ));
    0
}

/// `io_uring_complete`: `void *ctx; void *req; ...`
#[tracepoint]
fn ring_complete_event(ctx: TracePointContext) -> u32 {
    ring::completed(
        read::<KernelPtr, { records::COMPLETED_RING.offset }>(&ctx),
        read::<KernelPtr, { records::COMPLETED_REQUEST.offset }>(&ctx),
    );
    0
}

/// `io_uring_cqe_overflow`: `void *ctx; ...`
#[tracepoint]
fn ring_overflow_event(ctx: TracePointContext) -> u32 {
    ring::overflowed(read::<KernelPtr, { records::OVERFLOWED_RING.offset }>(&ctx));
    0
}

/// Reads from the record of an event. The verifier wants a load from the context itself, at a
/// constant offset.
#[inline(always)]
pub fn read<T: Plain, const OFFSET: usize>(ctx: &TracePointContext) -> T {
    // SAFETY: the verifier refuses a program that reads beyond the record, and whatever is there is
    // a `T`.
    unsafe { core::ptr::read_volatile(ctx.as_ptr().cast::<u8>().add(OFFSET).cast::<T>()) }
}
