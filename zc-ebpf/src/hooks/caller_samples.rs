//! Samples who made calls: sends the registers and the top of the stack of callers, and the
//! mappings of code by which user space unwinds these stacks. Without callers to sample, the
//! verifier removes all of this.
//!
//! A sample is taken when its call returns: the caller has not run since it entered the kernel, and
//! its row is known by then. A stack is copied straight into the ring buffer, so no memory is
//! shared with other programs on this CPU.

mod depth;

use aya_ebpf::bindings::{BPF_RB_AVAIL_DATA, BPF_RB_RING_SIZE};
use zc_ebpf::{
    ABSENT, CHUNK_BYTES, CodeMapped, FileNumber, KernelLoss, MAX_CHUNKS, NO_ROOM, SampleHeader,
    SampledCall, SpaceCopied, StackSample, Task, opaque::is_not_zero, recorded, sample_kind,
    traits,
};

use crate::{
    file::identify,
    kernel::argument,
    kernel::entries::{Entries as _, field},
    kernel::fields::{self, KernelPtr, offset_of_field},
    kernel::helpers::{current_task, fill_from_user, now_ns},
    kernel::registers::{Registers, slots, untagged},
    kernel::vma::vma_at,
    maps::{CONTROL, SAMPLES, count_loss, records, send_to},
};

/// `PROT_EXEC` of the kernel's include/uapi/asm-generic/mman-common.h.
const PROT_EXEC: u64 = 4;
/// Of the ring buffer, this fraction is kept for messages about mappings: without one of them, many
/// stacks end early.
const KEPT_FRACTION: u64 = 8;

/// The call in [`Task::outcome`] was counted. Samples its caller if this call is due.
#[inline(always)]
pub fn sample_if_due(task: &Task) {
    if !records(recorded::CALLERS) {
        return;
    }
    let calls = task.outcome.row_calls;
    let is_power_of_two = calls & calls.wrapping_sub(1) == 0 && calls >> 32 == 0;
    let is_due = calls != 0 && (records(recorded::ALL_CALLERS) || is_power_of_two);
    if is_due && has_caller(task) {
        send_sample(task, sample_kind::STACK, task.entered_ns);
    }
}

/// The call in [`Task::outcome`] was slow, and returns now. Samples its caller.
#[inline(always)]
pub fn sample_slow_call(task: &Task) {
    if records(recorded::CALLERS) && has_caller(task) {
        send_sample(task, sample_kind::SLOW_CALL, task.entered_ns);
    }
}

/// Whether the stack is there from which the call in [`Task::outcome`] was made, and can be unwound.
/// After a successful `execve` it is gone.
#[inline(always)]
fn has_caller(task: &Task) -> bool {
    let replaces_memory = task.spec.traits & traits::REPLACES_MEMORY != 0;
    task.compat() == 0 && !(replaces_memory && task.outcome.result == 0)
}

/// How many calls the sample of the last one of so many stands for: if not all are sampled, the one
/// before it was the last one of half as many.
#[inline(always)]
fn stands_for(calls: u64) -> u32 {
    if records(recorded::ALL_CALLERS) {
        1
    } else {
        (calls - calls / 2) as u32
    }
}

/// Sends a sample of this kind of the current task, or counts that there is none. `at_ns` is
/// [`SampledCall::entered_ns`]. A global function, so that the verifier checks it once. The result means
/// nothing.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn send_sample(task: *const Task, kind: u32, at_ns: u64) -> u32 {
    let (Some(task), Some(control)) = (argument::as_ref(task), CONTROL.entry(0)) else {
        return 0;
    };
    // After `rt_sigreturn` the registers are those of other code.
    if Registers::of_current().number() < 0 {
        return 0;
    }
    // The last number is compared first, so that it does not grow for ever.
    let most = u64::from(field!(control, max_samples).load());
    let samples = field!(control, samples);
    let has_room = samples.load() < most && samples.fetch_add(1) < most && !is_nearly_full();
    if !has_room || !send_stack(task, kind, at_ns) {
        count_loss(KernelLoss::UnsampledCaller);
    }
    0
}

/// Sends a sample with as much of the stack as is in use. `false`: there is no room. The kernel
/// reserves constant sizes only.
#[inline(always)]
fn send_stack(task: &Task, kind: u32, at_ns: u64) -> bool {
    match depth::chunks(first_chunk()) {
        0..=4 => send_chunks::<4>(task, kind, at_ns),
        5..=8 => send_chunks::<8>(task, kind, at_ns),
        9..=16 => send_chunks::<16>(task, kind, at_ns),
        17..=32 => send_chunks::<32>(task, kind, at_ns),
        _ => send_chunks::<MAX_CHUNKS>(task, kind, at_ns),
    }
}

/// The address of the piece that the caller's stack pointer is in.
#[inline(always)]
fn first_chunk() -> u64 {
    Registers::of_current().stack_pointer() & !(CHUNK_BYTES as u64 - 1)
}

/// Sends a sample with so many pieces of the stack. `false`: there is no room.
#[inline(always)]
fn send_chunks<const CHUNKS: usize>(task: &Task, kind: u32, at_ns: u64) -> bool {
    let Some(mut entry) = SAMPLES.reserve::<StackSample<CHUNKS>>(0) else {
        return false;
    };
    // SAFETY: room for a StackSample in the ring buffer, which is made of numbers. All of it is
    // written before it is submitted (the stack as far as it is filled; user space reads no
    // further).
    let sample: &mut StackSample<CHUNKS> = unsafe { &mut *entry.as_mut_ptr() };
    let of = &mut sample.of;
    describe(of, task);
    (of.header.kind, of.entered_ns) = (kind, at_ns);
    // Each size is a multiple of four pieces.
    for (index, four) in sample.stack.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let first = 4 * index;
        let at = of.stack_start + (first * CHUNK_BYTES) as u64;
        of.filled |= copy_four(at, four) << first;
    }
    entry.submit(0);
    true
}

/// Copies four pieces of the stack from this address on. Returns which of them are filled, each a
/// bit. A global function, so that the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn copy_four(at: u64, into: *mut [[u8; CHUNK_BYTES]; 4]) -> u64 {
    let Some(into) = argument::as_mut(into) else {
        return 0;
    };
    let mut filled = 0;
    for (index, piece) in into.iter_mut().enumerate() {
        // Without a branch: the verifier would follow both ways.
        let is_unread = is_not_zero(fill_from_user(at + (index * CHUNK_BYTES) as u64, piece));
        filled |= (1 ^ is_unread) << index;
    }
    filled
}

/// Fills in all of a sample but its kind, its time and its stack. A global function, so that the
/// verifier checks it once, and not for each size of a sample. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn describe(of: *mut SampledCall, task: *const Task) -> u32 {
    let (Some(of), Some(task)) = (argument::as_mut(of), argument::as_ref(task)) else {
        return 0;
    };
    of.header = SampleHeader {
        kind: 0,
        space: task.space,
    };
    (of.task, of.call, of.ends) = (task.serial, task.outcome.call, task.outcome.ends);
    (of.tid, of.reserved) = (task.tid, 0);
    of.stands_for = stands_for(task.outcome.row_calls);
    (of.result, of.duration_ns) = (task.outcome.result, task.outcome.duration_ns);
    Registers::of_current().save_for_unwinding(&mut of.registers);
    (of.stack_start, of.filled) = (first_chunk(), 0);
    0
}

/// Whether the rest of the ring buffer is kept for messages about mappings.
#[inline(always)]
fn is_nearly_full() -> bool {
    let size = SAMPLES.query(BPF_RB_RING_SIZE.into());
    SAMPLES.query(BPF_RB_AVAIL_DATA.into()) > size - size / KEPT_FRACTION
}

/// A call returns, whose slot and result are in the task. Reports what it mapped to be executed, if
/// it did.
#[inline(always)]
pub fn note_mapping(task: &Task) {
    if !records(recorded::CALLERS)
        || (task.slot != slots::MMAP && task.slot != slots::MPROTECT)
        || task.outcome.errno != 0
    {
        return;
    }
    let [first, _, protection, ..] = Registers::of_current().arguments_at_exit(false);
    if protection & PROT_EXEC != 0 {
        send_mapping(
            task.space,
            if task.slot == slots::MMAP {
                task.outcome.result as u64
            } else {
                untagged(first)
            },
        );
    }
}

/// The current task has begun to execute a program in a new address space. Reports the code of the
/// program, and that of its interpreter, where it begins to run.
#[inline(always)]
pub fn note_program(space: u32) {
    if !records(recorded::CALLERS) {
        return;
    }
    let mm = fields::probe_or_zero::<u64>(current_task(), offset_of_field!(task_mm)) as KernelPtr;
    send_mapping(
        space,
        fields::probe_or_zero(mm, offset_of_field!(mm_start_code)),
    );
    send_mapping(space, Registers::of_current().instruction_pointer());
}

/// A task was created with a copy of its creator's address space.
#[inline(always)]
pub fn note_copy(from: u32, space: u32) {
    if !records(recorded::CALLERS) || from == 0 {
        return;
    }
    send(SpaceCopied {
        header: SampleHeader {
            kind: sample_kind::COPIED,
            space,
        },
        from,
        reserved: 0,
    });
}

/// Sends the mapping at this address, if it can be executed. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn send_mapping(space: u32, address: u64) -> u32 {
    if offset_of_field!(vma_file) == ABSENT || !records(recorded::CALLERS) {
        return 0;
    }
    let time_ns = now_ns();
    let Ok(vma) = vma_at(address) else {
        // Another thread has unmapped it again, or is changing the mappings.
        count_loss(KernelLoss::UnknownCode);
        return 0;
    };
    let header = SampleHeader {
        kind: sample_kind::MAPPED,
        space,
    };
    send(CodeMapped {
        header,
        start: vma.start,
        end: vma.end,
        page: vma.page,
        time_ns,
        file: file_number(vma.file),
        reserved: 0,
    });
    0
}

/// The number of a mapped file. 0: there is none, or no number was left.
#[inline(always)]
fn file_number(file: KernelPtr) -> FileNumber {
    if file.is_null() {
        return 0;
    }
    match identify::number_of(file) {
        NO_ROOM => 0,
        number => number,
    }
}

/// Sends a message about mappings, or counts its loss.
#[inline(always)]
fn send<T: Copy + 'static>(message: T) {
    send_to(&SAMPLES, message, 0, KernelLoss::UnknownCode);
}
