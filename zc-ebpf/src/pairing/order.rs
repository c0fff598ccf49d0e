//! Pairs the reads of a thread with the writes that follow them, by their order alone. Both
//! backends use this.

/// What a thread has read and not yet written: the file that it read last, and how many of its
/// bytes are left.
///
/// A loop of `read` and `write` leaves nothing at its end. A thread that reads one file and writes
/// something else leaves much, or writes more than it has read. How many bytes are paired shows the
/// difference; the analysis judges that.
///
/// A write of more bytes than are left contains something else, so nothing of it is paired. But a
/// program that adds something to what it read, such as a header, does so each time. So the second
/// such write to the same file is paired.
///
/// If a thread reads two files and then writes both, the order does not show which went where. This
/// is noticed when a write has as many bytes as were left of the first file. From then on nothing
/// is paired.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnwrittenRead {
    /// The file that was read last. 0: none.
    pub file: u32,
    /// 1: several files are copied in turn, and nothing is paired any more.
    pub is_mixed: u32,
    /// Bytes read from the file and not written yet.
    pub bytes: u64,
    /// Bytes that were left of another file when this one was read.
    pub given_up: u64,
    /// Reads since the last write.
    pub reads: u32,
    /// The file that got the last write of more bytes than were left. 0: there was none, or a write
    /// of exactly what was left came after it.
    pub framed: u32,
}

/// A thread that reads more often than this without a write does not copy: it may compute a
/// checksum, for example.
const MOST_READS: u32 = 16;

impl UnwrittenRead {
    /// Nothing was read yet.
    pub const NOTHING: Self = Self {
        file: 0,
        is_mixed: 0,
        bytes: 0,
        given_up: 0,
        reads: 0,
        framed: 0,
    };

    /// Bytes were read from `file`. What was left of another file is given up.
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

    /// The file that the next write is paired with. 0: none.
    #[inline(always)]
    pub const fn source(&self) -> u32 {
        if self.bytes == 0 || self.is_mixed != 0 {
            0
        } else {
            self.file
        }
    }

    /// Bytes were written to the file `to`. Returns how many of them are paired with what was read
    /// before.
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
        let mut unwritten_read = UnwrittenRead::default();
        for bytes in [8192, 8192, 100] {
            unwritten_read.read(7, bytes);
            assert_eq!(
                (unwritten_read.source(), unwritten_read.write(bytes, TO)),
                (7, bytes)
            );
        }
        unwritten_read.read(7, 0);
        assert_eq!(
            (unwritten_read.source(), unwritten_read.write(5, TO)),
            (0, 0)
        );
    }

    #[test]
    fn short_writes_and_gathered_reads_add_up() {
        let mut unwritten_read = UnwrittenRead::default();
        unwritten_read.read(7, 100);
        unwritten_read.read(7, 100);
        assert_eq!(
            [150, 50, 50].map(|bytes| unwritten_read.write(bytes, TO)),
            [150, 50, 0]
        );
    }

    #[test]
    fn a_write_of_more_than_was_read_is_not_paired() {
        let mut unwritten_read = UnwrittenRead::default();
        unwritten_read.read(7, 510);
        assert_eq!(unwritten_read.write(999, TO), 0);
        // The program replaces the header of a message, and then copies the rest.
        unwritten_read.read(7, 4096);
        assert_eq!(
            [246, 3855].map(|bytes| unwritten_read.write(bytes, 2)),
            [246, 0]
        );
        unwritten_read.read(7, 4096);
        assert_eq!(unwritten_read.write(4096, 2), 4096);
    }

    #[test]
    fn a_write_with_a_header_is_paired_from_the_second_time_on() {
        let mut unwritten_read = UnwrittenRead::default();
        let paired = [(1000, TO), (1000, TO), (500, TO), (500, 2), (500, 2)].map(|(bytes, to)| {
            unwritten_read.read(7, bytes);
            unwritten_read.write(bytes + 200, to)
        });
        assert_eq!(paired, [0, 1000, 500, 0, 500]);
    }

    #[test]
    fn bytes_left_of_an_earlier_file_are_given_up() {
        let mut unwritten_read = UnwrittenRead::default();
        unwritten_read.read(7, 100);
        unwritten_read.read(8, 30);
        assert_eq!(
            (unwritten_read.source(), unwritten_read.write(130, TO)),
            (8, 0)
        );
        unwritten_read.read(8, 30);
        assert_eq!(
            (unwritten_read.source(), unwritten_read.write(30, TO)),
            (8, 30)
        );
    }

    #[test]
    fn after_many_reads_without_a_write_only_the_last_read_is_kept() {
        let mut unwritten_read = UnwrittenRead::default();
        for _ in 0..100 {
            unwritten_read.read(7, 10);
        }
        assert_eq!([7, 3].map(|bytes| unwritten_read.write(bytes, TO)), [7, 3]);
    }

    #[test]
    fn two_copies_in_turn_are_not_paired() {
        let mut unwritten_read = UnwrittenRead::default();
        for paired in [30, 0, 0] {
            unwritten_read.read(7, 100);
            unwritten_read.read(8, 30);
            assert_eq!(unwritten_read.write(30, 1), paired);
            assert_eq!(unwritten_read.write(100, 2), 0);
        }
        assert_eq!(unwritten_read.source(), 0);
    }
}
