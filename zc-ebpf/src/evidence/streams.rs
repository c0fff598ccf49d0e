//! Samples the streams of files: all bytes that are read from a file, or written to it. Which
//! places are sampled is in [`Stream`].

use zc_ebpf::{
    FileNumber, NO_ROOM, STREAM_FILES,
    pairing::{
        marks::{WINDOW_BYTES, WINDOWS, window_start},
        stream::Stream,
    },
    stream_slot,
};

use crate::{
    evidence::marks::mark,
    kernel::{
        entries::{Entries as _, fetch_add},
        helpers::{read_user, repeat},
    },
    maps::STREAMS,
};

/// The most places that a piece can have: two for each power of two.
const PLACES: u32 = 96;

/// The slot of the stream of what is read from a file, or written to it. `None` if it has none.
#[inline(always)]
pub fn slot_of(file: FileNumber, is_written: bool) -> Option<u32> {
    if file == 0 || file == NO_ROOM || file >= STREAM_FILES {
        None
    } else {
        Some(stream_slot(file, is_written))
    }
}

/// Skips the next bytes of a stream if none of them is sampled, as is mostly the case. Returns
/// whether it did. Where two threads are here at once, the stream fits no other.
#[inline(always)]
pub fn skip(slot: u32, bytes: u64) -> bool {
    let Some(stream) = STREAMS.entry(slot) else {
        return true;
    };
    let is_sampled = stream.samples_one_of(bytes);
    if !is_sampled {
        fetch_add(&mut stream.bytes, bytes);
    }
    !is_sampled
}

/// Adds the next bytes of a stream, which are at `start` in the caller's memory. The result means
/// nothing.
///
/// If two threads do this at the same time, the stream will equal no other. That is safe.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn add(slot: u32, start: u64, length: u64) -> u32 {
    let Some(stream) = STREAMS.entry(slot) else {
        return 0;
    };
    let is_sampled = stream.samples_one_of(length);
    let before = fetch_add(&mut stream.bytes, length);
    if !is_sampled {
        return 0;
    }
    let mut piece = Piece {
        stream,
        slot,
        start,
        before,
        length,
    };
    repeat(PLACES, take_place, &mut piece);
    repeat(WINDOWS as u32, take_window, &mut piece);
    0
}

/// The state of the loop.
#[repr(C)]
struct Piece<'s> {
    stream: &'s mut Stream,
    slot: u32,
    start: u64,
    /// Bytes of the stream before this piece.
    before: u64,
    length: u64,
}

/// One round of the loop: takes the byte at the next place, if the piece has it. Returns 1 to end
/// the loop.
extern "C" fn take_place(_index: u64, piece: &mut Piece<'_>) -> i64 {
    let at = piece.stream.next_place().wrapping_sub(piece.before);
    if at >= piece.length {
        return 1;
    }
    // A byte that cannot be read counts as 0. Unless it is 0, the stream will equal no other.
    piece.stream.take(read_user(piece.start + at).unwrap_or(0));
    0
}

/// One round of the loop: marks the next window with the bytes that the piece has of it. Returns 1
/// to end the loop.
extern "C" fn take_window(_index: u64, piece: &mut Piece<'_>) -> i64 {
    let number = piece.stream.windows as u32;
    let (window, end) = (window_start(number), piece.before + piece.length);
    if window >= end {
        return 1;
    }
    let from = if window > piece.before {
        window
    } else {
        piece.before
    };
    let window_end = window + WINDOW_BYTES;
    let to = if window_end < end { window_end } else { end };
    let is_marked = from < to
        && mark(
            piece.slot,
            number,
            piece.start + (from - piece.before),
            to - from,
        ) != 0;
    if !is_marked || to - from < WINDOW_BYTES {
        piece.stream.gaps |= 1 << (number & 63);
    }
    if window_end > end {
        return 1;
    }
    piece.stream.windows = u64::from(number) + 1;
    0
}
