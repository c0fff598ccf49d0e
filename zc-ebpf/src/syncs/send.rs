//! The messages to user space, and the scratch in which they are assembled.

use aya_ebpf::{
    bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP, BPF_RB_RING_SIZE},
    macros::map,
    maps::{PerCpuArray, RingBuf},
};
use zc_ebpf::{
    COMM_BYTES, FileKey, FileSeen, NAMES_BYTES, SYNC_TEXT_BYTES, SyncCall, SyncCounts, SyncFile,
    SyncState, SyncText, opaque::opaque, sync_event,
};

use crate::kernel::{
    entries::{EntryPtr, field},
    fields::{self, offset_of_field},
    helpers::{current_task, now_ns, read_user_text},
    scratch::Scratch,
};

#[map]
static SYNC_EVENTS: RingBuf = RingBuf::with_byte_size(4096, 0);

/// What the programs share. It has a section of its own, so that user space finds it.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".data.syncs")]
static mut SYNC_STATE: SyncState = SyncState::NEW;

/// What the programs share.
#[inline(always)]
pub fn state() -> EntryPtr<SyncState> {
    // SAFETY: a global.
    unsafe { EntryPtr::new(&raw mut SYNC_STATE) }
}

/// Where messages are assembled that are too large for the stack.
#[repr(C)]
pub struct SyncMessages {
    /// A text.
    pub text: SyncText,
    /// Counts.
    pub counts: SyncCounts,
    /// The key of a file. The verifier of Linux 6.1 accepts a key on the stack or in a map, and no
    /// memory of a caller.
    pub key: FileKey,
    /// A new file.
    pub file: SyncFile,
}

#[map]
static SYNC_SCRATCH: PerCpuArray<Scratch<SyncMessages>> = PerCpuArray::with_max_entries(1, 0);

/// This CPU's scratch, until it is released.
#[inline(always)]
pub fn take_scratch() -> Option<&'static mut Scratch<SyncMessages>> {
    Scratch::take(&SYNC_SCRATCH)
}

/// Counts a message that could not be sent. From then on nothing is certain.
#[inline(always)]
pub fn count_lost() {
    field!(state(), lost).fetch_add(1);
}

/// The flag for a message: it wakes user space if many wait in this ring.
#[inline(always)]
fn wakeup(ring: &RingBuf) -> u64 {
    let is_much = ring.query(BPF_RB_AVAIL_DATA.into()) > ring.query(BPF_RB_RING_SIZE.into()) / 8;
    if is_much {
        BPF_RB_FORCE_WAKEUP.into()
    } else {
        BPF_RB_NO_WAKEUP.into()
    }
}

/// Puts the beginning of a message, of this length, into a ring. `false`: there was no room.
#[inline(always)]
pub fn output<T>(ring: &RingBuf, message: &T, length: usize) -> bool {
    // SAFETY: the callers pass no more than the size of it.
    let bytes =
        unsafe { core::slice::from_raw_parts(core::ptr::from_ref(message).cast::<u8>(), length) };
    ring.output::<[u8]>(bytes, wakeup(ring)).is_ok()
}

/// Sends a message of this length.
#[inline(always)]
fn send<T>(message: &T, length: usize) -> bool {
    output(&SYNC_EVENTS, message, length)
}

/// Sends a call. `is_change`: others may be told something about what it did.
#[inline(always)]
pub fn call(call: &mut SyncCall, kind: u32, is_change: bool) {
    (call.kind, call.at_ns) = (kind, now_ns());
    call.comm = comm();
    if is_change {
        // Before it is sent: what others are told from now on has a message of its own.
        field!(state(), sequence).fetch_add(1);
    }
    if !send(call, size_of::<SyncCall>()) {
        count_lost();
    }
}

/// Sends what a file is. `false`: it could not be sent.
#[inline(always)]
pub fn file(seen: &FileSeen) -> bool {
    let names = seen.names_length as usize;
    names <= NAMES_BYTES && send(seen, core::mem::offset_of!(FileSeen, names) + names)
}

/// Sends how often a file was written to since the last message about it, if that is not 0.
#[inline(always)]
pub fn counts(file: EntryPtr<SyncFile>) {
    let counts = field!(file, counts);
    if field!(counts, calls).load() == 0 && field!(counts, synced_calls).load() == 0 {
        return;
    }
    let Some(scratch) = take_scratch() else {
        return count_lost();
    };
    let message = &mut scratch.counts;
    message.kind = sync_event::COUNTS;
    message.handle = field!(counts, handle).load();
    message.calls = field!(counts, calls).exchange(0);
    message.bytes = field!(counts, bytes).exchange(0);
    message.synced_calls = field!(counts, synced_calls).exchange(0);
    message.synced_bytes = field!(counts, synced_bytes).exchange(0);
    // If another CPU writes to the file now, these may be of two calls that overlap.
    message.last_ns = field!(counts, last_ns).load();
    message.last_pid = field!(counts, last_pid).load();
    message.last_slot = field!(counts, last_slot).load();
    message.last_comm = field!(counts, last_comm).load();
    if !send(message, size_of::<SyncCounts>()) {
        count_lost();
    }
    scratch.release();
}

/// What [`send_text`] found.
pub mod text_start {
    /// It could not be read or sent.
    pub const UNKNOWN: u32 = 0;
    /// It begins with a slash.
    pub const ABSOLUTE: u32 = 1;
    /// It does not.
    pub const RELATIVE: u32 = 2;
    /// It begins with `/proc/self/fd/`. The number behind that follows in the upper half.
    pub const DESCRIPTOR: u32 = 3;
}

const DESCRIPTORS: [u8; 14] = *b"/proc/self/fd/";

/// Sends the text at this address of the caller. Returns one of [`text_start`]'s constants, and in the
/// bits from 2 on the number of a descriptor. A global function, so that the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn send_text(tid: u32, index: u32, address: u64) -> u64 {
    let Some(scratch) = take_scratch() else {
        count_lost();
        return text_start::UNKNOWN.into();
    };
    let text = &mut scratch.text;
    (text.kind, text.tid, text.index) = (sync_event::TEXT, tid, index);
    let start = match read_user_text(address, &mut text.bytes) {
        Some(length) => {
            text.length = length;
            send_filled(text, length)
        }
        None => text_start::UNKNOWN.into(),
    };
    scratch.release();
    if start == u64::from(text_start::UNKNOWN) {
        count_lost();
    }
    start
}

/// Sends the first bytes of a text. Returns what [`send_text`] returns.
#[inline(always)]
fn send_filled(text: &SyncText, length: u32) -> u64 {
    let length = opaque(length.into());
    if length >= SYNC_TEXT_BYTES as u64 {
        return text_start::UNKNOWN.into();
    }
    if send(
        text,
        core::mem::offset_of!(SyncText, bytes) + length as usize,
    ) {
        start_of(text)
    } else {
        text_start::UNKNOWN.into()
    }
}

/// How a text begins: what [`send_text`] returns.
#[inline(always)]
pub fn start_of(text: &SyncText) -> u64 {
    if text.bytes[0] != b'/' {
        return text_start::RELATIVE.into();
    }
    let mut differs = 0;
    for (own, other) in text.bytes.iter().zip(DESCRIPTORS) {
        differs |= own ^ other;
    }
    if differs != 0 {
        return text_start::ABSOLUTE.into();
    }
    let mut number = 0_u64;
    for digit in &text.bytes[DESCRIPTORS.len()..DESCRIPTORS.len() + 7] {
        let value = digit.wrapping_sub(b'0');
        if value > 9 {
            break;
        }
        number = number * 10 + u64::from(value);
    }
    u64::from(text_start::DESCRIPTOR) | number << 2
}

/// The name of the current process: that of its first thread.
#[inline(always)]
pub fn comm() -> [u8; COMM_BYTES] {
    let leader = fields::probe_pointer(current_task(), offset_of_field!(task_group_leader));
    fields::probe_or_zero(leader, offset_of_field!(task_comm))
}
