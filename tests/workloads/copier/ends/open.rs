//! Opening the ends of a copy.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Error, Result};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_send_buffer_size;
use zc_tests::named;

use super::{Helper, Sink, Source, Spec};

/// How a destination is to be opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SinkOptions {
    /// Whether a file keeps what it has, and grows (`O_APPEND`).
    pub(crate) append: bool,
    /// `SO_SNDBUF` of a socket; without, the kernel's default.
    pub(crate) send_buffer: Option<usize>,
    /// Whether the process at a pipe's other end sums up what it gets.
    pub(crate) checksum: bool,
}

/// Opens the end to read from it; a socket is connected to.
pub(crate) fn open_source(spec: &Spec) -> Result<(Source, Option<Helper>)> {
    let source = match spec {
        Spec::Path(path) => Source::File(open_file(path)?),
        Spec::Unix(path) => UnixStream::connect(path).map(Source::Unix).map_err(nobody_listens("feed", spec))?,
        Spec::Tcp(address) => TcpStream::connect(address).map(Source::Tcp).map_err(nobody_listens("feed", spec))?,
        Spec::Standard => Source::File(duplicate(io::stdin()).context("duplicate stdin")?),
        Spec::Memfd(path) => Source::File(filled_memory(path).with_context(|| format!("make {spec}"))?),
        Spec::Pipe(path) => {
            let (reader, feeder) = Helper::feed(open_file(path)?).with_context(|| format!("make {spec}"))?;
            return Ok((Source::Pipe(reader), Some(feeder)));
        }
    };
    Ok((source, None))
}

/// Opens the end to write to it: a regular file is made, or emptied; a socket is connected to.
pub(crate) fn open_sink(spec: &Spec, options: SinkOptions) -> Result<(Sink, Option<Helper>)> {
    let sink = match spec {
        Spec::Path(path) => Sink::File(create_file(path, options.append)?),
        Spec::Unix(path) => UnixStream::connect(path).map(Sink::Unix).map_err(nobody_listens("sink", spec))?,
        Spec::Tcp(address) => TcpStream::connect(address).map(Sink::Tcp).map_err(nobody_listens("sink", spec))?,
        Spec::Standard => Sink::File(duplicate(io::stdout()).context("duplicate stdout")?),
        Spec::Memfd(_) => Sink::File(memory().context("make memfd:")?),
        Spec::Pipe(path) => {
            let file = create_file(path, false)?;
            let (writer, drainer) = Helper::drain(file, options.checksum).with_context(|| format!("make {spec}"))?;
            return Ok((Sink::Pipe(writer), Some(drainer)));
        }
    };
    if let (Some(size), Sink::Unix(_) | Sink::Tcp(_)) = (options.send_buffer, &sink) {
        set_socket_send_buffer_size(&sink, size).with_context(|| format!("set the send buffer of {spec}"))?;
    }
    Ok((sink, None))
}

/// Opens a file for reading. What opens but cannot be read is refused here, before the destination is touched.
fn open_file(path: &Path) -> Result<File> {
    let open = || {
        let file = File::open(path)?;
        if file.metadata()?.is_dir() { Err(Errno::ISDIR.into()) } else { Ok(file) }
    };
    open().map_err(named).with_context(|| format!("open {} for reading", path.display()))
}

/// Opens a file for writing. What exists and is no regular file is neither made nor emptied.
fn create_file(path: &Path, append: bool) -> Result<File> {
    let is_special = fs::metadata(path).is_ok_and(|about| !about.is_file());
    let mut options = OpenOptions::new();
    options.write(true).append(append).create(!is_special).truncate(!is_special && !append);
    options.open(path).map_err(named).with_context(|| format!("open {} for writing", path.display()))
}

/// A descriptor of our own for a standard stream.
fn duplicate(stream: impl AsFd) -> Result<File> {
    stream.as_fd().try_clone_to_owned().map(File::from).map_err(named)
}

/// A file in memory, empty.
fn memory() -> Result<File> {
    Ok(memfd_create("copier", MemfdFlags::CLOEXEC)?.into())
}

/// A file in memory that another process has filled: in this one, the copy itself is then alone.
fn filled_memory(path: &Path) -> Result<File> {
    let mut memory = memory()?;
    Helper::fill(open_file(path)?, &memory)?;
    memory.rewind().map_err(named)?;
    Ok(memory)
}

/// The error of a failed connection, with what may be missing: the process that plays `role`.
fn nobody_listens(role: &str, spec: &Spec) -> impl Fn(io::Error) -> Error {
    let context = format!("connect to {spec} (does a `copier {role}` listen there?)");
    move |err| named(err).context(context.clone())
}
