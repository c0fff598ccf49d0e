//! Tokio's copy.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;

use anyhow::Result;
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, copy};
use tokio::net::unix::pipe;
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Builder;

use crate::ends::{Sink, Source};
use crate::job::Job;

/// `tokio::io::copy` on a current-thread runtime; files go through the runtime's blocking threads, as always in tokio.
pub(crate) fn tokio_io_copy(job: &mut Job) -> Result<u64> {
    let (source, sink) = job.open()?;
    let runtime = Builder::new_current_thread().enable_io().build().map_err(job.failed("start of the runtime"))?;
    let copying = async {
        let (mut reader, mut writer) = (reader(source)?, writer(sink)?);
        match job.size() {
            None => copy(&mut reader, &mut writer).await,
            Some(size) => copy(&mut reader.take(size), &mut writer).await,
        }
    };
    runtime.block_on(copying).map_err(job.failed("tokio::io::copy"))
}

/// The source as tokio has it.
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

/// The destination as tokio has it.
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
