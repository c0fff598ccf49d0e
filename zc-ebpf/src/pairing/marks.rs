//! Recognises that two streams have bytes in common, even if one of them lacks the beginning of the
//! other, as what a client writes lacks the headers that it received.
//!
//! Of some windows of a stream, every sequence of [`SEQUENCE_BYTES`] bytes is hashed, and the
//! largest hashes are kept as marks. Windows of two streams that share most of their bytes share
//! most of their marks, wherever in the window the bytes are. Windows of different contents share
//! none.

#![expect(clippy::cast_possible_truncation, reason = "a hash is cut")]

use crate::FACTOR;
use crate::opaque::{is_not_zero, sign_bit};

/// How many windows of a stream are marked.
pub const WINDOWS: usize = 8;

/// Size of a window, bytes.
pub const WINDOW_BYTES: u64 = 1024;

/// How many marks a window has.
pub const MARKS: usize = 16;

/// How many bytes are hashed together: enough that few sequences are in two files by chance.
pub const SEQUENCE_BYTES: u64 = 16;

/// Where the first window begins.
const FIRST_WINDOW: u64 = 2048;

/// As many marks must be the same in two windows that have bytes in common.
const EQUAL_MARKS: usize = 2;

/// The marks of a window: for each class of hashes the largest. 0: there is none.
pub type Window = [u32; MARKS];

/// The marks of a stream.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Those of each window.
    pub windows: [Window; WINDOWS],
}

impl Marks {
    /// No window was reached.
    pub const NONE: Self = Self {
        windows: [[0; MARKS]; WINDOWS],
    };
}

/// Where the window with this number begins, in bytes of the stream. A number that no window has:
/// beyond every stream.
#[inline(always)]
pub const fn window_start(number: u32) -> u64 {
    if number < WINDOWS as u32 {
        FIRST_WINDOW << (2 * number)
    } else {
        u64::MAX
    }
}

/// How many windows a stream of this length reaches.
pub fn windows_reached(bytes: u64) -> usize {
    (0..WINDOWS as u32)
        .filter(|&number| window_start(number) < bytes)
        .count()
}

/// The last bytes that were added to a window: first those at the lower places.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Sequence {
    older: u64,
    newer: u64,
}

/// How many words [`Sequence::new`] takes.
pub const FIRST_WORDS: usize = 2;

impl Sequence {
    /// The first two words of a window.
    #[inline(always)]
    pub const fn new([older, newer]: [u64; FIRST_WORDS]) -> Self {
        Self { older, newer }
    }

    /// Adds the eight bytes of the next word. Each byte ends a sequence, and the hash of that
    /// sequence becomes a mark if it is the largest of its class.
    #[inline(always)]
    pub fn add(&mut self, word: u64, marks: &mut Window) {
        let mut left = word;
        for _ in 0..8 {
            self.older = self.older >> 8 | self.newer << 56;
            self.newer = self.newer >> 8 | left << 56;
            left >>= 8;
            self.mark(marks);
        }
    }

    /// Marks the window with the hash of the sequence. One byte repeated marks nothing, because
    /// many files contain it.
    #[inline(always)]
    fn mark(self, marks: &mut Window) {
        let mixed =
            (self.older.wrapping_mul(FACTOR) ^ self.newer.rotate_left(32)).wrapping_mul(FACTOR);
        let hash = (mixed >> 32) as u32;
        let class = &mut marks[hash as usize & (MARKS - 1)];
        // Without branches: the verifier would follow each combination of those of several bytes.
        let is_several_bytes =
            is_not_zero((self.older ^ self.newer) | (self.older ^ self.older.rotate_left(8)));
        let is_larger = sign_bit(u64::from(*class).wrapping_sub(hash.into()));
        let is_mark = (is_several_bytes & is_larger) as u32;
        *class ^= (*class ^ hash) & is_mark.wrapping_neg();
    }
}

/// What the marks of two windows say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// The windows have bytes in common.
    Common,
    /// They have not.
    Different,
    /// One of them has too few marks.
    Unknown,
}

/// Compares two windows.
pub fn compare(one: &Window, other: &Window) -> Match {
    let both = one
        .iter()
        .zip(other)
        .filter(|(one, other)| **one != 0 && **other != 0);
    let (mut known, mut equal) = (0, 0);
    for (one, other) in both {
        known += 1;
        equal += usize::from(one == other);
    }
    if known < EQUAL_MARKS {
        Match::Unknown
    } else if equal < EQUAL_MARKS {
        Match::Different
    } else {
        Match::Common
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    /// The marks of a window of these bytes.
    fn window(bytes: &[u8]) -> Window {
        let mut words = bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|word| u64::from_le_bytes(*word));
        let first = [(); FIRST_WORDS].map(|()| words.next().expect("a window has more words"));
        let (mut sequence, mut marks) = (Sequence::new(first), Window::default());
        words.for_each(|word| sequence.add(word, &mut marks));
        marks
    }

    /// Bytes without a pattern.
    fn random(seed: u32, length: u32) -> Vec<u8> {
        let mut state = u64::from(seed).wrapping_mul(FACTOR) | 1;
        (0..length)
            .map(|_| {
                state = (state ^ state >> 29).wrapping_mul(FACTOR);
                state.to_be_bytes()[0]
            })
            .collect()
    }

    #[test]
    fn a_part_of_the_same_bytes_has_marks_in_common_wherever_it_begins() {
        for seed in 0..200 {
            let bytes = random(seed, 2048);
            let read = window(&bytes[..1024]);
            assert!(read.iter().all(|&mark| mark != 0));
            for shift in [0, 1, 7, 8, 13, 100, 250] {
                assert_eq!(
                    compare(&read, &window(&bytes[shift..1024 + shift])),
                    Match::Common,
                    "seed {seed}, shift {shift}"
                );
            }
        }
    }

    #[test]
    fn different_bytes_have_no_marks_in_common() {
        for seed in 0..1000 {
            assert_eq!(
                compare(
                    &window(&random(seed, 1024)),
                    &window(&random(seed + 1000, 1024))
                ),
                Match::Different
            );
        }
    }

    #[test]
    fn bytes_that_were_changed_are_different() {
        let bytes = random(1, 1024);
        let changed: Vec<u8> = bytes.iter().map(|byte| byte ^ 1).collect();
        let backwards: Vec<u8> = bytes.iter().rev().copied().collect();
        for other in [changed, backwards] {
            assert_eq!(compare(&window(&bytes), &window(&other)), Match::Different);
        }
    }

    #[test]
    fn one_byte_repeated_says_nothing() {
        for byte in [0, b'y'] {
            assert_eq!(window(&[byte; 1024]), Window::default());
        }
        assert_eq!(
            compare(&window(&[0; 1024]), &window(&[0; 1024])),
            Match::Unknown
        );
    }

    #[test]
    fn windows_lie_ever_farther_apart() {
        let starts: Vec<u64> = (0..=8).map(window_start).collect();
        assert_eq!(starts[..4], [2048, 8192, 32_768, 131_072]);
        assert_eq!(starts[7..], [2048 << 14, u64::MAX]);
    }
}
