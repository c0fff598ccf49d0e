//! A copy from opening its ends to its last line.

use std::{
    io::{self, Read, Write},
    process::Child,
};

use anyhow::{Error, Result};

use crate::{
    arguments::CopyArguments,
    ends::{CopySink, CopySource, finish_helper, open_sink, open_source},
};

/// One copy to do.
pub(crate) struct CopyJob {
    /// The request of the command line.
    pub(crate) asked: CopyArguments,
    /// The processes at the other ends of pipes.
    helpers: Vec<Child>,
}

impl CopyJob {
    /// The copy that the command line asks for.
    pub(crate) fn new(asked: CopyArguments) -> Self {
        Self {
            asked,
            helpers: Vec::new(),
        }
    }

    /// Opens both ends. The destination is opened second, so that a missing source does not change
    /// it.
    pub(crate) fn open(&mut self) -> Result<(CopySource, CopySink)> {
        let Self { asked, helpers } = self;
        let source = open_source(&asked.from, helpers)?;
        Ok((source, open_sink(&asked.to, asked.append, helpers)?))
    }

    /// Adds the call and both ends to an error: `sendfile in -> unix:x: Invalid argument`.
    /// The message is formatted only if there is an error, because this is called in loops that are
    /// measured.
    pub(crate) fn failed(&self, call: &str) -> impl Fn(io::Error) -> Error {
        let CopyArguments { from, to, .. } = &self.asked;
        move |err| Error::new(err).context(format!("{call} {from} -> {to}"))
    }

    /// Repeats `step`, which gets a number of bytes and moves at most that many, until the source
    /// ends. Returns how many bytes it moved.
    pub(crate) fn pump(
        &self,
        call: &str,
        chunk: usize,
        mut step: impl FnMut(usize) -> io::Result<usize>,
    ) -> Result<u64> {
        let mut total = 0;
        loop {
            let count = step(chunk).map_err(self.failed(call))?;
            if count == 0 {
                return Ok(total);
            }
            total += count as u64;
        }
    }

    /// Copies through one buffer, of `--buffer` or so many bytes, until the source ends.
    pub(crate) fn relay(
        &self,
        mut source: impl Read,
        mut sink: impl Write,
        size: usize,
    ) -> Result<u64> {
        let mut buffer = vec![0; self.asked.buffer.unwrap_or(size)];
        self.pump("read and write", buffer.len(), |_| {
            let count = source.read(&mut buffer)?;
            sink.write_all(&buffer[..count])?;
            Ok(count)
        })
    }

    /// Waits for the processes at the other ends.
    pub(crate) fn finish(self) -> Result<()> {
        self.helpers.into_iter().try_for_each(finish_helper)
    }
}
