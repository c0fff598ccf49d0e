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
    FACTOR, FileNumber, How, Origin, WordCounts,
    opaque::{if_set, is_less, is_not_zero, larger, smaller},
    zeroed,
};

/// How many words of a range are kept at most: a power of two.
pub const WORDS: usize = 16;

/// Size of a word, bytes.
pub const WORD_BYTES: u64 = 8;

/// Stands for a word that cannot be read. Memory that happens to have it is not compared.
pub const UNREADABLE_WORD: u64 = 0x9d3f_06e1_b58a_427c;

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
    /// By how much its memory was moved.
    pub moved: u64,
    /// The words.
    pub words: [KeptWord; WORDS],
}

/// How many words of memory were compared when it was written, and what was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WordComparison {
    /// How many were compared.
    pub compared: u64,
    /// How many of them differ from what was read.
    pub changed: u64,
    /// How many are the same and not all zeros.
    pub telling: u64,
}

/// What a write from a range says about where its bytes came from: from the lowest bits on, 8 each,
/// a [`How`], how many words were compared, and how many of them had changed; then 1 if some of the
/// bytes may have been written to that file before, since they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteEvidence(pub u64);

/// How many words a read of this size keeps, at least one.
#[inline(always)]
#[expect(clippy::manual_div_ceil, reason = "`div_ceil` has a branch")]
pub fn words_of_read(bytes: u64) -> u64 {
    (smaller(bytes, WORDS as u64 * STRETCH_BYTES) + (STRETCH_BYTES - 1)) / STRETCH_BYTES
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

    /// Where a word of the last read is kept, if that read from `start` on, and keeps a word for each
    /// `stretch` bytes. The place varies from read to read, because programs often change the same
    /// bytes of each buffer.
    #[inline(always)]
    pub fn place(&self, start: u64, stretch: u64, index: u64) -> u64 {
        let bytes = self.word_bytes();
        if stretch < bytes {
            // It continues the range.
            return start.wrapping_add(stretch).wrapping_sub(bytes);
        }
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

    /// Keeps a word that was read, unless it is [`UNREADABLE_WORD`].
    #[inline(always)]
    pub fn keep(&mut self, at: u64, value: u64) {
        let mixed = mix(value, self.word_bytes());
        self.words[self.kept as usize & (WORDS - 1)] = KeptWord {
            at: at.wrapping_sub(self.moved) as u32,
            mixed,
        };
        let is_readable = is_not_zero(value ^ UNREADABLE_WORD) as u32;
        self.kept = self.kept.wrapping_add(is_readable);
    }

    /// How many words there are.
    #[inline(always)]
    pub fn words_kept(&self) -> u32 {
        smaller(self.kept.into(), WORDS as u64) as u32
    }

    /// The address of a word. It is outside of the range if the word was cut off.
    #[inline(always)]
    pub const fn address(&self, word: KeptWord) -> u64 {
        let at = word.at.wrapping_add(self.moved as u32);
        self.start
            .wrapping_add(at.wrapping_sub(self.start as u32) as u64)
    }

    /// Notes that a call has written these bytes of the range to a file. `found` is what the words in
    /// them showed. Returns what that says about where they came from.
    #[inline(always)]
    pub fn note_write(
        &mut self,
        output: FileNumber,
        start: u64,
        end: u64,
        found: WordComparison,
    ) -> WriteEvidence {
        // Without branches: the verifier would follow each of them.
        let is_written = is_not_zero(self.written_to);
        let overlaps = is_less(self.written_from, end) & is_less(start, self.written_to);
        let is_there = 1 - is_not_zero((self.output ^ output).into());
        let is_elsewhere = 1 - is_not_zero((self.output ^ SEVERAL_OUTPUTS).into());
        let (is_compared, is_changed) = (is_not_zero(found.compared), is_not_zero(found.changed));
        let is_telling = is_not_zero(found.telling | found.changed);
        let as_words_say =
            u64::from(How::UNCOMPARED.0) | is_compared | is_telling << 1 | is_changed << 2;
        // Once it was written there, the program may have used the memory for something else.
        let is_other_use = is_changed & is_there & overlaps;
        let how = if_set(is_other_use, How::OTHER_USE.0.into(), as_words_say);
        let is_repeated = (is_elsewhere & is_written) | (is_there & overlaps);
        self.extend_written(output, start, end);
        WriteEvidence(how | found.compared << 8 | found.changed << 16 | is_repeated << 24)
    }

    /// Adds bytes that were written to a file to those between
    /// [`written_from`](Self::written_from) and [`written_to`](Self::written_to).
    #[inline(always)]
    fn extend_written(&mut self, output: FileNumber, start: u64, end: u64) {
        let (from, to) = (self.written_from, self.written_to);
        if to == 0 {
            (self.output, self.written_from, self.written_to) = (output, start, end);
            return;
        }
        let has_gap = is_less(to, start) | is_less(end, from);
        let is_other = is_not_zero((self.output ^ output).into());
        self.output =
            if_set(has_gap | is_other, SEVERAL_OUTPUTS.into(), output.into()) as FileNumber;
        self.written_from = if_set(has_gap, from, smaller(from, start));
        self.written_to = if_set(has_gap, to, larger(to, end));
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
        self.moved = self.moved.wrapping_add(distance);
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
            // Words that lie behind its end would be words of what is read there next.
            (self.end, self.kept) = (start, 0);
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

impl WordComparison {
    /// The word of a range was compared with what is there now, or could not be, if that is
    /// [`UNREADABLE_WORD`].
    #[inline(always)]
    pub fn new(word: KeptWord, value: u64, bytes: u64) -> Self {
        let now = mix(value, bytes);
        let is_readable = is_not_zero(value ^ UNREADABLE_WORD);
        let differs = is_not_zero((now ^ word.mixed).into());
        Self {
            compared: is_readable,
            changed: is_readable & differs,
            telling: is_readable & (1 - differs) & is_not_zero(now.into()),
        }
    }

    /// The numbers, a byte each. Packed numbers can be added.
    #[inline(always)]
    pub const fn packed(self) -> u64 {
        self.compared | self.changed << 8 | self.telling << 16
    }

    /// What was [`packed`](Self::packed).
    #[inline(always)]
    pub const fn unpacked(packed: u64) -> Self {
        Self {
            compared: packed & 0xff,
            changed: (packed >> 8) & 0xff,
            telling: (packed >> 16) & 0xff,
        }
    }
}

impl WriteEvidence {
    /// Where these bytes came from, which were written from a range of this file.
    #[inline(always)]
    pub fn origin(self, file: FileNumber, bytes: u64) -> Origin {
        Origin {
            file,
            how: How(self.0 as u32 & 0xff),
            bytes,
            words: WordCounts {
                compared: (self.0 >> 8) & 0xff,
                changed: (self.0 >> 16) & 0xff,
            },
            repeated_bytes: if_set(self.0 >> 24, bytes, 0),
        }
    }
}

/// The bytes that two intervals have in common. Empty: the second number is not the larger one.
#[inline(always)]
pub fn common_part(start: u64, end: u64, other_start: u64, other_end: u64) -> (u64, u64) {
    (start.max(other_start), end.min(other_end))
}

/// The length of what [`common_part`] returns.
#[inline(always)]
pub fn common_length(start: u64, end: u64, other_start: u64, other_end: u64) -> u64 {
    let (start, end) = common_part(start, end, other_start, other_end);
    end.saturating_sub(start)
}

const _: () = assert!(
    How::ZEROS.0 == How::UNCOMPARED.0 | 1
        && How::SAME.0 == How::ZEROS.0 | 1 << 1
        && How::CHANGED.0 == How::SAME.0 | 1 << 2,
    "note_write sets these bits"
);
