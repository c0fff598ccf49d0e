//! Samples the streams of files: all bytes that are read from a file, or written to it. Which places are sampled is in [`Stream`].

use zc_ebpf::{FileNumber, NO_ROOM, STREAM_FILES, pairing::stream::Stream, stream_slot};

use crate::{
    kernel::{
        argument,
        entries::{Entries as _, fetch_add},
        helpers::{read_user, repeat},
    },
    maps::STREAMS,
};

/// The most places that a piece can have: two for each power of two.
const PLACES: u32 = 96;

/// The stream of what is read from a file, or written to it. `None` if it has none.
#[inline(always)]
pub fn of(file: FileNumber, is_written: bool) -> Option<&'static mut Stream> {
    if file == 0 || file == NO_ROOM || file >= STREAM_FILES {
        return None;
    }
    STREAMS.entry(stream_slot(file, is_written))
}

/// Skips the next bytes of a stream if none of them is at a sampled place, as is mostly the case. Returns whether it did. Where two threads
/// are here at once, the stream fits no other.
#[inline(always)]
pub fn skip(stream: &mut Stream, bytes: u64) -> bool {
    let has_place = stream.next_place().wrapping_sub(stream.bytes) < bytes;
    if !has_place {
        fetch_add(&mut stream.bytes, bytes);
    }
    !has_place
}

/// Adds the next bytes of a stream, which are at `start` in the caller's memory. The result means nothing.
///
/// If two threads do this at the same time, the stream will equal no other. That is safe.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn add(stream: *mut Stream, start: u64, length: u64) -> u32 {
    let Some(stream) = argument::as_mut(stream) else { return 0 };
    if skip(stream, length) {
        return 0;
    }
    let before = fetch_add(&mut stream.bytes, length);
    let mut piece = Piece { stream, start, before, length };
    repeat(PLACES, take_place, &mut piece);
    0
}

/// The state of the loop.
#[repr(C)]
struct Piece<'s> {
    stream: &'s mut Stream,
    start: u64,
    /// Bytes of the stream before this piece.
    before: u64,
    length: u64,
}

/// One round of the loop: takes the byte at the next place, if the piece has it. Returns 1 to end the loop.
extern "C" fn take_place(_index: u64, piece: &mut Piece<'_>) -> i64 {
    let at = piece.stream.next_place().wrapping_sub(piece.before);
    if at >= piece.length {
        return 1;
    }
    // A byte that cannot be read counts as 0. Unless it is 0, the stream will equal no other.
    piece.stream.take(read_user(piece.start + at).unwrap_or(0));
    0
}
