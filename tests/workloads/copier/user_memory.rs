//! The loop that everybody writes: through a buffer of the program's own.

use std::io::{Read, Write};

use anyhow::Result;

use crate::job::{Job, retry};

/// The buffer that `std::io::copy` uses as well.
const BUFFER: usize = 8 * 1024;

/// Reads into a buffer and writes it out, with the calls that std makes for either end (`read`/`recvfrom`, `write`/`sendto`).
pub(crate) fn read_write(job: &Job) -> Result<u64> {
    let (mut source, mut sink) = (job.from.open_source()?, job.to.open_sink()?);
    let mut buffer = vec![0; job.buffer.unwrap_or(BUFFER)];
    let mut remaining = job.remaining();
    let mut total = 0;
    loop {
        let ask = remaining.ask(buffer.len());
        let count = if ask == 0 { 0 } else { retry(|| source.read(&mut buffer[..ask])).map_err(job.failed("read"))? };
        if count == 0 {
            return Ok(total);
        }
        sink.write_all(&buffer[..count]).map_err(job.failed("write"))?;
        remaining.moved(count);
        total += count as u64;
    }
}
