//! Copies by libraries: the standard library's, and tokio's.
//!
//! `std::io::copy` chooses its system calls by the *types* of its ends. So the ends have the types
//! that they would have in a program, and can be in the wrappers that a program might use.

use std::{
    io::{self, BufRead, BufReader, BufWriter, Read, Write},
    os::fd::OwnedFd,
    pin::Pin,
};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use tokio::{
    fs::File,
    io::{AsyncRead, AsyncReadExt, AsyncWrite, copy},
    net::{TcpStream, UnixStream, unix::pipe},
    runtime::Builder,
};

use crate::{
    ends::{Sink, Source, Spec},
    job::Job,
};

/// A wrapper of std around an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wrapper {
    /// `BufReader` around the source.
    Bufreader,
    /// `Take` around the source.
    Take,
    /// `BufWriter` around the destination.
    Bufwriter,
    /// `&mut` of both.
    Mut,
    /// `dyn Read` and `dyn Write`.
    Dyn,
}

/// The wrappers to use. The generic functions below add them one by one.
struct Wrapping<'a> {
    wrappers: &'a [Wrapper],
    size: Option<u64>,
}

/// `std::io::copy`; with a size, from a `Take` of the source.
pub(crate) fn io_copy(job: &mut Job) -> Result<u64> {
    let wrappers = job.asked.wrap.clone();
    if wrappers.contains(&Wrapper::Dyn) && (wrappers.len() > 1 || job.size().is_some()) {
        bail!("--wrap dyn stands alone, and without --size");
    }
    let (source, sink) = job.open()?;
    let wrapping = Wrapping {
        wrappers: &wrappers,
        size: job.size(),
    };
    if wrapping.has(Wrapper::Dyn) {
        return io::copy(&mut *source.boxed(), &mut *sink.boxed())
            .map_err(job.failed("std::io::copy"));
    }
    match source {
        Source::File(file) => wrapping.buffer_source(file, sink),
        Source::Pipe(pipe) => wrapping.buffer_source(pipe, sink),
        Source::Unix(stream) => wrapping.buffer_source(stream, sink),
        Source::Tcp(stream) => wrapping.buffer_source(stream, sink),
    }
    .map_err(job.failed("std::io::copy"))
}

impl Wrapping<'_> {
    fn has(&self, wrapper: Wrapper) -> bool {
        self.wrappers.contains(&wrapper)
    }

    fn buffer_source(&self, source: impl Read, sink: Sink) -> io::Result<u64> {
        if self.has(Wrapper::Bufreader) {
            self.limit_source(BufReader::new(source), sink)
        } else {
            self.limit_source(source, sink)
        }
    }

    fn limit_source(&self, source: impl Read, sink: Sink) -> io::Result<u64> {
        match self.size {
            None if !self.has(Wrapper::Take) => self.pick_sink(source, sink),
            size => self.pick_sink(source.take(size.unwrap_or(u64::MAX)), sink),
        }
    }

    fn pick_sink(&self, source: impl Read, sink: Sink) -> io::Result<u64> {
        match sink {
            Sink::File(file) => self.buffer_sink(source, file),
            Sink::Pipe(pipe) => self.buffer_sink(source, pipe),
            Sink::Unix(stream) => self.buffer_sink(source, stream),
            Sink::Tcp(stream) => self.buffer_sink(source, stream),
        }
    }

    fn buffer_sink(&self, source: impl Read, sink: impl Write) -> io::Result<u64> {
        if self.has(Wrapper::Bufwriter) {
            self.copy(source, BufWriter::new(sink))
        } else {
            self.copy(source, sink)
        }
    }

    fn copy(&self, mut source: impl Read, mut sink: impl Write) -> io::Result<u64> {
        let count = if self.has(Wrapper::Mut) {
            io::copy(&mut &mut source, &mut &mut sink)?
        } else {
            io::copy(&mut source, &mut sink)?
        };
        sink.flush()?;
        Ok(count)
    }
}

/// `std::fs::copy`.
pub(crate) fn fs_copy(job: &mut Job) -> Result<u64> {
    let (Spec::Path(from), Spec::Path(to)) = (&job.asked.from, &job.asked.to) else {
        bail!("std::fs::copy copies from a path to a path");
    };
    job.begin()?;
    std::fs::copy(from, to).map_err(job.failed("std::fs::copy"))
}

/// Bytes in the destination's buffer before the copy.
const PENDING: usize = 4;
/// Bytes in the source's buffer before the copy, and bytes that are read from the file after that.
const BUFFERED: usize = 5;
const REST: usize = 5;

/// Copies the source's first 14 bytes: 4 are in a `BufWriter` already, 5 in a `BufReader`, and 5
/// are left in the file. `std::io::copy` lets the kernel copy those after it has emptied both
/// buffers.
pub(crate) fn std_buffered_copy(job: &mut Job) -> Result<u64> {
    let (Source::File(mut file), Sink::File(sink)) = job.open()? else {
        bail!("std-buffered-copy copies from file to file")
    };
    let mut pending = [0; PENDING];
    file.read_exact(&mut pending).map_err(job.failed("read"))?;
    let mut sink = BufWriter::with_capacity(BUFFERED, sink);
    sink.write_all(&pending).map_err(job.failed("write"))?;

    let mut source = BufReader::with_capacity(2 * PENDING, file.take(BUFFERED as u64));
    let buffered = source.fill_buf().map_err(job.failed("read"))?.len();
    // The outer limit ends the copy, not the inner one.
    source.get_mut().set_limit(REST as u64 + 1);
    let mut source = source.take((BUFFERED + REST) as u64);

    let copied = io::copy(&mut source, &mut sink).map_err(job.failed("std::io::copy"))?;
    sink.flush().map_err(job.failed("write"))?;
    if buffered != BUFFERED || source.limit() > 0 {
        bail!(
            "std-buffered-copy needs a source of at least {} bytes",
            PENDING + BUFFERED + REST
        );
    }
    usize::try_from(copied)
        .context("count")
        .map(|copied| (PENDING + copied) as u64)
}

/// `tokio::io::copy` on a current-thread runtime. As always in tokio, blocking threads read and
/// write files.
pub(crate) fn tokio_io_copy(job: &mut Job) -> Result<u64> {
    let (source, sink) = job.open()?;
    let runtime = Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(job.failed("start of the runtime"))?;
    let copying = async {
        let (mut reader, mut writer) = (reader(source)?, writer(sink)?);
        match job.size() {
            None => copy(&mut reader, &mut writer).await,
            Some(size) => copy(&mut reader.take(size), &mut writer).await,
        }
    };
    runtime
        .block_on(copying)
        .map_err(job.failed("tokio::io::copy"))
}

/// The source as a type of tokio.
fn reader(source: Source) -> io::Result<Pin<Box<dyn AsyncRead>>> {
    Ok(match source {
        Source::File(file) => Box::pin(File::from_std(file)),
        Source::Pipe(end) => Box::pin(pipe::Receiver::from_file(OwnedFd::from(end).into())?),
        Source::Unix(stream) => {
            stream.set_nonblocking(true)?;
            Box::pin(UnixStream::from_std(stream)?)
        }
        Source::Tcp(stream) => {
            stream.set_nonblocking(true)?;
            Box::pin(TcpStream::from_std(stream)?)
        }
    })
}

/// The destination as a type of tokio.
fn writer(sink: Sink) -> io::Result<Pin<Box<dyn AsyncWrite>>> {
    Ok(match sink {
        Sink::File(file) => Box::pin(File::from_std(file)),
        Sink::Pipe(end) => Box::pin(pipe::Sender::from_file(OwnedFd::from(end).into())?),
        Sink::Unix(stream) => {
            stream.set_nonblocking(true)?;
            Box::pin(UnixStream::from_std(stream)?)
        }
        Sink::Tcp(stream) => {
            stream.set_nonblocking(true)?;
            Box::pin(TcpStream::from_std(stream)?)
        }
    })
}
