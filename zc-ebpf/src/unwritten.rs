//! Pairing reads with the writes that follow them in the same thread: the same for every backend.

/// What a thread has read and not yet written: which file it read from last, and how many of the bytes are still with it.
///
/// A loop of `read` and `write` leaves nothing over at its end. A thread that reads one file and writes something else leaves
/// much, or writes more than it has read: how much was covered tells the two apart (that is for the analysis to judge).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unwritten {
    /// The file, as a row's input; 0: none.
    pub file: u32,
    /// Unused; keeps the layout free of padding.
    pub reserved: u32,
    /// Bytes read from it that no write has covered.
    pub bytes: u64,
}

impl Unwritten {
    /// Nothing was read, as when a program begins.
    pub const NOTHING: Self = Self { file: 0, reserved: 0, bytes: 0 };

    /// Takes note that so many bytes came from `file`. What was left of another file is given up.
    #[inline(always)]
    pub const fn read(&mut self, file: u32, bytes: u64) {
        if bytes == 0 {
            return;
        }
        if self.file != file {
            self.file = file;
            self.bytes = 0;
        }
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// The file that a write of the thread is paired with; 0: none.
    #[inline(always)]
    pub const fn source(&self) -> u32 {
        if self.bytes == 0 { 0 } else { self.file }
    }

    /// Takes note that so many bytes were written, and returns how many of them had been read before.
    #[inline(always)]
    pub const fn write(&mut self, bytes: u64) -> u64 {
        let paired = if bytes < self.bytes { bytes } else { self.bytes };
        self.bytes -= paired;
        paired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_pairs_every_byte() {
        let mut unwritten = Unwritten::default();
        for bytes in [8192, 8192, 100] {
            unwritten.read(7, bytes);
            assert_eq!((unwritten.source(), unwritten.write(bytes)), (7, bytes));
        }
        unwritten.read(7, 0);
        assert_eq!((unwritten.source(), unwritten.write(5)), (0, 0));
    }

    #[test]
    fn short_writes_and_gathered_reads_add_up() {
        let mut unwritten = Unwritten::default();
        unwritten.read(7, 100);
        unwritten.read(7, 100);
        assert_eq!([150, 50, 50].map(|bytes| unwritten.write(bytes)), [150, 50, 0]);
    }

    #[test]
    fn a_write_of_more_than_was_read_is_covered_in_part() {
        let mut unwritten = Unwritten::default();
        unwritten.read(7, 9728);
        assert_eq!(unwritten.write(10240), 9728);
    }

    #[test]
    fn what_was_read_from_another_file_before_is_given_up() {
        let mut unwritten = Unwritten::default();
        unwritten.read(7, 100);
        unwritten.read(8, 30);
        assert_eq!((unwritten.source(), unwritten.write(130)), (8, 30));
    }
}
