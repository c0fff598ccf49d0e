//! The reads and writes of a loop that copies through one buffer: see
//! [`zc_ebpf::pairing::copy_loop`].

use zc_ebpf::{FROM_BUFFER, FileNumber, Memory, Task, pairing::range::folded, requested};

use crate::{
    evidence::{buffers::memory_of, lock::is_alone, ranges::MOST_LENGTH},
    kernel::{argument, registers::untagged},
    request,
};

/// The call under way has read `bytes` bytes of `file`. Returns whether it goes on with the task's
/// loop, and is remembered there.
#[inline(always)]
pub fn read(task: &mut Task, file: FileNumber, bytes: u64) -> bool {
    if !task.copy_loop.is_under_way()
        || task.spec.requested != requested::SIZE
        || request::is_peek(task)
    {
        return false;
    }
    let start = buffer(task);
    let Some(at) = task.copy_loop.next_sample(file, start, bytes) else {
        return false;
    };
    let Some(word) = sampled_word(at) else {
        return false;
    };
    let requested = task.outcome.requested_bytes;
    let wanted = if requested < MOST_LENGTH {
        requested
    } else {
        MOST_LENGTH
    };
    task.copy_loop.read(start, bytes, wanted, at, word);
    true
}

/// The call under way has written `bytes` bytes. Returns whether all of them are from the last read
/// of the task's loop; then they are credited to its file.
#[inline(always)]
pub fn write(task: &mut Task, bytes: u64) -> bool {
    if !task.copy_loop.is_under_way()
        || task.spec.requested != requested::SIZE
        || request::is_lent(task)
    {
        return false;
    }
    let start = buffer(task);
    let Some(at) = task
        .copy_loop
        .sample_of(start, bytes, task.outcome.requested_bytes)
    else {
        return false;
    };
    let Some(word) = sampled_word(at) else {
        return false;
    };
    let file = task.copy_loop.write(start, bytes, word, task.ends.output);
    if file == 0 {
        return false;
    }
    (
        task.ends.input,
        task.outcome.paired_bytes,
        task.outcome.checked_calls,
    ) = (file | FROM_BUFFER, bytes, 1);
    true
}

/// A read of the current task has filled the range that the task remembers. Begins a loop if it is
/// one.
#[inline(always)]
pub fn begin(task: &mut Task, memory: &Memory) {
    if is_alone(task) && task.spec.requested == requested::SIZE {
        task.copy_loop.begin(memory, task.last_range);
    }
}

/// Ends the task's loop, if there is one, because something else happens to its memory.
#[inline(always)]
pub fn end_in(task: &mut Task, memory: &mut Memory) {
    if task.copy_loop.is_under_way() {
        task.copy_loop.end(memory);
    }
}

/// As [`end_in`], where the memory has not been looked up.
#[inline(always)]
pub fn end(task: &mut Task) {
    if task.copy_loop.is_under_way() {
        end_anywhere(task);
    }
}

/// As [`end`]. A global function, so that the verifier checks it once. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn end_anywhere(task: *mut Task) -> u32 {
    let Some(task) = argument::as_mut(task) else {
        return 0;
    };
    let Some(memory) = memory_of(task.space, false) else {
        return 0;
    };
    task.copy_loop.end(memory);
    0
}

/// A word of the caller's memory, [`folded`]. `None` if it cannot be read.
#[inline(always)]
fn sampled_word(address: u64) -> Option<u32> {
    let word = folded_word(address);
    if word & IS_READABLE != 0 {
        Some(word as u32)
    } else {
        None
    }
}

/// In what [`folded_word`] returns: the word could be read.
const IS_READABLE: u64 = 1 << 32;

/// As [`sampled_word`]. A function of its own, because it needs little stack. Since Linux 6.13, a
/// function that needs more has a stack outside of the kernel's, and with
/// `CONFIG_HARDENED_USERCOPY` the kernel takes longer to check that the word may be copied there.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn folded_word(address: u64) -> u64 {
    request::word(address, false).map_or(0, |word| IS_READABLE | u64::from(folded(word, u64::MAX)))
}

/// Where the buffer of the call under way begins.
#[inline(always)]
fn buffer(task: &Task) -> u64 {
    untagged(task.arguments.get(1))
}
