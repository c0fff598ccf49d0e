//! The standard library's own copies.
//!
//! `std::io::copy` picks its system calls by the *types* of its ends, so they are passed as the types that a program would have, and
//! inside the wrappers that it might have around them.

use std::io::{self, BufReader, BufWriter, Read, Write};

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::ends::{Sink, Source, Spec};
use crate::job::Job;

/// Something of std around an end.
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

/// Which wrappers there are; the generic functions below add them one by one.
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
    let wrapping = Wrapping { wrappers: &wrappers, size: job.size() };
    if wrapping.has(Wrapper::Dyn) {
        return io::copy(&mut *source.boxed(), &mut *sink.boxed()).map_err(job.failed("std::io::copy"));
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
        if self.has(Wrapper::Bufwriter) { self.copy(source, BufWriter::new(sink)) } else { self.copy(source, sink) }
    }

    fn copy(&self, mut source: impl Read, mut sink: impl Write) -> io::Result<u64> {
        let count =
            if self.has(Wrapper::Mut) { io::copy(&mut &mut source, &mut &mut sink)? } else { io::copy(&mut source, &mut sink)? };
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
