//! Takes note of what the streams of files have at their places.

use core::ffi::c_void;

use aya_ebpf::helpers::{bpf_probe_read_user, generated::bpf_loop};
use zc_ebpf::{FileNumber, NO_ROOM, STREAM_FILES, pairing::stream::Stream, stream_slot};

use crate::maps::{STREAMS, fetch_add};

/// Places that a single piece can have: two for each power of two.
const PLACES: u32 = 96;

/// The stream of what is read from a file (or written to it); `None` if it has none.
#[inline(always)]
pub fn of(file: FileNumber, is_written: bool) -> Option<*mut Stream> {
    if file == 0 || file == NO_ROOM || file >= STREAM_FILES {
        return None;
    }
    STREAMS.get_ptr_mut(stream_slot(file, is_written))
}

/// Adds so many bytes if none of them is at a place, as most are not. Returns whether that is so.
#[inline(always)]
pub fn pass(stream: *mut Stream, bytes: u64) -> bool {
    // SAFETY: points into STREAMS. Added atomically, as several CPUs do so; where two threads are here at once, the stream fits no other.
    unsafe {
        let has_place = (*stream).next_place().wrapping_sub((*stream).bytes) < bytes;
        if !has_place {
            fetch_add(&raw mut (*stream).bytes, bytes);
        }
        !has_place
    }
}

/// Takes note of these bytes of the caller, the next ones of the stream. The result means nothing: a global function must have one.
///
/// Global, so that the verifier looks at it once. Where two threads are here at once, the stream fits no other: that is safe.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn add(stream: *mut Stream, start: u64, length: u64) -> u32 {
    // SAFETY: null or what the caller passes, which points into STREAMS.
    let Some(stream) = (unsafe { stream.as_mut() }) else { return 0 };
    if pass(stream, length) {
        return 0;
    }
    // SAFETY: as above; added atomically, as several CPUs do so.
    let before = unsafe { fetch_add(&raw mut stream.bytes, length) };
    let mut piece = Piece { stream, start, before, length };
    // SAFETY: `take_place` has the signature that the helper calls, and `piece` lives longer than the call.
    unsafe { bpf_loop(PLACES, take_place as *mut c_void, (&raw mut piece).cast(), 0) };
    0
}

/// What the rounds of the loop share.
#[repr(C)]
struct Piece<'s> {
    stream: &'s mut Stream,
    start: u64,
    /// Bytes of the stream before this piece.
    before: u64,
    length: u64,
}

/// One round: takes the next place, if the piece has it. 1 ends the loop.
extern "C" fn take_place(_index: u64, piece: *mut c_void) -> i64 {
    // SAFETY: the helper passes on the pointer that `add` gave it.
    let piece = unsafe { &mut *piece.cast::<Piece<'_>>() };
    let at = piece.stream.next_place().wrapping_sub(piece.before);
    if at >= piece.length {
        return 1;
    }
    // SAFETY: the helper checks the address. A byte that cannot be read makes the stream unlike any other, unless it is 0.
    piece.stream.take(unsafe { bpf_probe_read_user((piece.start + at) as *const u8) }.unwrap_or(0));
    0
}
