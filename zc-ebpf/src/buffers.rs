//! The memory that a call reads into or writes from, and what is known of where its bytes came from.

use aya_ebpf::bindings::pt_regs;
use zc_ebpf::{CallSpec, FileNumber, HELD, MAPPED, NO_ROOM, Task, fds, requested};

use crate::{fields::regs, request};

/// So many elements of a vector are looked at: a header and what follows it, as servers write them.
const ELEMENTS: u64 = 4;

/// Where the first buffer of a call begins.
#[inline(always)]
pub fn first(registers: *const pt_regs, spec: CallSpec, compat: bool) -> Option<u64> {
    match vector(registers, spec, compat) {
        None => Some(second_argument(registers, compat)),
        Some((vector, _)) => request::word(vector, compat),
    }
}

/// Takes note of what a call moved. Returns how many of the bytes that it wrote are known to come from the file of its input, which
/// is found here if it is none that its buffer is a mapping of.
#[inline(always)]
pub fn moved(task: &mut Task, registers: *const pt_regs, spec: CallSpec, compat: bool, result: i64, requested_bytes: u64) -> u64 {
    if spec.returns_bytes == 0 {
        return 0;
    }
    let bytes = if result > 0 { result as u64 } else { 0 };
    match spec.fds {
        fds::READS if bytes > 0 => {
            let file = if task.ends.input == NO_ROOM { 0 } else { task.ends.input };
            task.sequence.read(file, bytes);
            // A message may have been longer than the buffer that got its beginning.
            let filled = if bytes < requested_bytes { bytes } else { requested_bytes };
            each(registers, spec, compat, filled, |start, length| {
                filled_place(task, file, start, length);
            });
            0
        }
        fds::WRITES if task.ends.input & MAPPED != 0 => {
            let (from, to) = (task.mapping.start, task.mapping.end);
            let mut covered = 0;
            each(registers, spec, compat, bytes, |start, length| {
                if from <= start && start < to {
                    covered += if length < to - start { length } else { to - start };
                }
            });
            covered
        }
        fds::WRITES => written(task, registers, spec, compat, bytes, requested_bytes),
        _ => 0,
    }
}

/// What was written, or was to be: where it came from is told of a failed call, too.
#[inline(always)]
fn written(task: &mut Task, registers: *const pt_regs, spec: CallSpec, compat: bool, bytes: u64, requested_bytes: u64) -> u64 {
    let by_order = task.sequence.source();
    let covered_by_order = task.sequence.write(bytes);
    let (wanted, take) = if bytes > 0 { (bytes, 1) } else { (requested_bytes, 0) };
    let (mut file, mut covered) = (0, 0);
    each(registers, spec, compat, wanted, |start, length| {
        let taken = taken_from_place(task, start, length, take);
        let from = (taken >> 32) as u32;
        if file == 0 {
            file = from;
        }
        if from != 0 && from == file {
            covered += taken & 0xffff_ffff;
        }
    });
    if file == 0 {
        task.ends.input = by_order;
        return if by_order == 0 { 0 } else { covered_by_order };
    }
    task.ends.input = file | HELD;
    if bytes == 0 { 0 } else { covered }
}

/// Global, so that the verifier looks at it once, and not once for every element. The result means nothing: such a function must have one.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn filled_place(task: *mut Task, file: FileNumber, start: u64, length: u64) -> u32 {
    // SAFETY: null or what the caller passes, the current task's entry of TASKS, which that alone writes.
    if let Some(task) = unsafe { task.as_mut() } {
        task.held.read(file, start, length);
    }
    0
}

/// The file in the upper half of the result, and how many bytes in the lower: no call moves 4 GiB. Global, as above.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn taken_from_place(task: *mut Task, start: u64, length: u64, take: u32) -> u64 {
    // SAFETY: as above.
    let Some(task) = (unsafe { task.as_mut() }) else { return 0 };
    let taken = if take == 0 { task.held.find(start, length) } else { task.held.take(start, length) };
    u64::from(taken.file) << 32 | taken.bytes & 0xffff_ffff
}

/// Calls with each of the buffers that so many bytes fill of it, and their length.
#[inline(always)]
fn each(registers: *const pt_regs, spec: CallSpec, compat: bool, bytes: u64, mut with: impl FnMut(u64, u64)) {
    let Some((vector, count)) = vector(registers, spec, compat) else {
        with(second_argument(registers, compat), bytes);
        return;
    };
    let (word, mut left) = (if compat { 4 } else { 8 }, bytes);
    for index in 0..ELEMENTS {
        if index >= count || left == 0 {
            return;
        }
        let element = vector.wrapping_add(index * 2 * word);
        let (Some(start), Some(length)) = (request::word(element, compat), request::word(element.wrapping_add(word), compat))
        else {
            return;
        };
        let length = if length < left { length } else { left };
        if length > 0 {
            with(start, length);
        }
        left -= length;
    }
}

/// The vector of a call that has one, and the number of its elements.
#[inline(always)]
fn vector(registers: *const pt_regs, spec: CallSpec, compat: bool) -> Option<(u64, u64)> {
    // SAFETY: `registers` is the tracepoint's argument.
    let argument = |index| unsafe { regs::argument(registers, index, compat) };
    match spec.requested {
        requested::IOVEC => Some((argument(spec.argument), argument(spec.count_argument))),
        requested::MSGHDR => Some(request::vector_of(argument(spec.argument), compat).unwrap_or((0, 0))),
        _ => None,
    }
}

#[inline(always)]
fn second_argument(registers: *const pt_regs, compat: bool) -> u64 {
    // SAFETY: `registers` is the tracepoint's argument.
    unsafe { regs::argument(registers, 1, compat) }
}
