//! Where a report goes: stderr, stdout, or a file, which is replaced as a whole or not at all.

mod place;

use std::{
    fs,
    io::{self, IsTerminal as _, Write as _},
    ops::ControlFlow,
    os::{
        fd::{AsFd, AsRawFd as _, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::ColorChoice;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::fs::FileType;
use zctrace::launch::was_closed;

pub use self::place::Links;
use self::place::OutputPlace;

/// Where a report goes.
pub enum ReportOutput {
    /// To stderr, so that stdout has the command's output alone.
    Stderr,
    /// To stdout.
    Stdout,
    /// To a file: written to a temporary file beside it, which is then renamed.
    File(OutputPlace),
    /// To a file that is already open, such as `/dev/null` or a FIFO.
    Open(PathBuf, fs::File),
}

impl ReportOutput {
    /// Opens what `-o` names. This is done before the command runs, so that a wrong path does not
    /// lose its report.
    pub fn open(path: Option<&Path>, default: Self) -> anyhow::Result<Self> {
        match path {
            None => default.checked(),
            Some(path) if path == Path::new("-") => Self::Stdout.checked(),
            Some(path) => Self::open_file(path, Links::Followed),
        }
    }

    /// Opens a file.
    pub fn open_file(path: &Path, links: Links) -> anyhow::Result<Self> {
        Self::try_open_file(path, links).with_context(|| cannot_write(path))
    }

    /// Opens a file to append to what others have written there.
    pub fn append_to(path: &Path) -> anyhow::Result<Self> {
        let file =
            OutputPlace::find(path, Links::Followed).and_then(|place| place.open_to_append());
        let file = file.with_context(|| cannot_write(path))?;
        Ok(Self::Open(path.to_owned(), file))
    }

    /// The same place for a text that is written in parts. A file has nothing in it yet, and stays
    /// open.
    pub fn open_for_parts(&self) -> anyhow::Result<Self> {
        let opened = match self {
            Self::Stderr => return Ok(Self::Stderr),
            Self::Stdout => return Ok(Self::Stdout),
            Self::Open(path, file) => (path, file.try_clone()),
            Self::File(place) => (
                &place.path,
                before_signals(|| place.put(place.temporary()?)),
            ),
        };
        let (path, file) = opened;
        let file = file.with_context(|| cannot_write(path))?;
        Ok(Self::Open(path.clone(), file))
    }

    /// Returns itself, unless it is a stream that cannot be written.
    fn checked(self) -> anyhow::Result<Self> {
        let (name, checked) = match &self {
            Self::Stdout => ("stdout", check_stream(&io::stdout())),
            Self::Stderr => ("stderr", check_stream(&io::stderr())),
            Self::File(_) | Self::Open(..) => return Ok(self),
        };
        checked.with_context(|| format!("cannot write the report to {name}"))?;
        Ok(self)
    }

    fn try_open_file(path: &Path, links: Links) -> io::Result<Self> {
        match fs::metadata(path) {
            // `/dev/stdout` and its like: replacing the file behind them would delete what the
            // command wrote there.
            Ok(found) if is_same_file(&found, &io::stdout()) => return Ok(Self::Stdout),
            Ok(found) if is_same_file(&found, &io::stderr()) => return Ok(Self::Stderr),
            _ => {}
        }
        let place = OutputPlace::find(path, links)?;
        if !matches!(place.kind, None | Some(FileType::RegularFile)) {
            return Ok(Self::Open(path.to_owned(), place.open_special()?));
        }
        // Only tests that it works. The file is removed at once, so that nothing is left if zctrace
        // is killed.
        before_signals(|| place.temporary().map(drop))?;
        Ok(Self::File(place))
    }

    /// Whether both go to the same stream or file.
    pub fn is_same_place(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Stdout, Self::Stdout) | (Self::Stderr, Self::Stderr) => true,
            // Neither needs to exist yet, but their folders do.
            (Self::File(one), Self::File(another)) => one.is_same(another),
            _ => false,
        }
    }

    /// Whether it goes to a terminal.
    pub fn is_terminal(&self) -> bool {
        self.terminal().is_some()
    }

    /// The terminal that it goes to, if it goes to one.
    pub fn terminal(&self) -> Option<OwnedFd> {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let stream = match self {
            Self::Stderr if stderr.is_terminal() => stderr.as_fd(),
            Self::Stdout if stdout.is_terminal() => stdout.as_fd(),
            _ => return None,
        };
        stream.try_clone_to_owned().ok()
    }

    /// The width of its terminal in columns, or `COLUMNS` if a stream is none; `None`: no limit.
    pub fn width(&self) -> Option<usize> {
        let is_stream = matches!(self, Self::Stdout | Self::Stderr);
        let columns = || std::env::var("COLUMNS").ok()?.parse().ok();
        let columns = || columns().filter(|&columns| is_stream && columns > 0);
        self.terminal().map(terminal_width).or_else(columns)
    }

    /// The height of its terminal in lines; `None` if it does not go to a terminal that knows it.
    pub fn height(&self) -> Option<usize> {
        let size = rustix::termios::tcgetwinsize(self.terminal()?).ok()?;
        (size.ws_row > 0).then_some(size.ws_row.into())
    }

    /// As [`Self::write`], for what cannot be had again: if it cannot be written, it goes to stderr.
    pub fn write_once(&self, report: &str) -> anyhow::Result<()> {
        let written = self.write(report);
        if written.is_err() {
            // There is nowhere to say that this failed as well.
            let _ = Self::Stderr.write(report);
        }
        written
    }

    /// Writes the report. A reader that has closed its end is not an error.
    pub fn write(&self, report: &str) -> anyhow::Result<()> {
        self.write_part(report).map(drop)
    }

    /// Writes a part of what goes there, after the parts before, if it is [open for
    /// them](Self::open_for_parts). It breaks if the reader has closed its end.
    pub fn write_part(&self, text: &str) -> anyhow::Result<ControlFlow<()>> {
        // At the limit of `ulimit -f` this signal would kill zctrace and leave its temporary file
        // behind.
        SigSet::from(Signal::SIGXFSZ).thread_block()?;
        let written = match self {
            Self::Stderr => write_stream(&io::stderr(), text.as_bytes()),
            Self::Stdout => write_stream(&io::stdout(), text.as_bytes()),
            Self::Open(_, file) => (&*file).write_all(text.as_bytes()),
            Self::File(place) => replace(place, text),
        };
        match written {
            Ok(()) => Ok(ControlFlow::Continue(())),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
            Err(error) => Err(error).with_context(|| match self {
                Self::File(OutputPlace { path, .. }) | Self::Open(path, _) => cannot_write(path),
                Self::Stderr | Self::Stdout => "cannot write the report".to_owned(),
            }),
        }
    }
}

fn write_stream(stream: &impl AsFd, bytes: &[u8]) -> io::Result<()> {
    check_stream(stream)?;
    // The writers of std ignore errors of closed streams.
    fs::File::from(stream.as_fd().try_clone_to_owned()?).write_all(bytes)
}

/// Fails unless this stream is open for writing. The writers of std report no error for a closed
/// one.
fn check_stream(stream: &impl AsFd) -> io::Result<()> {
    if was_closed(stream.as_fd().as_raw_fd()) {
        return Err(io::Error::other("it is closed"));
    }
    let flags = rustix::fs::fcntl_getfl(stream)?;
    if flags & rustix::fs::OFlags::RWMODE == rustix::fs::OFlags::RDONLY {
        return Err(io::Error::other("it is open for reading only"));
    }
    Ok(())
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write the report to '{}'", path.display())
}

/// Replaces a file as a whole or not at all.
fn replace(place: &OutputPlace, text: &str) -> io::Result<()> {
    before_signals(|| {
        let mut file = place.temporary()?;
        // An error of NamedTempFile's own writer would name the temporary file, which means nothing
        // to the user.
        file.as_file_mut().write_all(text.as_bytes())?;
        place.put(file).map(drop)
    })
}

/// Does something as a whole: a signal that would end zctrace in the middle of it, with a temporary file
/// left behind, ends it afterwards.
fn before_signals<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let ending = [
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGTERM,
    ];
    let before = ending
        .into_iter()
        .collect::<SigSet>()
        .thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let done = work();
    before.thread_set_mask()?;
    done
}

fn is_same_file(found: &fs::Metadata, stream: &impl AsFd) -> bool {
    if was_closed(stream.as_fd().as_raw_fd()) {
        return false;
    }
    let Ok(stream) = nix::sys::stat::fstat(stream) else {
        return false;
    };
    (found.dev(), found.ino()) == (stream.st_dev, stream.st_ino)
}

/// The width in columns; 80 if the terminal does not know it.
pub fn terminal_width(terminal: impl AsFd) -> usize {
    match rustix::termios::tcgetwinsize(terminal) {
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        _ => 80,
    }
}

/// Whether to use colour. The option comes first, then `NO_COLOR` (no-color.org), `CLICOLOR_FORCE`
/// (bixense.com/clicolors: anything but 0) and `TERM=dumb`.
pub fn wants_colour(when: ColorChoice, is_terminal: bool) -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    match when {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto if set("NO_COLOR").is_some() => false,
        ColorChoice::Auto if set("CLICOLOR_FORCE").is_some_and(|value| value != "0") => true,
        ColorChoice::Auto => is_terminal && set("TERM").is_some_and(|term| term != "dumb"),
    }
}
