//! Copies by libraries: the standard library's, and tokio's.
//!
//! `std::io::copy` chooses its system calls by the *types* of its ends. So the ends have the types
//! that they would have in a program, and files can be in the wrappers that a program might use.

use std::{
    io::{self, BufRead, BufReader, BufWriter, Read, Write},
    os::fd::OwnedFd,
    pin::Pin,
};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use tokio::{
    fs::File,
    io::{AsyncWrite, copy},
    net::{TcpStream, UnixStream, unix::pipe},
    runtime::Builder,
};

use crate::{
    ends::{CopySink, CopySource, EndSpec},
    job::CopyJob,
};

/// The wrappers of std around a file to copy from and one to copy to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wrapper {
    /// `BufReader` around the source.
    Bufreader,
    /// `BufWriter` around the destination.
    Bufwriter,
    /// Both.
    #[value(name = "bufreader,bufwriter")]
    BufreaderBufwriter,
    /// `Take` around the source.
    Take,
    /// `&mut` of both.
    Mut,
    /// `dyn Read` and `dyn Write`.
    Dyn,
}

/// `std::io::copy`; with a size, from a `Take` of the source.
pub(crate) fn io_copy(job: &mut CopyJob) -> Result<u64> {
    let ends = job.open()?;
    let copied = match (job.asked.wrap, job.asked.size, ends) {
        (Some(wrapper), _, (CopySource::File(source), CopySink::File(sink))) => {
            wrapped_copy(wrapper, source, sink)
        }
        (Some(_), ..) => bail!("--wrap wraps a file to copy from and a file to copy to"),
        (None, Some(size), (CopySource::File(source), sink)) => {
            copy_to(&mut source.take(size), sink)
        }
        (None, Some(_), _) => bail!("--size limits what is copied from a file"),
        (None, None, (source, sink)) => match source {
            CopySource::File(mut file) => copy_to(&mut file, sink),
            CopySource::Pipe(mut pipe) => copy_to(&mut pipe, sink),
            CopySource::Unix(mut stream) => copy_to(&mut stream, sink),
            CopySource::Tcp(mut stream) => copy_to(&mut stream, sink),
        },
    };
    copied.map_err(job.failed("std::io::copy"))
}

fn copy_to(source: &mut impl Read, sink: CopySink) -> io::Result<u64> {
    match sink {
        CopySink::File(mut file) => io::copy(source, &mut file),
        CopySink::Pipe(mut pipe) => io::copy(source, &mut pipe),
        CopySink::Unix(mut stream) => io::copy(source, &mut stream),
        CopySink::Tcp(mut stream) => io::copy(source, &mut stream),
    }
}

fn wrapped_copy(
    wrapper: Wrapper,
    mut source: std::fs::File,
    mut sink: std::fs::File,
) -> io::Result<u64> {
    match wrapper {
        Wrapper::Bufreader => io::copy(&mut BufReader::new(source), &mut sink),
        Wrapper::Bufwriter => copy_and_flush(&mut source, BufWriter::new(sink)),
        Wrapper::BufreaderBufwriter => {
            copy_and_flush(&mut BufReader::new(source), BufWriter::new(sink))
        }
        Wrapper::Take => io::copy(&mut source.take(u64::MAX), &mut sink),
        Wrapper::Mut => io::copy(&mut &mut source, &mut &mut sink),
        Wrapper::Dyn => {
            let (source, sink): (&mut dyn Read, &mut dyn Write) = (&mut source, &mut sink);
            io::copy(source, sink)
        }
    }
}

fn copy_and_flush(source: &mut impl Read, mut sink: BufWriter<std::fs::File>) -> io::Result<u64> {
    let count = io::copy(source, &mut sink)?;
    sink.flush()?;
    Ok(count)
}

/// `std::fs::copy`.
pub(crate) fn fs_copy(job: &mut CopyJob) -> Result<u64> {
    let (EndSpec::Path(from), EndSpec::Path(to)) = (&job.asked.from, &job.asked.to) else {
        bail!("std::fs::copy copies from a path to a path");
    };
    std::fs::copy(from, to).map_err(job.failed("std::fs::copy"))
}

/// Bytes in the destination's buffer before the copy.
const PENDING: usize = 4;
/// Bytes in the source's buffer before the copy, and bytes that are read from the file after that.
const BUFFERED: usize = 5;
const REST: usize = 5;

/// Copies the source's first 14 bytes: 4 are in a `BufWriter` already, 5 in a `BufReader`, and 5
/// are left in the file. `std::io::copy` lets the kernel copy those after it has emptied both
/// buffers (published in rust-lang/rust#75272: write 4, write 5, `copy_file_range` 5).
pub(crate) fn std_buffered_copy(job: &mut CopyJob) -> Result<u64> {
    let (CopySource::File(mut file), CopySink::File(sink)) = job.open()? else {
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
pub(crate) fn tokio_io_copy(job: &mut CopyJob) -> Result<u64> {
    let (CopySource::File(source), sink) = job.open()? else {
        bail!("tokio-io-copy copies from a file")
    };
    let runtime = Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(job.failed("start of the runtime"))?;
    let copying = async {
        let mut writer = writer(sink)?;
        copy(&mut File::from_std(source), &mut writer).await
    };
    runtime
        .block_on(copying)
        .map_err(job.failed("tokio::io::copy"))
}

/// The destination as a type of tokio.
fn writer(sink: CopySink) -> io::Result<Pin<Box<dyn AsyncWrite>>> {
    Ok(match sink {
        CopySink::File(file) => Box::pin(File::from_std(file)),
        CopySink::Pipe(end) => Box::pin(pipe::Sender::from_file(OwnedFd::from(end).into())?),
        CopySink::Unix(stream) => {
            stream.set_nonblocking(true)?;
            Box::pin(UnixStream::from_std(stream)?)
        }
        CopySink::Tcp(stream) => {
            stream.set_nonblocking(true)?;
            Box::pin(TcpStream::from_std(stream)?)
        }
    })
}
