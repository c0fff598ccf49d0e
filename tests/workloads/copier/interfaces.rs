//! Copies that make their system calls directly: inside the kernel, through a buffer, from a
//! mapping, by `io_uring`.

use std::{
    cell::RefCell,
    io::{self, IoSlice, Read, Write},
    os::fd::{AsFd, AsRawFd, RawFd},
    ptr,
};

use anyhow::Result;
use io_uring::{IoUring, opcode, types::Fd};
use rustix::{
    fs::{SeekFrom, copy_file_range as rustix_copy_file_range, seek},
    pipe::{IoSliceRaw, SpliceFlags, fcntl_setpipe_size, pipe, splice},
};
use zc_tests::{complete, map_file};

use crate::{
    ends::Source,
    job::{Job, all_of},
};

/// The most that one `sendfile` or `copy_file_range` moves: `MAX_RW_COUNT` with pages of 4 KiB.
const MOST: usize = 0x7fff_f000;
/// How much a pipe holds by default.
const PIPE: usize = 64 * 1024;

/// `libc::sendfile64`, both ends at their own positions.
pub(crate) fn libc_sendfile64(job: &mut Job) -> Result<u64> {
    let (source, sink) = job.open()?;
    let (from, to) = (source.as_fd().as_raw_fd(), sink.as_fd().as_raw_fd());
    job.pump("sendfile", job.asked.buffer.unwrap_or(MOST), |ask| {
        // SAFETY: both descriptors are open for as long as this function runs; a null offset is
        // allowed.
        let count = unsafe { libc::sendfile64(to, from, ptr::null_mut(), ask) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    })
}

/// nix's `sendfile64`, both ends at their own positions.
pub(crate) fn nix_sendfile64(job: &mut Job) -> Result<u64> {
    let (source, sink) = job.open()?;
    job.pump("sendfile", job.asked.buffer.unwrap_or(MOST), |ask| {
        nix::sys::sendfile::sendfile64(&sink, &source, None, ask).map_err(io::Error::from)
    })
}

/// `copy_file_range`, both ends at their own positions.
pub(crate) fn copy_file_range(job: &mut Job) -> Result<u64> {
    let (source, sink) = job.open()?;
    job.pump("copy_file_range", job.asked.buffer.unwrap_or(MOST), |ask| {
        Ok(rustix_copy_file_range(&source, None, &sink, None, ask)?)
    })
}

/// One `splice` at the positions of both ends.
fn splice_once(from: impl AsFd, to: impl AsFd, ask: usize) -> io::Result<usize> {
    Ok(splice(from, None, to, None, ask, SpliceFlags::MOVE)?)
}

/// `splice` from the source into a pipe, and from the pipe to the destination, until the pipe is
/// empty again.
pub(crate) fn splice_pipe(job: &mut Job) -> Result<u64> {
    let (source, sink) = job.open()?;
    let (pipe_out, pipe_in) = wide_pipe(job)?;
    job.pump("splice", job.asked.buffer.unwrap_or(PIPE), |ask| {
        let count = splice_once(&source, &pipe_in, ask)?;
        all_of(count, |left| splice_once(&pipe_out, &sink, left))?;
        Ok(count)
    })
}

/// A pipe that holds as much as one call asks for.
fn wide_pipe(job: &Job) -> Result<(impl AsFd, impl AsFd)> {
    let (pipe_out, pipe_in) = pipe().map_err(|err| job.failed("pipe")(err.into()))?;
    if let Some(size) = job.asked.buffer.filter(|size| *size > PIPE) {
        fcntl_setpipe_size(&pipe_in, size)
            .map_err(|err| job.failed("fcntl(F_SETPIPE_SZ)")(err.into()))?;
    }
    Ok((pipe_out, pipe_in))
}

/// The size of the buffer; `std::io::copy` uses the same.
const BUFFER: usize = 8 * 1024;

/// Reads into a buffer and writes from it, with the calls that std makes for each end
/// (`read`/`recvfrom`, `write`/`sendto`).
pub(crate) fn read_write(job: &mut Job) -> Result<u64> {
    let (source, sink) = job.open()?;
    job.relay(source, sink, BUFFER)
}

/// The whole source in memory.
fn mapped(job: &Job, source: &Source) -> Result<&'static [u8]> {
    let end = seek(source.as_fd(), SeekFrom::End(0));
    let end = end.map_err(|err| job.failed("lseek")(err.into()))?;
    map_file(source, usize::try_from(end)?).map_err(job.failed("mmap"))
}

/// Writes the mapping with the call that std makes for the destination: all at once, or in pieces
/// of `--buffer`.
pub(crate) fn mmap_write(job: &mut Job) -> Result<u64> {
    let (source, mut sink) = job.open()?;
    let bytes = mapped(job, &source)?;
    for piece in bytes.chunks(job.asked.buffer.unwrap_or(usize::MAX)) {
        sink.write_all(piece).map_err(job.failed("write"))?;
    }
    Ok(bytes.len() as u64)
}

/// Puts the mapping's pages into a pipe with `vmsplice`, piece by piece, and splices them out of
/// it.
///
/// It uses a mapping, because these pages must not change until the other side has read them, so a
/// buffer could not be used again.
pub(crate) fn vmsplice(job: &mut Job) -> Result<u64> {
    let (source, sink) = job.open()?;
    let mut rest = mapped(job, &source)?;
    let (pipe_out, pipe_in) = wide_pipe(job)?;
    job.pump("vmsplice", job.asked.buffer.unwrap_or(PIPE), |ask| {
        let piece = IoSlice::new(&rest[..ask.min(rest.len())]);
        if piece.is_empty() {
            return Ok(0);
        }
        let pieces = [IoSliceRaw::from_slice(&piece)];
        // SAFETY: the pages are read-only and stay mapped.
        let count = unsafe { rustix::pipe::vmsplice(&pipe_in, &pieces, SpliceFlags::empty())? };
        all_of(count, |left| splice_once(&pipe_out, &sink, left))?;
        rest = &rest[count..];
        Ok(count)
    })
}

/// The size of a read through the ring.
const RING_BUFFER: usize = 64 * 1024;
/// The offset that means "at the file's own position". It also works for files without positions.
const HERE: u64 = u64::MAX;

/// Reads into a buffer and writes from it. Each read and write is one request to the ring, and the
/// copier waits for its completion.
pub(crate) fn io_uring(job: &mut Job) -> Result<u64> {
    let (source, sink) = job.open()?;
    let ring = RefCell::new(IoUring::new(1).map_err(job.failed("io_uring_setup"))?);
    let [from, to] = [source.as_fd(), sink.as_fd()].map(|fd| RingEnd {
        ring: &ring,
        fd: fd.as_raw_fd(),
    });
    job.relay(from, to, RING_BUFFER)
}

/// A descriptor that is read or written through the ring.
struct RingEnd<'a> {
    ring: &'a RefCell<IoUring>,
    fd: RawFd,
}

/// The length of a request, as much of it as fits. The rest is left for the next request.
fn length(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

impl Read for RingEnd<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let request = opcode::Read::new(Fd(self.fd), buffer.as_mut_ptr(), length(buffer.len()));
        // SAFETY: the buffer is borrowed until the request is complete.
        let read = unsafe { complete(&mut self.ring.borrow_mut(), &request.offset(HERE).build()) };
        read.map(|bytes| bytes as usize)
    }
}

impl Write for RingEnd<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let request = opcode::Write::new(Fd(self.fd), bytes.as_ptr(), length(bytes.len()));
        // SAFETY: the bytes are borrowed until the request is complete.
        let written =
            unsafe { complete(&mut self.ring.borrow_mut(), &request.offset(HERE).build()) };
        written.map(|bytes| bytes as usize)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
