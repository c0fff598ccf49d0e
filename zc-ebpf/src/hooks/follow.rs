//! Follows tasks: fork adds one, exec makes the root's process active, the final switch removes it.
//!
//! A child is added in `sched_process_fork`, which fires before the child can run, so nothing that
//! it does is missed. A task's counters in the kernel are final only when the dead task has been
//! switched out for the last time.

use aya_ebpf::helpers::generated::bpf_get_ns_current_pid_tgid;
use aya_log_ebpf::debug;
use zc_ebpf::{
    ARGS_BYTES, Control, Exec, Fault, KernelLoss, Mapping, OtherCallSums, Task, armed, event_kind,
    phase,
};

use crate::{
    hooks::{attach, caller_samples, count, descriptors, followed},
    kernel::entries::{Entries as _, EntryPtr, field},
    kernel::fields::{self, KernelPtr, TypedPtr, offset_of_field},
    kernel::helpers::{now_ns, read_kernel_text, read_user_bytes},
    maps::{CONTROL, EVENTS, attaches, count_loss, is_over, wakeup},
    origin::spaces,
    tasks,
};

/// A task was created; it has not run yet.
#[inline(always)]
pub fn forked(parent: KernelPtr, child: KernelPtr) {
    let Some(control) = CONTROL.entry(0).filter(|_| !is_over()) else {
        return;
    };
    match tasks::find(fields::as_number(parent)) {
        // SAFETY: only the task itself writes its entry, and this is the task.
        Some(creator) => follow_child(control, unsafe { creator.as_mut() }, parent, child),
        None if field!(control, armed).load() != armed::OFF && current_is_launcher(control) => {
            follow_root(control, parent, child);
        }
        None if attaches() && !attach::was_found(child) => {
            attach::follow_if_in_cgroup(control, child);
        }
        None => {}
    }
}

/// The tracer's thread that launches has created the root of the trace.
#[inline(never)]
fn follow_root(control: EntryPtr<Control>, current: KernelPtr, child: KernelPtr) {
    // This is the one thread that launches, so nobody else writes now.
    field!(control, pidns_level).store(fields::pidns_level(current));
    field!(control, armed).store(armed::OFF);
    if let Some(task) = insert_child(control, child) {
        task.space = spaces::new_space();
        tell_start(task, field!(control, tracer_pid).load(), child);
    }
}

/// A task that is followed has created a task.
#[inline(never)]
fn follow_child(
    control: EntryPtr<Control>,
    creator: &mut Task,
    parent: KernelPtr,
    child: KernelPtr,
) {
    let shares_memory = followed::have_same(parent, child, offset_of_field!(task_mm));
    let shares_files = followed::have_same(parent, child, offset_of_field!(task_files));
    // Also if there is no room for the child.
    creator.shares_space |= u32::from(shares_memory);
    creator.shares_files |= u32::from(shares_files);
    if attaches() && attach::was_found(child) {
        return;
    }
    let Some(task) = insert_child(control, child) else {
        return;
    };
    task.phase = creator.phase;
    if task.tid != task.pid {
        task.program = creator.program;
    }
    task.shares_files = shares_files.into();
    if shares_memory {
        task.space = creator.space;
        task.shares_space = 1;
        spaces::add_tasks(task.space, 1);
    } else {
        task.space = spaces::new_space();
        caller_samples::note_copy(creator.space, task.space);
    }
    tell_start(task, creator.pid, child);
}

/// Begins to follow a new task. `None` if there is no room for it, which is counted.
#[inline(always)]
fn insert_child(control: EntryPtr<Control>, child: KernelPtr) -> Option<&'static mut Task> {
    let serial = followed::new_serial(control);
    let ids = fields::ids(child, field!(control, pidns_level).load());
    let task = followed::insert(fields::as_number(child), serial, ids);
    // A walk may have been faster.
    if task.is_none() && !(attaches() && attach::was_found(child)) {
        count_loss(KernelLoss::UnfollowedTask);
    }
    task
}

/// Tells user space that a task is followed.
#[inline(never)]
fn tell_start(task: &Task, creator_pid: u32, child: KernelPtr) {
    debug!(
        (),
        "task {} of process {} is followed as number {}", task.tid, task.pid, task.serial
    );
    let kind = event_kind::STARTED;
    followed::send(followed::header(kind, task, now_ns(), creator_pid, child));
}

/// Whether the current task is the tracer's thread that launches the command. The ids are compared
/// in the tracer's PID namespace, because the tracer may run in a container.
fn current_is_launcher(control: EntryPtr<Control>) -> bool {
    // `struct bpf_pidns_info { __u32 pid; __u32 tgid; }` of the kernel's uapi/linux/bpf.h.
    let mut info = [0_u32; 2];
    let device = field!(control, pidns_device).load();
    let inode = field!(control, pidns_inode).load();
    // SAFETY: `info` has the size that is passed.
    let result = unsafe { bpf_get_ns_current_pid_tgid(device, inode, info.as_mut_ptr().cast(), 8) };
    result == 0 && info[0] == field!(control, tracer_tid).load()
}

/// The path of the program that is executed.
#[inline(always)]
pub fn filename(binprm: KernelPtr) -> KernelPtr {
    fields::probe_pointer(binprm, offset_of_field!(binprm_filename))
}

/// A process has executed the program of this path. The current task is the only one left in the
/// process.
#[inline(always)]
pub fn executed(task: KernelPtr, filename: KernelPtr) {
    let Some(state) = tasks::current().filter(|_| !is_over()) else {
        return;
    };
    // One after the other, so that neither takes stack while the other one runs.
    replace_space(state);
    let is_first = state.phase == phase::ARMED;
    replace_program(state, task, filename);
    if is_first {
        descriptors::report_at_start();
    }
}

/// The current task has another address space, without what it shared with other tasks.
#[inline(never)]
fn replace_space(state: &mut Task) {
    state.mapping = Mapping::NONE;
    spaces::add_tasks(state.space, u64::MAX);
    state.space = spaces::new_space();
    caller_samples::note_program(state.space);
    state.forget_descriptors();
    (state.has_ring, state.shares_files, state.shares_space) = (0, 0, 0);
}

/// Its calls are those of another program from now on.
#[inline(never)]
fn replace_program(state: &mut Task, task: KernelPtr, filename: KernelPtr) {
    let Some(mut entry) = EVENTS.reserve::<Exec>(0) else {
        count_loss(KernelLoss::LostEvent);
        begin_program(state);
        return;
    };
    // SAFETY: room for an Exec in the ring buffer, which is made of numbers. All of it is written
    // before it is submitted (exe and args as far as they are filled; user space reads no further).
    let event: &mut Exec = unsafe { &mut *entry.as_mut_ptr() };
    let replaced = &mut event.replaced;
    (replaced.serial, replaced.program) = (state.serial, state.program);
    (replaced.tid, replaced.hooks) = (state.tid, state.hooks);
    replaced.other_calls = state.other_calls;
    if state.phase == phase::ARMED {
        replaced.serial = 0;
    }
    // The trace begins with the call of its first exec.
    let is_first = state.phase == phase::ARMED && state.entered_ns != 0;
    let began_ns = if is_first { state.entered_ns } else { now_ns() };
    begin_program(state);
    event.counters = fields::counters(task);
    event.exe[0] = 0;
    let _ = read_kernel_text(filename, &mut event.exe);
    let (length, filled) = read_args(task, &mut event.args);
    event.args_length = length;
    event.header = followed::header(event_kind::EXEC, state, began_ns, filled, task);
    entry.submit(wakeup());
    debug!((), "process {} executed a program", state.pid);
}

/// Gives the task the number of another program, unless the trace begins with this one.
#[inline(never)]
fn begin_program(state: &mut Task) {
    if state.phase != phase::ARMED
        && let Some(control) = CONTROL.entry(0)
    {
        state.serial = followed::new_serial(control);
        state.program = state.serial;
        state.other_calls = OtherCallSums::NONE;
        state.has_busy_rows = 0;
    }
    state.phase = phase::ACTIVE;
    // A thread that was not the leader takes over the leader's id.
    state.tid = state.pid;
}

/// Copies the command line. Returns its length, and how many bytes of it were copied.
#[inline(always)]
fn read_args(task: KernelPtr, args: &mut [u8; ARGS_BYTES]) -> (u64, u32) {
    let mm = fields::probe_pointer(task, offset_of_field!(task_mm));
    let start: u64 = fields::probe_or_zero(mm, offset_of_field!(mm_arg_start));
    let end: u64 = fields::probe_or_zero(mm, offset_of_field!(mm_arg_end));
    let length = end.saturating_sub(start);
    let filled = if length < ARGS_BYTES as u64 {
        length as usize
    } else {
        ARGS_BYTES
    };
    if filled == 0 {
        return (0, 0);
    }
    // SAFETY: `filled` is at most the size of `args`. A checked slice would add a path to a panic.
    let args = unsafe { args.get_unchecked_mut(..filled) };
    if read_user_bytes(start, args) {
        (length, filled as u32)
    } else {
        (length, 0)
    }
}

/// The current task begins to exit. Its call under way will never return.
#[inline(always)]
pub fn exiting() {
    let Some(state) = tasks::current() else {
        return;
    };
    state.exited_ns = now_ns();
    if !state.is_in_call() {
        state.entered_ns = 0;
    }
    count::count_unfinished(state);
    descriptors::report_at_exit();
}

/// A signal is delivered to the current task. If it is that of a fault and kills the task, notes what the
/// kernel says of it. `info` is a `kernel_siginfo`, `action` the `sigaction` of the signal.
#[inline(always)]
pub fn signalled(signal: u64, info: KernelPtr, action: KernelPtr) {
    // `si_code` and `si_addr` of `siginfo_t` in the kernel's include/uapi/asm-generic/siginfo.h.
    const CODE: u32 = 8;
    const ADDRESS: u32 = 16;
    /// `SIG_DFL` of the kernel's include/uapi/asm-generic/signal-defs.h.
    const DEFAULT: u64 = 0;
    if Fault::SIGNALS >> (signal & 63) & 1 == 0 {
        return;
    }
    let Some(task) = tasks::current().filter(|_| !is_over()) else {
        return;
    };
    // The handler is the first field.
    let is_default = fields::probe::<u64>(action, 0) == Some(DEFAULT);
    let code: u32 = fields::probe_or_zero(info, CODE);
    if is_default && (1..Fault::CODES_END).contains(&code) {
        task.fault = Fault {
            address: fields::probe_or_zero(info, ADDRESS),
            signal: signal as u32,
            code,
        };
    }
}

/// A task was switched out. If it is dead, that was the last time.
pub fn switched_out(previous: TypedPtr) {
    if previous.load::<u32>(offset_of_field!(task_state)) == followed::TASK_DEAD {
        followed::ended(previous.address());
    }
}
