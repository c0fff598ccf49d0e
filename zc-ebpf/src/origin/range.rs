//! Memory that a read filled with bytes of a file, or several reads, one behind the other.
//!
//! Nothing sees the program's own stores. So the first and the last word of what was read are kept,
//! and compared as far as they are written. What is written counts as the file's if a word of it was
//! the same, or if it lies right behind what was written before and counted. If a word is another one,
//! the memory is the program's own from then on.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::{
    FileNumber, Fills, How, argument,
    opaque::{is_less, smaller},
    zeroed,
};

/// How many words of a range are kept: the first one of the read that began it, and the last one of
/// the last read.
pub const WORDS: usize = 2;

/// Size of a word, bytes.
pub const WORD_BYTES: u64 = 8;

/// How many files a range remembers to which its bytes were written.
pub const OUTPUTS: usize = 3;

/// In [`Range::same_to`]: the words could not be kept, so that the address speaks for itself.
pub const UNCOMPARED: u64 = u64::MAX;

/// In [`Range::written_from`]: the last byte was not written.
const NOT_WRITTEN: u64 = u64::MAX;

/// A word as it was when it had been read.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, Immutable, IntoBytes)]
pub struct Word {
    /// Its address.
    pub at: u64,
    /// How many bytes of it were read: fewer than a word has if the read was shorter. 0: there is
    /// no word.
    pub bytes: u64,
    /// The word.
    pub value: u64,
}

impl Word {
    /// The first word of these bytes; its value is not known yet.
    #[inline(always)]
    pub fn first_of(start: u64, length: u64) -> Self {
        Self {
            at: start,
            bytes: smaller(length, WORD_BYTES),
            value: 0,
        }
    }

    /// The last word of these bytes; its value is not known yet.
    #[inline(always)]
    pub fn last_of(start: u64, length: u64) -> Self {
        let bytes = smaller(length, WORD_BYTES);
        Self {
            at: start.wrapping_add(length).wrapping_sub(bytes),
            bytes,
            value: 0,
        }
    }

    /// Whether a part of it lies within these bytes.
    #[inline(always)]
    pub const fn touches(&self, start: u64, end: u64) -> bool {
        self.bytes != 0 && self.at < end && start < self.at + self.bytes
    }

    /// Whether the part of it that lies within these bytes is another one, if `now` is in its place.
    #[inline(always)]
    pub const fn differs_from(&self, now: u64, start: u64, end: u64) -> bool {
        let (from, to) = common_part(start, end, self.at, self.at + self.bytes);
        let (before, beyond) = (from - self.at, self.at + WORD_BYTES - to);
        // Addresses and words are little-endian: the first bytes are the lowest bits.
        let difference = (self.value ^ now) >> ((8 * before) & 63);
        difference << ((8 * (before + beyond)) & 63) != 0
    }

    /// Forgets it if a part of it lies within these bytes.
    #[inline(always)]
    fn forget_in(&mut self, start: u64, end: u64) {
        let is_within = is_less(self.at, end) & is_less(start, self.at + self.bytes);
        self.bytes &= is_within.wrapping_sub(1);
    }
}

/// Memory that reads have filled.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, Immutable, IntoBytes)]
pub struct Range {
    /// Where it begins.
    pub start: u64,
    /// Where it ends. 0: there is none.
    pub end: u64,
    /// Words that were read.
    pub words: [Word; WORDS],
    /// Where the memory begins that the counted reads filled, one behind the other.
    pub filled_from: u64,
    /// Where it ends. 0: the reads are not known.
    pub filled_to: u64,
    /// How long the counted reads took, ns.
    pub fills_ns: u64,
    /// From here to the end, all bytes were written since they were read.
    pub written_from: u64,
    /// The file that was read.
    pub file: FileNumber,
    /// How many reads are counted: the last one, and those before it up to the first one that was
    /// counted with a file.
    pub fills: u32,
    /// Where those bytes end that were written last since the last read and counted as the file's;
    /// [`UNCOMPARED`] if nothing can be compared. Else 0.
    pub same_to: u64,
    /// The files to which their bytes were written, and with which they were counted.
    pub outputs: [WrittenFile; OUTPUTS],
}

/// A file to which bytes of a range were written.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, Immutable, IntoBytes)]
pub struct WrittenFile {
    /// The file. 0: there is none.
    pub file: FileNumber,
    /// Unused; keeps the layout free of padding.
    pub reserved: u32,
    /// Where those end that were written last.
    pub end: u64,
}

impl Range {
    /// No memory.
    pub const EMPTY: Self = Self {
        written_from: NOT_WRITTEN,
        ..zeroed()
    };

    /// Whether a read of `file` into this memory fills all of the range anew. If what is behind was
    /// written, the program is done with that.
    #[inline(always)]
    pub const fn is_refilled_by(&self, file: FileNumber, start: u64, end: u64) -> bool {
        let is_rest_written = end < self.end && self.written_from <= end;
        self.file == file && self.start == start && (end == self.end || is_rest_written)
    }

    /// Whether bytes of `file` that begin here continue the range.
    #[inline(always)]
    pub(super) const fn is_continued_at(&self, file: FileNumber, start: u64) -> bool {
        self.file == file && self.end == start && self.start < start
    }

    /// Notes that a read has filled these bytes of the range, and took so long. It is counted
    /// together with those before it if it continues what they filled, and they were not counted
    /// with a file.
    #[inline(always)]
    pub fn note_fill(&mut self, start: u64, end: u64, ns: u64) {
        for word in &mut self.words {
            word.forget_in(start, end);
        }
        self.same_to = 0;
        if self.written_from <= end {
            // What is behind was written, so the program is done with it.
            self.end = end;
            self.written_from = NOT_WRITTEN;
        }
        if start != self.filled_to || self.outputs[0].file != 0 {
            self.filled_from = start;
            (self.fills, self.fills_ns) = (0, 0);
            for known in &mut self.outputs {
                known.file = 0;
            }
        }
        self.filled_to = end;
        self.fills = self.fills.wrapping_add(1);
        self.fills_ns = self.fills_ns.wrapping_add(ns);
    }

    /// How it is known of these bytes of the range where they came from, if their words were `found`
    /// to be the same or others, as the constants in [`compared`].
    #[inline(always)]
    pub const fn how(&mut self, found: u32, start: u64, end: u64) -> How {
        if found & compared::DIFFERENT != 0 {
            // The memory is the program's own from now on.
            self.end = 0;
            return How::CHANGED;
        }
        if self.same_to == UNCOMPARED {
            return How::BUFFER;
        }
        if found == 0 && start != self.same_to {
            return How::CHANGED;
        }
        self.same_to = end;
        How::BUFFER
    }

    /// Notes that a call has written these bytes of the range.
    #[inline(always)]
    pub const fn note_write(&mut self, start: u64, end: u64) {
        if end == self.end && start < self.written_from {
            self.written_from = start;
        }
    }

    /// The reads that filled these bytes, if they were not counted with this output before. Only
    /// these are known: a single read, of which each part is written behind the one before, or
    /// several of which all bytes are written at once. None for bytes that do not count as the
    /// file's: the next ones may.
    #[inline(always)]
    pub fn fills_for(&mut self, how: How, output: FileNumber, start: u64, end: u64) -> Fills {
        if how == How::CHANGED {
            return Fills::NONE;
        }
        let is_part = start != self.filled_from || end != self.filled_to;
        if start < self.filled_from || end > self.filled_to || (is_part && self.fills != 1) {
            return Fills::UNKNOWN;
        }
        match note_output(self, output, start, end) {
            written::FIRST => Fills {
                calls: self.fills.into(),
                total_ns: self.fills_ns,
                unknown: 0,
            },
            written::NEXT => Fills::NONE,
            _ => Fills::UNKNOWN,
        }
    }

    /// Whether these bytes are in the middle of it.
    #[inline(always)]
    pub(super) const fn is_divided_by(&self, start: u64, end: u64) -> bool {
        self.start < start && end < self.end
    }

    /// Moves all of it by so many bytes, with what is known of them.
    #[inline(always)]
    pub(super) const fn shift(&mut self, distance: u64) {
        self.start = self.start.wrapping_add(distance);
        self.end = self.end.wrapping_add(distance);
        let mut word = 0;
        while word < WORDS {
            self.words[word].at = self.words[word].at.wrapping_add(distance);
            word += 1;
        }
        self.filled_from = self.filled_from.wrapping_add(distance);
        if self.filled_to != 0 {
            self.filled_to = self.filled_to.wrapping_add(distance);
        }
        if self.written_from != NOT_WRITTEN {
            self.written_from = self.written_from.wrapping_add(distance);
        }
        if self.same_to != 0 && self.same_to != UNCOMPARED {
            self.same_to = self.same_to.wrapping_add(distance);
        }
        let mut output = 0;
        while output < OUTPUTS {
            self.outputs[output].end = self.outputs[output].end.wrapping_add(distance);
            output += 1;
        }
    }

    /// What of it begins here. Which reads filled that is not known: they are counted with what is
    /// before it.
    #[inline(always)]
    pub(super) const fn rest_from(&self, start: u64) -> Self {
        Self {
            start,
            filled_to: 0,
            ..*self
        }
    }

    /// Removes these bytes from the range, and what is behind them, unless they are its first ones.
    #[inline(always)]
    pub(super) const fn cut(&mut self, start: u64, end: u64) {
        if self.start >= end || self.end <= start {
            return;
        }
        if self.start < start {
            self.end = start;
        } else if end < self.end {
            self.start = end;
        } else {
            self.end = 0;
        }
    }
}

/// What was found when words were compared.
pub mod compared {
    /// A word is the same as when it was read.
    pub const SAME: u32 = 1;
    /// A word is another one.
    pub const DIFFERENT: u32 = 2;
}

/// What [`note_output`] returns.
mod written {
    /// The first bytes that are written to the file since they were read.
    pub(super) const FIRST: u32 = 0;
    /// Bytes behind those that were written to it last.
    pub(super) const NEXT: u32 = 1;
    /// Perhaps bytes that were written to it before, or too many files.
    pub(super) const AGAIN: u32 = 2;
}

/// Notes that these bytes of a range are written to a file. Returns one of the constants in
/// [`written`]. A global function of the kernel side, because of the stack that it takes.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
extern "C" fn note_output(range: *mut Range, output: FileNumber, start: u64, end: u64) -> u32 {
    let Some(range) = argument::as_mut(range) else {
        return written::AGAIN;
    };
    for known in &mut range.outputs {
        let is_new = known.file == 0;
        if is_new || known.file == output {
            let is_next = known.end <= start;
            (known.file, known.end) = (output, end);
            return match (is_new, is_next) {
                (true, _) => written::FIRST,
                (false, true) => written::NEXT,
                (false, false) => written::AGAIN,
            };
        }
    }
    written::AGAIN
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
