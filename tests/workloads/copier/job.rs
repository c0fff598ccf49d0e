//! A copy from opening its ends to its last line: how much is left to copy, signals that interrupt
//! it, checksums.

use std::{
    fs::File,
    io::{self, ErrorKind, Read, Write},
    os::fd::{AsFd, AsRawFd},
    ptr,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use anyhow::{Context, Error, Result, anyhow, bail};
use libc::{ITIMER_REAL, c_int, itimerval, suseconds_t, time_t, timeval};
use nix::{
    errno::Errno,
    sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction},
};
use zc_tests::named;

use crate::{
    arguments::CopyArguments,
    checksum::{Moved, Stored},
    ends::{Helper, Sink, SinkOptions, Source, Spec, open_sink, open_source},
};

/// One copy to do.
pub(crate) struct Job {
    /// The request of the command line.
    pub(crate) asked: CopyArguments,
    /// Where the bytes can be read again for the checksum, if it was requested and they can be.
    stored_source: Option<Stored>,
    stored_sink: Option<Stored>,
    /// The processes at the other ends of pipes.
    feeder: Option<Helper>,
    drainer: Option<Helper>,
    /// A destination in memory, which would be freed with its last descriptor.
    memory: Option<File>,
}

impl Job {
    /// Checks the request of the command line.
    pub(crate) fn new(asked: CopyArguments) -> Result<Self> {
        asked.from.check_source()?;
        asked.to.check_destination(asked.append)?;
        refuse_same_file(&asked)?;
        let mut job = Self {
            asked,
            stored_source: None,
            stored_sink: None,
            feeder: None,
            drainer: None,
            memory: None,
        };
        if job.asked.checksum {
            job.stored_source = Stored::of_source(&job.asked.from)?;
            job.stored_sink = Stored::of_sink(&job.asked.to, job.asked.append)?;
            let is_told = matches!(job.asked.to, Spec::Pipe(_) | Spec::Memfd(_));
            let CopyArguments { from, to, .. } = &job.asked;
            if job.stored_source.is_none() && job.stored_sink.is_none() && !is_told {
                bail!("--checksum: neither {from} nor {to} can be read again; ask the other side");
            }
        }
        Ok(job)
    }

    /// The size that one call asks for, if the command line sets it.
    pub(crate) fn buffer(&self) -> Option<usize> {
        self.asked.buffer
    }

    /// After how many bytes to stop, if not at the end of the source.
    pub(crate) fn size(&self) -> Option<u64> {
        self.asked.size
    }

    /// Opens both ends. The destination is opened second, so that a missing source does not change
    /// it.
    pub(crate) fn open(&mut self) -> Result<(Source, Sink)> {
        let asked = &self.asked;
        let source;
        (source, self.feeder) = open_source(&asked.from)?;
        let options = SinkOptions {
            append: asked.append,
            send_buffer: asked.send_buffer,
            checksum: asked.checksum,
        };
        let sink;
        (sink, self.drainer) = open_sink(&asked.to, options)?;
        if let (Spec::Memfd(_), true, Sink::File(memory)) = (&asked.to, asked.checksum, &sink) {
            self.memory = Some(memory.try_clone().map_err(named)?);
        }
        self.begin()?;
        Ok((source, sink))
    }

    /// Starts the signals, if they were requested. This is the last step before the copy.
    pub(crate) fn begin(&self) -> Result<()> {
        self.asked
            .interrupt_every
            .map_or(Ok(()), start_interrupting)
    }

    /// How many bytes are left before the copy.
    fn remaining(&self) -> Remaining {
        Remaining::new(self.size())
    }

    /// Adds the call and both ends to an error: `sendfile in -> unix:x: EINVAL: Invalid argument`.
    /// The message is formatted only if there is an error, because this is called in loops that are
    /// measured.
    pub(crate) fn failed(&self, call: &str) -> impl Fn(io::Error) -> Error {
        let CopyArguments { from, to, .. } = &self.asked;
        move |err| named(err).context(format!("{call} {from} -> {to}"))
    }

    /// Repeats `step`, which gets a number of bytes and moves at most that many, until the source
    /// ends or the size is reached.
    pub(crate) fn pump(
        &self,
        call: &str,
        chunk: usize,
        mut step: impl FnMut(usize) -> io::Result<usize>,
    ) -> Result<u64> {
        let mut remaining = self.remaining();
        let mut total = 0;
        loop {
            let ask = remaining.ask(chunk);
            let count = if ask == 0 {
                0
            } else {
                retry(|| step(ask)).map_err(self.failed(call))?
            };
            if count == 0 {
                return Ok(total);
            }
            remaining.moved(count);
            total += count as u64;
        }
    }

    /// Copies through the buffer until the source ends or the size is reached.
    pub(crate) fn relay(
        &self,
        mut source: impl Read,
        mut sink: impl Write,
        buffer: &mut [u8],
    ) -> Result<u64> {
        let mut remaining = self.remaining();
        let mut total = 0;
        loop {
            let ask = remaining.ask(buffer.len());
            let count = if ask == 0 {
                0
            } else {
                retry(|| source.read(&mut buffer[..ask])).map_err(self.failed("read"))?
            };
            if count == 0 {
                return Ok(total);
            }
            sink.write_all(&buffer[..count])
                .map_err(self.failed("write"))?;
            remaining.moved(count);
            total += count as u64;
        }
    }

    /// The error of a copy, together with that of the process at a pipe's other end: if that
    /// failed, this side only saw EPIPE.
    pub(crate) fn explained(mut self, err: Error) -> Error {
        let drainer = self
            .drainer
            .take()
            .filter(|_| err.root_cause().downcast_ref() == Some(&Errno::EPIPE));
        match drainer.map(Helper::finish) {
            Some(Err(why)) => anyhow!("{err:#}; {why:#}"),
            _ => err,
        }
    }

    /// Checks a copy of `count` bytes, and returns the last line to print.
    pub(crate) fn finish(mut self, count: u64) -> Result<String> {
        let mut said = vec![format!("copied {count} bytes")];
        if let Some(signals) = stop_interrupting(self.asked.interrupt_every)? {
            said.push(format!("{signals} signals"));
        }
        let CopyArguments { from, to, .. } = &self.asked;
        if let Some(feeder) = self.feeder.take() {
            feeder.finish().with_context(|| format!("feed {from}"))?;
        }
        let drained = self.drainer.take().map(Helper::finish).transpose();
        let drained = drained.with_context(|| format!("drain {to}"))?;
        if let Some(Moved { bytes, .. }) = drained.filter(|drained| drained.bytes != count) {
            bail!("copied {count} bytes, but {bytes} came out of {to}");
        }
        if self.asked.checksum {
            said.push(self.checksum(count, drained)?);
        }
        Ok(said.join(", "))
    }

    /// The checksums of both ends, which are read again as far as possible.
    fn checksum(&self, count: u64, drained: Option<Moved>) -> Result<String> {
        let memory = self
            .memory
            .as_ref()
            .map(|memory| memory.as_fd().as_raw_fd());
        let memory = memory.map(|memory| Stored::descriptor(memory, 0));
        let sum = |stored: Option<&Stored>| stored.map(|stored| stored.crc32(count)).transpose();
        let source = sum(self.stored_source.as_ref())?;
        let sink = sum(self.stored_sink.as_ref().or(memory.as_ref()))?;
        match (source, sink.or(drained.and_then(|drained| drained.crc32))) {
            (Some(source), Some(sink)) if source != sink => {
                let CopyArguments { from, to, .. } = &self.asked;
                bail!("{from} has crc32 {source:08x}, but {to} has {sink:08x}")
            }
            (Some(crc32), Some(_)) => Ok(format!("crc32 {crc32:08x} of both ends")),
            (Some(crc32), None) => Ok(format!("crc32 {crc32:08x} of the source")),
            (None, Some(crc32)) => Ok(format!("crc32 {crc32:08x} of the destination")),
            (None, None) => bail!("neither end could be read again"),
        }
    }
}

/// Refuses to copy a file onto itself, also through a pipe or memory: that would empty the file or
/// never end. Nothing is open yet.
fn refuse_same_file(asked: &CopyArguments) -> Result<()> {
    let CopyArguments { from, to, .. } = asked;
    let file = from.regular_file(io::stdin());
    if file.is_some() && file == to.regular_file(io::stdout()) {
        bail!("{to} is the source already; name another destination");
    }
    Ok(())
}

/// Repeats a call as long as a signal interrupts it.
pub(crate) fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(err) if err.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Repeats `write`, which gets the number of bytes left and moves at most that many, until none of
/// the `count` bytes is left.
pub(crate) fn all_of(
    count: usize,
    mut write: impl FnMut(usize) -> io::Result<usize>,
) -> io::Result<()> {
    let mut left = count;
    while left > 0 {
        match retry(|| write(left))? {
            0 => return Err(ErrorKind::WriteZero.into()),
            taken => left -= taken,
        }
    }
    Ok(())
}

/// The bytes that a copy may still move: a limit, or everything up to the end of the source.
#[derive(Clone, Copy, Debug)]
struct Remaining(Option<u64>);

impl Remaining {
    /// At most `limit` bytes, or all bytes of the source.
    fn new(limit: Option<u64>) -> Self {
        Self(limit)
    }

    /// The size that the next call should ask for: at most `chunk`; 0 once the limit is reached.
    fn ask(self, chunk: usize) -> usize {
        self.0.map_or(chunk, |left| {
            usize::try_from(left).unwrap_or(usize::MAX).min(chunk)
        })
    }

    /// Subtracts the bytes that a call moved.
    fn moved(&mut self, count: usize) {
        self.0 = self.0.map(|left| left.saturating_sub(count as u64));
    }
}

/// How many signals have come.
static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count_signal(_signal: c_int) {
    SIGNALS.fetch_add(1, Relaxed);
}

/// Starts a timer that sends `SIGALRM` at this interval. Its handler does not restart the calls
/// that it interrupts.
fn start_interrupting(every: Duration) -> Result<()> {
    let handler = SigHandler::Handler(count_signal);
    let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler does nothing but add to an atomic.
    unsafe { sigaction(Signal::SIGALRM, &action) }.context("sigaction")?;
    set_timer(every)
}

/// Stops the timer. Returns how many signals came, if there was a timer.
fn stop_interrupting(every: Option<Duration>) -> Result<Option<u64>> {
    let stop = |_| set_timer(Duration::ZERO).map(|()| SIGNALS.load(Relaxed));
    every.map(stop).transpose()
}

/// Sets the timer; zero stops it.
fn set_timer(every: Duration) -> Result<()> {
    let seconds = time_t::try_from(every.as_secs()).context("--interrupt-every")?;
    let interval = timeval {
        tv_sec: seconds,
        tv_usec: suseconds_t::from(every.subsec_micros()),
    };
    let timer = itimerval {
        it_interval: interval,
        it_value: interval,
    };
    // SAFETY: the kernel reads one valid structure, and a null pointer asks for no old value.
    Errno::result(unsafe { libc::setitimer(ITIMER_REAL, &raw const timer, ptr::null_mut()) })
        .context("setitimer")?;
    Ok(())
}
