//! The loop that everybody writes: through a buffer of the program's own.

use anyhow::Result;

use crate::job::Job;

/// The buffer that `std::io::copy` uses as well.
const BUFFER: usize = 8 * 1024;

/// Reads into a buffer and writes it out, with the calls that std makes for either end (`read`/`recvfrom`, `write`/`sendto`).
pub(crate) fn read_write(job: &mut Job) -> Result<u64> {
    let (source, sink) = job.open()?;
    job.relay(source, sink, &mut vec![0; job.buffer().unwrap_or(BUFFER)])
}
