//! The ends of a copy: how they are written, and how they are opened.

use std::convert::Infallible;
use std::fmt::{self, Display};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result};

use crate::named;

/// One end of a copy, as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// A path: a regular file, `/dev/null`, a block device, a named pipe.
    Path(PathBuf),
    /// `unix:PATH`: a stream socket of the Unix family.
    Unix(PathBuf),
    /// `tcp:HOST:PORT`.
    Tcp(String),
    /// `-`: stdin or stdout, whatever it is.
    Standard,
}

impl FromStr for Spec {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.split_once(':') {
            Some(("unix", path)) => Self::Unix(path.into()),
            Some(("tcp", address)) => Self::Tcp(address.to_owned()),
            _ if text == "-" => Self::Standard,
            _ => Self::Path(text.into()),
        })
    }
}

impl Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
            Self::Standard => f.write_str("-"),
        }
    }
}

impl Spec {
    /// Opens the end to read from it; a socket is connected to.
    pub fn open_source(&self) -> Result<Source> {
        match self {
            Self::Path(path) => File::open(path).map(Source::File),
            Self::Unix(path) => UnixStream::connect(path).map(Source::Unix),
            Self::Tcp(address) => TcpStream::connect(address).map(Source::Tcp),
            Self::Standard => io::stdin().as_fd().try_clone_to_owned().map(|fd| Source::File(fd.into())),
        }
        .map_err(named)
        .with_context(|| format!("open {self} for reading"))
    }

    /// Opens the end to write to it: a file is made, or emptied; a socket is connected to.
    pub fn open_sink(&self) -> Result<Sink> {
        match self {
            Self::Path(path) => OpenOptions::new().write(true).create(true).truncate(true).open(path).map(Sink::File),
            Self::Unix(path) => UnixStream::connect(path).map(Sink::Unix),
            Self::Tcp(address) => TcpStream::connect(address).map(Sink::Tcp),
            Self::Standard => io::stdout().as_fd().try_clone_to_owned().map(|fd| Sink::File(fd.into())),
        }
        .map_err(named)
        .with_context(|| format!("open {self} for writing"))
    }
}

/// An end that is open for reading, in the type that a Rust program would use for it.
#[derive(Debug)]
#[expect(missing_docs, reason = "the variants are the types they hold")]
pub enum Source {
    File(File),
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::File(file) => file.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}

/// An end that is open for writing, in the type that a Rust program would use for it.
#[derive(Debug)]
#[expect(missing_docs, reason = "the variants are the types they hold")]
pub enum Sink {
    File(File),
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Sink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::File(file) => file.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Spec;

    #[test]
    fn a_spec_is_shown_as_it_was_written() {
        for text in ["in", "./unix:in", "/dev/null", "unix:/run/x.sock", "tcp:localhost:80", "-"] {
            let Ok(spec) = text.parse::<Spec>();
            assert_eq!(spec.to_string(), text);
        }
    }

    #[test]
    fn a_prefix_names_a_socket() {
        assert_eq!("unix:a:b".parse(), Ok(Spec::Unix("a:b".into())));
        assert_eq!("tcp:[::1]:80".parse(), Ok(Spec::Tcp("[::1]:80".into())));
        assert_eq!("udp:x".parse(), Ok(Spec::Path("udp:x".into())));
    }
}
