//! The ends of a copy once they are open, in the types that a Rust program would have for them.

mod helper;
mod open;
mod spec;

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

pub(crate) use helper::Helper;
pub(crate) use open::{SinkOptions, open_sink, open_source};
pub(crate) use spec::Spec;

/// An end that is open for reading. Stdin is a `File`: `io::Stdin` would put a buffer in between.
#[derive(Debug)]
pub(crate) enum Source {
    File(File),
    Pipe(PipeReader),
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// An end that is open for writing. Stdout is a `File`: `io::Stdout` would put a buffer in between.
#[derive(Debug)]
pub(crate) enum Sink {
    File(File),
    Pipe(PipeWriter),
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// Does the same with the end, whichever type it has.
macro_rules! whichever {
    ($end:expr, $inner:ident => $action:expr) => {
        match $end {
            Self::File($inner) => $action,
            Self::Pipe($inner) => $action,
            Self::Unix($inner) => $action,
            Self::Tcp($inner) => $action,
        }
    };
}

impl Source {
    /// The end without its type.
    pub(crate) fn boxed(self) -> Box<dyn Read> {
        whichever!(self, end => Box::new(end))
    }
}

impl Sink {
    /// The end without its type.
    pub(crate) fn boxed(self) -> Box<dyn Write> {
        whichever!(self, end => Box::new(end))
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        whichever!(self, end => end.read(buffer))
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        whichever!(self, end => end.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        whichever!(self, end => end.as_fd())
    }
}

impl AsFd for Sink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        whichever!(self, end => end.as_fd())
    }
}
