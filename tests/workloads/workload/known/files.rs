//! Calls on files: one buffer or several, at the file's position or at a given one, and from file to file.

use std::fs::{self, File};
use std::io::{IoSlice, IoSliceMut, Result, Seek};
use std::path::Path;

use rustix::fs::{copy_file_range, sendfile};
use rustix::io::{ReadWriteFlags, pread, preadv, preadv2, pwrite, pwritev, pwritev2, read, readv, write, writev};
use zc_tests::Tally;

/// The size of the file that is read.
const SIZE: usize = 100_000;

/// Open files, and buffers for them.
pub(super) struct Files {
    input: File,
    /// The same file once more, with a position of its own.
    source: File,
    output: File,
    buffer: Vec<u8>,
    /// Two buffers for the calls that take several.
    first: [u8; 256],
    second: [u8; 256],
}

impl Files {
    /// Makes the files.
    pub(super) fn new(dir: &Path) -> Result<Self> {
        fs::write(dir.join("in"), vec![b'z'; SIZE])?;
        let mut source = File::open(dir.join("in"))?;
        source.rewind()?;
        Ok(Self {
            input: File::open(dir.join("in"))?,
            source,
            output: File::create(dir.join("out"))?,
            buffer: vec![b'z'; 4096],
            first: [b'1'; 256],
            second: [b'2'; 256],
        })
    }

    /// Makes the calls.
    pub(super) fn call(&mut self, tally: &mut Tally) {
        self.plain(tally);
        self.at_offsets(tally);
        self.vectored(tally);
        self.vectored_at_offsets(tally);
        self.between_files(tally);
    }

    /// 1000 reads of 100 bytes and one at the end of the file; 500 writes of 64 bytes.
    fn plain(&mut self, tally: &mut Tally) {
        for _ in 0..1000 {
            tally.moved("read", 100, Ok(100), read(&self.input, &mut self.buffer[..100]));
        }
        tally.moved("read", 100, Ok(0), read(&self.input, &mut self.buffer[..100]));
        for _ in 0..500 {
            tally.moved("write", 64, Ok(64), write(&self.output, &self.buffer[..64]));
        }
    }

    /// Six whole `pread64` and one that the end of the file cuts short; five `pwrite64`.
    fn at_offsets(&mut self, tally: &mut Tally) {
        for offset in 0..6 {
            tally.moved("pread64", 4096, Ok(4096), pread(&self.input, &mut self.buffer[..], offset * 4096));
        }
        tally.moved("pread64", 4096, Ok(100), pread(&self.input, &mut self.buffer[..], SIZE as u64 - 100));
        for offset in 0..5 {
            tally.moved("pwrite64", 1000, Ok(1000), pwrite(&self.output, &self.buffer[..1000], offset * 1000));
        }
    }

    /// Three `readv` of 10 + 20 bytes, three `writev` of 30 + 40.
    fn vectored(&mut self, tally: &mut Tally) {
        self.input.rewind().expect("a file has a start");
        for _ in 0..3 {
            let mut parts = [IoSliceMut::new(&mut self.first[..10]), IoSliceMut::new(&mut self.second[..20])];
            tally.moved("readv", 30, Ok(30), readv(&self.input, &mut parts));
            let parts = [IoSlice::new(&self.first[..30]), IoSlice::new(&self.second[..40])];
            tally.moved("writev", 70, Ok(70), writev(&self.output, &parts));
        }
    }

    /// Two `preadv` of 100 + 200, two `pwritev` of 50 + 60, four `preadv2` of 5 + 6, four `pwritev2` of 7 + 8.
    fn vectored_at_offsets(&mut self, tally: &mut Tally) {
        let none = ReadWriteFlags::empty();
        for _ in 0..2 {
            let mut parts = [IoSliceMut::new(&mut self.first[..100]), IoSliceMut::new(&mut self.second[..200])];
            tally.moved("preadv", 300, Ok(300), preadv(&self.input, &mut parts, 1));
            let parts = [IoSlice::new(&self.first[..50]), IoSlice::new(&self.second[..60])];
            tally.moved("pwritev", 110, Ok(110), pwritev(&self.output, &parts, 1));
        }
        for _ in 0..4 {
            let mut parts = [IoSliceMut::new(&mut self.first[..5]), IoSliceMut::new(&mut self.second[..6])];
            tally.moved("preadv2", 11, Ok(11), preadv2(&self.input, &mut parts, 1, none));
            let parts = [IoSlice::new(&self.first[..7]), IoSlice::new(&self.second[..8])];
            tally.moved("pwritev2", 15, Ok(15), pwritev2(&self.output, &parts, 1, none));
        }
    }

    /// `sendfile` of the whole file and one at its end; `copy_file_range` of half, of the rest (asking for more), and at the end.
    fn between_files(&mut self, tally: &mut Tally) {
        tally.moved("sendfile", SIZE, Ok(SIZE), sendfile(&self.output, &self.source, None, SIZE));
        tally.moved("sendfile", SIZE, Ok(0), sendfile(&self.output, &self.source, None, SIZE));
        self.source.rewind().expect("a file has a start");
        for (ask, want) in [(50_000, 50_000), (60_000, 50_000), (60_000, 0)] {
            let got = copy_file_range(&self.source, None, &self.output, None, ask);
            tally.moved("copy_file_range", ask, Ok(want), got);
        }
    }
}
