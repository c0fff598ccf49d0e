// What all objects have: `main.rs`, `with_syncs.rs` and `with_paths.rs` include it.

mod file;
mod hooks;
mod kernel;
mod maps;
/// What a written byte came from: the part that runs in the kernel only.
mod origin {
    pub mod calls;
    pub mod credit;
    pub mod lock;
    pub mod spaces;
}
mod request;
mod rows;
mod tasks;

use aya_ebpf::{
    macros::{btf_tracepoint, raw_tracepoint},
    programs::{BtfTracePointContext, RawTracePointContext},
};

use crate::{
    hooks::{at_calls::at_calls, attach, count, follow, ring, scope, wakes},
    kernel::fields::{KernelPtr, TypedPtr},
};

at_calls!("sys_enter", sys_enter, sys_enter_event(CALL_NUMBER), if scope::may_concern, scope::call_entered);
at_calls!("sys_exit", sys_exit, sys_exit_event(CALL_RESULT), if tasks::may_follow_caller, count::exit);

/// `sched_process_fork(struct task_struct *parent, struct task_struct *child)`. It fires before the
/// child can run.
#[raw_tracepoint(tracepoint = "sched_process_fork")]
fn process_fork(ctx: RawTracePointContext) -> i32 {
    follow::forked(ctx.arg(0), ctx.arg(1));
    0
}

/// `sched_process_exec(struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm)`
#[raw_tracepoint(tracepoint = "sched_process_exec")]
fn process_exec(ctx: RawTracePointContext) -> i32 {
    follow::executed(ctx.arg(0), follow::filename(ctx.arg(2)));
    0
}

/// `sched_process_exit(struct task_struct *p, ...)`
#[btf_tracepoint(function = "sched_process_exit")]
fn process_exit(_ctx: BtfTracePointContext) -> i32 {
    follow::exiting();
    0
}

/// `signal_deliver(int sig, struct kernel_siginfo *info, struct k_sigaction *ka)`
#[raw_tracepoint(tracepoint = "signal_deliver")]
fn signal_delivered(ctx: RawTracePointContext) -> i32 {
    follow::signalled(ctx.arg(0), ctx.arg(1), ctx.arg(2));
    0
}

/// `sched_switch(bool preempt, struct task_struct *prev, ...)`
#[btf_tracepoint(function = "sched_switch")]
fn sched_switch(ctx: BtfTracePointContext) -> i32 {
    follow::switched_out(TypedPtr::argument(ctx.arg(1)));
    0
}

/// See `zc_ebpf::programs::SCOPE`.
#[raw_tracepoint]
fn scope(ctx: RawTracePointContext) -> i32 {
    scope::change(ctx.arg(0));
    0
}

/// `struct bpf_iter__task { struct bpf_iter_meta *meta; struct task_struct *task; }`. The walk has
/// come to this task. Null: it is over.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
extern "C" fn walk(ctx: *const KernelPtr) -> i32 {
    // SAFETY: the context has two pointers. Volatile, because the verifier wants a plain load.
    let task = unsafe { ctx.add(1).read_volatile() };
    if !task.is_null() {
        attach::come_to(task);
    }
    0
}

/// `cgroup_attach_task(struct cgroup *dst_cgrp, const char *path, struct task_struct *task, bool
/// threadgroup)`
#[raw_tracepoint(tracepoint = "cgroup_attach_task")]
fn cgroup_entered(ctx: RawTracePointContext) -> i32 {
    attach::entered(ctx.arg(2));
    0
}

/// `sched_waking(struct task_struct *p)`. The current task wakes another one.
#[raw_tracepoint(tracepoint = "sched_waking")]
fn thread_woken(ctx: RawTracePointContext) -> i32 {
    wakes::wake(ctx.arg(0));
    0
}

/// `sched_wakeup_new(struct task_struct *p)`. The current task has created another one.
#[raw_tracepoint(tracepoint = "sched_wakeup_new")]
fn thread_created(ctx: RawTracePointContext) -> i32 {
    wakes::wake(ctx.arg(0));
    0
}

/// `io_uring_create(int fd, void *ctx, u32 sq_entries, u32 cq_entries, u32 flags)`
#[raw_tracepoint(tracepoint = "io_uring_create")]
fn ring_create(ctx: RawTracePointContext) -> i32 {
    ring::created(ctx.arg(1), ctx.arg(4));
    0
}

/// `io_uring_submit_req(struct io_kiocb *req)`
#[raw_tracepoint(tracepoint = "io_uring_submit_req")]
fn ring_submit(ctx: RawTracePointContext) -> i32 {
    ring::submitted(ctx.arg(0));
    0
}

/// `io_uring_complete(struct io_ring_ctx *ctx, void *req, ...)`
#[raw_tracepoint(tracepoint = "io_uring_complete")]
fn ring_complete(ctx: RawTracePointContext) -> i32 {
    ring::completed(ctx.arg(0), ctx.arg(1));
    0
}

/// `io_uring_cqe_overflow(void *ctx, unsigned long long user_data, ...)`
#[raw_tracepoint(tracepoint = "io_uring_cqe_overflow")]
fn ring_overflow(ctx: RawTracePointContext) -> i32 {
    ring::overflowed(ctx.arg(0));
    0
}

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// Some helpers, such as those that read kernel memory, need a licence that is compatible with the
/// GPL. "Dual MIT/GPL" is the kernel's name for ours.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
