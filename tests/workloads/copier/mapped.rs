//! Copies out of a mapping of the source.

use std::ffi::c_void;
use std::io::{IoSlice, Write};
use std::os::fd::AsFd;
use std::{ptr, slice};

use anyhow::Result;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::pipe::{IoSliceRaw, SpliceFlags, splice};
use zc_tests::Source;

use crate::in_kernel::{PIPE, wide_pipe};
use crate::job::{Job, all_of, retry};

/// A whole file in memory, read-only and private.
struct Mapping {
    address: *mut c_void,
    len: usize,
}

impl Mapping {
    /// Maps the file, or its first `limit` bytes; an empty one, which cannot be mapped, is an empty slice.
    fn new(source: &Source, limit: Option<u64>) -> Result<Self, Errno> {
        let len = seek(source.as_fd(), SeekFrom::End(0))?.min(limit.unwrap_or(u64::MAX));
        let len = usize::try_from(len).map_err(|_| Errno::OVERFLOW)?;
        if len == 0 {
            return Ok(Self { address: ptr::dangling_mut(), len });
        }
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
        let address = unsafe { mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::PRIVATE, source, 0)? };
        Ok(Self { address, len })
    }

    /// The file's bytes.
    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has `len` readable bytes and lives as long as `self`. Workload files do not change meanwhile;
        // one that shrinks ends the program with SIGBUS.
        unsafe { slice::from_raw_parts(self.address.cast(), self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the range was mapped by `new`, and no borrow of it outlives `self`. There is no remedy for an error.
            let _ = unsafe { munmap(self.address, self.len) };
        }
    }
}

/// Writes the mapping, with the call that std makes for the destination: all at once, or in pieces of `--buffer`.
pub(crate) fn mmap_write(job: &Job) -> Result<u64> {
    let (source, mut sink) = (job.from.open_source()?, job.to.open_sink()?);
    let mapping = Mapping::new(&source, job.size).map_err(|err| job.failed("mmap")(err.into()))?;
    for piece in mapping.bytes().chunks(job.buffer.unwrap_or(usize::MAX)) {
        sink.write_all(piece).map_err(job.failed("write"))?;
    }
    Ok(mapping.len as u64)
}

/// Lends the mapping's pages to a pipe, piece by piece, and splices them out of it.
///
/// A mapping, because pages that were lent must not change until the other side has read them: a buffer could not be used again.
pub(crate) fn vmsplice(job: &Job) -> Result<u64> {
    let (source, sink) = (job.from.open_source()?, job.to.open_sink()?);
    let mapping = Mapping::new(&source, job.size).map_err(|err| job.failed("mmap")(err.into()))?;
    let (pipe_out, pipe_in) = wide_pipe(job)?;
    let chunk = job.buffer.unwrap_or(PIPE);
    let mut rest = mapping.bytes();
    while !rest.is_empty() {
        let piece = IoSlice::new(&rest[..chunk.min(rest.len())]);
        let pieces = [IoSliceRaw::from_slice(&piece)];
        // SAFETY: the pages are read-only and stay mapped until the pipe is drained, below.
        let lend = || Ok(unsafe { rustix::pipe::vmsplice(&pipe_in, &pieces, SpliceFlags::empty())? });
        let count = retry(lend).map_err(job.failed("vmsplice"))?;
        all_of(count, |left| Ok(splice(&pipe_out, None, &sink, None, left, SpliceFlags::MOVE)?)).map_err(job.failed("splice"))?;
        rest = &rest[count..];
    }
    Ok(mapping.len as u64)
}
