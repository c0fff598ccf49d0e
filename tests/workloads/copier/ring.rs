//! `io_uring`, through the crate of that name.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};

use anyhow::Result;
use io_uring::squeue::Entry;
use io_uring::{IoUring, opcode, types::Fd};

use crate::job::Job;
use crate::user_memory::zeroed;

/// What one read asks for.
const BUFFER: usize = 64 * 1024;
/// "At the file's own position", which is also right for what has none.
const HERE: u64 = u64::MAX;

/// Reads into a buffer and writes it out, each as one request to the ring, which is waited for.
pub(crate) fn io_uring(job: &mut Job) -> Result<u64> {
    let (source, sink) = job.open()?;
    let ring = RefCell::new(IoUring::new(1).map_err(job.failed("io_uring_setup"))?);
    let (from, to) = (End { ring: &ring, fd: source.as_fd().as_raw_fd() }, End { ring: &ring, fd: sink.as_fd().as_raw_fd() });
    job.relay(from, to, &mut zeroed(job, BUFFER)?)
}

/// An open descriptor that is read or written through the ring.
struct End<'a> {
    ring: &'a RefCell<IoUring>,
    fd: RawFd,
}

impl End<'_> {
    /// Makes a request, and returns its result. Linux 6.1 cancels a request if a signal comes before it has begun; then it is made again.
    fn complete(&self, request: &Entry) -> io::Result<usize> {
        loop {
            match self.complete_once(request) {
                Err(error) if error.raw_os_error() == Some(libc::ECANCELED) => {}
                result => return result,
            }
        }
    }

    /// Makes a request once. The kernel waits also for a descriptor that does not block (tried: 6.18).
    fn complete_once(&self, request: &Entry) -> io::Result<usize> {
        let mut ring = self.ring.borrow_mut();
        // SAFETY: the memory that the request names is borrowed by `read` or `write` below, which return after the request's
        // completion; or, if it cannot be submitted, without there being one.
        unsafe { ring.submission().push(request) }.map_err(io::Error::other)?;
        loop {
            match ring.submit_and_wait(1) {
                Err(err) if err.kind() != io::ErrorKind::Interrupted => return Err(err),
                // A signal ends the waiting, not the request.
                _ => {}
            }
            if let Some(completion) = ring.completion().next() {
                return usize::try_from(completion.result()).map_err(|_| io::Error::from_raw_os_error(-completion.result()));
            }
        }
    }
}

/// What fits in the length of a request; the rest is for the next one.
fn length(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

impl Read for End<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let request = opcode::Read::new(Fd(self.fd), buffer.as_mut_ptr(), length(buffer.len())).offset(HERE).build();
        self.complete(&request)
    }
}

impl Write for End<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let request = opcode::Write::new(Fd(self.fd), bytes.as_ptr(), length(bytes.len())).offset(HERE).build();
        self.complete(&request)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
