//! The ends of a copy: parses them from the command line, and opens them with the types that a Rust
//! program would use.

use std::{
    convert::Infallible,
    env,
    fmt::{self, Display},
    fs::{self, File, OpenOptions},
    io::{self, PipeReader, PipeWriter, Read, Seek, Write},
    net::TcpStream,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    str::FromStr,
};

use anyhow::{Context, Result, ensure};
use rustix::{
    fs::{MemfdFlags, memfd_create},
    process::{Signal, set_parent_process_death_signal},
};

/// An open end. Stdin and stdout are a `File`, because std's types for them would add a buffer.
#[derive(Debug)]
pub(crate) enum CopyEnd<P> {
    File(File),
    Pipe(P),
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// An end that is open for reading.
pub(crate) type CopySource = CopyEnd<PipeReader>;

/// An end that is open for writing.
pub(crate) type CopySink = CopyEnd<PipeWriter>;

impl<P: Read> Read for CopyEnd<P> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(buffer),
            Self::Pipe(pipe) => pipe.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl<P: Write> Write for CopyEnd<P> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Pipe(pipe) => pipe.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<P: AsFd> AsFd for CopyEnd<P> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::File(file) => file.as_fd(),
            Self::Pipe(pipe) => pipe.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}

/// An end of a copy on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EndSpec {
    /// A path: a regular file, `/dev/null`, a block device, a named pipe.
    Path(PathBuf),
    /// `unix:PATH`: a stream socket of the Unix family.
    Unix(PathBuf),
    /// `tcp:HOST:PORT`.
    Tcp(String),
    /// `pipe:PATH`: a pipe that another process feeds from PATH, or drains into PATH.
    Pipe(PathBuf),
    /// `memfd:PATH`: a file in memory with the content of PATH. `memfd:`, as a destination: an
    /// empty one.
    Memfd(PathBuf),
    /// `-`: stdin or stdout.
    Standard,
}

impl FromStr for EndSpec {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.split_once(':') {
            Some(("unix", path)) => Self::Unix(path.into()),
            Some(("tcp", address)) => Self::Tcp(address.to_owned()),
            Some(("pipe", path)) => Self::Pipe(path.into()),
            Some(("memfd", path)) => Self::Memfd(path.into()),
            _ if text == "-" => Self::Standard,
            _ => Self::Path(text.into()),
        })
    }
}

impl Display for EndSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
            Self::Pipe(path) => write!(f, "pipe:{}", path.display()),
            Self::Memfd(path) => write!(f, "memfd:{}", path.display()),
            Self::Standard => f.write_str("-"),
        }
    }
}

/// Opens an end for reading. For a socket, it connects. The process that feeds a pipe is added to
/// `helpers`.
pub(crate) fn open_source(spec: &EndSpec, helpers: &mut Vec<Child>) -> Result<CopySource> {
    Ok(match spec {
        EndSpec::Path(path) => CopySource::File(open_file(path)?),
        EndSpec::Unix(_) | EndSpec::Tcp(_) => connect(spec)?,
        EndSpec::Standard => CopySource::File(duplicate(io::stdin())?),
        EndSpec::Memfd(path) => CopySource::File(filled_memory(path)?),
        EndSpec::Pipe(path) => {
            let (reader, writer) = io::pipe()?;
            helpers.push(start_helper(open_file(path)?, writer)?);
            CopySource::Pipe(reader)
        }
    })
}

/// Opens an end for writing. A regular file is created, and emptied unless `append`. For a socket,
/// it connects. The process that drains a pipe is added to `helpers`.
pub(crate) fn open_sink(
    spec: &EndSpec,
    append: bool,
    helpers: &mut Vec<Child>,
) -> Result<CopySink> {
    Ok(match spec {
        EndSpec::Path(path) => CopySink::File(create_file(path, append)?),
        EndSpec::Unix(_) | EndSpec::Tcp(_) => connect(spec)?,
        EndSpec::Standard => CopySink::File(duplicate(io::stdout())?),
        EndSpec::Memfd(_) => CopySink::File(memory()?),
        EndSpec::Pipe(path) => {
            let (reader, writer) = io::pipe()?;
            helpers.push(start_helper(reader, create_file(path, false)?)?);
            CopySink::Pipe(writer)
        }
    })
}

fn connect<P>(spec: &EndSpec) -> Result<CopyEnd<P>> {
    let connected = match spec {
        EndSpec::Unix(path) => UnixStream::connect(path).map(CopyEnd::Unix),
        EndSpec::Tcp(address) => TcpStream::connect(address).map(CopyEnd::Tcp),
        _ => unreachable!("{spec} is not a socket"),
    };
    connected.with_context(|| {
        format!("connect to {spec} (does a `copier sink` or `copier feed` listen there?)")
    })
}

fn open_file(path: &Path) -> Result<File> {
    File::open(path).with_context(|| format!("open {} for reading", path.display()))
}

/// Opens a file for writing. Something that exists and is not a regular file is neither created nor
/// emptied.
fn create_file(path: &Path, append: bool) -> Result<File> {
    let is_special = fs::metadata(path).is_ok_and(|about| !about.is_file());
    OpenOptions::new()
        .write(true)
        .append(append)
        .create(!is_special)
        .truncate(!is_special && !append)
        .open(path)
        .with_context(|| format!("open {} for writing", path.display()))
}

/// A descriptor of our own for a standard stream.
fn duplicate(stream: impl AsFd) -> Result<File> {
    Ok(stream.as_fd().try_clone_to_owned()?.into())
}

/// An empty file in memory.
fn memory() -> Result<File> {
    Ok(memfd_create("copier", MemfdFlags::CLOEXEC)?.into())
}

/// A file in memory that another process has filled, so that this process makes only the calls of
/// the copy.
fn filled_memory(path: &Path) -> Result<File> {
    let mut memory = memory()?;
    let to = memory.try_clone()?;
    finish_helper(start_helper(open_file(path)?, to)?)?;
    memory.rewind()?;
    Ok(memory)
}

/// Starts this program again, to copy from one file to the other. The kernel ends it with this
/// process.
fn start_helper(from: impl Into<Stdio>, to: impl Into<Stdio>) -> Result<Child> {
    let this = env::current_exe()?;
    let mut command = Command::new(this);
    command
        .arg("relay")
        .stdin(from)
        .stdout(to)
        .stderr(Stdio::piped());
    // SAFETY: between fork and exec only one system call is made, and nothing is allocated.
    unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?)) };
    let child = command.spawn();
    child.context("start a process for the other end")
}

/// Waits for the end of such a process, after this side of its pipe was closed.
pub(crate) fn finish_helper(child: Child) -> Result<()> {
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "the process at the other end failed ({}): {}",
        output.status,
        said.trim_end()
    );
    Ok(())
}
