//! The ends of a copy: parses them from the command line, and opens them with the types that a Rust
//! program would use.
//!
//! A pipe has a helper process at its other end: this program again, as `feed -` or `sink -`. The
//! copier opens its files and passes them as stdin and stdout, so that the copier reports errors of
//! opening.

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

use anyhow::{Context, Error, Result, bail};
use rustix::{
    fs::{FileType, MemfdFlags, fstat, memfd_create, stat},
    io::Errno,
    net::sockopt::set_socket_send_buffer_size,
    process::{Signal, set_parent_process_death_signal},
};
use zc_tests::named;

use crate::checksum::Moved;

/// An end that is open for reading. Stdin is a `File`, because `io::Stdin` would add a buffer.
#[derive(Debug)]
pub(crate) enum Source {
    File(File),
    Pipe(PipeReader),
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// An end that is open for writing. Stdout is a `File`, because `io::Stdout` would add a buffer.
#[derive(Debug)]
pub(crate) enum Sink {
    File(File),
    Pipe(PipeWriter),
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// Does the same with the end for each of its types.
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

/// An end of a copy on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Spec {
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

impl FromStr for Spec {
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

impl Display for Spec {
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

impl Spec {
    /// The path of the file with a source's bytes, if there is one.
    pub(crate) fn origin(&self) -> Option<&Path> {
        match self {
            Self::Path(path) | Self::Pipe(path) | Self::Memfd(path) => Some(path),
            Self::Unix(_) | Self::Tcp(_) | Self::Standard => None,
        }
    }

    /// Device and inode of the regular file where its bytes are or will be. `standard` is the
    /// descriptor for `-`.
    pub(crate) fn regular_file(&self, standard: impl AsFd) -> Option<(u64, u64)> {
        let about = match (self, self.origin()) {
            (_, Some(path)) => stat(path),
            (Self::Standard, _) => fstat(standard),
            _ => return None,
        };
        let about = about
            .ok()
            .filter(|about| FileType::from_raw_mode(about.st_mode) == FileType::RegularFile)?;
        Some((about.st_dev, about.st_ino))
    }

    /// Refuses an end that cannot be read from.
    pub(crate) fn check_source(&self) -> Result<()> {
        match self {
            Self::Path(path) if path.as_os_str().is_empty() => {
                bail!("--from is empty: name a source")
            }
            Self::Pipe(path) | Self::Memfd(path) if path.as_os_str().is_empty() => {
                bail!("{self} as a source needs a path: {self}PATH is filled from PATH")
            }
            _ => Ok(()),
        }
    }

    /// Refuses an end that cannot be written to, or not with `append`.
    pub(crate) fn check_destination(&self, append: bool) -> Result<()> {
        match self {
            Self::Path(path) if path.as_os_str().is_empty() => {
                bail!("--to is empty: name a destination")
            }
            Self::Pipe(path) if path.as_os_str().is_empty() => {
                bail!("pipe: as a destination needs a path: pipe:/dev/null drains it away")
            }
            Self::Memfd(path) if !path.as_os_str().is_empty() => {
                bail!("{self}: a destination in memory has no name: write memfd:")
            }
            Self::Path(_) => Ok(()),
            _ if append => bail!("{self}: --append is for a destination that is a path"),
            _ => Ok(()),
        }
    }
}

/// How to open a destination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SinkOptions {
    /// Whether to append to a file (`O_APPEND`) instead of emptying it.
    pub(crate) append: bool,
    /// `SO_SNDBUF` of a socket; `None` for the kernel's default.
    pub(crate) send_buffer: Option<usize>,
    /// Whether the process at a pipe's other end computes a checksum.
    pub(crate) checksum: bool,
}

/// Opens an end for reading. For a socket, it connects.
pub(crate) fn open_source(spec: &Spec) -> Result<(Source, Option<Helper>)> {
    let source = match spec {
        Spec::Path(path) => Source::File(open_file(path)?),
        Spec::Unix(path) => UnixStream::connect(path)
            .map(Source::Unix)
            .map_err(nobody_listens("feed", spec))?,
        Spec::Tcp(address) => TcpStream::connect(address)
            .map(Source::Tcp)
            .map_err(nobody_listens("feed", spec))?,
        Spec::Standard => Source::File(duplicate(io::stdin()).context("duplicate stdin")?),
        Spec::Memfd(path) => {
            Source::File(filled_memory(path).with_context(|| format!("make {spec}"))?)
        }
        Spec::Pipe(path) => {
            let (reader, feeder) =
                Helper::feed(open_file(path)?).with_context(|| format!("make {spec}"))?;
            return Ok((Source::Pipe(reader), Some(feeder)));
        }
    };
    Ok((source, None))
}

/// Opens an end for writing. A regular file is created or emptied. For a socket, it connects.
pub(crate) fn open_sink(spec: &Spec, options: SinkOptions) -> Result<(Sink, Option<Helper>)> {
    let sink = match spec {
        Spec::Path(path) => Sink::File(create_file(path, options.append)?),
        Spec::Unix(path) => UnixStream::connect(path)
            .map(Sink::Unix)
            .map_err(nobody_listens("sink", spec))?,
        Spec::Tcp(address) => TcpStream::connect(address)
            .map(Sink::Tcp)
            .map_err(nobody_listens("sink", spec))?,
        Spec::Standard => Sink::File(duplicate(io::stdout()).context("duplicate stdout")?),
        Spec::Memfd(_) => Sink::File(memory().context("make memfd:")?),
        Spec::Pipe(path) => {
            let file = create_file(path, false)?;
            let (writer, drainer) =
                Helper::drain(file, options.checksum).with_context(|| format!("make {spec}"))?;
            return Ok((Sink::Pipe(writer), Some(drainer)));
        }
    };
    if let (Some(size), Sink::Unix(_) | Sink::Tcp(_)) = (options.send_buffer, &sink) {
        set_socket_send_buffer_size(&sink, size)
            .with_context(|| format!("set the send buffer of {spec}"))?;
    }
    Ok((sink, None))
}

/// Opens a file for reading. A directory, which can be opened but not read, is refused here, before
/// the destination is touched.
fn open_file(path: &Path) -> Result<File> {
    let open = || {
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            Err(Errno::ISDIR.into())
        } else {
            Ok(file)
        }
    };
    open()
        .map_err(named)
        .with_context(|| format!("open {} for reading", path.display()))
}

/// Opens a file for writing. Something that exists and is not a regular file is neither created nor
/// emptied.
fn create_file(path: &Path, append: bool) -> Result<File> {
    let is_special = fs::metadata(path).is_ok_and(|about| !about.is_file());
    let mut options = OpenOptions::new();
    options
        .write(true)
        .append(append)
        .create(!is_special)
        .truncate(!is_special && !append);
    options
        .open(path)
        .map_err(named)
        .with_context(|| format!("open {} for writing", path.display()))
}

/// A descriptor of our own for a standard stream.
fn duplicate(stream: impl AsFd) -> Result<File> {
    stream
        .as_fd()
        .try_clone_to_owned()
        .map(File::from)
        .map_err(named)
}

/// An empty file in memory.
fn memory() -> Result<File> {
    Ok(memfd_create("copier", MemfdFlags::CLOEXEC)?.into())
}

/// A file in memory that another process has filled, so that this process makes only the calls of
/// the copy.
fn filled_memory(path: &Path) -> Result<File> {
    let mut memory = memory()?;
    Helper::fill(open_file(path)?, &memory)?;
    memory.rewind().map_err(named)?;
    Ok(memory)
}

/// The error of a failed connection, which names the process that may be missing: the one that
/// plays `role`.
fn nobody_listens(role: &str, spec: &Spec) -> impl Fn(io::Error) -> Error {
    let context = format!("connect to {spec} (does a `copier {role}` listen there?)");
    move |err| named(err).context(context.clone())
}

/// A process that feeds or drains a pipe. It ends when the pipe ends, this value is dropped, or
/// this process ends.
pub(crate) struct Helper {
    /// `None` once `finish` waits for it.
    child: Option<Child>,
}

impl Helper {
    /// A pipe that a new process feeds from the file.
    pub(crate) fn feed(file: File) -> Result<(PipeReader, Self)> {
        let (reader, writer) = io::pipe().map_err(named)?;
        let words = ["feed", "-", "--from", "-"];
        Ok((reader, Self::start(&words, file.into(), writer.into())?))
    }

    /// A pipe that a new process drains into the file, and computes the checksum of if requested.
    pub(crate) fn drain(file: File, checksum: bool) -> Result<(PipeWriter, Self)> {
        let (reader, writer) = io::pipe().map_err(named)?;
        let words: &[&str] = &["sink", "-", "--to", "-", "--checksum"];
        let words = if checksum { words } else { &words[..4] };
        Ok((writer, Self::start(words, reader.into(), file.into())?))
    }

    /// Lets a new process copy one file to another, and waits for it.
    pub(crate) fn fill(from: File, to: &File) -> Result<()> {
        let to = to.try_clone().map_err(named)?;
        Self::start(&["feed", "-", "--from", "-"], from.into(), to.into())?.finish()?;
        Ok(())
    }

    fn start(words: &[&str], stdin: Stdio, stdout: Stdio) -> Result<Self> {
        let this = env::current_exe().map_err(named);
        let mut command = Command::new(this.context("find this program")?);
        command.args(words).stdin(stdin).stdout(stdout);
        command.stderr(Stdio::piped());
        // SAFETY: between fork and exec only one system call is made, and nothing is allocated.
        unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?)) };
        let child = command.spawn().map_err(named);
        let child = Some(child.context("start a process for the other end")?);
        Ok(Self { child })
    }

    /// Waits for its end, after this side of the pipe was closed. Returns what it printed that it
    /// moved.
    pub(crate) fn finish(mut self) -> Result<Moved> {
        let child = self.child.take().context("it is waited for once")?;
        let output = child.wait_with_output().map_err(named)?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            let (status, said) = (output.status, said.trim_end());
            bail!("the process at the other end failed ({status}): {said}");
        }
        let moved = said
            .trim_end()
            .split_once(' ')
            .and_then(|(_, moved)| moved.parse().ok());
        moved.with_context(|| format!("it says {said:?}"))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Both fail if it has ended already, which does not matter.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Spec;

    fn parse(text: &str) -> Spec {
        let Ok(spec) = text.parse();
        spec
    }

    #[test]
    fn a_prefix_names_a_kind_and_a_spec_is_shown_as_it_was_written() {
        assert_eq!(parse("unix:a:b"), Spec::Unix("a:b".into()));
        assert_eq!(parse("tcp:[::1]:80"), Spec::Tcp("[::1]:80".into()));
        assert_eq!(parse("pipe:/dev/null"), Spec::Pipe("/dev/null".into()));
        assert_eq!(parse("udp:x"), Spec::Path("udp:x".into()));
        let texts = "in ./unix:in /dev/null unix:/run/x.sock tcp:localhost:80 pipe:in memfd: \
                     memfd:in -";
        for text in texts.split_ascii_whitespace() {
            assert_eq!(parse(text).to_string(), text);
        }
    }

    #[test]
    fn a_source_needs_a_path_and_only_a_path_can_be_appended_to() {
        for (text, error) in [
            ("", "--from is empty"),
            ("pipe:", "pipe:"),
            ("memfd:", "memfd:"),
        ] {
            let found = parse(text).check_source().expect_err("nowhere").to_string();
            assert!(found.starts_with(error), "{text:?}: {found}");
        }
        for text in ["in", "pipe:in", "memfd:in", "unix:x", "tcp:x:1", "-"] {
            assert!(parse(text).check_source().is_ok(), "{text:?}");
        }
        for (text, emptied, appended) in [
            ("out", true, true),
            ("memfd:", true, false),
            ("-", true, false),
            ("memfd:out", false, false),
            ("", false, false),
        ] {
            let is_good = [false, true].map(|append| parse(text).check_destination(append).is_ok());
            assert_eq!(is_good, [emptied, appended], "{text:?}");
        }
    }
}
