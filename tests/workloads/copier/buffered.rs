//! `std::io::copy` between buffers that are not empty: the situation with which the standard library tests its own.

use std::io::{BufRead, BufReader, BufWriter, Read, Write};

use anyhow::{Context, Result, bail};

use crate::ends::{Sink, Source};
use crate::job::Job;

/// What the destination's buffer holds before the copy.
const PENDING: usize = 4;
/// What the source's buffer holds before the copy, and what the file is still to give after that.
const BUFFERED: usize = 5;
const REST: usize = 5;

/// Copies the source's first 14 bytes: 4 wait in a `BufWriter` already, 5 in a `BufReader`, and 5 are left in the file for
/// `std::io::copy` to have copied by the kernel, once it has emptied both buffers.
pub(crate) fn std_buffered_copy(job: &mut Job) -> Result<u64> {
    let (Source::File(mut file), Sink::File(sink)) = job.open()? else { bail!("std-buffered-copy copies from file to file") };
    let mut pending = [0; PENDING];
    file.read_exact(&mut pending).map_err(job.failed("read"))?;
    let mut sink = BufWriter::with_capacity(BUFFERED, sink);
    sink.write_all(&pending).map_err(job.failed("write"))?;

    let mut source = BufReader::with_capacity(2 * PENDING, file.take(BUFFERED as u64));
    let buffered = source.fill_buf().map_err(job.failed("read"))?.len();
    // The inner limit is not what ends the copy.
    source.get_mut().set_limit(REST as u64 + 1);
    let mut source = source.take((BUFFERED + REST) as u64);

    let copied = std::io::copy(&mut source, &mut sink).map_err(job.failed("std::io::copy"))?;
    sink.flush().map_err(job.failed("write"))?;
    if buffered != BUFFERED || source.limit() > 0 {
        bail!("std-buffered-copy needs a source of at least {} bytes", PENDING + BUFFERED + REST);
    }
    usize::try_from(copied).context("count").map(|copied| (PENDING + copied) as u64)
}
