//! Copies that leave the bytes in the kernel.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use anyhow::Result;
use rustix::fs::copy_file_range as rustix_copy_file_range;
use rustix::pipe::{SpliceFlags, fcntl_setpipe_size, pipe, splice};

use crate::job::{Job, all_of, retry};

/// The most that one `sendfile` or `copy_file_range` moves: `MAX_RW_COUNT` with pages of 4 KiB.
const MOST: usize = 0x7fff_f000;
/// What a pipe holds unless it is widened.
pub(crate) const PIPE: usize = 64 * 1024;

/// `libc::sendfile64`, both ends at their own positions.
pub(crate) fn libc_sendfile64(job: &mut Job) -> Result<u64> {
    let (source, sink) = job.open()?;
    let (from, to) = (source.as_fd().as_raw_fd(), sink.as_fd().as_raw_fd());
    job.pump("sendfile", job.buffer().unwrap_or(MOST), |ask| {
        // SAFETY: both descriptors are open for as long as this function runs; a null offset is allowed.
        let count = unsafe { libc::sendfile64(to, from, ptr::null_mut(), ask) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    })
}

/// nix's `sendfile64`, both ends at their own positions.
pub(crate) fn nix_sendfile64(job: &mut Job) -> Result<u64> {
    let (source, sink) = job.open()?;
    job.pump("sendfile", job.buffer().unwrap_or(MOST), |ask| {
        nix::sys::sendfile::sendfile64(&sink, &source, None, ask).map_err(io::Error::from)
    })
}

/// `copy_file_range`, both ends at their own positions.
pub(crate) fn copy_file_range(job: &mut Job) -> Result<u64> {
    let (source, sink) = job.open()?;
    job.pump("copy_file_range", job.buffer().unwrap_or(MOST), |ask| Ok(rustix_copy_file_range(&source, None, &sink, None, ask)?))
}

/// `splice` from the source into a pipe, and from the pipe to the destination, until the pipe is empty again.
pub(crate) fn splice_pipe(job: &mut Job) -> Result<u64> {
    let (source, sink) = job.open()?;
    let (pipe_out, pipe_in) = wide_pipe(job)?;
    job.pump("splice", job.buffer().unwrap_or(PIPE), |ask| {
        let count = retry(|| Ok(splice(&source, None, &pipe_in, None, ask, SpliceFlags::MOVE)?))?;
        all_of(count, |left| Ok(splice(&pipe_out, None, &sink, None, left, SpliceFlags::MOVE)?))?;
        Ok(count)
    })
}

/// A pipe that holds what one call asks for.
pub(crate) fn wide_pipe(job: &Job) -> Result<(impl AsFd, impl AsFd)> {
    let (pipe_out, pipe_in) = pipe().map_err(|err| job.failed("pipe")(err.into()))?;
    if let Some(size) = job.buffer().filter(|size| *size > PIPE) {
        fcntl_setpipe_size(&pipe_in, size).map_err(|err| job.failed("fcntl(F_SETPIPE_SZ)")(err.into()))?;
    }
    Ok((pipe_out, pipe_in))
}
