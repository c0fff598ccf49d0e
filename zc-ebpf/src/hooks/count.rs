//! Counts calls, at every entry and exit of a followed task.

use zc_ebpf::{
    Arguments, BusyRow, COMPAT, CallReturn, EINTR, FEW_CALLS, KernelLoss, NumberedEnds, Row,
    RowKey, Task, bucket_of, errno_of, fds, hook, is_restart,
    opaque::{is_less, opaque},
    overwrites, phase, recorded, requested, selected, spec_slot, state, traits,
};

use crate::{
    file::{ends, mapping},
    hooks::{caller_samples, failed_paths, followed, others::add_other_call, sizes, slow_calls},
    kernel::argument,
    kernel::entries::EntryPtr,
    kernel::fields::{TypedPtr, offset_of_field},
    kernel::helpers::now_ns,
    kernel::registers::{Numbered, Registers},
    maps::{attaches, count_loss, is_over, records, spec, store_spec},
    origin::{calls, spaces},
    request, rows, tasks,
};

/// `SIGKILL` and `SIGSYS`, as bits of the kernel's `sigset_t`.
const KILL: u64 = 1 << (9 - 1);
const SYS: u64 = 1 << (31 - 1);

/// The numbers of `io_uring_setup`, `io_uring_enter` and `io_uring_register`, the same in all
/// tables.
const RING_CALLS: core::ops::RangeInclusive<u16> = 425..=427;

/// The current task enters the kernel for a call.
#[inline(always)]
pub fn enter(task: &mut Task, registers: Registers, number: i64, current: TypedPtr) {
    mapping::note_changes(task, current);
    if attaches() && task.state == state::FOUND {
        tasks::settle_current();
    }
    if task.state == state::INTERRUPTED {
        count_outcome(task);
    }
    let called = registers.table(number, current);
    let has_row = identify(task, called, |compat| registers.arguments_at_entry(compat));
    (task.state, task.has_row) = (state::UNDER_WAY, has_row.into());
    if !has_row || !fds::only_used(task.spec.fds) {
        task.forget_descriptors();
        if RING_CALLS.contains(&(number as u16)) {
            task.has_ring = 1;
        }
    }
    if task.phase == phase::ACTIVE {
        note_memory_and_files(task);
    } else {
        task.hooks |= hook::SYS_ENTER;
    }
    task.entered_ns = clock_ns();
}

/// Notes what the call that the task enters does to its memory, and which files it names.
#[inline(always)]
fn note_memory_and_files(task: &mut Task) {
    if records(recorded::PAIRING) {
        spaces::overwrite(task);
    }
    if task.has_row == 0 {
        return;
    }
    task.ends = ends::named(task);
    if records(recorded::PAIRING) && matches!(task.spec.fds, fds::WRITES | fds::PIPE) {
        mapping::find(task);
    }
}

/// The time, if times are recorded.
#[inline(always)]
fn clock_ns() -> u64 {
    if records(recorded::TIMES) {
        now_ns()
    } else {
        0
    }
}

/// How long the call took that the task entered last, if times are recorded.
#[inline(always)]
fn duration_ns(task: &Task) -> u64 {
    if records(recorded::TIMES) {
        now_ns().wrapping_sub(task.entered_ns)
    } else {
        CallReturn::UNTIMED
    }
}

/// A call returns to the current task. If the trace is over by then, the call stays under way.
#[inline(always)]
pub fn exit(registers: Registers, result: i64, current: TypedPtr) {
    let Some(task) = tasks::of_current(current).filter(|_| !is_over()) else {
        return;
    };
    if task.phase != phase::ACTIVE {
        task.hooks |= hook::SYS_EXIT;
        task.state = state::IDLE;
        return;
    }
    let mut duration_ns = duration_ns(task);
    if task.state != state::UNDER_WAY {
        if task.state == state::NEW {
            task.state = state::IDLE;
            return;
        }
        if attaches() && task.state == state::FOUND {
            return followed::first_return(task);
        }
        find_unseen(task);
        duration_ns = CallReturn::UNTIMED;
    }
    if task.spec.overwrites == overwrites::MOVED && result > 0 && records(recorded::PAIRING) {
        spaces::mapping_moved(task, result as u64);
    }
    if task.has_row == 0 && !records(recorded::OTHER_CALLS) {
        task.state = state::IDLE;
        return;
    }
    // In the task, so that the verifier follows the rest once and not for both kinds of calls.
    task.outcome.is_unseen = (task.state == state::UNSEEN).into();
    if task.outcome.is_unseen != 0 {
        // Trapped by seccomp: the call was not made, and what looks like its result is not one.
        if signals(current) & SYS != 0 && registers.is_rolled_back() {
            return count_unfinished(task);
        }
        count_loss(KernelLoss::UntimedCall);
    }
    let traits = task.spec.traits;
    let never_fails = traits & traits::RESTORES_REGISTERS != 0;
    let errno = if never_fails { 0 } else { errno_of(result) };
    (task.outcome.result, task.outcome.errno) = (result, errno);
    task.outcome.duration_ns = duration_ns;
    // Every thread of a process that a signal ends, or another thread by `exit_group`, has SIGKILL.
    // It interrupts calls, some of which return EINTR, to nobody.
    let is_killed = errno == EINTR && signals(current) & KILL != 0;
    let is_interrupted = is_restart(errno) || is_killed;
    let has_error = errno != 0 || traits & traits::READS_SOCKET_ERROR != 0;
    if !is_killed && (has_error || records(recorded::PATHS | recorded::CALLERS)) {
        note_return(task);
    }
    task.state = if is_interrupted {
        state::INTERRUPTED
    } else {
        state::IDLE
    };
    name_outcome(task);
    if task.has_row == 0 {
        if !is_interrupted {
            add_other_call(task);
        }
        return;
    }
    request::measure(task);
    if is_interrupted {
        return;
    }
    // What seccomp answered moved nothing.
    let is_unseen = task.outcome.is_unseen != 0;
    let is_amount = task.spec.returns_bytes != 0 && !is_unseen && !request::has_peeked(task);
    task.outcome.returns_bytes = u16::from(is_amount);
    if records(recorded::PAIRING) {
        calls::follow_bytes(task);
    }
    request::cut_to_request(task);
    record(task);
    let is_noted = records(recorded::CALLERS | recorded::SLOW_CALLS | recorded::SIZES);
    if task.outcome.is_unseen == 0 && is_noted {
        sizes::count_by_size(task);
        if slow_calls::report_if_slow(task) {
            caller_samples::sample_slow_call(task);
        }
        caller_samples::sample_if_due(task);
    }
}

/// The outcome is that of the call that was entered last. Where its bytes came from is not known
/// yet.
#[inline(always)]
fn name_outcome(task: &mut Task) {
    task.outcome.call = task.call;
    (task.outcome.ends, task.outcome.origin.file) = (task.ends, 0);
    task.outcome.first_bytes = 0;
}

/// The call in the task returns. Notes its path if it failed, or all paths are recorded, and what it
/// mapped. A global function, so that the verifier follows the rest of the exit once. The result
/// means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn note_return(task: *mut Task) -> u32 {
    if let Some(task) = argument::as_mut(task) {
        failed_paths::count_failure(task);
        caller_samples::note_mapping(task);
    }
    0
}

/// A call returns without its entry having been seen, because seccomp or a tracer
/// (`PTRACE_SYSEMU`) answered it. Finds out from the registers which call it is. A global function,
/// as [`note_return`] is. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn find_unseen(task: *mut Task) -> u32 {
    let Some(task) = argument::as_mut(task) else {
        return 0;
    };
    if task.state == state::INTERRUPTED {
        count_outcome(task);
    }
    task.forget_descriptors();
    task.entered_ns = clock_ns();
    let registers = Registers::of_current();
    let called = registers.table(registers.number(), TypedPtr::current_task());
    let has_row = identify(task, called, |compat| registers.arguments_at_exit(compat));
    if has_row {
        task.ends = ends::named(task);
    }
    (task.state, task.has_row) = (state::UNSEEN, has_row.into());
    0
}

/// The current task exits. The call that it is in never returns.
pub fn count_unfinished(task: &mut Task) {
    let is_counted = task.is_in_call() && task.phase == phase::ACTIVE;
    task.state = state::IDLE;
    if !is_counted {
        return;
    }
    name_outcome(task);
    (task.outcome.result, task.outcome.errno) = (CallReturn::NEVER, 0);
    task.outcome.duration_ns = CallReturn::UNTIMED;
    count_outcome(task);
}

/// Counts the call in [`Task::outcome`], of which nothing is known but that.
#[inline(always)]
fn count_outcome(task: &mut Task) {
    if task.has_row == 0 {
        add_other_call(task);
    } else {
        count_in_rows(task);
        slow_calls::report_if_slow(task);
    }
}

/// Counts the call in [`Task::outcome`].
#[inline(always)]
fn record(task: &mut Task) {
    // Most processes end before they have a busy row. A look-up would often wait for memory, as the
    // tables are large.
    if task.has_busy_rows != 0 && records(recorded::ROWS) {
        if let Some(busy) = rows::near_busy(&row_key(task)) {
            // SAFETY: only its own task writes a row.
            let busy = unsafe { busy.as_mut() };
            let time = sum_up(&mut busy.row, task);
            return note_busy(busy, time, task);
        }
        if count_in_far_row(task) != 0 {
            return;
        }
    }
    if records(recorded::PAIRING) {
        calls::note_first_bytes(task);
    }
    count_in_rows(task);
}

/// Counts the call in its busy row, if that is not a near one. Returns 1, or 0 if there is none.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn count_in_far_row(task: *mut Task) -> u32 {
    let Some(task) = argument::as_mut(task) else {
        return 0;
    };
    match rows::far_busy(&row_key(task)) {
        Some(busy) => add_to_busy_row(busy, task),
        None => 0,
    }
}

/// The key of the row of the call in [`Task::outcome`].
#[inline(always)]
fn row_key(task: &Task) -> RowKey {
    let outcome = &task.outcome;
    rows::key(task.serial, outcome.call, outcome.errno, outcome.ends)
}

/// Counts the call in [`Task::outcome`] in the row with its files, or else in that without files; then
/// the outcome has none, either. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn count_in_rows(task: *mut Task) -> u32 {
    let Some(task) = argument::as_mut(task).filter(|_| records(recorded::ROWS)) else {
        return 0;
    };
    let ends = task.outcome.ends;
    if !ends.lack_room() && count_in_row(task, 0) != 0 {
        return 0;
    }
    task.outcome.ends = NumberedEnds::NONE;
    if ends.is_none() || count_in_row(task, 1) == 0 {
        task.outcome.row_calls = 0;
        count_loss(KernelLoss::UncountedCall);
    }
    0
}

/// Counts the call in its row. Returns 1, or 0 if there is no room. `without_files`: 1 if there was
/// none for a row with its files.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn count_in_row(task: *mut Task, without_files: u32) -> u32 {
    let Some(task) = argument::as_mut(task) else {
        return 0;
    };
    match rows::row(&row_key(task)) {
        Some(row) => add_call(row.address(), task, without_files),
        None => 0,
    }
}

/// Adds the call to its row, or to the busy row that this has become. Returns what [`count_in_row`]
/// returns.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn add_call(row: *mut Row, task: *mut Task, without_files: u32) -> u32 {
    let (Some(row), Some(task)) = (argument::as_mut(row), argument::as_mut(task)) else {
        return 0;
    };
    if task.outcome.result == CallReturn::NEVER {
        begin(row, task);
        row.unfinished += 1;
    } else if row.calls < FEW_CALLS as u64 {
        let place = row.calls as usize;
        if place == 0 {
            row.first_word = task.outcome.first_word;
            row.first_bytes = task.outcome.first_bytes;
        }
        let time = add_to_row(row, task);
        if let Some(few) = row.few.get_mut(place) {
            *few = time as u16;
        }
        task.outcome.row_calls = row.calls;
    } else {
        let Some(busy) = rows::make_busy(&row_key(task)) else {
            return 0;
        };
        task.has_busy_rows = 1;
        add_to_busy_row(busy, task);
    }
    row.without_files += u64::from(without_files);
    1
}

/// Adds the call in [`Task::outcome`] to a busy row. Returns 1.
#[inline(always)]
fn add_to_busy_row(busy: EntryPtr<BusyRow>, task: &mut Task) -> u32 {
    // SAFETY: only its own task writes a row.
    let busy = unsafe { busy.as_mut() };
    let time = add_to_row(&raw mut busy.row, task);
    note_busy(busy, time, task);
    1
}

/// The call in [`Task::outcome`], which has this time, was added to the sums of a busy row. Adds it to
/// the histogram.
#[inline(always)]
fn note_busy(busy: &mut BusyRow, time: u64, task: &mut Task) {
    if let Some(count) = busy
        .histogram
        .get_mut(opaque(time.wrapping_sub(1)) as usize)
    {
        *count = count.saturating_add(1);
    }
    task.outcome.row_calls = busy.row.calls + FEW_CALLS as u64;
}

/// Notes when the first call of a row was entered.
#[inline(always)]
fn begin(row: &mut Row, task: &Task) {
    if row.first_ns == 0 {
        row.first_ns = task.entered_ns;
    }
}

/// Whether calls of this number, or variants of it, are counted.
#[inline(always)]
pub fn is_selected(registers: Registers, number: i64, current: TypedPtr) -> bool {
    let Numbered { number, table } = registers.table(number, current);
    spec(spec_slot(number, table & COMPAT != 0))
        .is_some_and(|spec| spec.selected != selected::NEVER)
}

/// Finds out which call this is, and stores the call, its spec and its arguments in the task.
/// Returns whether it is counted. `arguments` reads the arguments; it is told whether the call came
/// through the 32-bit entry.
#[inline(always)]
fn identify(
    task: &mut Task,
    Numbered { number, table }: Numbered,
    arguments: impl Fn(bool) -> [u64; 8],
) -> bool {
    let compat = table & COMPAT != 0;
    task.slot = spec_slot(number, compat);
    if !store_spec(task.slot, &mut task.spec)
        || (task.spec.selected == selected::NEVER && task.spec.overwrites == overwrites::NONE)
    {
        return false;
    }
    task.arguments = Arguments {
        values: arguments(compat),
    };
    task.call = number | table;
    task.spec.selected != selected::NEVER && request::choose_variant(task)
}

/// The signals that are pending for the current task alone, not for its process.
#[inline(always)]
fn signals(current: TypedPtr) -> u64 {
    current.load(offset_of_field!(task_signals))
}

/// Adds the call in [`Task::outcome`] to the sums of its row. Returns the place of its time in a
/// histogram, plus 1; 0: it has no time, or none is kept. A global function, so that the verifier
/// checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn add_to_row(row: *mut Row, task: *const Task) -> u64 {
    let (Some(row), Some(task)) = (argument::as_mut(row), argument::as_ref(task)) else {
        return 0;
    };
    sum_up(row, task)
}

/// As [`add_to_row`], inlined for most calls of programs that make many: see [`argument`].
#[inline(always)]
fn sum_up(row: &mut Row, task: &Task) -> u64 {
    let outcome = &task.outcome;
    begin(row, task);
    row.calls += 1;
    if outcome.returns_bytes != 0 && outcome.errno == 0 {
        let bytes = outcome.result as u64;
        row.bytes += bytes;
        if bytes == 0 {
            row.zero_calls += 1;
        } else {
            if bytes < row.min_bytes {
                row.min_bytes = bytes;
            }
            if bytes > row.max_bytes {
                row.max_bytes = bytes;
            }
            // If it is not known what was asked for, that is 0.
            row.short_calls += is_less(bytes, outcome.requested_bytes);
        }
    }
    if outcome.origin.file != 0 {
        row.input_bytes += outcome.origin.bytes;
        row.words.add(outcome.origin.words);
        row.repeated_bytes += outcome.origin.repeated_bytes;
    }
    row.requested_bytes += outcome.requested_bytes;
    row.requested_unknown += u64::from(outcome.request_unknown);
    let ns = outcome.duration_ns;
    if ns == CallReturn::UNTIMED {
        return 0;
    }
    row.total_ns += ns;
    if ns < row.min_ns {
        row.min_ns = ns;
    }
    if ns > row.max_ns {
        row.max_ns = ns;
    }
    if records(recorded::HISTOGRAMS) {
        bucket_of(ns) as u64 + 1
    } else {
        0
    }
}

const _: () = assert!(requested::NONE == 0, "a spec of zeroes asks for nothing");
