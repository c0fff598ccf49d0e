//! Counting calls: what happens at every entry and exit of a followed task.

use aya_ebpf::{
    bindings::pt_regs,
    helpers::{bpf_ktime_get_ns, generated::bpf_get_current_task_btf},
};
use aya_log_ebpf::warn;
use zc_ebpf::{
    ABSENT, COMPAT, CallId, CallSpec, FIRST_BEYOND, Interrupted, Loss, NO_CALL, Row, Task, bucket_of, fds, phase, requested,
    selected, spec_slot,
};

use crate::{
    buffers, ends,
    fields::{
        self, offset_of_field,
        regs::{self, Arguments},
    },
    follow,
    maps::{SPECS, is_over, lose},
    request::{self, Request},
    rows, scope,
};

/// `TS_COMPAT` of the kernel, in `asm/thread_info.h` of x86: this call came through the 32-bit entry.
const TS_COMPAT: u32 = 2;
/// `SIGKILL` and `SIGSYS`, as bits of the kernel's `sigset_t`.
const KILL: u64 = 1 << (9 - 1);
const SYS: u64 = 1 << (31 - 1);
/// `__X32_SYSCALL_BIT` of the kernel's arch/x86/include/uapi/asm/unistd.h.
const X32_BIT: i64 = 0x4000_0000;
/// The highest errno a call can return (`MAX_ERRNO` of the kernel's include/linux/err.h).
const MAX_ERRNO: i64 = 4095;

/// The results by which the kernel says to itself that a signal ended a call: `ERESTARTSYS` to
/// `ERESTART_RESTARTBLOCK` of its include/linux/errno.h.
const RESTARTS: core::ops::RangeInclusive<i64> = -516..=-512;

/// The numbers of `io_uring_setup`, `io_uring_enter` and `io_uring_register`, the same in all tables.
const RING_CALLS: core::ops::RangeInclusive<u16> = 425..=427;

/// A task enters the kernel for a call.
#[inline(always)]
pub fn enter(registers: *const pt_regs, number: i64) {
    let Some(task) = follow::current() else { return scope::call_of_bystander(number) };
    if is_over() {
        return;
    }
    // SAFETY: an entry of TASKS is written by its own task only, which is the current one.
    let task = unsafe { &mut *task };
    if task.interrupted != NO_CALL {
        record_interrupted(task);
    }
    task.exit_without_entry_expected = 0;
    let known = identify(number).and_then(|(call, spec)| {
        // SAFETY: `registers` is the tracepoint's argument.
        let arguments = unsafe { Arguments::of(registers, call & COMPAT != 0) };
        let (call, spec) = request::variant(&arguments, spec, call)?;
        Some((call, spec, arguments))
    });
    if !known.as_ref().is_some_and(|(_, spec, _)| fds::only_used(spec.fds)) {
        task.forget_descriptors();
        task.has_ring |= u32::from(RING_CALLS.contains(&(number as u16)));
    }
    match known {
        Some((call, spec, arguments)) => {
            task.call = call;
            if task.phase == phase::ACTIVE {
                task.ends = ends::of(&arguments, spec, task);
            }
            // SAFETY: the helper has no preconditions.
            task.entered_ns = unsafe { bpf_ktime_get_ns() };
        }
        None => task.call = NO_CALL,
    }
}

/// A call returns to its task. If the trace is over by then, it stays the call that the task is in.
#[inline(always)]
pub fn exit(registers: *const pt_regs, result: i64) {
    let Some(task) = follow::current().filter(|_| !is_over()) else { return };
    // SAFETY: an entry of TASKS is written by its own task only, which is the current one.
    let task = unsafe { &mut *task };
    let call = task.call;
    task.call = NO_CALL;
    let expected = task.exit_without_entry_expected;
    task.exit_without_entry_expected = 0;
    if task.phase != phase::ACTIVE {
        return;
    }
    if call == NO_CALL {
        task.forget_descriptors();
        if expected == 0 {
            returned_unseen(task, registers, result);
        }
        return;
    }
    // SAFETY: the helper has no preconditions.
    let duration_ns = unsafe { bpf_ktime_get_ns() }.wrapping_sub(task.entered_ns);
    let compat = call & COMPAT != 0;
    let Some(spec) = SPECS.get(spec_slot(call & zc_ebpf::NUMBER_MASK, compat)).copied() else { return };
    // SAFETY: `registers` is the tracepoint's argument.
    let arguments = unsafe { Arguments::of(registers, compat) };
    let Some((call, spec)) = request::variant(&arguments, spec, call) else { return };
    if is_killed(task, call, signals()) {
        return;
    }
    let request = request::of(&arguments, spec);
    if RESTARTS.contains(&result) {
        task.interrupted = call;
        task.interruption = hold(result, request, duration_ns);
        return;
    }
    let paired_bytes = buffers::moved(task, &arguments, spec, result, request.bytes);
    record(task, &Outcome { result, paired_bytes, duration_ns, call, returns_bytes: spec.returns_bytes.into(), request });
}

/// A call returns whose entry was not seen, as seccomp answered it: which it was, the registers still tell.
#[inline(always)]
fn returned_unseen(task: &mut Task, registers: *const pt_regs, result: i64) {
    // SAFETY: `registers` is the tracepoint's argument.
    let number = unsafe { regs::number(registers) };
    let Some((call, spec)) = identify(number) else { return };
    // SAFETY: as above.
    let arguments = unsafe { Arguments::of(registers, call & COMPAT != 0) };
    let Some((call, spec)) = request::variant(&arguments, spec, call) else { return };
    let signals = signals();
    if is_killed(task, call, signals) {
        return;
    }
    // SAFETY: the helper has no preconditions.
    task.entered_ns = unsafe { bpf_ktime_get_ns() };
    task.ends = ends::of(&arguments, spec, task);
    // Trapped by seccomp: it was not made, and what looks like its result is its number.
    if signals & SYS != 0 && result == number {
        task.call = call;
        return abandon(task);
    }
    lose(Loss::UntimedCall);
    let request = request::of(&arguments, spec);
    let returns_bytes = u32::from(spec.returns_bytes);
    record(task, &Outcome { result, paired_bytes: 0, duration_ns: UNTIMED, call, returns_bytes, request });
}

/// Whether the caller will not see the result: every thread of a process that is killed, or that another thread ends, has this signal.
/// Then the call is under way until the task exits.
#[inline(always)]
fn is_killed(task: &mut Task, call: CallId, signals: u64) -> bool {
    if signals & KILL != 0 {
        task.call = call;
    }
    signals & KILL != 0
}

/// The current task exits: the call under way never returns, nor does one that was interrupted and not taken up again.
pub fn abandon(task: &mut Task) {
    let call = if task.call == NO_CALL { task.interrupted } else { task.call };
    task.call = NO_CALL;
    task.interrupted = NO_CALL;
    if call == NO_CALL || task.phase != phase::ACTIVE {
        return;
    }
    match rows::place(task.serial, call, task.ends, 0) {
        // SAFETY: a row is written by its own task only, which is the current one.
        Some(mut place) => unsafe {
            begin(place.row.as_mut(), task, place.without_files);
            place.row.as_mut().unfinished += 1;
        },
        None => lose(Loss::UncountedCall),
    }
}

/// In [`Outcome::duration_ns`]: unknown.
const UNTIMED: u64 = u64::MAX;

/// What a call came to.
#[repr(C)]
struct Outcome {
    result: i64,
    /// See [`Row::paired_bytes`].
    paired_bytes: u64,
    duration_ns: u64,
    call: CallId,
    returns_bytes: u32,
    request: Request,
}

#[inline(always)]
fn hold(result: i64, request: Request, duration_ns: u64) -> Interrupted {
    Interrupted { errno: -result as u32, request_unknown: request.is_unknown, requested_bytes: request.bytes, duration_ns }
}

/// The task goes on after a call that a signal ended: so that call has returned. A function of its own, being rare.
#[inline(never)]
fn record_interrupted(task: &mut Task) {
    let call = task.interrupted;
    task.interrupted = NO_CALL;
    let held = task.interruption;
    let request = Request { bytes: held.requested_bytes, is_unknown: held.request_unknown };
    let result = -i64::from(held.errno);
    record(task, &Outcome { result, paired_bytes: 0, duration_ns: held.duration_ns, call, returns_bytes: 0, request });
}

/// Counts a call that returned. The result means nothing: a global function must have one.
///
/// Global, so that the verifier looks at it once, and not once for every way that leads here.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn record(task: *const Task, outcome: *const Outcome) -> u32 {
    // SAFETY: either is null or what callers pass: their own task's entry of TASKS, and what they have on their stack.
    let (Some(task), Some(outcome)) = (unsafe { task.as_ref() }, unsafe { outcome.as_ref() }) else { return 0 };
    let errno = if is_error(outcome.result) { -outcome.result as u32 } else { 0 };
    let Some(mut place) = rows::place(task.serial, outcome.call, task.ends, errno) else {
        lose(Loss::UncountedCall);
        warn!((), "a call of task {} is not counted: the map of rows is full", task.tid);
        return 0;
    };
    // SAFETY: a row is written by its own task only, which is the current one, and is never removed while programs run.
    let row = unsafe { place.row.as_mut() };
    begin(row, task, place.without_files);
    add(row, outcome);
    if row.moved_ns == 0 && row.bytes != 0 {
        row.moved_ns = task.entered_ns + if outcome.duration_ns == UNTIMED { 0 } else { outcome.duration_ns };
    }
    match place.errno {
        // SAFETY: as a row.
        Some(count) => unsafe { *count.as_ptr() += 1 },
        None if errno != 0 => lose(Loss::UncountedErrno),
        None => {}
    }
    0
}

/// What a row says of its calls as a whole.
#[inline(always)]
fn begin(row: &mut Row, task: &Task, without_files: bool) {
    if row.first_ns == 0 {
        row.first_ns = task.entered_ns;
    }
    if without_files {
        row.without_files += 1;
    }
}

/// Whether a call that returned this has failed.
#[inline(always)]
pub fn is_error(result: i64) -> bool {
    (-MAX_ERRNO..0).contains(&result)
}

/// Which call this is and what to do with it; `None` if it is not selected.
#[inline(always)]
pub fn identify(number: i64) -> Option<(CallId, CallSpec)> {
    let x32 = number >= 0 && number & X32_BIT != 0;
    let number = if number < 0 { FIRST_BEYOND } else { (number & !X32_BIT) as u32 };
    let compat = is_compat();
    let spec = SPECS.get(spec_slot(number, compat)).copied()?;
    if spec.selected == selected::NEVER {
        return None;
    }
    let number = if number < FIRST_BEYOND { number } else { FIRST_BEYOND };
    let flags = if compat {
        COMPAT
    } else if x32 {
        zc_ebpf::X32
    } else {
        0
    };
    Some((number | flags, spec))
}

/// The signals that await the current task alone.
#[inline(always)]
fn signals() -> u64 {
    let offset = offset_of_field!(task_signals);
    if offset == ABSENT {
        return 0;
    }
    // SAFETY: the current task is a typed pointer to the verifier.
    unsafe { fields::load(bpf_get_current_task_btf().cast(), offset) }
}

/// Whether the call under way came through the 32-bit entry.
#[inline(always)]
fn is_compat() -> bool {
    let offset = offset_of_field!(task_compat_status);
    if offset == ABSENT {
        return false;
    }
    // SAFETY: the current task is a typed pointer to the verifier.
    let status: u32 = unsafe { fields::load(bpf_get_current_task_btf().cast(), offset) };
    status & TS_COMPAT != 0
}

#[inline(always)]
fn add(row: &mut Row, outcome: &Outcome) {
    row.calls += 1;
    if is_error(outcome.result) {
        row.errors += 1;
    } else if outcome.returns_bytes != 0 {
        row.bytes += outcome.result as u64;
        row.paired_bytes += outcome.paired_bytes;
        row.zero_calls += u64::from(outcome.result == 0);
        if outcome.request.is_unknown == 0 && outcome.result != 0 {
            row.short_calls += u64::from((outcome.result as u64) < outcome.request.bytes);
        }
    }
    match row.requested_bytes.checked_add(outcome.request.bytes) {
        Some(sum) if outcome.request.is_unknown == 0 => row.requested_bytes = sum,
        // Callers may ask for "all there is", as a number near the end of the range.
        _ => row.requested_unknown += 1,
    }
    let ns = outcome.duration_ns;
    if ns == UNTIMED {
        return;
    }
    row.total_ns += ns;
    if ns < row.min_ns {
        row.min_ns = ns;
    }
    if ns > row.max_ns {
        row.max_ns = ns;
    }
    if let Some(count) = row.histogram.get_mut(bucket(ns) as usize) {
        *count = count.saturating_add(1);
    }
}

/// The bucket of a time. Global, so that the verifier forgets the ways that lead to it.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn bucket(ns: u64) -> u32 {
    bucket_of(ns) as u32
}

const _: () = assert!(requested::NONE == 0, "a spec of zeroes asks for nothing");
