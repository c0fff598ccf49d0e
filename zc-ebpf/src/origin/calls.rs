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
/// that it wrote, as [`CallReturn::origin`](zc_ebpf::CallReturn::origin).
#[inline(always)]
pub fn follow_bytes(task: &mut Task) {
    let has_moved = offset_of_field!(task_files) != ABSENT && task.outcome.result > 0;
    if has_moved && !moved_in_last_range(task) {
        move_bytes(task);
    }
}

/// Does what [`move_bytes`] does for a call with one buffer, if all its bytes are in the range that
/// the thread has filled last: the calls of a loop over one buffer are like that. Returns whether
/// they are. Inlined: see [`argument`].
#[inline(always)]
fn moved_in_last_range(task: &mut Task) -> bool {
    let has_one_buffer = task.spec.requested == requested::SIZE && task.spec.returns_bytes != 0;
    let is_data = task.outcome.is_unseen == 0 && request::message_flags(task) & NO_DATA == 0;
    if !matches!(task.spec.fds, fds::READS | fds::WRITES) || !has_one_buffer || !is_data {
        return false;
    }
    let Some(shared) = memory_of(task.space) else {
        return false;
    };
    let Some(mut memory) = lock_inlined(task, shared, task.spec.fds == fds::READS) else {
        return true;
    };
    let bytes = smaller(task.outcome.result as u64, task.outcome.requested_bytes);
    let start = untagged(task.arguments.get(1));
    let end = start.saturating_add(bytes);
    let read = memory.reads.wrapping_add(1);
    if task.last_range < memory.used
        && let Some(range) = memory.range(task.last_range)
        && range.start <= start
        && end <= range.end
    {
        if task.spec.fds == fds::WRITES {
            task.outcome.origin = credit::written(range, task.ends.output, start, end);
            task.outcome.ends = task.outcome.origin.ends(task.ends);
            return true;
        }
        if range.is_refilled_by(task.ends.input, start, end) {
            credit::note_refill(range, start, bytes, read);
            memory.reads = read;
            return true;
        }
    }
    false
}

/// Carries out the [`intent`] of the call in the task, which has moved bytes. A global function, so
/// that the verifier checks it once. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn move_bytes(task: *mut Task) -> u32 {
    let Some(task) = argument::as_mut(task) else {
        return 0;
    };
    let has_known_size = task.spec.returns_bytes != 0 && task.outcome.request_unknown == 0;
    let moved = task.outcome.result as u64;
    let (intent, bytes) = match task.spec.fds {
        fds::WRITES if task.spec.returns_bytes != 0 => (intent::CREDIT, moved),
        // `vmsplice`.
        fds::PIPE if task.ends.output != 0 => (intent::CREDIT, moved),
        // The message may have been longer than the buffer.
        fds::READS if has_known_size => (
            intent_of_read(task),
            smaller(moved, task.outcome.requested_bytes),
        ),
        // `recvmmsg`, and `vmsplice` out of a pipe.
        fds::READS | fds::PIPE => return forget(task.space),
        _ => return 0,
    };
    if intent == intent::CREDIT && task.outcome.is_unseen != 0 {
        return 0;
    }
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

/// Whether a read put bytes of its file into its buffer, or other ones.
#[inline(always)]
fn intent_of_read(task: &Task) -> u32 {
    let is_data = request::message_flags(task) & NO_DATA == 0 && task.outcome.is_unseen == 0;
    if is_data && task.ends.input != 0 && task.ends.input != NO_ROOM {
        intent::FILL
    } else {
        intent::CLEAR
    }
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
    request::read_word(address, compat != 0).unwrap_or(0)
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
        if let Some(word) = request::read_word(start, false) {
            task.outcome.first_word = word;
            task.outcome.first_bytes = smaller(length, WORD_BYTES);
        }
    }
    0
}
