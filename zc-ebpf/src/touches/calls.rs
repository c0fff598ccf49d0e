//! What calls touch, at their exit.

use aya_ebpf::{
    bindings::{BPF_F_NO_PREALLOC, BPF_NOEXIST},
    macros::map,
    maps::HashMap,
};
use zc_ebpf::{
    Arguments, COMPAT, SPEC_SLOTS, TABLE_SLOTS, Task, TouchCounts, TouchKey, X32, errno_of, phase,
    recorded, sample_kind, spec_slot, touch_event, touch_kind, touch_part, zeroed,
};

use super::{
    gather::{self, gather},
    key::make_key,
    send::{self, TouchScratch, state, take_scratch},
    specs::spec_of,
};
use crate::{
    hooks::caller_samples::send_sample,
    kernel::argument,
    kernel::entries::{Entries as _, EntryPtr, field},
    kernel::fields::{KernelPtr, TypedPtr},
    kernel::helpers::{now_ns, read_kernel_text},
    kernel::registers::{Numbered, Registers},
    maps::{is_over, records},
    tasks,
};

/// The calls that had a message. The kernel allocates entries one by one, because their number is not
/// known in advance.
#[map]
static TOUCH_CALLS: HashMap<TouchKey, TouchCounts> =
    HashMap::with_max_entries(1, BPF_F_NO_PREALLOC);

/// The slot of the current task's call.
#[inline(always)]
fn slot_of(registers: Registers, number: i64, current: TypedPtr) -> u32 {
    let Numbered { number, table } = registers.table(number, current);
    if table & X32 != 0 {
        // User space gives no specs for this table.
        send::count_lost();
        return SPEC_SLOTS;
    }
    spec_slot(number, table & COMPAT != 0)
}

/// The current task, if it is in scope.
#[inline(always)]
fn in_scope(current: TypedPtr) -> Option<&'static mut Task> {
    tasks::of_current(current).filter(|task| task.phase == phase::ACTIVE && !is_over())
}

/// The current task enters the kernel for a call.
#[inline(always)]
pub fn entered(registers: Registers, number: i64, current: TypedPtr) {
    let slot = slot_of(registers, number, current);
    if spec_of(slot).kind == touch_kind::CHDIR
        && let Some(task) = in_scope(current)
    {
        // The call changes the working directory, so send it first.
        send::send_file(task.tid, touch_part::DIRECTORY, gather::working_directory());
    }
}

/// A call returns to the current task.
#[inline(always)]
pub fn returned(registers: Registers, result: i64, current: TypedPtr) {
    let slot = slot_of(registers, registers.number(), current);
    let kind = spec_of(slot).kind;
    let fails_in_vain = matches!(
        kind,
        touch_kind::FILES
            | touch_kind::MAP
            | touch_kind::COMMAND
            | touch_kind::NOTED
            | touch_kind::NOTED_FLAGS
    );
    let has_failed = errno_of(result) != 0;
    // A new task also returns from `clone3`. Its creator may have overwritten the flags by then.
    let is_new_task = kind == touch_kind::NOTED_FLAGS && result == 0;
    if kind == touch_kind::NONE
        || is_new_task
        || (fails_in_vain && has_failed)
        || (kind == touch_kind::EXECUTE && !has_failed)
    {
        return;
    }
    if let Some(task) = in_scope(current) {
        end_touching(task, slot, result);
    }
}

/// Begins to assemble a call.
#[inline(always)]
fn begin(scratch: &mut TouchScratch, task: &Task, slot: u32, result: i64) {
    let call = &mut scratch.call;
    (call.kind, call.tid, call.pid) = (touch_event::CALL, task.tid, task.pid);
    (call.parts, call.mode, call.address_length) = (0, 0, 0);
    (call.key.slot, call.key.errno) = (slot, errno_of(result));
    (call.result, call.at_ns) = (result, now_ns());
    // Without times it is 0.
    call.took_ns = if task.entered_ns == 0 {
        0
    } else {
        call.at_ns.wrapping_sub(task.entered_ns)
    };
    call.arguments = Arguments {
        values: Registers::of_current().arguments_at_exit(slot >= TABLE_SLOTS),
    };
    scratch.files = [0; 4];
}

/// A call in this slot returns. A global function, so that the verifier checks it once. The result
/// means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn end_touching(task: *const Task, slot: u32, result: i64) -> u32 {
    let Some(task) = argument::as_ref(task) else {
        return 0;
    };
    let Some(scratch) = take_scratch() else {
        send::count_lost();
        return 0;
    };
    begin(scratch, task, slot, result);
    let has_message = gather() != 0 && finish_call() != 0;
    let at_ns = scratch.call.at_ns;
    scratch.release();
    if has_message && records(recorded::CALLERS) && task.compat() == 0 {
        send_sample(task, sample_kind::TOUCH, at_ns);
    }
    0
}

/// The process has executed the program of this path.
#[inline(always)]
pub fn executed(filename: KernelPtr) {
    if let Some(task) = in_scope(TypedPtr::current_task()) {
        note_program(task, filename as u64);
    }
}

/// The task has executed the program of this path. A global function, so that the verifier checks it
/// once. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn note_program(task: *const Task, filename: u64) -> u32 {
    let Some(task) = argument::as_ref(task) else {
        return 0;
    };
    let Some(scratch) = take_scratch() else {
        send::count_lost();
        return 0;
    };
    begin(scratch, task, task.slot, 0);
    match read_kernel_text(filename as KernelPtr, &mut scratch.path.bytes) {
        Some(length) => {
            scratch.path.length = length;
            scratch.call.parts = 1 << touch_part::PATH;
            gather::start_at_working_directory(scratch);
            finish_call();
        }
        None => send::count_lost(),
    }
    scratch.release();
    0
}

/// Counts or sends a call of which everything is known. Returns 0 if it has no message, else another
/// number. A global function, so that the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn finish_call() -> u32 {
    let Some(scratch) = send::taken_scratch() else {
        return 0;
    };
    let spec = spec_of(scratch.call.key.slot);
    if spec.changes_names != 0 && scratch.call.key.errno == 0 {
        field!(state(), generation).fetch_add(1);
    } else if spec.kind != touch_kind::CHDIR {
        make_key();
        let call = &scratch.call;
        if let Some(counts) = TOUCH_CALLS.entry(call.key) {
            return count(counts, call.result, call.took_ns);
        }
        // If the map is full or another CPU was faster, this call also has a message.
        let new: TouchCounts = zeroed();
        let is_counted = TOUCH_CALLS
            .insert(call.key, new, BPF_NOEXIST.into())
            .is_ok();
        scratch.call.parts |= u32::from(is_counted) << touch_part::COUNTED;
    }
    send::call_and_parts(scratch);
    1
}

/// Counts a call that has no message.
#[inline(always)]
fn count(counts: EntryPtr<TouchCounts>, result: i64, took_ns: u64) -> u32 {
    field!(counts, calls).fetch_add(1);
    if result > 0 {
        field!(counts, results).fetch_add(result as u64);
    }
    field!(counts, ns).fetch_add(took_ns);
    0
}
