//! Memory that a read filled with bytes of a file, or several reads, each right after the last.
//!
//! Nothing sees the program's own stores. So some words of what was read are kept, and compared
//! when memory with such a word is written.

#![expect(
    clippy::cast_possible_truncation,
    reason = "there are few words, and of addresses the lower half is kept"
)]

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::{
    FACTOR, FileNumber, How, Words,
    opaque::{is_less, smaller},
    zeroed,
};

/// How many words of a range are kept at most: a power of two.
pub const WORDS: usize = 16;

/// Size of a word, bytes.
pub const WORD_BYTES: u64 = 8;

/// A read keeps one word for so many bytes, as long as these are at most [`WORDS`].
const STRETCH_BYTES: u64 = 4096;

/// In [`Range::output`]: it is not known which bytes were written to which file.
pub const SEVERAL_OUTPUTS: FileNumber = FileNumber::MAX;

/// A word as it was when it had been read.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, Immutable, IntoBytes)]
pub struct KeptWord {
    /// The lower half of its address, less [`Range::moved`].
    pub at: u32,
    /// [`mix`] of its value.
    pub mixed: u32,
}

/// Memory that reads have filled.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, Immutable, IntoBytes)]
pub struct Range {
    /// Where it begins.
    pub start: u64,
    /// Where it ends. 0: there is none.
    pub end: u64,
    /// The file that was read.
    pub file: FileNumber,
    /// The number of the last read that filled it: reads of an address space are counted.
    pub read: u32,
    /// How many words were kept. The last [`WORDS`] of them are in [`words`](Self::words).
    pub kept: u32,
    /// The file that its bytes were written to since the last read. [`SEVERAL_OUTPUTS`] if there are
    /// several, or some bytes between them were not written.
    pub output: FileNumber,
    /// Where those bytes begin that were written since the last read.
    pub written_from: u64,
    /// Where they end. 0: there are none.
    pub written_to: u64,
    /// By how much its memory was moved: the lower half.
    pub moved: u32,
    /// 1: its end was cut off, so words that lie behind it may still be there.
    is_cut: u32,
    /// The words.
    pub words: [KeptWord; WORDS],
}

/// How many words of memory were compared when it was written, and what was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// How many were compared.
    pub compared: u32,
    /// How many of them differ from what was read.
    pub changed: u32,
    /// How many are the same and not all zeros.
    pub telling: u32,
}

/// How many words a read of so many bytes keeps.
#[inline(always)]
pub fn words_of_read(bytes: u64) -> u64 {
    let stretches = smaller(bytes, WORDS as u64 * STRETCH_BYTES) + (STRETCH_BYTES - 1);
    (stretches / STRETCH_BYTES).max(1)
}

/// The first `bytes` bytes of a word as half of one. Zeros stay zeros.
#[inline(always)]
pub const fn mix(value: u64, bytes: u64) -> u32 {
    // Addresses and words are little-endian: the first bytes are the lowest bits.
    let first = value << ((8 * (WORD_BYTES - bytes)) & 63);
    (first.wrapping_mul(FACTOR) >> 32) as u32
}

impl Range {
    /// No memory.
    pub const EMPTY: Self = zeroed();

    /// The memory that this read of a file has filled. No words are kept yet.
    #[inline(always)]
    pub const fn filled(file: FileNumber, start: u64, end: u64) -> Self {
        Self {
            start,
            end,
            file,
            ..Self::EMPTY
        }
    }

    /// How long it is.
    #[inline(always)]
    pub const fn length(&self) -> u64 {
        self.end.wrapping_sub(self.start)
    }

    /// The size of its words: that of the range, if this is shorter than a word.
    #[inline(always)]
    pub fn word_bytes(&self) -> u64 {
        smaller(self.length(), WORD_BYTES)
    }

    /// Whether all of it was written since it was read.
    #[inline(always)]
    pub fn is_written_whole(&self) -> bool {
        // Without branches: the verifier would follow each of them.
        is_less(self.start, self.written_from) | is_less(self.written_to, self.end) == 0
    }

    /// Whether a read of `file` into this memory fills it anew, up to what the program is done with.
    #[inline(always)]
    pub fn is_refilled_by(&self, file: FileNumber, start: u64, end: u64) -> bool {
        self.file == file
            && self.start == start
            && (end == self.end || (end < self.end && self.is_written_whole()))
    }

    /// Whether bytes of `file` that begin here continue the range.
    #[inline(always)]
    pub(super) const fn is_continued_at(&self, file: FileNumber, start: u64) -> bool {
        self.file == file && self.end == start && self.start < start
    }

    /// Whether a part of it lies within these bytes.
    #[inline(always)]
    pub(super) const fn touches(&self, start: u64, end: u64) -> bool {
        self.start < end && start < self.end
    }

    /// Makes it longer, by bytes that a read has filled.
    #[inline(always)]
    pub(super) const fn grow_to(&mut self, end: u64) {
        self.forget_words_if_short();
        if self.is_cut != 0 {
            (self.kept, self.is_cut) = (0, 0);
        }
        self.end = end;
    }

    /// Notes that the read of this number has filled these bytes of it, which begin or end it.
    #[inline(always)]
    pub fn note_read(&mut self, start: u64, end: u64, read: u32) {
        self.read = read;
        if start == self.start {
            self.end = end;
            (self.kept, self.written_to) = (0, 0);
        }
    }

    /// Where a word of the last read is kept, if that read so many bytes from `start` on. The place
    /// varies from read to read, because programs often change the same bytes of each buffer.
    #[inline(always)]
    pub fn place(&self, start: u64, length: u64, index: u64) -> u64 {
        let bytes = self.word_bytes();
        if length < bytes {
            // It continues the range.
            return start.wrapping_add(length).wrapping_sub(bytes);
        }
        let stretch = if length <= STRETCH_BYTES {
            length
        } else {
            length / words_of_read(length)
        };
        let seed = self
            .read
            .wrapping_mul(WORDS as u32)
            .wrapping_add(index as u32);
        let spread = u64::from(seed.wrapping_mul((FACTOR >> 32) as u32));
        let within = (spread * (stretch.wrapping_sub(bytes) + 1)) >> 32;
        start
            .wrapping_add(index.wrapping_mul(stretch))
            .wrapping_add(within)
    }

    /// Keeps a word that was read.
    #[inline(always)]
    pub fn keep(&mut self, at: u64, value: u64) {
        let mixed = mix(value, self.word_bytes());
        self.words[self.kept as usize & (WORDS - 1)] = KeptWord {
            at: (at as u32).wrapping_sub(self.moved),
            mixed,
        };
        self.kept = self.kept.wrapping_add(1);
    }

    /// How many words there are.
    #[inline(always)]
    pub fn words_kept(&self) -> u32 {
        smaller(self.kept.into(), WORDS as u64) as u32
    }

    /// The address of a word. It is outside of the range if the word was cut off.
    #[inline(always)]
    pub const fn address(&self, word: KeptWord) -> u64 {
        let at = word.at.wrapping_add(self.moved);
        self.start
            .wrapping_add(at.wrapping_sub(self.start as u32) as u64)
    }

    /// How it is known of these bytes of the range, which a call writes to a file, where they came
    /// from.
    #[inline(always)]
    pub fn how(&self, found: Comparison, output: FileNumber, start: u64, end: u64) -> How {
        if found.compared == 0 {
            return How::UNCOMPARED;
        }
        if found.changed == 0 {
            return if found.telling == 0 {
                How::ZEROS
            } else {
                How::SAME
            };
        }
        // If they were written there before, the program has used the memory for something else
        // since.
        let is_written =
            self.output == output && self.written_from < end && start < self.written_to;
        if is_written {
            How::OTHER_USE
        } else {
            How::CHANGED
        }
    }

    /// Notes that a call has written these bytes of the range to a file. Returns whether some of them
    /// may have been written there before, since they were read.
    #[inline(always)]
    pub const fn note_write(&mut self, output: FileNumber, start: u64, end: u64) -> bool {
        if self.written_to == 0 {
            (self.output, self.written_from, self.written_to) = (output, start, end);
            return false;
        }
        let is_there = self.output == output;
        let is_repeated = if is_there {
            self.written_from < end && start < self.written_to
        } else {
            self.output == SEVERAL_OUTPUTS
        };
        let has_gap = self.written_to < start || end < self.written_from;
        if !is_there || has_gap {
            self.output = SEVERAL_OUTPUTS;
        }
        if has_gap {
            return is_repeated;
        }
        if start < self.written_from {
            self.written_from = start;
        }
        if end > self.written_to {
            self.written_to = end;
        }
        is_repeated
    }

    /// Whether these bytes are in the middle of it.
    #[inline(always)]
    pub(super) const fn is_divided_by(&self, start: u64, end: u64) -> bool {
        self.start < start && end < self.end
    }

    /// Moves all of it by so many bytes, with what is known of them.
    #[inline(always)]
    pub(super) fn shift(&mut self, distance: u64) {
        self.start = self.start.wrapping_add(distance);
        self.end = self.end.wrapping_add(distance);
        self.moved = self.moved.wrapping_add(distance as u32);
        self.written_from = self.written_from.wrapping_add(distance);
        if self.written_to != 0 {
            self.written_to = self.written_to.wrapping_add(distance);
        }
    }

    /// What of it begins here.
    #[inline(always)]
    pub(super) fn rest_from(&self, start: u64) -> Self {
        let mut rest = Self { start, ..*self };
        rest.forget_words_if_short();
        rest
    }

    /// Removes these bytes from the range, and what is behind them, unless they are its first ones.
    #[inline(always)]
    pub(super) const fn cut(&mut self, start: u64, end: u64) {
        if self.start < start {
            (self.end, self.is_cut) = (start, 1);
        } else if end < self.end {
            self.start = end;
        } else {
            self.end = 0;
        }
        self.forget_words_if_short();
    }

    /// Forgets the words if the range is shorter than one: the size of its words changes with its
    /// length.
    #[inline(always)]
    const fn forget_words_if_short(&mut self) {
        if self.length() < WORD_BYTES {
            self.kept = 0;
        }
    }
}

impl Comparison {
    /// Adds the word of a range that lies wholly within these bytes, if `value` is there now.
    #[inline(always)]
    pub fn add(&mut self, word: KeptWord, value: u64, bytes: u64) {
        let now = mix(value, bytes);
        let is_same = u32::from(now == word.mixed);
        self.compared += 1;
        self.changed += 1 - is_same;
        self.telling += is_same & u32::from(now != 0);
    }

    /// What the rows have of it.
    #[inline(always)]
    pub const fn words(self) -> Words {
        Words {
            compared: self.compared as u64,
            changed: self.changed as u64,
        }
    }
}

/// The bytes that two intervals have in common. Empty: the second number is not the larger one.
#[inline(always)]
pub const fn common_part(start: u64, end: u64, other_start: u64, other_end: u64) -> (u64, u64) {
    (
        if start > other_start {
            start
        } else {
            other_start
        },
        if end < other_end { end } else { other_end },
    )
}

/// The length of what [`common_part`] returns.
#[inline(always)]
pub const fn common_length(start: u64, end: u64, other_start: u64, other_end: u64) -> u64 {
    let (start, end) = common_part(start, end, other_start, other_end);
    end.saturating_sub(start)
}
