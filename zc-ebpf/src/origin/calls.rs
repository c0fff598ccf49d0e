//! The buffers that calls read into or write from, and where the bytes in them came from.

use zc_ebpf::{
    ABSENT, How, Memory, NO_ROOM, Origin, RowKey, Task, fds,
    opaque::smaller,
    origin::{
        memory::{Exchange, intent},
        range::{WORD_BYTES, common_length},
    },
    repeat::repeat,
    requested,
};

use crate::{
    kernel::{argument, fields::offset_of_field, registers::untagged},
    origin::{
        credit,
        lock::{lock_for, lock_inlined},
        spaces::{forget, memory_of, needed_memory},
    },
    request,
};

/// How many elements of a vector are looked at. What is in further ones counts as the program's own
/// memory.
pub const ELEMENTS: usize = 16;

/// `MSG_TRUNC` and `MSG_ERRQUEUE` of the kernel's include/linux/socket.h: the bytes are discarded,
/// or are not data from the peer.
const NO_DATA: u64 = 0x20 | 0x2000;

/// The call under way has returned. Remembers what it read, or finds out where the bytes came from
/// that it wrote, as [`Outcome::origin`]. `is_unseen`: seccomp answered it.
#[inline(always)]
pub fn moved(task: &mut Task, is_unseen: bool) {
    if offset_of_field!(task_files) == ABSENT {
        return;
    }
    match task.spec.fds {
        fds::READS if task.spec.returns_bytes != 0 => read(task, is_unseen),
        fds::WRITES if task.spec.returns_bytes != 0 => written(task, is_unseen),
        // `vmsplice`.
        fds::PIPE if task.ends.output != 0 => written(task, is_unseen),
        // `recvmmsg`, and `vmsplice` out of a pipe.
        fds::READS | fds::PIPE if task.outcome.result > 0 => {
            forget(task.space);
        }
        _ => {}
    }
}

#[inline(always)]
fn read(task: &mut Task, is_unseen: bool) {
    if task.outcome.result <= 0 {
        return;
    }
    if task.outcome.request_unknown != 0 {
        forget(task.space);
        return;
    }
    let (bytes, requested) = (task.outcome.result as u64, task.outcome.requested_bytes);
    let is_data = request::message_flags(task) & NO_DATA == 0 && !is_unseen;
    let is_filled = is_data && task.ends.input != 0 && task.ends.input != NO_ROOM;
    // The message may have been longer than the buffer.
    let filled = if bytes < requested { bytes } else { requested };
    let intent = if is_filled {
        intent::FILL
    } else {
        intent::CLEAR
    };
    move_bytes(task, filled, intent);
}

#[inline(always)]
fn written(task: &mut Task, is_unseen: bool) {
    if task.outcome.result > 0 && !is_unseen {
        move_bytes(task, task.outcome.result as u64, intent::CREDIT);
    }
}

/// Carries out an [`intent`] for the first `bytes` bytes in the buffers of a call.
#[inline(always)]
fn move_bytes(task: &mut Task, bytes: u64, intent: u32) {
    if exchange_in_last_range(task, bytes, intent) == 0 {
        exchange(task, bytes, intent);
    }
}

/// Does what [`exchange`] does for a call with one buffer, if all its bytes are in the range that
/// the thread has filled last: the calls of a loop over one buffer are like that. Returns whether
/// they are, as 1 or 0.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn exchange_in_last_range(task: *mut Task, bytes: u64, intent: u32) -> u32 {
    let Some(task) = argument::as_mut(task) else {
        return 0;
    };
    if task.spec.requested != requested::SIZE || intent == intent::CLEAR {
        return 0;
    }
    let Some(shared) = memory_of(task.space) else {
        return 0;
    };
    let Some(mut memory) = lock_inlined(task, shared, intent == intent::FILL) else {
        return 1;
    };
    let start = untagged(task.arguments.get(1));
    let end = start.saturating_add(bytes);
    let mut is_in_range = 0;
    if task.last_range < memory.used
        && let Some(range) = memory.range(task.last_range)
        && range.start <= start
        && end <= range.end
    {
        if intent == intent::CREDIT {
            task.outcome.origin = credit::written(range, task.ends.output, start, end);
            task.outcome.ends = task.outcome.origin.ends(task.ends);
            is_in_range = 1;
        } else if range.is_refilled_by(task.ends.input, start, end) {
            memory.reads = memory.reads.wrapping_add(1);
            let read = memory.reads;
            if let Some(range) = memory.range(task.last_range) {
                credit::filled(range, start, bytes, read);
            }
            is_in_range = 1;
        }
    }
    is_in_range
}

/// Carries out an [`intent`] for the first `bytes` bytes in the buffers of a call. The result means
/// nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn exchange(task: *mut Task, bytes: u64, intent: u32) -> u32 {
    let Some(task) = argument::as_mut(task) else {
        return 0;
    };
    let Some(shared) = needed_memory(task.space) else {
        return 0;
    };
    let Some(mut memory) = lock_for(task, shared, intent != intent::CREDIT) else {
        return 0;
    };
    memory.exchange = Exchange {
        key: RowKey {
            task: task.serial,
            call: task.outcome.call,
            errno: 0,
            ends: task.ends,
        },
        intent,
        unreadable: 0,
        bytes: task.outcome.result as u64,
    };
    let elements = smaller(task.outcome.elements, ELEMENTS as u64) as u32;
    let mut buffers = Buffers {
        task,
        memory: &mut memory,
        left: bytes,
    };
    repeat(elements, exchange_buffer, &mut buffers);
    let Buffers { task, memory, left } = buffers;
    credit::conclude(memory, left, &raw mut task.outcome.origin);
    task.outcome.ends = task.outcome.origin.ends(task.ends);
    0
}

/// The state of the loop over the buffers of a call.
#[repr(C)]
struct Buffers<'m> {
    task: &'m mut Task,
    memory: &'m mut Memory,
    /// How many bytes are left.
    left: u64,
}

/// One round of the loop: carries out the intent for the next buffer. Returns 1 to end it.
extern "C" fn exchange_buffer(index: u64, buffers: &mut Buffers<'_>) -> i64 {
    let Buffers { task, memory, left } = buffers;
    let (start, length) = piece_at(task, task.outcome.vector, index, *left);
    let done = credit::exchange_piece(*memory, start, length);
    match memory.exchange.intent {
        intent::FILL => task.last_range = done as u32,
        intent::CREDIT if done < length => credit_mapping(task, memory, start, length, done),
        _ => {}
    }
    *left -= length;
    i64::from(*left == 0)
}

/// Adds the mapped file that a buffer lies in to the origins of a call, for what is not credited to
/// another file.
#[inline(always)]
fn credit_mapping(task: &Task, memory: &mut Memory, start: u64, length: u64, credited: u64) {
    let mapping = &task.mapping;
    if mapping.file == NO_ROOM {
        credit::count_forgotten(memory, task.serial, task.outcome.call, task.ends.output);
    } else if mapping.file != 0 {
        let end = start.saturating_add(length);
        let mapped = common_length(start, end, mapping.start, mapping.end);
        let bytes = smaller(mapped, length - credited);
        if bytes > 0 {
            memory.add_origin(Origin {
                file: mapping.file,
                how: How::MAPPING,
                bytes,
                ..Origin::NONE
            });
        }
    }
}

#[inline(always)]
fn word_bytes(task: &Task) -> u64 {
    if task.compat() == 0 { 8 } else { 4 }
}

/// Where the buffer of the element of this `index` begins, and how many of the `left` bytes are in
/// it. If `vector` is 0, there is a single buffer, which has all bytes that are left.
///
/// The address is made from the index: of one that grows by each round, the verifier of 6.12 follows
/// every value.
#[inline(always)]
pub fn piece_at(task: &Task, vector: u64, index: u64, left: u64) -> (u64, u64) {
    if vector == 0 {
        return (untagged(task.arguments.get(1)), left);
    }
    let element = vector.wrapping_add(index.wrapping_mul(2 * word_bytes(task)));
    let length = word_or_zero(element.wrapping_add(word_bytes(task)), task.compat());
    (
        untagged(word_or_zero(element, task.compat())),
        if length < left { length } else { left },
    )
}

/// Reads a word of the caller's memory. 0 if it cannot be read.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn word_or_zero(address: u64, compat: u32) -> u64 {
    request::word(address, compat != 0).unwrap_or(0)
}

/// Notes the first bytes that the call in [`Task::outcome`] has moved. A global function, so that the
/// verifier checks it once. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn note_first_bytes(task: *mut Task) -> u32 {
    let Some(task) = argument::as_mut(task) else {
        return 0;
    };
    let is_in_memory = matches!(task.spec.fds, fds::READS | fds::WRITES)
        && request::message_flags(task) & NO_DATA == 0;
    if task.outcome.returns_bytes != 0 && task.outcome.result > 0 && is_in_memory {
        let bytes = task.outcome.result as u64;
        let (start, length) = piece_at(task, task.outcome.vector, 0, bytes);
        if let Some(word) = request::word(start, false) {
            task.outcome.first_word = word;
            task.outcome.first_bytes = smaller(length, WORD_BYTES);
        }
    }
    0
}
