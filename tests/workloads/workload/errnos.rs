//! `errnos`: calls that fail, each with a known errno.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    ptr,
};

use anyhow::Result;
use rustix::{
    fs::{MemfdFlags, copy_file_range, memfd_create, sendfile},
    io::{Errno, read, write},
    pipe::{PipeFlags, SpliceFlags, pipe_with, splice},
};
use serde_json::json;
use zc_tests::{Tally, print_expectation, with_bare_thread};

use crate::Parameters;

/// A descriptor that no process has, because the limit of descriptors is far lower.
const NOT_OPEN: RawFd = RawFd::MAX - 1;
/// An address in the first page, which nothing is mapped to.
const BAD_ADDRESS: usize = 8;

/// Makes the calls, and prints them.
pub(crate) fn run(parameters: Parameters) -> Result<()> {
    parameters.end()?;
    let fixture = Fixture::new()?;
    let mut tally = Tally::default();
    let calls = || {
        fixture.wrong_descriptors(&mut tally);
        fixture.pipes(&mut tally);
        fixture.wrong_kinds(&mut tally);
        fixture.bad_addresses(&mut tally);
    };
    with_bare_thread(c"zc-errnos", calls, |_| ())?;
    print_expectation(
        "errnos",
        &tally.figures()?,
        json!({ "thread": "zc-errnos" }),
    )
}

/// Descriptors of every kind that the calls need.
struct Fixture {
    directory: File,
    read_only: File,
    memory: OwnedFd,
    empty_pipe: (OwnedFd, OwnedFd),
    pipe_without_reader: OwnedFd,
}

impl Fixture {
    /// Opens them.
    fn new() -> io::Result<Self> {
        let (_closed_reader, pipe_without_reader) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self {
            directory: File::open("/")?,
            read_only: File::open("/dev/null")?,
            memory: memfd_create("zc-errnos", MemfdFlags::CLOEXEC)?,
            empty_pipe: pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?,
            pipe_without_reader,
        })
    }

    /// `EBADF` three times for a closed descriptor, twice for one that is open for the other
    /// direction; `EISDIR` twice.
    fn wrong_descriptors(&self, tally: &mut Tally) {
        let mut buffer = [0; 100];
        for _ in 0..3 {
            // SAFETY: the buffer has 100 writable bytes. The descriptor is not open, so read fails.
            let got = unsafe { libc::read(NOT_OPEN, buffer.as_mut_ptr().cast(), 100) };
            tally.moved("read", 100, Err(Errno::BADF), result(got));
        }
        for _ in 0..2 {
            tally.moved(
                "write",
                50,
                Err(Errno::BADF),
                write(&self.read_only, &buffer[..50]),
            );
            tally.moved(
                "read",
                100,
                Err(Errno::ISDIR),
                read(&self.directory, &mut buffer),
            );
        }
    }

    /// `EAGAIN` five times from an empty pipe; `EPIPE` four times from one without a reader (Rust
    /// ignores SIGPIPE).
    fn pipes(&self, tally: &mut Tally) {
        let mut buffer = [0; 100];
        for _ in 0..5 {
            tally.moved(
                "read",
                20,
                Err(Errno::AGAIN),
                read(&self.empty_pipe.0, &mut buffer[..20]),
            );
        }
        for _ in 0..4 {
            tally.moved(
                "write",
                30,
                Err(Errno::PIPE),
                write(&self.pipe_without_reader, &buffer[..30]),
            );
        }
    }

    /// `EINVAL` for pairs of files that a call does not work on.
    fn wrong_kinds(&self, tally: &mut Tally) {
        let (memory, pipe) = (self.memory.as_fd(), self.empty_pipe.1.as_fd());
        tally.moved(
            "copy_file_range",
            70,
            Err(Errno::INVAL),
            copy_file_range(memory, None, pipe, None, 70),
        );
        let no_pipe = splice(memory, None, memory, None, 60, SpliceFlags::empty());
        tally.moved("splice", 60, Err(Errno::INVAL), no_pipe);
        for _ in 0..2 {
            tally.moved(
                "sendfile",
                80,
                Err(Errno::INVAL),
                sendfile(pipe, self.empty_pipe.0.as_fd(), None, 80),
            );
        }
    }

    /// `EFAULT`: a buffer, a part, and a whole list of parts at an address that is not mapped. A
    /// list that cannot be read asks for an unknown size, which counts as nothing.
    fn bad_addresses(&self, tally: &mut Tally) {
        let fd = self.memory.as_raw_fd();
        // SAFETY: the kernel checks addresses that it is given, and refuses this one.
        let got = unsafe { libc::write(fd, ptr::without_provenance(BAD_ADDRESS), 40) };
        tally.moved("write", 40, Err(Errno::FAULT), result(got));
        let part = libc::iovec {
            iov_base: ptr::without_provenance_mut(BAD_ADDRESS),
            iov_len: 90,
        };
        // SAFETY: the list is one valid `iovec`; the kernel checks the address in it, and refuses
        // it.
        let got = unsafe { libc::writev(fd, &raw const part, 1) };
        tally.moved("writev", 90, Err(Errno::FAULT), result(got));
        // SAFETY: the kernel checks the address of the list, and refuses it.
        let got = unsafe { libc::writev(fd, ptr::without_provenance(BAD_ADDRESS), 1) };
        tally.moved("writev", None, Err(Errno::FAULT), result(got));
    }
}

/// The result of a call of the C library.
fn result(count: libc::ssize_t) -> std::result::Result<usize, Errno> {
    usize::try_from(count)
        .map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}
