//! Samples streams of bytes, to find out whether two streams can be the same. The sampled places do
//! not depend on the sizes of the calls.

#![expect(clippy::cast_possible_truncation, reason = "there are few windows")]

use super::{
    FACTOR,
    marks::{WINDOW_BYTES, window_start},
};

/// What is known about all bytes that were read from a file, or written to it, in the order of the
/// calls.
///
/// The bytes at 2, 3, 4, 6, 8, 12, 16, 24, ... are sampled. So two streams of the same length are
/// sampled at the same places, whatever the sizes of their reads and writes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// Bytes so far.
    pub bytes: u64,
    /// The place that is sampled next. 0: none was sampled yet.
    pub next: u64,
    /// The power of two that the places are computed from: `next` is two or three times as much.
    pub step: u64,
    /// A checksum of the sampled bytes and their places.
    pub sum: u64,
    /// How many of the sampled bytes were not zero.
    pub telling: u64,
    /// How many windows have their [`Marks`](super::marks::Marks).
    pub windows: u64,
    /// A bit for each window that lacks marks: not all of its bytes came in one piece.
    pub gaps: u64,
}

impl Stream {
    /// The place that is sampled next.
    #[inline(always)]
    pub const fn next_place(&self) -> u64 {
        if self.next == 0 { 2 } else { self.next }
    }

    /// Whether one of the next bytes is at a sampled place or in a window.
    #[inline(always)]
    pub const fn samples_one_of(&self, bytes: u64) -> bool {
        let window = window_start(self.windows as u32);
        let is_in_window = window.wrapping_sub(self.bytes) < bytes
            || self.bytes.wrapping_sub(window) < WINDOW_BYTES;
        self.next_place().wrapping_sub(self.bytes) < bytes || is_in_window
    }

    /// Samples the byte at the next place.
    #[inline(always)]
    pub const fn take(&mut self, byte: u8) {
        let place = self.next_place();
        let step = if self.step == 0 { 1 } else { self.step };
        self.sum = self
            .sum
            .wrapping_add((byte as u64 + 1).wrapping_mul(place.wrapping_mul(FACTOR) | 1));
        self.telling += (byte != 0) as u64;
        self.next = place + step;
        self.step = if place + step == 4 * step {
            2 * step
        } else {
            step
        };
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    /// The stream of these bytes, added in pieces of this size.
    fn stream(bytes: &[u8], piece: usize) -> Stream {
        let mut stream = Stream::default();
        for piece in bytes.chunks(piece) {
            while let Some(&byte) = usize::try_from(stream.next_place() - stream.bytes)
                .ok()
                .and_then(|at| piece.get(at))
            {
                stream.take(byte);
            }
            stream.bytes += u64::try_from(piece.len()).expect("fits");
        }
        stream
    }

    #[test]
    fn places_are_powers_of_two_and_halfway_between_them() {
        let mut stream = Stream::default();
        let places: Vec<u64> = (0..8)
            .map(|_| {
                let place = stream.next_place();
                stream.take(0);
                place
            })
            .collect();
        assert_eq!(places, [2, 3, 4, 6, 8, 12, 16, 24]);
    }

    #[test]
    fn equal_bytes_make_equal_streams_in_pieces_of_any_size() {
        let bytes: Vec<u8> = (0..100_000_u32)
            .map(|index| index.wrapping_mul(2_654_435_761).to_be_bytes()[0])
            .collect();
        let whole = stream(&bytes, bytes.len());
        for piece in [1, 7, 4096, 65_536] {
            assert_eq!(stream(&bytes, piece), whole);
        }
        assert!(whole.telling > 25, "{whole:?}");
    }

    #[test]
    fn different_bytes_make_different_streams() {
        let bytes: Vec<u8> = (0..5000_u32)
            .map(|index| index.wrapping_mul(2_654_435_761).to_be_bytes()[0])
            .collect();
        let mut shifted = bytes.clone();
        shifted.rotate_left(1);
        assert_ne!(stream(&bytes, 512).sum, stream(&shifted, 512).sum);
        assert_eq!(stream(&[0; 5000], 512).telling, 0);
    }
}
