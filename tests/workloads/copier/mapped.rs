//! Copies out of a mapping of the source.

use std::ffi::c_void;
use std::io::{IoSlice, Write};
use std::os::fd::AsFd;
use std::{ptr, slice};

use anyhow::Result;
use rustix::fs::{SeekFrom, seek};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::pipe::{IoSliceRaw, SpliceFlags, splice};

use crate::ends::Source;
use crate::in_kernel::{PIPE, wide_pipe};
use crate::job::{Job, all_of, retry};

/// A file in memory, read-only and private.
struct Mapping {
    address: *mut c_void,
    len: usize,
    /// Where the copy begins: at the file's position.
    start: usize,
}

impl Mapping {
    /// Maps the job's source from its position on, up to the job's size; an empty one, which cannot be mapped, is an empty slice.
    fn new(job: &Job, source: &Source) -> Result<Self> {
        let seek_to = |position| seek(source.as_fd(), position).map_err(|err| job.failed("lseek")(err.into()));
        let (start, end) = (seek_to(SeekFrom::Current(0))?, seek_to(SeekFrom::End(0))?);
        let end = job.size().map_or(end, |size| end.min(start.saturating_add(size)));
        let (start, len) = (usize::try_from(start)?, usize::try_from(end)?);
        if len <= start {
            return Ok(Self { address: ptr::dangling_mut(), len: 0, start: 0 });
        }
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
        let address = unsafe { mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::PRIVATE, source, 0) };
        Ok(Self { address: address.map_err(|err| job.failed("mmap")(err.into()))?, len, start })
    }

    /// The bytes to copy.
    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has `len` readable bytes and lives as long as `self`. Workload files do not change meanwhile;
        // one that shrinks ends the program with SIGBUS.
        let bytes: &[u8] = unsafe { slice::from_raw_parts(self.address.cast(), self.len) };
        &bytes[self.start..]
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
pub(crate) fn mmap_write(job: &mut Job) -> Result<u64> {
    let (source, mut sink) = job.open()?;
    let mapping = Mapping::new(job, &source)?;
    for piece in mapping.bytes().chunks(job.buffer().unwrap_or(usize::MAX)) {
        sink.write_all(piece).map_err(job.failed("write"))?;
    }
    Ok(mapping.bytes().len() as u64)
}

/// Lends the mapping's pages to a pipe, piece by piece, and splices them out of it.
///
/// A mapping, because pages that were lent must not change until the other side has read them: a buffer could not be used again.
pub(crate) fn vmsplice(job: &mut Job) -> Result<u64> {
    let (source, sink) = job.open()?;
    let mapping = Mapping::new(job, &source)?;
    let (pipe_out, pipe_in) = wide_pipe(job)?;
    let chunk = job.buffer().unwrap_or(PIPE);
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
    Ok(mapping.bytes().len() as u64)
}
