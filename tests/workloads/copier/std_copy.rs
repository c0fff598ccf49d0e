//! The standard library's own copies.
//!
//! `std::io::copy` picks its system calls by the *types* of its ends, so they are passed as the types that a program would have.

use std::io::{self, Read};

use anyhow::{Result, bail};
use zc_tests::{Sink, Source, Spec};

use crate::job::Job;

/// `std::io::copy`; with a size, from a `Take` of the source.
pub(crate) fn io_copy(job: &Job) -> Result<u64> {
    let sink = job.to.open_sink();
    match job.from.open_source()? {
        Source::File(file) => limited(file, sink?, job.size),
        Source::Unix(stream) => limited(stream, sink?, job.size),
        Source::Tcp(stream) => limited(stream, sink?, job.size),
    }
    .map_err(job.failed("std::io::copy"))
}

/// Applies the size, if there is one.
fn limited(source: impl Read, sink: Sink, size: Option<u64>) -> io::Result<u64> {
    match size {
        None => into_sink(source, sink),
        Some(size) => into_sink(source.take(size), sink),
    }
}

/// Picks the type of the destination.
fn into_sink(mut source: impl Read, sink: Sink) -> io::Result<u64> {
    match sink {
        Sink::File(mut file) => io::copy(&mut source, &mut file),
        Sink::Unix(mut stream) => io::copy(&mut source, &mut stream),
        Sink::Tcp(mut stream) => io::copy(&mut source, &mut stream),
    }
}

/// `std::fs::copy`.
pub(crate) fn fs_copy(job: &Job) -> Result<u64> {
    match (&job.from, &job.to) {
        (Spec::Path(from), Spec::Path(to)) => std::fs::copy(from, to).map_err(job.failed("std::fs::copy")),
        _ => bail!("std::fs::copy copies from a path to a path"),
    }
}
