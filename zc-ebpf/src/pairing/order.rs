//! Pairs reads with the writes that follow them in the same thread, by their order alone: the same for every backend.

/// What a thread has read and not yet written: which file it read from last, and how many of the bytes are still with it.
///
/// A loop of `read` and `write` leaves nothing over at its end. A thread that reads one file and writes something else leaves
/// much, or writes more than it has read: how much was covered tells the two apart (that is for the analysis to judge).
///
/// A write of more than is left was something else, at least in part: nothing of it is paired. Who writes something beside what was
/// read, as a header, does so again and again: the second time it counts.
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
    /// Reads since the last write.
    pub reads: u32,
    /// Where the last write went that was of more bytes than were left; 0: such a one has not been, or one of as many came after it.
    pub framed: u32,
}

/// Who reads more often than this without a write keeps what was read for something else: a sum, say.
const MOST_READS: u32 = 16;

impl Sequence {
    /// Nothing was read, as when a program begins.
    pub const NOTHING: Self = Self { file: 0, is_mixed: 0, bytes: 0, given_up: 0, reads: 0, framed: 0 };

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
        }
        self.reads = self.reads.saturating_add(1);
        if self.reads > MOST_READS {
            self.bytes = 0;
        }
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// The file that a write of the thread is paired with; 0: none.
    #[inline(always)]
    pub const fn source(&self) -> u32 {
        if self.bytes == 0 || self.is_mixed != 0 { 0 } else { self.file }
    }

    /// Takes note that so many bytes were written `to` a file, and returns how many of them had been read before.
    #[inline(always)]
    pub const fn write(&mut self, bytes: u64, to: u32) -> u64 {
        if self.bytes == 0 && bytes != 0 && bytes == self.given_up {
            self.is_mixed = 1;
        }
        if bytes != 0 {
            self.reads = 0;
        }
        let was_framed = self.framed == to;
        let paired = if bytes > self.bytes {
            let left = self.bytes;
            self.bytes = 0;
            if left != 0 {
                self.framed = to;
            }
            if was_framed { left } else { 0 }
        } else {
            if bytes == self.bytes && bytes != 0 {
                self.framed = 0;
            }
            self.bytes -= bytes;
            bytes
        };
        if self.is_mixed == 0 { paired } else { 0 }
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
        assert_eq!([150, 50, 50].map(|bytes| sequence.write(bytes, TO)), [150, 50, 0]);
    }

    #[test]
    fn a_write_of_more_than_was_read_is_something_else() {
        let mut sequence = Sequence::default();
        sequence.read(7, 510);
        assert_eq!(sequence.write(999, TO), 0);
        // The head of a message is left out, and another one is written; then it goes on.
        sequence.read(7, 4096);
        assert_eq!([246, 3855].map(|bytes| sequence.write(bytes, 2)), [246, 0]);
        sequence.read(7, 4096);
        assert_eq!(sequence.write(4096, 2), 4096);
    }

    #[test]
    fn what_is_written_beside_it_each_time_is_a_header() {
        let mut sequence = Sequence::default();
        let paired = [(1000, TO), (1000, TO), (500, TO), (500, 2), (500, 2)].map(|(bytes, to)| {
            sequence.read(7, bytes);
            sequence.write(bytes + 200, to)
        });
        assert_eq!(paired, [0, 1000, 500, 0, 500]);
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
        assert_eq!([7, 3].map(|bytes| sequence.write(bytes, TO)), [7, 3]);
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
