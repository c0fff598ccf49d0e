//! The blocks of a read that go into its checksum, and the segments in which the checksum is taken.

#![expect(clippy::cast_possible_truncation, reason = "there are few blocks")]

use core::num::NonZero;

use crate::opaque::{if_set, is_less, is_not_zero, larger, smaller};

/// Size of a block, bytes.
pub const BLOCK_BYTES: u64 = 512;

/// Into how many segments a checksum is divided. A write of a piece of a read checks the segments
/// in which the piece lies, so that a program which writes much in small pieces does not pay for
/// the whole read each time.
pub const SEGMENTS: usize = 8;

/// Which blocks of a read go into its checksum: how many (lower half), and a number that varies
/// where they are (upper half).
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks(pub u32);

impl Blocks {
    /// No checksum.
    pub const NONE: Self = Self(0);

    /// `count` blocks; the upper half of `number` varies where they are.
    #[inline(always)]
    pub const fn new(count: u32, number: u32) -> Self {
        Self(count & 0xffff | number & 0xffff_0000)
    }

    /// How many.
    #[inline(always)]
    pub const fn count(self) -> u32 {
        self.0 & 0xffff
    }

    /// A place between 0 and `room` for the first block.
    #[inline(always)]
    pub const fn first_place(self, room: u64) -> u64 {
        (room * (self.0 >> 16) as u64) >> 16
    }

    /// Bytes from each block to the next, in a read of this length: at least a block.
    #[inline(always)]
    pub fn stride(self, length: u64) -> u64 {
        let last = self.count().saturating_sub(1);
        larger(
            length.saturating_sub(BLOCK_BYTES) / at_least_one(last.into()),
            BLOCK_BYTES,
        )
    }

    /// How many blocks a segment has. The last one may have fewer.
    #[inline(always)]
    pub const fn per_segment(self) -> u32 {
        self.count().div_ceil(SEGMENTS as u32)
    }

    /// The segment in which a byte lies: the one at this place in a read of this length.
    #[inline(always)]
    pub fn segment(self, length: u64, place: u64) -> u32 {
        let per_segment = at_least_one(self.per_segment().into());
        let last = u64::from(self.count().saturating_sub(1)) / per_segment;
        smaller(
            place / at_least_one(self.stride(length)) / per_segment,
            last,
        ) as u32
    }

    /// Where this segment ends, in bytes from the beginning of a read of this length. 0 for the
    /// segment before the first one.
    #[inline(always)]
    pub fn end_of_segment(self, length: u64, segment: u32) -> u64 {
        let blocks = u64::from(segment.wrapping_add(1) * self.per_segment());
        if_set(
            is_less(blocks, self.count().into()),
            blocks * self.stride(length),
            length,
        )
    }
}

/// The number, or 1 instead of 0: something to divide by. Without a branch, and without the panic
/// that the compiler adds to a division.
#[inline(always)]
fn at_least_one(number: u64) -> NonZero<u64> {
    // SAFETY: it is not 0.
    unsafe { NonZero::new_unchecked(number + (1 ^ is_not_zero(number))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_segment_has_an_eighth_of_a_read() {
        let blocks = Blocks::new(128, 0);
        let segments = [0, 8191, 8192, 65_535].map(|place| blocks.segment(65_536, place));
        assert_eq!(
            (blocks.stride(65_536), segments),
            (BLOCK_BYTES, [0, 0, 1, 7])
        );
        assert_eq!(
            [0, 511, 512, 4095].map(|place| Blocks::new(8, 0).segment(4096, place)),
            [0, 0, 1, 7]
        );
    }

    #[test]
    fn the_last_byte_of_any_read_lies_in_the_segment_of_the_last_block() {
        for most in [32, 128] {
            for length in [
                1_u64,
                511,
                512,
                513,
                4_608,
                16_385,
                65_000,
                65_536,
                65_537,
                1_000_000,
                4 << 20,
            ] {
                let count = length.div_ceil(BLOCK_BYTES).min(most) as u32;
                let blocks = Blocks::new(count, 0);
                let last = (count - 1) / blocks.per_segment();
                assert!(last < SEGMENTS as u32);
                assert_eq!(
                    (
                        blocks.segment(length, 0),
                        blocks.segment(length, length - 1)
                    ),
                    (0, last),
                    "{count} blocks of {length}"
                );
            }
        }
    }

    #[test]
    fn a_segment_ends_where_the_next_one_begins() {
        for (count, length) in [
            (128, 64 << 10),
            (128, 1_000_000),
            (32, 16_385),
            (3, 1_300),
            (1, 7),
        ] {
            let blocks = Blocks::new(count, 0);
            let last = blocks.segment(length, length - 1);
            assert_eq!(
                (
                    blocks.end_of_segment(length, u32::MAX),
                    blocks.end_of_segment(length, last)
                ),
                (0, length)
            );
            for segment in 0..last {
                let end = blocks.end_of_segment(length, segment);
                assert_eq!(
                    [end - 1, end].map(|place| blocks.segment(length, place)),
                    [segment, segment + 1]
                );
            }
        }
    }

    #[test]
    fn a_block_lies_in_the_segment_of_its_bytes() {
        for (count, length) in [
            (128, 64 << 10),
            (128, 1_000_000),
            (32, 16_385),
            (32, 40_000),
        ] {
            let blocks = Blocks::new(count, 0);
            for block in 0..count - 1 {
                let place = u64::from(block) * blocks.stride(length);
                assert_eq!(
                    blocks.segment(length, place),
                    block / blocks.per_segment(),
                    "block {block} of {count} in {length} bytes"
                );
            }
        }
    }
}
