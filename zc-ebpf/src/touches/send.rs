//! The messages to user space, and the scratch in which they are assembled.

use aya_ebpf::{
    macros::map,
    maps::{PerCpuArray, RingBuf},
};
use zc_ebpf::{
    ADDRESS_BYTES, FileSeen, NAMES_BYTES, SYNC_TEXT_BYTES, SyncText, TouchCall, TouchState,
    opaque::opaque, touch_event, touch_part,
};

use crate::{
    kernel::entries::{EntryPtr, field},
    kernel::scratch::Scratch,
    maps::SEEN_FILE,
    syncs::{
        files::describe,
        send::{comm, output},
    },
};

#[map]
static TOUCH_EVENTS: RingBuf = RingBuf::with_byte_size(4096, 0);

/// What the programs share. It has a section of its own, so that user space finds it.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".data.touches")]
static mut TOUCH_STATE: TouchState = TouchState::NEW;

/// What the programs share.
#[inline(always)]
pub fn state() -> EntryPtr<TouchState> {
    // SAFETY: a global.
    unsafe { EntryPtr::new(&raw mut TOUCH_STATE) }
}

/// Counts an incomplete call: it may have touched more.
#[inline(always)]
pub fn count_lost() {
    field!(state(), lost).fetch_add(1);
}

/// Where a call is assembled. It is too large for the stack.
#[repr(C)]
pub struct TouchScratch {
    /// The hash of its key.
    pub hash: [u64; 2],
    /// The addresses of the `struct file`s from [`touch_part::DIRECTORY`] on. 0: there is none.
    pub files: [u64; 4],
    pub call: TouchCall,
    pub path: SyncText,
    pub second: SyncText,
}

#[map]
static TOUCH_SCRATCH: PerCpuArray<Scratch<TouchScratch>> = PerCpuArray::with_max_entries(1, 0);

/// This CPU's scratch, until it is released.
#[inline(always)]
pub fn take_scratch() -> Option<&'static mut Scratch<TouchScratch>> {
    Scratch::take(&TOUCH_SCRATCH)
}

/// This CPU's scratch, in a function of the program that has taken it.
#[inline(always)]
pub fn taken_scratch() -> Option<&'static mut Scratch<TouchScratch>> {
    // SAFETY: the callers do not use it meanwhile.
    unsafe { Scratch::taken(&TOUCH_SCRATCH) }
}

/// Sends a message of this length.
#[inline(always)]
fn send<T>(message: &T, length: usize) -> bool {
    output(&TOUCH_EVENTS, message, length)
}

/// Sends the parts of a call, and then the call.
#[inline(always)]
pub fn call_and_parts(scratch: &mut TouchScratch) {
    for part in [touch_part::PATH, touch_part::SECOND] {
        if scratch.call.parts & 1 << part != 0 {
            send_touched_text(part);
        }
    }
    for (part, file) in (touch_part::DIRECTORY..).zip(scratch.files) {
        if file != 0 {
            scratch.call.parts |= 1 << part;
            send_file(scratch.call.tid, part, file);
        }
    }
    scratch.call.comm = comm();
    let address = opaque(scratch.call.address_length.into()) as usize;
    let is_sent = address <= ADDRESS_BYTES
        && send(
            &scratch.call,
            core::mem::offset_of!(TouchCall, address) + address,
        );
    if !is_sent {
        count_lost();
    }
}

/// Sends a text of the call. A global function, so that the verifier checks it once. The result means
/// nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn send_touched_text(part: u32) -> u32 {
    let Some(scratch) = taken_scratch() else {
        return 0;
    };
    let tid = scratch.call.tid;
    let text = if part == touch_part::PATH {
        &mut scratch.path
    } else {
        &mut scratch.second
    };
    (text.kind, text.tid, text.index) = (touch_event::TEXT, tid, part);
    let length = opaque(text.length.into());
    let is_sent = length < SYNC_TEXT_BYTES as u64
        && send(
            text,
            core::mem::offset_of!(SyncText, bytes) + length as usize,
        );
    if !is_sent {
        count_lost();
    }
    0
}

/// Sends what a file is that belongs to the next call of this thread. A global function, so that the
/// verifier checks it once. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn send_file(tid: u32, part: u32, file: u64) -> u32 {
    let Some(seen) = Scratch::take(&SEEN_FILE) else {
        count_lost();
        return 0;
    };
    describe(seen, file);
    (seen.kind, seen.number, seen.open_flags) = (touch_event::FILE, tid, part);
    let names = seen.names_length as usize;
    let is_sent =
        names <= NAMES_BYTES && send(&**seen, core::mem::offset_of!(FileSeen, names) + names);
    seen.release();
    if !is_sent {
        count_lost();
    }
    0
}
