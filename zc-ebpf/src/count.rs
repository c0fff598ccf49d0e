//! Counting calls: what happens at every entry and exit of a followed task.

use aya_ebpf::{
    bindings::pt_regs,
    helpers::{bpf_ktime_get_ns, generated::bpf_get_current_task_btf},
    programs::BtfTracePointContext,
};
use aya_log_ebpf::warn;
use zc_ebpf::{
    ABSENT, COMPAT, CallId, CallSpec, ErrnoKey, Interrupted, Loss, NO_CALL, Row, RowKey, TABLE_SLOTS, Task, bucket_of, phase,
    requested, selected, spec_slot,
};

use crate::{
    fields::{self, offset_of_field, regs},
    follow,
    maps::{EMPTY_ROW, ERRNOS, ROWS, SPECS, lose},
    request::{self, Request},
};

/// `TS_COMPAT` of the kernel, in `asm/thread_info.h` of x86: this call came through the 32-bit entry.
const TS_COMPAT: u32 = 2;
/// `__X32_SYSCALL_BIT` of the kernel's arch/x86/include/uapi/asm/unistd.h.
const X32_BIT: i64 = 0x4000_0000;
/// The highest errno a call can return (`MAX_ERRNO` of the kernel's include/linux/err.h).
const MAX_ERRNO: i64 = 4095;

/// The results by which the kernel says to itself that a signal ended a call: `ERESTARTSYS` to
/// `ERESTART_RESTARTBLOCK` of its include/linux/errno.h.
const RESTARTS: core::ops::RangeInclusive<i64> = -516..=-512;

/// A task enters the kernel for a call.
#[inline(always)]
pub fn enter(ctx: &BtfTracePointContext, number: i64) {
    let Some(task) = follow::current() else { return };
    // SAFETY: an entry of TASKS is written by its own task only, which is the current one.
    let task = unsafe { &mut *task };
    if task.interrupted != NO_CALL {
        record_interrupted(ctx, task);
    }
    task.exit_without_entry_expected = 0;
    match identify(number) {
        Some((call, _)) => {
            task.call = call;
            // SAFETY: the helper has no preconditions.
            task.entered_ns = unsafe { bpf_ktime_get_ns() };
        }
        None => task.call = NO_CALL,
    }
}

/// A call returns to its task.
#[inline(always)]
pub fn exit(ctx: &BtfTracePointContext, registers: *const pt_regs, result: i64) {
    let Some(task) = follow::current() else { return };
    // SAFETY: an entry of TASKS is written by its own task only, which is the current one.
    let task = unsafe { &mut *task };
    let call = task.call;
    task.call = NO_CALL;
    let expected = task.exit_without_entry_expected;
    task.exit_without_entry_expected = 0;
    if task.phase != phase::ACTIVE {
        return;
    }
    // SAFETY: the helper has no preconditions.
    let duration_ns = (call != NO_CALL).then(|| unsafe { bpf_ktime_get_ns() }.wrapping_sub(task.entered_ns));
    if duration_ns.is_none() && expected != 0 {
        return;
    }
    // SAFETY: `registers` is the tracepoint's argument.
    let number = if duration_ns.is_none() { unsafe { regs::number(registers) } } else { i64::from(call & zc_ebpf::NUMBER_MASK) };
    let Some((call, spec)) = with_spec(call, number) else { return };
    let compat = call & COMPAT != 0;
    let Some((call, request)) = request::of(registers, spec, call, compat) else { return };
    match duration_ns {
        Some(duration_ns) if RESTARTS.contains(&result) => {
            task.interrupted = call;
            task.interruption = hold(result, request, duration_ns);
            return;
        }
        Some(_) => {}
        None => lose(Loss::ExitWithoutEntry),
    }
    record(ctx, task, call, &Outcome { result, returns_bytes: spec.returns_bytes != 0, request, duration_ns });
}

/// The current task exits: the call under way never returns, nor does one that was interrupted and not taken up again.
pub fn abandon(task: &mut Task) {
    let call = if task.call == NO_CALL { task.interrupted } else { task.call };
    task.call = NO_CALL;
    task.interrupted = NO_CALL;
    if call == NO_CALL || task.phase != phase::ACTIVE {
        return;
    }
    match row(RowKey { task: task.serial, call, input: 0, output: 0 }) {
        // SAFETY: a row is written by its own task only, which is the current one.
        Some(row) => unsafe { (*row).unfinished += 1 },
        None => lose(Loss::UncountedCall),
    }
}

/// What a call came to.
struct Outcome {
    result: i64,
    returns_bytes: bool,
    request: Request,
    duration_ns: Option<u64>,
}

#[inline(always)]
fn hold(result: i64, request: Request, duration_ns: u64) -> Interrupted {
    let (requested_bytes, request_unknown) = match request {
        Request::Bytes(bytes) => (bytes, 0),
        Request::Unreadable => (0, 1),
    };
    Interrupted { errno: -result as u32, request_unknown, requested_bytes, duration_ns }
}

/// The task goes on after a call that a signal ended: so that call has returned. A function of its own, being rare.
#[inline(never)]
fn record_interrupted(ctx: &BtfTracePointContext, task: &mut Task) {
    let call = task.interrupted;
    task.interrupted = NO_CALL;
    let held = task.interruption;
    let request = if held.request_unknown == 0 { Request::Bytes(held.requested_bytes) } else { Request::Unreadable };
    let outcome = Outcome { result: -i64::from(held.errno), returns_bytes: false, request, duration_ns: Some(held.duration_ns) };
    record(ctx, task, call, &outcome);
}

/// Counts a call that returned.
#[inline(always)]
fn record(ctx: &BtfTracePointContext, task: &Task, call: CallId, outcome: &Outcome) {
    let Some(row) = row(RowKey { task: task.serial, call, input: 0, output: 0 }) else {
        lose(Loss::UncountedCall);
        warn!(ctx, "a call of task {} is not counted: the map of rows is full", task.tid);
        return;
    };
    add(row, outcome);
    if is_error(outcome.result) {
        add_errno(task, call, -outcome.result as u32);
    }
}

#[inline(always)]
fn is_error(result: i64) -> bool {
    (-MAX_ERRNO..0).contains(&result)
}

/// Which call this is and what to do with it; `None` if it is not selected.
#[inline(always)]
fn identify(number: i64) -> Option<(CallId, CallSpec)> {
    if number < 0 {
        return None;
    }
    let x32 = number & X32_BIT != 0;
    let number = (number & !X32_BIT) as u32;
    let compat = is_compat();
    let spec = SPECS.get(spec_slot(number, compat)).copied()?;
    if spec.selected == selected::NEVER {
        return None;
    }
    let number = if number < TABLE_SLOTS { number } else { TABLE_SLOTS - 1 };
    let flags = if compat {
        COMPAT
    } else if x32 {
        zc_ebpf::X32
    } else {
        0
    };
    Some((number | flags, spec))
}

/// The spec of the call that was entered, or (if its entry was not seen) of the one that the registers name.
#[inline(always)]
fn with_spec(call: CallId, number: i64) -> Option<(CallId, CallSpec)> {
    if call == NO_CALL {
        return identify(number);
    }
    let spec = SPECS.get(spec_slot(number as u32, call & COMPAT != 0)).copied()?;
    Some((call, spec))
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

/// The row of this key, made if need be; `None` if the map is full.
#[inline(always)]
#[expect(clippy::needless_borrows_for_generic_args, reason = "by value, it would be copied to the stack, which is too small")]
fn row(key: RowKey) -> Option<*mut Row> {
    if let Some(row) = ROWS.get_ptr_mut(key) {
        return Some(row);
    }
    ROWS.insert(key, &EMPTY_ROW, 0).ok()?;
    ROWS.get_ptr_mut(key)
}

#[inline(always)]
fn add(row: *mut Row, outcome: &Outcome) {
    // SAFETY: a row is written by its own task only, which is the current one, and is never removed while programs run.
    let row = unsafe { &mut *row };
    row.calls += 1;
    if is_error(outcome.result) {
        row.errors += 1;
    } else if outcome.returns_bytes {
        row.bytes += outcome.result as u64;
    }
    match outcome.request {
        Request::Bytes(bytes) => match row.requested_bytes.checked_add(bytes) {
            Some(sum) => row.requested_bytes = sum,
            // Callers may ask for "all there is", as a number near the end of the range.
            None => row.requested_unknown += 1,
        },
        Request::Unreadable => row.requested_unknown += 1,
    }
    let Some(ns) = outcome.duration_ns else { return };
    row.total_ns += ns;
    if ns < row.min_ns {
        row.min_ns = ns;
    }
    if ns > row.max_ns {
        row.max_ns = ns;
    }
    if let Some(count) = row.histogram.get_mut(bucket_of(ns)) {
        *count = count.saturating_add(1);
    }
}

#[inline(always)]
fn add_errno(task: &Task, call: CallId, errno: u32) {
    let key = ErrnoKey { task: task.serial, call, errno, reserved: 0 };
    if let Some(count) = ERRNOS.get_ptr_mut(key) {
        // SAFETY: an entry is written by its own task only, which is the current one.
        unsafe { *count += 1 };
    } else if ERRNOS.insert(key, 1, 0).is_err() {
        lose(Loss::UncountedErrno);
    }
}

const _: () = assert!(requested::NONE == 0, "a spec of zeroes asks for nothing");
