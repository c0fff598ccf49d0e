//! The buffers that calls read into or write from, and where the bytes in them came from.

use aya_ebpf::bindings::BPF_NOEXIST;
use zc_ebpf::{
    ABSENT, CopyLoop, FROM_BUFFER, FileNumber, MAPPED, Memory, NO_ROOM, Task, UnwrittenRead, fds,
    fills,
    opaque::{is_less, is_not_zero, rounds},
    pairing::memory,
    pairing::range::common_length,
    requested,
};

use crate::{
    evidence::copy_loop,
    evidence::lock::{is_stale, lock, lock_for, unlock, unlock_for},
    evidence::ranges::{PEEK, fill, lengths, settle, take},
    evidence::streams,
    kernel::argument,
    kernel::entries::Entries as _,
    kernel::fields::offset_of_field,
    kernel::registers::untagged,
    maps::{EMPTY_MEMORY, MEMORIES},
    request,
};

/// How many elements of a vector are looked at.
const ELEMENTS: usize = 16;

/// Mask for a number of elements. No address space is larger, so a larger number is wrong.
const ADDRESSES: u64 = (1 << 48) - 1;

/// `MSG_TRUNC` and `MSG_ERRQUEUE` of the kernel's include/linux/socket.h: the bytes are discarded,
/// or are not data from the peer.
const NO_DATA: u64 = 0x20 | 0x2000;

/// Where the first buffer of the call under way begins. 0 if that cannot be read.
#[inline(always)]
pub fn first(task: &Task) -> u64 {
    let compat = task.compat != 0;
    let address = task.arguments.get(task.spec.argument);
    match task.spec.requested {
        requested::IOVEC => request::word(address, compat).unwrap_or(0),
        requested::MSGHDR => request::vector_of(address, compat)
            .and_then(|(vector, _)| request::word(vector, compat))
            .unwrap_or(0),
        _ => task.arguments.get(1),
    }
}

/// Ends the ranges in memory that the kernel overwrites in the call under way.
#[inline(always)]
pub fn overwrite(task: &mut Task) {
    if task.spec.fills != fills::NONE {
        overwrite_argument(task);
    }
}

/// Does so for the memory that an argument of the call points to.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn overwrite_argument(task: *mut Task) -> u32 {
    let Some(task) = argument::as_mut(task) else {
        return 0;
    };
    if task.spec.fills == fills::ALL {
        return forget_all(task);
    }
    let (start, length) = if task.spec.fills == fills::ABOVE {
        (task.arguments.get(0), fills::ABOVE_BYTES)
    } else {
        let is_one = task.spec.fills_count == 0;
        let count = if is_one {
            1
        } else {
            task.arguments.get(task.spec.fills_count.wrapping_sub(1)) & ADDRESSES
        };
        (
            untagged(task.arguments.get(task.spec.fills.wrapping_sub(1))),
            count.saturating_mul(task.spec.fills_bytes.into()),
        )
    };
    let end = start.saturating_add(length);
    let Some(memory) = memory_of_task(task, false).filter(|_| start != 0) else {
        return 0;
    };
    if !lock(memory, true) {
        return 0;
    }
    copy_loop::end_in(task, memory);
    memory::clear(memory, start, end);
    unlock(memory)
}

/// Forgets everything about the address space of a task.
#[inline(always)]
fn forget_all(task: &mut Task) -> u32 {
    task.copy_loop = CopyLoop::NONE;
    forget(task.space)
}

/// Forgets everything about an address space. Its tasks have no loop: see [`Task::copy_loop`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn forget(space: u32) -> u32 {
    let Some(memory) = MEMORIES.entry(space) else {
        return 0;
    };
    if !lock(memory, true) {
        return 0;
    }
    memory::forget_all(memory);
    unlock(memory)
}

/// What [`exchange_memory`] does with the buffers of a call.
pub mod intent {
    /// The call put bytes of its file there: remember them.
    pub const FILL: u32 = 0;
    /// The call put other bytes there: forget what was there.
    pub const CLEAR: u32 = 1;
    /// The call wrote from there: find out which files the bytes came from, and credit them.
    pub const TAKE: u32 = 2;
    /// The call wanted to write from there but failed: find out which files the bytes would have
    /// come from.
    pub const FIND: u32 = 3;
    /// The call wrote from a mapping: find out how many bytes are in it.
    pub const MEASURE: u32 = 4;
    /// The call wrote bytes of no file: do nothing.
    pub const NOTHING: u32 = 5;
    /// As [`TAKE`], but the call lent the memory.
    pub const LEND: u32 = 6;
}

/// The call under way has returned. Remembers what it read, or finds out where the bytes came from
/// that it wrote.
#[inline(always)]
pub fn moved(task: &mut Task) {
    task.outcome.paired_bytes = 0;
    task.outcome.checked_calls = 0;
    if offset_of_field!(task_files) == ABSENT {
        return;
    }
    match task.spec.fds {
        fds::READS if task.spec.returns_bytes != 0 => {
            read(task);
        }
        fds::WRITES if task.spec.returns_bytes != 0 => {
            written(task);
        }
        fds::PIPE if task.ends.output != 0 => {
            lent(task);
        }
        // `recvmmsg`, and `vmsplice` out of a pipe.
        fds::READS | fds::PIPE => {
            forget_all(task);
        }
        _ => {}
    }
}

#[inline(always)]
fn read(task: &mut Task) {
    if task.outcome.result <= 0 {
        return;
    }
    let bytes = task.outcome.result as u64;
    let file = if task.ends.input == NO_ROOM {
        0
    } else {
        task.ends.input
    };
    let is_data = request::message_flags(task) & NO_DATA == 0;
    // The message may have been longer than the buffer.
    let filled = if bytes < task.outcome.requested_bytes {
        bytes
    } else {
        task.outcome.requested_bytes
    };
    let is_filled = file != 0 && is_data;
    if !is_filled || !copy_loop::read(task, file, filled) {
        exchange_memory(
            task,
            filled,
            if is_filled {
                intent::FILL
            } else {
                intent::CLEAR
            },
        );
    }
    task.unwritten_read.read(file, bytes);
    if is_data && !request::is_peek(task) {
        add_to_stream(task, filled, streams::slot_of(file, false));
    }
}

#[inline(always)]
fn written(task: &mut Task) {
    let bytes = if task.outcome.result > 0 {
        task.outcome.result as u64
    } else {
        0
    };
    let generation = task.generation;
    let (intent, exchanged) = if task.ends.input & MAPPED != 0 {
        (intent::MEASURE, bytes)
    } else if bytes == 0 {
        (intent::FIND, task.outcome.requested_bytes)
    } else {
        (intent::TAKE, bytes)
    };
    if intent != intent::TAKE || !copy_loop::write(task, bytes) {
        exchange_memory(task, exchanged, intent);
    }
    match intent {
        intent::MEASURE => return,
        intent::FIND => (task.outcome.paired_bytes, task.outcome.checked_calls) = (0, 0),
        _ => {}
    }
    add_to_stream(task, bytes, streams::slot_of(task.ends.output, true));
    let is_overwritten = generation != task.generation;
    if is_overwritten {
        // What the thread had read is overwritten by now. It may have kept a copy, but that cannot
        // be seen.
        task.unwritten_read = UnwrittenRead::NOTHING;
    }
    let by_order = task.unwritten_read.source();
    let covered_by_order = task.unwritten_read.write(bytes, task.ends.output);
    if task.ends.input == 0 {
        task.ends.input = by_order;
        task.outcome.paired_bytes = covered_by_order;
    }
}

/// Memory was lent to a pipe (`vmsplice`). Finds out where its bytes came from.
#[inline(always)]
fn lent(task: &mut Task) {
    if task.outcome.result > 0 {
        let is_mapped = task.ends.input & MAPPED != 0;
        exchange_memory(
            task,
            task.outcome.result as u64,
            if is_mapped {
                intent::MEASURE
            } else {
                intent::TAKE
            },
        );
    }
}

/// Adds the bytes of the call under way to the stream in this slot.
#[inline(always)]
fn add_to_stream(task: &Task, bytes: u64, slot: Option<u32>) {
    if let Some(slot) = slot
        && !streams::skip(slot, bytes)
    {
        add_pieces(task, bytes, slot);
    }
}

/// Does so buffer by buffer.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn add_pieces(task: *const Task, bytes: u64, slot: u32) -> u32 {
    let Some(task) = argument::as_ref(task) else {
        return 0;
    };
    let (mut element, count) = buffers(task);
    let stride = stride(task, element);
    let mut left = bytes;
    for index in rounds(ELEMENTS) {
        if is_over(index, count, left) {
            break;
        }
        left -= add_piece(task, element, left, slot);
        element = element.wrapping_add(stride);
    }
    0
}

/// Adds the buffer of the element at this address. Returns how many of the `left` bytes are in it.
/// A global function, so that the verifier does not follow each path through it for each element.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn add_piece(task: *const Task, element: u64, left: u64, slot: u32) -> u64 {
    let Some(task) = argument::as_ref(task) else {
        return 0;
    };
    let piece = piece_at(task, element, left);
    let length = common_length(0, left, 0, piece.bytes);
    streams::add(slot, piece.start, length);
    length
}

/// Carries out an [`intent`] for the first `bytes` bytes in the buffers of a call.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn exchange_memory(task: *mut Task, bytes: u64, intent: u32) -> u32 {
    let Some(task) = argument::as_mut(task) else {
        return 0;
    };
    if bytes == 0 {
        return 0;
    }
    // A program may write from a mapping before it has read anything.
    let Some(memory) = memory_of_task(task, intent == intent::FILL || intent == intent::MEASURE)
    else {
        return 0;
    };
    task.has_memory = 1;
    let intent = with_ranges(task, memory, bytes, intent);
    if intent == intent::NOTHING {
        return 0;
    }
    if !lock_for(task, memory, intent <= intent::CLEAR) {
        return 0;
    }
    copy_loop::end_in(task, memory);
    memory.output = if request::is_peek(task) {
        PEEK
    } else {
        task.ends.output
    };
    let (mut element, count) = buffers(task);
    let stride = stride(task, element);
    let mut left = bytes;
    for index in rounds(ELEMENTS) {
        if is_over(index, count, left) {
            break;
        }
        left -= exchange_piece(task, memory, element, left, intent);
        element = element.wrapping_add(stride);
    }
    if left > 0 && intent <= intent::CLEAR {
        memory::forget_all(memory);
    }
    if matches!(intent, intent::TAKE | intent::FIND | intent::LEND) {
        let who = u64::from(task.serial) << 32 | u64::from(task.outcome.call);
        let settled = settle(memory, who, task.ends.output, intent != intent::FIND);
        if settled != 0 {
            task.ends.input = settled as FileNumber | FROM_BUFFER;
            task.outcome.paired_bytes = settled >> 32;
            task.outcome.checked_calls = 1;
        }
    }
    task.generation = memory.generation;
    if intent == intent::FILL {
        copy_loop::begin(task, memory);
    }
    unlock_for(task, memory);
    0
}

/// The [`intent`] of a call, once it is known whether its buffer has bytes that a read put there.
/// That takes no lock, for which threads would wait: most programs write more than they copy.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn with_ranges(task: *mut Task, memory: *mut Memory, bytes: u64, intent: u32) -> u32 {
    let (Some(task), Some(memory)) = (argument::as_mut(task), argument::as_mut(memory)) else {
        return intent;
    };
    let is_lent = intent >= intent::TAKE && intent != intent::FIND && request::is_lent(task);
    if is_lent {
        // A mapped file may change before its bytes are sent.
        task.ends.input = 0;
    }
    let intent = if is_lent { intent::LEND } else { intent };
    if has_vector(task) || is_stale(memory) || intent <= intent::CLEAR {
        return intent;
    }
    let start = untagged(task.arguments.get(1));
    let is_unknown = memory::is_unknown(memory, start, start + (bytes & ADDRESSES)) != 0;
    if intent == intent::MEASURE {
        if is_unknown {
            return intent;
        }
        // The program reads into a mapping that it shares, and so into the mapped file.
        task.ends.input = 0;
        return intent::TAKE;
    }
    if !is_unknown {
        return intent;
    }
    task.generation = memory.generation;
    intent::NOTHING
}

/// Carries out an [`intent`] for the buffer of the element at this address. Returns how many of the
/// `left` bytes are in it. A global function for the same reason as [`add_piece`].
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
    let Piece {
        start,
        bytes: wanted,
    } = piece_at(task, element, left);
    let length = common_length(0, left, 0, wanted);
    match intent {
        intent::FILL => {
            task.last_range = fill(
                memory,
                task.last_range,
                task.ends.input,
                start,
                lengths(length, wanted),
            );
        }
        intent::CLEAR => {
            memory::clear(memory, start, start.saturating_add(length));
        }
        intent::MEASURE => {
            let end = start.saturating_add(length);
            task.outcome.paired_bytes +=
                common_length(start, end, task.mapping.start, task.mapping.end);
        }
        _ => {
            take(
                memory,
                task.last_range,
                start,
                lengths(length, wanted),
                intent,
            );
        }
    }
    length
}

/// What is known about the address space of a task. `None` if there is no entry; with `is_needed`
/// it is made.
#[inline(always)]
fn memory_of_task(task: &Task, is_needed: bool) -> Option<&'static mut Memory> {
    if is_needed || task.may_have_memory() {
        memory_of(task.space, is_needed)
    } else {
        None
    }
}

/// What is known about an address space. `None` if there is no entry; with `is_needed` it is made.
#[inline(always)]
pub fn memory_of(space: u32, is_needed: bool) -> Option<&'static mut Memory> {
    let known = MEMORIES.entry(space);
    if known.is_some() || !is_needed {
        return known;
    }
    #[expect(
        clippy::needless_borrows_for_generic_args,
        reason = "a copy would be too large for the stack"
    )]
    let _ = MEMORIES.insert(space, &EMPTY_MEMORY, BPF_NOEXIST.into());
    MEMORIES.entry(space)
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

/// Whether the call under way names its buffers by a vector.
#[inline(always)]
const fn has_vector(task: &Task) -> bool {
    matches!(task.spec.requested, requested::IOVEC | requested::MSGHDR)
}

/// A buffer of a call.
struct Piece {
    start: u64,
    bytes: u64,
}

/// Whether the element with this index is beyond the last one, or no bytes are left. It is one
/// comparison, because the verifier follows every way out of a loop. A count of 2^63 or more, with
/// which a call fails, may be taken for 0.
#[inline(always)]
fn is_over(index: u32, count: u64, left: u64) -> bool {
    is_less(index.into(), count) & is_not_zero(left) == 0
}

/// The distance of the elements of this vector. 0 without a vector.
#[inline(always)]
fn stride(task: &Task, vector: u64) -> u64 {
    if vector == 0 { 0 } else { 2 * word_bytes(task) }
}

#[inline(always)]
fn word_bytes(task: &Task) -> u64 {
    if task.compat == 0 { 8 } else { 4 }
}

/// The buffer of the element at this address. 0: there is no vector but a single buffer, which has
/// all bytes that are left.
#[inline(always)]
fn piece_at(task: &Task, element: u64, left: u64) -> Piece {
    if element == 0 {
        let requested = task.outcome.requested_bytes;
        return Piece {
            start: untagged(task.arguments.get(1)),
            bytes: if requested > left { requested } else { left },
        };
    }
    Piece {
        start: untagged(word_or_zero(element, task.compat)),
        bytes: word_or_zero(element.wrapping_add(word_bytes(task)), task.compat),
    }
}

/// Reads a word of the caller's memory. 0 if it cannot be read.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn word_or_zero(address: u64, compat: u32) -> u64 {
    request::word(address, compat != 0).unwrap_or(0)
}
