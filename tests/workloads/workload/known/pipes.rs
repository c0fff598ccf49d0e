//! Calls around pipes: `splice`, `tee`, `vmsplice`, and reads of an empty one.

use std::fs::{self, File};
use std::io::{IoSlice, Result};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::{Errno, read};
use rustix::pipe::{IoSliceRaw, PipeFlags, SpliceFlags, pipe_with, splice, tee, vmsplice};
use zc_tests::Tally;

/// What one splice moves.
const SIZE: usize = 10_000;

/// Two pipes (their ends non-blocking, so that a mistake is an error instead of a hang) and two files.
pub(super) struct Pipes {
    first: (OwnedFd, OwnedFd),
    second: (OwnedFd, OwnedFd),
    input: File,
    output: File,
    memory: Vec<u8>,
    buffer: [u8; 16],
}

impl Pipes {
    /// Makes the pipes and the files.
    pub(super) fn new(dir: &Path) -> Result<Self> {
        fs::write(dir.join("pipe-in"), vec![b'p'; SIZE])?;
        Ok(Self {
            first: pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?,
            second: pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?,
            input: File::open(dir.join("pipe-in"))?,
            output: File::create(dir.join("pipe-out"))?,
            memory: vec![b'm'; 3000],
            buffer: [0; 16],
        })
    }

    /// Makes the calls.
    pub(super) fn call(&mut self, tally: &mut Tally) {
        self.splice_and_tee(tally);
        self.vmsplice(tally);
        for _ in 0..2 {
            tally.moved("read", 16, Err(Errno::AGAIN), read(&self.first.0, &mut self.buffer[..]));
        }
    }

    /// File -> pipe, tee to the other pipe, and both pipes -> file: three `splice` and one `tee`.
    fn splice_and_tee(&self, tally: &mut Tally) {
        let none = SpliceFlags::empty();
        tally.moved("splice", SIZE, Ok(SIZE), splice(&self.input, None, &self.first.1, None, SIZE, none));
        tally.moved("tee", SIZE, Ok(SIZE), tee(&self.first.0, &self.second.1, SIZE, none));
        for pipe in [&self.first, &self.second] {
            tally.moved("splice", SIZE, Ok(SIZE), splice(&pipe.0, None, &self.output, None, SIZE, none));
        }
    }

    /// One `vmsplice` of 1000 + 2000 bytes, and one `splice` that takes them out and asks for more.
    fn vmsplice(&self, tally: &mut Tally) {
        let (head, tail) = (IoSlice::new(&self.memory[..1000]), IoSlice::new(&self.memory[1000..]));
        let parts = [IoSliceRaw::from_slice(&head), IoSliceRaw::from_slice(&tail)];
        // SAFETY: without SPLICE_F_GIFT the kernel only reads the pages, and `memory` is not changed afterwards.
        let got = unsafe { vmsplice(&self.first.1, &parts, SpliceFlags::empty()) };
        tally.moved("vmsplice", 3000, Ok(3000), got);
        let got = splice(&self.first.0, None, &self.output, None, SIZE, SpliceFlags::empty());
        tally.moved("splice", SIZE, Ok(3000), got);
    }
}
