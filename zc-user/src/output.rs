//! Where a report goes: stderr, stdout, or a file that is there whole or not at all.

use std::{
    fs,
    io::{self, IsTerminal as _, Write as _},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::{MetadataExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::Context as _;
use nix::sys::signal::{SigSet, Signal};
use tempfile::NamedTempFile;

use crate::cli::ColorWhen;

/// Whether stdout and stderr were closed when this process began. Rust's runtime opens `/dev/null` in their place before `main`, and
/// std's own writers take a closed stream for one that is not read.
static CLOSED: [AtomicBool; 2] = [AtomicBool::new(false), AtomicBool::new(false)];

extern "C" fn note_closed() {
    for (fd, closed) in [libc::STDOUT_FILENO, libc::STDERR_FILENO].into_iter().zip(&CLOSED) {
        // SAFETY: no pointers are passed.
        closed.store(unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0, Ordering::Relaxed);
    }
}

/// The loader calls it before Rust's runtime begins.
// SAFETY: the section holds pointers to functions that take no arguments they need; this one does nothing but system calls.
#[unsafe(link_section = ".init_array")]
#[used]
static NOTE_CLOSED: extern "C" fn() = note_closed;

/// Where a report goes.
pub enum Output {
    /// To stderr: the command's stdout stays its own.
    Stderr,
    /// To stdout.
    Stdout,
    /// To a file, written beside it first and renamed then.
    File(PathBuf),
    /// To something that is no regular file, like `/dev/null` or a FIFO; open already.
    Special(PathBuf, fs::File),
}

impl Output {
    /// Opens what `-o` names, before the command runs: a report must not be lost for a wrong path.
    pub fn open(path: Option<&Path>, otherwise: Self) -> anyhow::Result<Self> {
        match path {
            None => otherwise.checked(),
            Some(path) if path == Path::new("-") => Self::Stdout.checked(),
            Some(path) => Self::open_file(path).with_context(|| cannot_write(path)),
        }
    }

    /// Itself, unless it is a stream that cannot be written to.
    fn checked(self) -> anyhow::Result<Self> {
        let (name, checked) = match &self {
            Self::Stdout => ("stdout", check_stream(&CLOSED[0], &io::stdout())),
            Self::Stderr => ("stderr", check_stream(&CLOSED[1], &io::stderr())),
            Self::File(_) | Self::Special(..) => return Ok(self),
        };
        checked.with_context(|| format!("cannot write the report to {name}"))?;
        Ok(self)
    }

    fn open_file(path: &Path) -> io::Result<Self> {
        match fs::metadata(path) {
            // `/dev/stdout` and its like: to replace the file behind them would take away what the command wrote there.
            Ok(found) if is_same_file(&found, &io::stdout()) => return Ok(Self::Stdout),
            Ok(found) if is_same_file(&found, &io::stderr()) => return Ok(Self::Stderr),
            Ok(found) if found.is_dir() => return Err(io::Error::from_raw_os_error(libc::EISDIR)),
            Ok(found) if !found.is_file() => {
                return Ok(Self::Special(path.to_owned(), fs::OpenOptions::new().write(true).open(path)?));
            }
            _ => {}
        }
        // A link stays a link: what it leads to is replaced.
        let path = follow_links(path);
        // Only to see that it can be done: should zctrace be killed meanwhile, nothing stays behind.
        file_beside(&path)?;
        Ok(Self::File(path))
    }

    /// Whether it goes to a terminal.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Stderr => io::stderr().is_terminal(),
            Self::Stdout => io::stdout().is_terminal(),
            Self::File(_) | Self::Special(..) => false,
        }
    }

    /// The width in columns of the terminal that it goes to; `None` if it goes to no terminal.
    pub fn width(&self) -> Option<usize> {
        self.is_terminal()
            .then(|| if matches!(self, Self::Stderr) { terminal_width(io::stderr()) } else { terminal_width(io::stdout()) })
    }

    /// Writes the report. A reader that has gone away is no error.
    pub fn write(&self, report: &str) -> anyhow::Result<()> {
        // Where files may not grow any more (`ulimit -f`), the signal would end zctrace, and its temporary file would stay.
        SigSet::from(Signal::SIGXFSZ).thread_block()?;
        let bytes = report.as_bytes();
        let (written, path) = match self {
            Self::Stderr => (check_stream(&CLOSED[1], &io::stderr()).and_then(|()| write_all(io::stderr().as_fd(), bytes)), None),
            Self::Stdout => (check_stream(&CLOSED[0], &io::stdout()).and_then(|()| write_all(io::stdout().as_fd(), bytes)), None),
            Self::Special(path, file) => (write_all(file.as_fd(), bytes), Some(path)),
            Self::File(path) => (replace(path, report), Some(path)),
        };
        match (written, path) {
            (Ok(()), _) => Ok(()),
            (Err(error), _) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            (Err(error), Some(path)) => Err(error).with_context(|| cannot_write(path)),
            (Err(error), None) => Err(error).context("cannot write the report"),
        }
    }
}

/// Whether somebody opened this stream for writing.
fn check_stream(was_closed: &AtomicBool, stream: &impl AsFd) -> io::Result<()> {
    if was_closed.load(Ordering::Relaxed) {
        return Err(io::Error::other("it is closed"));
    }
    let flags = rustix::fs::fcntl_getfl(stream)?;
    if flags & rustix::fs::OFlags::RWMODE == rustix::fs::OFlags::RDONLY {
        return Err(io::Error::other("it is open for reading only"));
    }
    Ok(())
}

/// Writes all of it, past what std buffers and forgives.
fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write the report to '{}'", path.display())
}

/// Puts a file in the place of what is there: whole, or not at all.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut file = file_beside(path)?;
    // Its own writer would name a file that the user knows nothing of.
    file.as_file_mut().write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

/// A new file in the folder of another, with the permissions that that has or would have. It vanishes unless it is renamed.
fn file_beside(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::metadata(folder)?;
    // The umask decides about the rest, as for any new file.
    let permissions = fs::metadata(path).map_or_else(|_| fs::Permissions::from_mode(0o666), |found| found.permissions());
    let file = tempfile::Builder::new().prefix(".zctrace-").permissions(permissions).tempfile_in(folder);
    // tempfile's own message names a file that the user knows nothing of.
    file.map_err(|error| io::Error::from(error.kind()))
}

/// The file that a path leads to, whether it is there or not.
fn follow_links(path: &Path) -> PathBuf {
    /// As many as the kernel follows: `MAXSYMLINKS` of its include/linux/namei.h.
    const MAX_LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(target) = fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    path
}

fn is_same_file(found: &fs::Metadata, stream: &impl AsFd) -> bool {
    let Ok(stream) = nix::sys::stat::fstat(stream) else { return false };
    (found.dev(), found.ino()) == (stream.st_dev, stream.st_ino)
}

/// The width in columns; 80 if the terminal does not know it.
fn terminal_width(terminal: impl AsFd) -> usize {
    match rustix::termios::tcgetwinsize(terminal) {
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        _ => 80,
    }
}

/// Whether to colour what goes to a terminal or not, as people expect it: the option first, then `NO_COLOR` (no-color.org),
/// `CLICOLOR_FORCE` and `TERM=dumb`.
pub fn wants_colour(when: ColorWhen, is_terminal: bool) -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match when {
        ColorWhen::Always => true,
        ColorWhen::Never => false,
        ColorWhen::Auto if is_set("NO_COLOR") => false,
        ColorWhen::Auto if std::env::var_os("CLICOLOR_FORCE").is_some_and(|value| value != "0" && !value.is_empty()) => true,
        ColorWhen::Auto => is_terminal && std::env::var_os("TERM").is_some_and(|term| term != "dumb"),
    }
}
