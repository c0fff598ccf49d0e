//! Pairs reads with the writes that follow them in the same thread, by their order alone: the same for every backend.

/// What a thread has read and not yet written: which file it read from last, and how many of the bytes are still with it.
///
/// Writes are paired with reads where they come out even: a write that is as long as the read before it, or writes to one file that
/// together are as long as the reads before them. A loop of `read` and `write` does so, at its end at the latest. Who writes something
/// else than what was read does so by chance alone: of these bytes nothing is said. Who writes something beside what was read, as a
/// header, does so again and again: the second time it counts.
///
/// A thread that reads two files and then writes both has an order that says nothing of which went where. It shows when what was read
/// first is written after all: from then on nothing is paired.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// The file, as a row's input; 0: none.
    pub file: u32,
    /// 1: files take turns, and nothing is paired any more.
    pub is_mixed: u32,
    /// Bytes read from it that no write has covered.
    pub bytes: u64,
    /// Bytes that another file had left when this one was read.
    pub given_up: u64,
    /// Bytes of the last read; 0 after a write.
    pub last: u64,
    /// Bytes written to [`to`](Self::to) that will be paired once they come out even.
    pub pending: u64,
    /// Bytes written there that have come out even, and were not credited to a write so far.
    pub owed: u64,
    /// Reads since the last write.
    pub reads: u32,
    /// Where the last of the bytes were written to.
    pub to: u32,
    /// 1: the last write was longer than the only read before it.
    pub is_framed: u32,
    /// Unused; keeps the layout free of padding.
    pub reserved: u32,
}

/// Who reads more often than this without a write keeps what was read for something else: a sum, say.
const MOST_READS: u32 = 16;

impl Sequence {
    /// Nothing was read, as when a program begins.
    pub const NOTHING: Self = Self {
        file: 0,
        is_mixed: 0,
        bytes: 0,
        given_up: 0,
        last: 0,
        pending: 0,
        owed: 0,
        reads: 0,
        to: 0,
        is_framed: 0,
        reserved: 0,
    };

    /// Takes note that so many bytes came from `file`. What was left of another file is given up.
    #[inline(always)]
    pub const fn read(&mut self, file: u32, bytes: u64) {
        if bytes == 0 {
            return;
        }
        if self.file != file {
            if self.bytes != 0 {
                self.given_up = self.bytes;
            }
            self.file = file;
            self.bytes = 0;
            self.reads = 0;
            (self.pending, self.owed) = (0, 0);
        }
        self.reads = self.reads.saturating_add(1);
        if self.reads > MOST_READS {
            (self.bytes, self.pending) = (0, 0);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.last = bytes;
    }

    /// The file that a write of the thread is paired with; 0: none.
    #[inline(always)]
    pub const fn source(&self) -> u32 {
        if self.bytes == 0 || self.is_mixed != 0 { 0 } else { self.file }
    }

    /// Takes note that so many bytes were written, and returns how many had been read before: of these, and of those that the same
    /// calls had written to the same file before. `to` tells such calls from others.
    #[inline(always)]
    pub const fn write(&mut self, bytes: u64, to: u32) -> u64 {
        self.look_for_turns(bytes);
        if bytes == 0 || self.bytes == 0 {
            return 0;
        }
        if self.to != to {
            // What went elsewhere was no part of it.
            self.bytes = self.bytes.saturating_add(self.pending);
            (self.pending, self.owed) = (0, 0);
            (self.to, self.is_framed) = (to, 0);
        }
        let mut paired = self.owed;
        self.owed = 0;
        let was_framed = self.is_framed != 0;
        self.is_framed = 0;
        if bytes == self.bytes {
            paired += self.pending + bytes;
        } else if bytes == self.last {
            paired += bytes;
        } else if bytes < self.bytes {
            self.bytes -= bytes;
            self.pending += bytes;
            self.last = 0;
            return if self.is_mixed == 0 { paired } else { 0 };
        } else if self.bytes == self.last {
            self.is_framed = 1;
            paired += if was_framed { self.bytes } else { 0 };
        }
        (self.bytes, self.pending, self.last) = (0, 0, 0);
        if self.is_mixed == 0 { paired } else { 0 }
    }

    /// The same of bytes whose source is known by better evidence.
    #[inline(always)]
    pub const fn write_known(&mut self, bytes: u64) {
        self.look_for_turns(bytes);
        if bytes < self.bytes {
            self.bytes -= bytes;
        } else {
            if bytes == self.bytes {
                self.owed += self.pending;
            }
            (self.bytes, self.pending) = (0, 0);
        }
        self.last = 0;
    }

    #[inline(always)]
    const fn look_for_turns(&mut self, written: u64) {
        if self.bytes == 0 && written != 0 && written == self.given_up {
            self.is_mixed = 1;
        }
        if written != 0 {
            self.reads = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a test writes to.
    const TO: u32 = 1;

    #[test]
    fn a_loop_pairs_every_byte() {
        let mut sequence = Sequence::default();
        for bytes in [8192, 8192, 100] {
            sequence.read(7, bytes);
            assert_eq!((sequence.source(), sequence.write(bytes, TO)), (7, bytes));
        }
        sequence.read(7, 0);
        assert_eq!((sequence.source(), sequence.write(5, TO)), (0, 0));
    }

    #[test]
    fn short_writes_and_gathered_reads_add_up() {
        let mut sequence = Sequence::default();
        sequence.read(7, 100);
        sequence.read(7, 100);
        assert_eq!([150, 50, 50].map(|bytes| sequence.write(bytes, TO)), [0, 200, 0]);
        // A buffer of 40 bytes between reads of 100 and writes.
        let mut paired = 0;
        for _ in 0..4 {
            sequence.read(7, 100);
            paired += sequence.write(40, TO) + sequence.write(40, TO);
        }
        assert_eq!((paired, sequence.write(80, TO)), (0, 400));
    }

    #[test]
    fn what_does_not_come_out_even_is_not_paired() {
        let mut sequence = Sequence::default();
        sequence.read(7, 510);
        assert_eq!(sequence.write(999, TO), 0);
        // The head of a message is left out, and another one is written; then it goes on.
        sequence.read(7, 4096);
        assert_eq!([246, 3855].map(|bytes| sequence.write(bytes, TO)), [0, 0]);
        sequence.read(7, 4096);
        assert_eq!(sequence.write(4096, TO), 4096);
    }

    #[test]
    fn a_write_as_long_as_the_read_before_it_needs_nothing_else() {
        let mut sequence = Sequence::default();
        // The first record of an archive holds a header.
        sequence.read(7, 10_240);
        assert_eq!(sequence.write(9728, TO), 0);
        for _ in 0..3 {
            sequence.read(7, 10_240);
            assert_eq!(sequence.write(10_240, TO), 10_240);
        }
    }

    #[test]
    fn what_is_written_beside_it_each_time_is_a_header() {
        let mut sequence = Sequence::default();
        let paired = [1000, 1000, 500, 1000].map(|bytes| {
            sequence.read(7, bytes);
            sequence.write(bytes + 200, TO)
        });
        assert_eq!(paired, [0, 1000, 500, 1000]);
    }

    #[test]
    fn messages_in_between_are_no_part_of_it() {
        let mut sequence = Sequence::default();
        for _ in 0..3 {
            sequence.read(7, 8192);
            assert_eq!((sequence.write(30, 2), sequence.write(8192, TO)), (0, 8192));
        }
    }

    #[test]
    fn what_is_known_better_is_not_counted_again() {
        let mut sequence = Sequence::default();
        sequence.read(7, 10_000);
        assert_eq!(sequence.write(4096, TO), 0);
        sequence.write_known(5904);
        sequence.read(7, 100);
        assert_eq!(sequence.write(100, TO), 4196);
    }

    #[test]
    fn what_was_read_from_another_file_before_is_given_up() {
        let mut sequence = Sequence::default();
        sequence.read(7, 100);
        sequence.read(8, 30);
        assert_eq!((sequence.source(), sequence.write(130, TO)), (8, 0));
        sequence.read(8, 30);
        assert_eq!((sequence.source(), sequence.write(30, TO)), (8, 30));
    }

    #[test]
    fn of_what_is_only_read_the_last_piece_is_kept() {
        let mut sequence = Sequence::default();
        for _ in 0..100 {
            sequence.read(7, 10);
        }
        assert_eq!(sequence.write(10, TO), 10);
    }

    #[test]
    fn of_two_copies_in_turn_nobody_knows_which_went_where() {
        let mut sequence = Sequence::default();
        for paired in [30, 0, 0] {
            sequence.read(7, 100);
            sequence.read(8, 30);
            assert_eq!(sequence.write(30, 1), paired);
            assert_eq!(sequence.write(100, 2), 0);
        }
        assert_eq!(sequence.source(), 0);
    }
}
