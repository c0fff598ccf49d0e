//! What is to be copied, and what all copying loops share.

use std::io::{self, ErrorKind};

use anyhow::{Context, Result, bail};
use zc_tests::{Remaining, Spec, named};

/// One copy to do.
pub(crate) struct Job {
    /// Where the bytes come from.
    pub(crate) from: Spec,
    /// Where they go.
    pub(crate) to: Spec,
    /// What one call asks for, if the command line says.
    pub(crate) buffer: Option<usize>,
    /// Where to stop, if not at the end of the source.
    pub(crate) size: Option<u64>,
}

impl Job {
    /// Checks what the command line gave.
    pub(crate) fn new(from: Option<Spec>, to: Option<Spec>, buffer: Option<u64>, size: Option<u64>) -> Result<Self> {
        if buffer == Some(0) {
            bail!("--buffer must be at least 1");
        }
        Ok(Self {
            from: from.context("--from SPEC is missing")?,
            to: to.context("--to SPEC is missing")?,
            buffer: buffer.map(usize::try_from).transpose().context("--buffer")?,
            size,
        })
    }

    /// The bytes still to be moved, before any are.
    pub(crate) fn remaining(&self) -> Remaining {
        Remaining::new(self.size)
    }

    /// Makes the error of one call name the call and both ends: `sendfile in -> unix:x: EINVAL: Invalid argument`.
    pub(crate) fn failed(&self, call: &str) -> impl Fn(io::Error) -> anyhow::Error {
        let context = format!("{call} {} -> {}", self.from, self.to);
        move |err| named(err).context(context.clone())
    }

    /// Repeats `step`, which is told how much to move and moves some of it, until the source ends or the size is reached.
    pub(crate) fn pump(&self, call: &str, chunk: usize, mut step: impl FnMut(usize) -> io::Result<usize>) -> Result<u64> {
        let mut remaining = self.remaining();
        let mut total = 0;
        loop {
            let ask = remaining.ask(chunk);
            let count = if ask == 0 { 0 } else { retry(|| step(ask)).map_err(self.failed(call))? };
            if count == 0 {
                return Ok(total);
            }
            remaining.moved(count);
            total += count as u64;
        }
    }
}

/// Repeats a call as long as a signal interrupts it.
pub(crate) fn retry(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(err) if err.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Repeats `write`, which is given what is left of `count` bytes and takes some, until nothing is left.
pub(crate) fn all_of(count: usize, mut write: impl FnMut(usize) -> io::Result<usize>) -> io::Result<()> {
    let mut left = count;
    while left > 0 {
        match retry(|| write(left))? {
            0 => return Err(ErrorKind::WriteZero.into()),
            taken => left -= taken,
        }
    }
    Ok(())
}
