//! The memory that a call reads into or writes from, and what is known of where its bytes came from.

use zc_ebpf::{ABSENT, CallSpec, FileNumber, HELD, MAPPED, NO_ROOM, Task, common_length, fds, requested};

use crate::{
    fields::offset_of_field,
    registers::{Arguments, untagged},
    request,
};

/// So many elements of a vector are looked at: a header and what follows it, as servers write them.
const ELEMENTS: u64 = 4;

/// Where the first buffer of a call begins.
#[inline(always)]
pub fn first(arguments: &Arguments, spec: CallSpec) -> Option<u64> {
    let argument = |index| arguments.get(index);
    match spec.requested {
        requested::IOVEC => request::word(argument(spec.argument), arguments.compat),
        requested::MSGHDR => request::word(request::vector_of(argument(spec.argument), arguments.compat)?.0, arguments.compat),
        _ => Some(argument(1)),
    }
}

/// Takes note of what a call moved. Returns how many of the bytes that it wrote are known to come from the file of its input, which
/// is found here if it is none that its buffer is a mapping of.
#[inline(always)]
pub fn moved(task: &mut Task, arguments: &Arguments, spec: CallSpec, result: i64, requested_bytes: u64) -> u64 {
    let direction = match spec.fds {
        fds::WRITES => WRITES,
        fds::READS => 0,
        _ => return 0,
    };
    if spec.returns_bytes == 0 || offset_of_field!(task_files) == ABSENT {
        return 0;
    }
    let argument = |index| arguments.get(index);
    let (address, shape) = match spec.requested {
        requested::IOVEC => (argument(spec.argument), VECTOR | argument(spec.count_argument) & LOWER_HALF),
        requested::MSGHDR => (argument(spec.argument), MESSAGE),
        _ => (argument(1), 0),
    };
    let compat = if arguments.compat { COMPAT } else { 0 };
    let bytes = if result > 0 { result as u64 } else { 0 };
    moved_from(task, address, shape | direction | compat, bytes, requested_bytes)
}

/// What an address is that a call names, in the upper half of a number: of a vector, whose number of elements is in the lower half;
const VECTOR: u64 = 1 << 32;
/// of a `struct msghdr`; or else of a buffer.
const MESSAGE: u64 = 2 << 32;
/// The caller's words have 4 bytes.
const COMPAT: u64 = 4 << 32;
/// The call writes, and does not read.
const WRITES: u64 = 8 << 32;

/// Global, so that the verifier looks at it once, and not once for every way that leads here.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn moved_from(task: *mut Task, address: u64, shape: u64, bytes: u64, requested_bytes: u64) -> u64 {
    // SAFETY: null or what the caller passes, the current task's entry of TASKS, which that alone writes.
    let Some(task) = (unsafe { task.as_mut() }) else { return 0 };
    let input = task.ends.input;
    let (filled, intent) = if shape & WRITES == 0 {
        let file = if input == NO_ROOM { 0 } else { input };
        task.sequence.read(file, bytes);
        // A message may have been longer than the buffer that got its beginning.
        (if bytes < requested_bytes { bytes } else { requested_bytes }, FILL | u64::from(file))
    } else if input & MAPPED != 0 {
        (bytes, MEASURE)
    } else if bytes > 0 {
        (bytes, TAKE)
    } else {
        // Where it was to come from is told of a failed call, too.
        (requested_bytes, FIND)
    };
    let answer = exchange(task, address, shape, filled, intent);
    match intent {
        MEASURE => answer,
        TAKE | FIND => {
            let by_order = task.sequence.source();
            let covered_by_order = task.sequence.write(bytes);
            let file = (answer >> 32) as u32;
            task.ends.input = if file == 0 { by_order } else { file | HELD };
            let covered = if file == 0 { covered_by_order } else { answer & LOWER_HALF };
            if task.ends.input == 0 || bytes == 0 { 0 } else { covered }
        }
        _ => 0,
    }
}

/// What is wanted with a piece of memory, in the upper half of a number.
///
/// Bytes of the file whose number is in the lower half were read to it.
const FILL: u64 = 1 << 32;
/// It is to be written: which file is it from (upper half of the answer), and how many of its bytes (lower half: no call moves 4 GiB)?
const FIND: u64 = 2 << 32;
/// The same, and it has been written.
const TAKE: u64 = 3 << 32;
/// How much of it lies in the mapping that the task wrote from last?
const MEASURE: u64 = 4 << 32;

const LOWER_HALF: u64 = 0xffff_ffff;

/// Does what is wanted with the memory of a call, as far as so many bytes fill it, and gives the answer.
#[inline(always)]
fn exchange(task: &mut Task, address: u64, shape: u64, bytes: u64, intent: u64) -> u64 {
    if bytes == 0 {
        return 0;
    }
    let compat = shape & COMPAT != 0;
    if shape & VECTOR != 0 {
        return exchange_vector(task, address, shape, bytes, intent);
    }
    if shape & MESSAGE == 0 {
        return exchange_piece(task, address, bytes, intent);
    }
    let Some((vector, count)) = request::vector_of(address, compat) else { return 0 };
    exchange_vector(task, vector, shape & !LOWER_HALF | count & LOWER_HALF, bytes, intent)
}

/// Global, as above.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn exchange_piece(task: *mut Task, start: u64, length: u64, intent: u64) -> u64 {
    // SAFETY: as above.
    let Some(task) = (unsafe { task.as_mut() }) else { return 0 };
    let start = untagged(start);
    match intent & !LOWER_HALF {
        FILL => {
            task.held.read(intent as FileNumber, start, length);
            0
        }
        MEASURE => {
            let (from, to) = (task.mapping.start, task.mapping.end);
            if start < from || start >= to {
                return 0;
            }
            if length < to - start { length } else { to - start }
        }
        intent => {
            let taken = if intent == TAKE { task.held.take(start, length) } else { task.held.find(start, length) };
            u64::from(taken.file) << 32 | taken.bytes & LOWER_HALF
        }
    }
}

/// The same for each of the first elements of a vector. Global, as above.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn exchange_vector(task: *mut Task, vector: u64, shape: u64, bytes: u64, intent: u64) -> u64 {
    let (elements, compat) = (shape & LOWER_HALF, shape & COMPAT);
    let (mut left, mut answer) = (bytes, 0);
    for index in 0..ELEMENTS {
        if index >= elements || left == 0 {
            break;
        }
        let word = vector.wrapping_add(index * if compat == 0 { 16 } else { 8 });
        let length = common_length(0, left, 0, word_or_zero(word.wrapping_add(if compat == 0 { 8 } else { 4 }), compat));
        left -= length;
        answer = sum_of_answers(answer, exchange_piece(task, word_or_zero(word, compat), length, intent));
    }
    answer
}

/// A word of the caller's memory. Global, as above.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn word_or_zero(address: u64, compat: u64) -> u64 {
    request::word(address, compat != 0).unwrap_or(0)
}

/// The first file that is found is that of all. Global, as above.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn sum_of_answers(answer: u64, next: u64) -> u64 {
    let file = answer >> 32;
    if file == 0 {
        next + answer
    } else if next >> 32 == file {
        answer + (next & LOWER_HALF)
    } else {
        answer
    }
}
