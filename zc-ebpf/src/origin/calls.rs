//! The buffers that calls read into or write from, and where the bytes in them came from.

use zc_ebpf::{
    ABSENT, How, Memory, NO_ROOM, Origin, Outcome, RowKey, Task, fds,
    opaque::{is_less, is_not_zero, rounds},
    origin::{memory, range::common_length},
    requested,
};

use crate::{
    file::mapping,
    kernel::{
        argument,
        fields::{TypedPtr, offset_of_field},
        registers::untagged,
    },
    origin::{
        credit,
        lock::{lock_for, unlock_for},
        spaces::{forget, memory_of_task},
    },
    request,
};

/// How many elements of a vector are looked at. What is in further ones counts as the program's own
/// memory.
pub const ELEMENTS: usize = 16;

/// `MSG_TRUNC` and `MSG_ERRQUEUE` of the kernel's include/linux/socket.h: the bytes are discarded,
/// or are not data from the peer.
const NO_DATA: u64 = 0x20 | 0x2000;

/// What [`exchange`] does with the buffers of a call.
mod intent {
    /// The call put bytes of its file there: remember them.
    pub const FILL: u32 = 0;
    /// The call put other bytes there: forget what was there.
    pub const CLEAR: u32 = 1;
    /// The call wrote from there: find out which files the bytes came from.
    pub const CREDIT: u32 = 2;
}

/// The call under way has returned. Remembers what it read, or finds out where the bytes came from
/// that it wrote, as [`Outcome::origin`]. `is_unseen`: seccomp answered it.
#[inline(always)]
pub fn moved(task: &mut Task, current: TypedPtr, is_unseen: bool) {
    if offset_of_field!(task_files) == ABSENT {
        return;
    }
    match task.spec.fds {
        fds::READS if task.spec.returns_bytes != 0 => read(task, is_unseen),
        fds::WRITES if task.spec.returns_bytes != 0 => written(task, current, is_unseen),
        // `vmsplice`.
        fds::PIPE if task.ends.output != 0 => written(task, current, is_unseen),
        // `recvmmsg`, and `vmsplice` out of a pipe.
        fds::READS | fds::PIPE => {
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
    exchange(
        task,
        // The message may have been longer than the buffer.
        if bytes < requested { bytes } else { requested },
        if is_filled {
            intent::FILL
        } else {
            intent::CLEAR
        },
    );
}

#[inline(always)]
fn written(task: &mut Task, current: TypedPtr, is_unseen: bool) {
    if task.outcome.result > 0 && !is_unseen {
        mapping::note_changes(task, current);
        exchange(task, task.outcome.result as u64, intent::CREDIT);
    }
}

/// Carries out an [`intent`] for the first `bytes` bytes in the buffers of a call. The result means
/// nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn exchange(task: *mut Task, bytes: u64, intent: u32) -> u32 {
    let Some(task) = argument::as_mut(task) else {
        return 0;
    };
    // A program may write from a mapping before it has read anything.
    let Some(shared) = memory_of_task(task, intent != intent::CLEAR) else {
        return 0;
    };
    let Some(memory) = lock_for(task, shared, intent != intent::CREDIT) else {
        return 0;
    };
    let (mut element, count) = buffers(task);
    let stride = if element == 0 {
        0
    } else {
        2 * word_bytes(task)
    };
    let mut left = bytes;
    for index in rounds(ELEMENTS) {
        // One comparison, because the verifier follows every way out of a loop. A count of 2^63 or
        // more, with which a call fails, may be taken for 0.
        if is_less(index.into(), count) & is_not_zero(left) == 0 {
            break;
        }
        left -= exchange_piece(task, memory, element, left, intent);
        element = element.wrapping_add(stride);
    }
    if intent == intent::CREDIT {
        let key = RowKey {
            task: task.serial,
            call: task.outcome.call,
            ends: task.ends,
        };
        task.outcome.origin = credit::settle(memory, &key);
        task.outcome.ends = task.outcome.origin.ends(task.ends);
    } else if left > 0 {
        memory::forget_all(memory);
    }
    unlock_for(task, shared);
    0
}

/// Carries out an [`intent`] for the buffer of the element at this address. Returns how many of the
/// `left` bytes are in it. A global function, so that the verifier does not follow each path
/// through it for each element.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn exchange_piece(
    task: *mut Task,
    memory: *mut Memory,
    element: u64,
    left: u64,
    intent: u32,
) -> u64 {
    let (Some(task), Some(memory)) = (argument::as_mut(task), argument::as_mut(memory)) else {
        return 0;
    };
    let (start, length) = piece_at(task, element, left);
    let end = start.saturating_add(length);
    if length == 0 {
        return 0;
    }
    match intent {
        intent::FILL => {
            let ns = task.outcome.duration_ns;
            let ns = if ns == Outcome::UNTIMED { 0 } else { ns };
            task.last_range =
                credit::fill(memory, task.last_range, task.ends.input, (start, end), ns);
        }
        intent::CLEAR => {
            memory::clear(memory, start, end);
        }
        _ => {
            let credited = credit::credit(memory, task.last_range, start, end, task.ends.output);
            if credited < length {
                credit_mapping(task, memory, start, end, length - credited);
            }
        }
    }
    length
}

/// Adds the file that this memory is a mapping of to the origins of the call, with at most `most`
/// bytes: reads have filled the others. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn credit_mapping(
    task: *mut Task,
    memory: *mut Memory,
    start: u64,
    end: u64,
    most: u64,
) -> u32 {
    let (Some(task), Some(memory)) = (argument::as_mut(task), argument::as_mut(memory)) else {
        return 0;
    };
    let file = mapping::source_at(task, start);
    if file == 0 {
        return 0;
    }
    let mapped = common_length(start, end, task.mapping.start, task.mapping.end);
    let bytes = if mapped < most { mapped } else { most };
    memory.add_origin(file, How::MAPPING, bytes, Origin::NONE.fills);
    0
}

/// The address of the vector of the call under way and the number of its elements. 0 and 1 for a
/// single buffer.
#[inline(always)]
fn buffers(task: &Task) -> (u64, u64) {
    let address = task.arguments.get(task.spec.argument);
    match task.spec.requested {
        requested::IOVEC => (address, task.arguments.get(task.spec.count_argument)),
        requested::MSGHDR => request::vector_of(address, task.compat != 0).unwrap_or((0, 0)),
        _ => (0, 1),
    }
}

#[inline(always)]
fn word_bytes(task: &Task) -> u64 {
    if task.compat == 0 { 8 } else { 4 }
}

/// Where the buffer of the element at this address begins, and how many of the `left` bytes are in
/// it. 0: there is no vector but a single buffer, which has all bytes that are left.
#[inline(always)]
fn piece_at(task: &Task, element: u64, left: u64) -> (u64, u64) {
    if element == 0 {
        return (untagged(task.arguments.get(1)), left);
    }
    let length = word_or_zero(element.wrapping_add(word_bytes(task)), task.compat);
    (
        untagged(word_or_zero(element, task.compat)),
        if length < left { length } else { left },
    )
}

/// Reads a word of the caller's memory. 0 if it cannot be read.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn word_or_zero(address: u64, compat: u32) -> u64 {
    request::word(address, compat != 0).unwrap_or(0)
}
