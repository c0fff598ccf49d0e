//! The loop that everybody writes: through a buffer of the program's own.

use std::alloc::{Layout, alloc_zeroed};
use std::ptr::{self, NonNull};

use anyhow::Result;
use rustix::io::Errno;

use crate::job::Job;

/// The buffer that `std::io::copy` uses as well.
const BUFFER: usize = 8 * 1024;

/// Reads into a buffer and writes it out, with the calls that std makes for either end (`read`/`recvfrom`, `write`/`sendto`).
pub(crate) fn read_write(job: &mut Job) -> Result<u64> {
    let (source, sink) = job.open()?;
    job.relay(source, sink, &mut zeroed(job, BUFFER)?)
}

/// A buffer of the job's size, or of `default` bytes. Of a size that cannot be had, it says so; `vec!` would end the program.
pub(crate) fn zeroed(job: &Job, default: usize) -> Result<Box<[u8]>> {
    let size = job.buffer().unwrap_or(default);
    let no_memory = || job.failed("malloc")(Errno::NOMEM.into());
    let layout = Layout::array::<u8>(size).map_err(|_| no_memory())?;
    // SAFETY: the size is at least 1: the command line takes no other, and no case has another default.
    let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(no_memory)?;
    // SAFETY: so many bytes were just allocated for it by the global allocator, with that layout, and all are zero.
    Ok(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(start.as_ptr(), size)) })
}
