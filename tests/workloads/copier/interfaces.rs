//! Copies that make their system calls directly: inside the kernel, through a buffer, by `io_uring`.

use std::{
    io,
    os::fd::{AsFd, AsRawFd},
    ptr,
};

use anyhow::Result;
use io_uring::IoUring;
use zc_tests::ring::copy_by_ring;

use crate::job::CopyJob;

/// The most that one `sendfile` moves: `MAX_RW_COUNT` with pages of 4 KiB.
const MAX_CALL_BYTES: usize = 0x7fff_f000;

/// `libc::sendfile64`, both ends at their own positions.
pub(crate) fn libc_sendfile64(job: &mut CopyJob) -> Result<u64> {
    let (source, sink) = job.open()?;
    let (from, to) = (source.as_fd().as_raw_fd(), sink.as_fd().as_raw_fd());
    job.pump(
        "sendfile",
        job.asked.buffer.unwrap_or(MAX_CALL_BYTES),
        |ask| {
            // SAFETY: both descriptors are open for as long as this function runs; a null offset is
            // allowed.
            let count = unsafe { libc::sendfile64(to, from, ptr::null_mut(), ask) };
            usize::try_from(count).map_err(|_| io::Error::last_os_error())
        },
    )
}

/// nix's `sendfile64`, both ends at their own positions.
pub(crate) fn nix_sendfile64(job: &mut CopyJob) -> Result<u64> {
    let (source, sink) = job.open()?;
    job.pump(
        "sendfile",
        job.asked.buffer.unwrap_or(MAX_CALL_BYTES),
        |ask| nix::sys::sendfile::sendfile64(&sink, &source, None, ask).map_err(io::Error::from),
    )
}

/// The size of the buffer; `std::io::copy` uses the same.
const BUFFER: usize = 8 * 1024;

/// Reads into a buffer and writes from it, with the calls that std makes for each end
/// (`read`/`recvfrom`, `write`/`sendto`).
pub(crate) fn read_write(job: &mut CopyJob) -> Result<u64> {
    let (source, sink) = job.open()?;
    job.relay(source, sink, BUFFER)
}

/// Reads into a buffer and writes from it. Each read and write is one request to the ring, and the
/// copier waits for its completion.
pub(crate) fn io_uring(job: &mut CopyJob) -> Result<u64> {
    let (source, sink) = job.open()?;
    let mut ring = IoUring::new(1).map_err(job.failed("io_uring_setup"))?;
    let (from, to) = (source.as_fd().as_raw_fd(), sink.as_fd().as_raw_fd());
    copy_by_ring(&mut ring, from, to).map_err(job.failed("io_uring"))
}
