//! What belongs to a call: its paths, the files of its descriptors, an address.

use zc_ebpf::{ADDRESS_BYTES, TABLE_SLOTS, repeat::repeat, touch_kind, touch_part};

use super::{
    send::{self, TouchScratch, taken_scratch},
    specs::spec_of,
};
use crate::{
    file::identify::open_file,
    kernel::AT_FDCWD,
    kernel::fields::{self, KernelPtr, offset_of_field},
    kernel::helpers::{read_user, read_user_bytes, read_user_text},
    syncs::{
        files::{self, PIPE, SOCKET, TYPE},
        send::{start_of, text_start},
    },
};

/// `AF_UNIX` of the kernel's include/linux/socket.h.
const AF_UNIX: u16 = 1;
/// `MAP_ANONYMOUS` of the kernel's include/uapi/asm-generic/mman-common.h.
const MAP_ANONYMOUS: u64 = 0x20;
/// `FICLONE` and `FICLONERANGE` of the kernel's include/uapi/linux/fs.h.
const CLONES: [u64; 2] = [0x4004_9409, 0x4020_940d];

/// In [`TouchScratch::files`].
const DIRECTORY: usize = 0;
const SECOND_DIRECTORY: usize = 1;
const FILE: usize = 2;
const OTHER_FILE: usize = 3;

/// The argument of the call with this number from 1 on.
#[inline(always)]
fn value(scratch: &TouchScratch, number: u8) -> u64 {
    scratch.call.arguments.get(number.wrapping_sub(1))
}

/// The working directory of the current task, as [`files::describe`] wants it.
#[inline(always)]
pub fn working_directory() -> u64 {
    files::working_directory().unwrap_or(0)
}

/// Starts the path of the call in the working directory, unless the path is absolute.
#[inline(always)]
pub fn start_at_working_directory(scratch: &mut TouchScratch) {
    if scratch.path.bytes[0] != b'/' {
        scratch.files[DIRECTORY] = working_directory();
    }
}

/// The file behind a descriptor. 0: there is none. A global function, so that the verifier checks it
/// once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn touched_file_behind(fd: u32) -> u64 {
    open_file(fd).map_or(0, |file| file as u64)
}

/// The file behind the descriptor in a register.
#[inline(always)]
fn file_behind(fd: u64) -> u64 {
    touched_file_behind(fd as u32)
}

/// Gathers what belongs to the call in the scratch. Returns 0 if it touches nothing, else another
/// number. A global function, so that the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn gather() -> u32 {
    let Some(scratch) = taken_scratch() else {
        return 0;
    };
    let spec = spec_of(scratch.call.key.slot);
    let has_succeeded = scratch.call.key.errno == 0;
    match spec.kind {
        touch_kind::OPEN_HOW => {
            let flags = read_user(value(scratch, 3));
            note_flags(scratch, 2, flags);
        }
        touch_kind::NOTED_FLAGS => {
            let flags = read_user(value(scratch, 1));
            note_flags(scratch, 0, flags);
        }
        touch_kind::COMMAND if !CLONES.contains(&u64::from(value(scratch, 2) as u32)) => return 0,
        touch_kind::MAP if value(scratch, 4) & MAP_ANONYMOUS != 0 => return 0,
        touch_kind::ADDRESS | touch_kind::ACCEPT | touch_kind::MESSAGE | touch_kind::MESSAGES => {
            scratch.files[FILE] = file_behind(value(scratch, spec.file));
            return find_address();
        }
        _ => {}
    }
    if spec.path != 0 {
        read_touched_path(touch_part::PATH);
    }
    if spec.second != 0 {
        read_touched_path(touch_part::SECOND);
    }
    if has_succeeded { find_files() } else { 1 }
}

/// Keeps flags that the call has in memory.
#[inline(always)]
fn note_flags(scratch: &mut TouchScratch, index: usize, flags: Option<u64>) {
    if flags.is_none() && scratch.call.key.errno == 0 {
        send::count_lost();
    }
    scratch.call.arguments.values[index] = flags.unwrap_or(0);
}

/// Finds the files behind the descriptors of a successful call, and the type of file that it reported.
/// Returns what [`gather`] returns. A global function, so that the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn find_files() -> u32 {
    let Some(scratch) = taken_scratch() else {
        return 0;
    };
    let spec = spec_of(scratch.call.key.slot);
    if spec.file != 0 {
        let file = file_behind(value(scratch, spec.file));
        if spec.other_file == 0 && is_without_path(file as KernelPtr) {
            return 0;
        }
        scratch.files[FILE] = file;
    }
    if spec.other_file != 0 {
        scratch.files[OTHER_FILE] = file_behind(value(scratch, spec.other_file));
    }
    if matches!(spec.kind, touch_kind::OPEN | touch_kind::OPEN_HOW) {
        scratch.files[OTHER_FILE] = file_behind(scratch.call.result as u64);
    }
    if spec.mode_at != 0 {
        let mode: Option<u16> = read_user(value(scratch, spec.buffer) + u64::from(spec.mode_at));
        scratch.call.mode = (mode.unwrap_or(0) & TYPE).into();
    }
    1
}

/// Whether an open file is a pipe or a socket. One that was opened by its path had that in its call.
#[inline(always)]
fn is_without_path(file: KernelPtr) -> bool {
    let inode = fields::probe_pointer(file, offset_of_field!(file_inode));
    let mode: u16 = fields::probe_or_zero(inode, offset_of_field!(inode_mode));
    matches!(mode & TYPE, SOCKET) || (mode & TYPE == PIPE && is_nameless(file))
}

/// Whether the name of an open file is in no directory.
#[inline(always)]
fn is_nameless(file: KernelPtr) -> bool {
    let dentry = fields::probe_pointer(file, offset_of_field!(file_dentry));
    fields::probe_pointer(dentry, offset_of_field!(dentry_parent)) == dentry
}

/// Reads the path or the second path of the call, and finds the directory in which it starts. A global
/// function, so that the verifier checks it once. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn read_touched_path(part: u32) -> u32 {
    let Some(scratch) = taken_scratch() else {
        return 0;
    };
    let spec = spec_of(scratch.call.key.slot);
    let is_first = part == touch_part::PATH;
    let (path, directory) = if is_first {
        (spec.path, spec.directory)
    } else {
        (spec.second, spec.second_directory)
    };
    let (address, fd) = (value(scratch, path), value(scratch, directory) as u32);
    let mut start = u64::from(text_start::RELATIVE);
    if address != 0 {
        let text = if is_first {
            &mut scratch.path
        } else {
            &mut scratch.second
        };
        let Some(length) = read_user_text(address, &mut text.bytes) else {
            if scratch.call.key.errno == 0 {
                send::count_lost();
            }
            return 0;
        };
        text.length = length;
        start = start_of(text);
        scratch.call.parts |= 1 << part;
    }
    let file = match start as u32 & 3 {
        text_start::DESCRIPTOR if is_first => file_behind(start >> 2),
        // The directory of `chdir` was sent when the call began.
        text_start::RELATIVE if spec.kind == touch_kind::CHDIR => {
            scratch.call.parts |= 1 << touch_part::DIRECTORY;
            0
        }
        text_start::RELATIVE if directory != 0 && fd != AT_FDCWD => file_behind(fd.into()),
        text_start::RELATIVE => working_directory(),
        _ => 0,
    };
    if is_first {
        scratch.files[DIRECTORY] = file;
    } else {
        scratch.files[SECOND_DIRECTORY] = file;
    }
    0
}

/// Finds the address of a socket that the call names. Returns what [`gather`] returns. A global
/// function, so that the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn find_address() -> u32 {
    let Some(scratch) = taken_scratch() else {
        return 0;
    };
    let call = &scratch.call;
    let (spec, is_32_bit) = (spec_of(call.key.slot), call.key.slot >= TABLE_SLOTS);
    let argument = value(scratch, spec.buffer);
    let (address, length) = match spec.kind {
        touch_kind::ACCEPT if call.key.errno != 0 || argument == 0 => return 0,
        touch_kind::ACCEPT => (argument, read_user::<u32>(value(scratch, spec.buffer + 1))),
        touch_kind::MESSAGE => address_of_message(argument, is_32_bit),
        touch_kind::MESSAGES => {
            // Only the first address is followed.
            let others = value(scratch, 3) as u32;
            if others > 1 && has_other_address(argument, others, is_32_bit) {
                send::count_lost();
            }
            address_of_message(argument, is_32_bit)
        }
        _ => (argument, Some(value(scratch, spec.buffer + 1) as u32)),
    };
    if address == 0 {
        return 0;
    }
    read_socket_address(address, length.unwrap_or(0))
}

/// Where the address in a message is, and its length: `msg_name` and `msg_namelen` of a `struct
/// msghdr`.
#[inline(always)]
fn address_of_message(message: u64, is_32_bit: bool) -> (u64, Option<u32>) {
    if is_32_bit {
        let address: Option<u32> = read_user(message);
        (address.unwrap_or(0).into(), read_user(message + 4))
    } else {
        (read_user(message).unwrap_or(0), read_user(message + 8))
    }
}

/// The messages of a call after the first one.
struct Messages {
    /// Where the next one is.
    next: u64,
    /// The size of each: a `struct mmsghdr`.
    bytes: u64,
    is_32_bit: u64,
    /// 1: one has an address.
    has_address: u64,
}

/// Whether another message than the first one may have an address.
#[inline(always)]
fn has_other_address(messages: u64, count: u32, is_32_bit: bool) -> bool {
    const BYTES: u64 = 64;
    const BYTES_32: u64 = 32;
    /// The most that a call sends: `UIO_MAXIOV` of the kernel's include/uapi/linux/uio.h.
    const MAX_MESSAGES: u32 = 1024;
    let bytes = if is_32_bit { BYTES_32 } else { BYTES };
    let mut others = Messages {
        next: messages.wrapping_add(bytes),
        bytes,
        is_32_bit: is_32_bit.into(),
        has_address: 0,
    };
    repeat(
        count.min(MAX_MESSAGES).wrapping_sub(1),
        look_at_message,
        &mut others,
    );
    others.has_address != 0
}

/// Looks at one message. Returns 1 to end the loop.
extern "C" fn look_at_message(_round: u64, messages: &mut Messages) -> i64 {
    let (address, _) = address_of_message(messages.next, messages.is_32_bit != 0);
    messages.next = messages.next.wrapping_add(messages.bytes);
    messages.has_address |= u64::from(address != 0);
    messages.has_address.cast_signed()
}

/// Reads the address of a socket. Returns what [`gather`] returns. A global function, so that the
/// verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn read_socket_address(address: u64, length: u32) -> u32 {
    let Some(scratch) = taken_scratch() else {
        return 0;
    };
    let call = &mut scratch.call;
    call.address = [0; ADDRESS_BYTES];
    let room = (length as usize).min(ADDRESS_BYTES);
    let bytes = call.address.get_mut(..room);
    if room < size_of::<u16>() || !bytes.is_some_and(|bytes| read_user_bytes(address, bytes)) {
        if call.key.errno == 0 {
            send::count_lost();
        }
        return 0;
    }
    call.address_length = room as u32;
    let [low, high, first, ..] = call.address;
    let is_unix = u16::from_ne_bytes([low, high]) == AF_UNIX;
    if is_unix && first != 0 && first != b'/' {
        scratch.files[DIRECTORY] = working_directory();
    }
    1
}
