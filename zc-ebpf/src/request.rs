//! The size that a call asks for. It is found at the call's exit: by then the kernel has read the
//! caller's memory, so it is present.

use zc_ebpf::{
    FICLONE_VARIANT, FICLONERANGE_VARIANT, MAX_BYTES, SOCKET_CALLS, SOCKET_VARIANTS, Task,
    VARIANT_SHIFT, fds, repeat::repeat, requested, selected, socket_slot,
};

use crate::{kernel::argument, kernel::helpers::read_user, maps::spec};

/// Most elements an I/O vector may have: `UIO_MAXIOV` of the kernel's include/uapi/linux/uio.h.
const MAX_VECTOR: u64 = 1024;
/// `FICLONE` of the kernel's include/uapi/linux/fs.h: `_IOW(0x94, 9, int)`.
pub const FICLONE: u32 = 0x4004_9409;
/// `FICLONERANGE`: `_IOW(0x94, 13, struct file_clone_range)`.
pub const FICLONERANGE: u32 = 0x4020_940d;

/// Finds the variant of a multiplexed call from its arguments, and takes over that variant's spec.
/// Returns whether it is selected.
#[inline(always)]
pub fn choose_variant(task: &mut Task) -> bool {
    let argument = task.arguments.get(task.spec.argument) as u32;
    match task.spec.requested {
        requested::IOCTL => {
            let variant = match argument {
                FICLONE => FICLONE_VARIANT,
                FICLONERANGE => FICLONERANGE_VARIANT,
                _ if task.spec.selected == selected::VARIANTS => return false,
                _ => 0,
            };
            task.call |= variant << VARIANT_SHIFT;
        }
        requested::SOCKETCALL => {
            let argument = if argument < SOCKET_CALLS { argument } else { 0 };
            let selected =
                spec(socket_slot(argument)).filter(|spec| spec.selected != selected::NEVER);
            let Some(spec) = selected else { return false };
            task.spec = spec;
            task.call |= (SOCKET_VARIANTS | argument) << VARIANT_SHIFT;
        }
        _ => {}
    }
    true
}

/// Finds the size that the call under way asks for, at most [`MAX_BYTES`]: callers may ask for
/// "everything" with a number near the end of the range; and where its buffers are.
#[inline(always)]
pub fn measure(task: &mut Task) {
    if task.spec.requested == requested::SIZE {
        // Inlined, because most calls are like that.
        let bytes = task.arguments.get(task.spec.argument);
        task.outcome.requested_bytes = at_most_max(bytes);
        task.outcome.request_unknown = 0;
        (task.outcome.vector, task.outcome.elements) = (0, 1);
    } else {
        measure_other(task);
    }
}

#[inline(always)]
const fn at_most_max(bytes: u64) -> u64 {
    if bytes < MAX_BYTES { bytes } else { MAX_BYTES }
}

/// As [`measure`], for a call whose size is no argument. A global function, so that the verifier
/// follows the rest of the exit once. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn measure_other(task: *mut Task) -> u32 {
    let Some(task) = argument::as_mut(task) else {
        return 0;
    };
    let buffers = buffers(task);
    (task.outcome.vector, task.outcome.elements) = buffers.unwrap_or((0, 0));
    let (bytes, is_known) = match (task.spec.requested, buffers) {
        (requested::UNKNOWN, _) | (_, None) => (0, false),
        (requested::IOVEC | requested::MSGHDR, Some((base, count))) => {
            vector(base, count, task.compat())
        }
        _ => (0, true),
    };
    task.outcome.requested_bytes = at_most_max(bytes);
    task.outcome.request_unknown = u8::from(!is_known);
    0
}

/// The `MSG_...` flags of the call under way; 0 if it takes none.
#[inline(always)]
pub fn message_flags(task: &Task) -> u64 {
    if task.spec.message_flags == 0 {
        0
    } else {
        task.arguments.get(task.spec.message_flags - 1)
    }
}

/// Whether the receiving call under way left the data in the socket, so that its result is only a
/// length.
#[inline(always)]
pub fn has_peeked(task: &Task) -> bool {
    /// `MSG_PEEK` of the kernel's include/linux/socket.h.
    const PEEK: u64 = 0x2;
    task.spec.fds == fds::READS && message_flags(task) & PEEK != 0
}

/// Takes from the result of the receiving call that has returned what did not fit into its buffer: with
/// `MSG_TRUNC` the result is the length of the whole message.
#[inline(always)]
pub fn cut_to_request(task: &mut Task) {
    let requested = task.outcome.requested_bytes.cast_signed();
    if task.spec.message_flags != 0
        && task.outcome.request_unknown == 0
        && task.outcome.result > requested
    {
        task.outcome.result = requested;
    }
}

/// The sum of the lengths in a `struct iovec[count]`, and whether it could be read. An element has
/// two words, the second is the length.
#[inline(always)]
fn vector(base: u64, count: u64, compat: u32) -> (u64, bool) {
    if count > MAX_VECTOR {
        return (0, false);
    }
    match sum_of_lengths(base, count as u32, compat) {
        UNREADABLE => (0, false),
        bytes => (bytes, true),
    }
}

/// Stands for a sum that could not be read.
const UNREADABLE: u64 = u64::MAX;

/// A helper runs the loop, so that the verifier checks one round instead of a thousand. A global
/// function, so that it does so once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn sum_of_lengths(base: u64, count: u32, compat: u32) -> u64 {
    let mut sum = LengthSum {
        base,
        bytes: 0,
        compat,
        unreadable: 0,
    };
    repeat(count, add_element, &mut sum);
    if sum.unreadable == 0 {
        sum.bytes
    } else {
        UNREADABLE
    }
}

/// What the rounds of the loop share.
#[repr(C)]
struct LengthSum {
    base: u64,
    bytes: u64,
    compat: u32,
    unreadable: u32,
}

/// One round of the loop: adds the length of an element. Returns 1 to end the loop.
extern "C" fn add_element(index: u64, sum: &mut LengthSum) -> i64 {
    let compat = sum.compat != 0;
    let length = read_word(
        sum.base.wrapping_add(if compat {
            index * 8 + 4
        } else {
            index * 16 + 8
        }),
        compat,
    );
    if let Some(bytes) = length.and_then(|length| sum.bytes.checked_add(length)) {
        sum.bytes = bytes;
        0
    } else {
        sum.unreadable = 1;
        1
    }
}

/// The address of the vector of the call under way and the number of its elements. 0 and 1 for a
/// single buffer. `None` if they cannot be read.
///
/// In a `struct msghdr` they are the third and fourth word. (The second is a length of 4 bytes,
/// padded.)
#[inline(always)]
pub fn buffers(task: &Task) -> Option<(u64, u64)> {
    let address = task.arguments.get(task.spec.argument);
    match task.spec.requested {
        requested::IOVEC => Some((address, task.arguments.get(task.spec.count_argument))),
        requested::MSGHDR => {
            let compat = task.compat() != 0;
            let word_bytes = if compat { 4 } else { 8 };
            Some((
                read_word(address.wrapping_add(2 * word_bytes), compat)?,
                read_word(address.wrapping_add(3 * word_bytes), compat)?,
            ))
        }
        _ => Some((0, 1)),
    }
}

/// Reads a word of the caller's memory. Its size is that of the caller's words.
#[inline(always)]
pub fn read_word(address: u64, compat: bool) -> Option<u64> {
    if compat {
        read_user::<u32>(address).map(u64::from)
    } else {
        read_user(address)
    }
}
