//! Counting calls: what happens at every entry and exit of a followed task.

use aya_ebpf::{
    bindings::pt_regs,
    helpers::{bpf_ktime_get_ns, generated::bpf_get_current_task_btf},
    programs::BtfTracePointContext,
};
use aya_log_ebpf::warn;
use zc_ebpf::{
    ABSENT, COMPAT, CallId, CallSpec, Ends, Interrupted, Loss, NO_CALL, Row, TABLE_SLOTS, Task, bucket_of, phase, requested,
    selected, spec_slot,
};

use crate::{
    ends,
    fields::{self, offset_of_field, regs},
    follow,
    maps::{SPECS, lose},
    request::{self, Request},
    rows,
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
pub fn enter(ctx: &BtfTracePointContext, registers: *const pt_regs, number: i64) {
    let Some(task) = follow::current() else { return };
    // SAFETY: an entry of TASKS is written by its own task only, which is the current one.
    let task = unsafe { &mut *task };
    if task.interrupted != NO_CALL {
        record_interrupted(ctx, task);
    }
    task.exit_without_entry_expected = 0;
    match identify(number) {
        Some((call, spec)) => {
            task.call = call;
            if task.phase == phase::ACTIVE {
                task.ends = ends::of(registers, spec, call & COMPAT != 0, task);
            }
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
    if call == NO_CALL {
        task.ends = Ends::NONE;
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
        None => {
            lose(Loss::ExitWithoutEntry);
            // SAFETY: the helper has no preconditions.
            task.entered_ns = unsafe { bpf_ktime_get_ns() };
        }
    }
    let paired_bytes = ends::moved(task, spec, result);
    record(ctx, task, call, &Outcome { result, returns_bytes: spec.returns_bytes != 0, request, duration_ns, paired_bytes });
}

/// The current task exits: the call under way never returns, nor does one that was interrupted and not taken up again.
pub fn abandon(task: &mut Task) {
    let call = if task.call == NO_CALL { task.interrupted } else { task.call };
    task.call = NO_CALL;
    task.interrupted = NO_CALL;
    if call == NO_CALL || task.phase != phase::ACTIVE {
        return;
    }
    match rows::place(task, call, 0) {
        // SAFETY: a row is written by its own task only, which is the current one.
        Some(mut place) => unsafe {
            begin(place.row.as_mut(), task, place.without_files);
            place.row.as_mut().unfinished += 1;
        },
        None => lose(Loss::UncountedCall),
    }
}

/// What a call came to.
struct Outcome {
    result: i64,
    returns_bytes: bool,
    request: Request,
    duration_ns: Option<u64>,
    paired_bytes: u64,
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
    let result = -i64::from(held.errno);
    let outcome = Outcome { result, returns_bytes: false, request, duration_ns: Some(held.duration_ns), paired_bytes: 0 };
    record(ctx, task, call, &outcome);
}

/// Counts a call that returned.
#[inline(always)]
fn record(ctx: &BtfTracePointContext, task: &Task, call: CallId, outcome: &Outcome) {
    let errno = if is_error(outcome.result) { -outcome.result as u32 } else { 0 };
    let Some(mut place) = rows::place(task, call, errno) else {
        lose(Loss::UncountedCall);
        warn!(ctx, "a call of task {} is not counted: the map of rows is full", task.tid);
        return;
    };
    // SAFETY: a row is written by its own task only, which is the current one, and is never removed while programs run.
    let row = unsafe { place.row.as_mut() };
    begin(row, task, place.without_files);
    add(row, outcome);
    if row.moved_ns == 0 && row.bytes != 0 {
        row.moved_ns = task.entered_ns + outcome.duration_ns.unwrap_or(0);
    }
    match place.errno {
        // SAFETY: as a row.
        Some(count) => unsafe { *count.as_ptr() += 1 },
        None if errno != 0 => lose(Loss::UncountedErrno),
        None => {}
    }
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

#[inline(always)]
fn add(row: &mut Row, outcome: &Outcome) {
    row.calls += 1;
    if is_error(outcome.result) {
        row.errors += 1;
    } else if outcome.returns_bytes {
        row.bytes += outcome.result as u64;
        row.paired_bytes += outcome.paired_bytes;
        row.zero_calls += u64::from(outcome.result == 0);
        if let Request::Bytes(bytes) = outcome.request
            && outcome.result != 0
        {
            row.short_calls += is_below(outcome.result as u64, bytes);
        }
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

/// 1 if `number` is below `limit`, as the borrow of their difference: to compare a sum that a loop made would have the verifier look
/// at every round of the loop.
#[inline(always)]
const fn is_below(number: u64, limit: u64) -> u64 {
    ((!number & limit) | ((!number | limit) & number.wrapping_sub(limit))) >> 63
}

const _: () = assert!(is_below(1, 2) == 1 && is_below(2, 2) == 0 && is_below(3, 2) == 0 && is_below(1, u64::MAX) == 1);
const _: () = assert!(requested::NONE == 0, "a spec of zeroes asks for nothing");
