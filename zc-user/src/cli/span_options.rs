//! Options that end a trace early, or divide it.

use std::{
    fs::File,
    io,
    os::{
        fd::{BorrowedFd, OwnedFd, RawFd},
        unix::fs::FileTypeExt as _,
    },
    time::Duration,
};

use clap::Args;
use rustix::{
    fs::{FileType, OFlags, fcntl_getfl, fstat},
    io::{FdFlags, fcntl_dupfd_cloexec, fcntl_getfd, fcntl_setfd},
    termios::isatty,
};
use zctrace::{
    backend::{AtDuration, SpanControl},
    expect::parse_duration,
    launch::reason,
};

use super::values::with_unit;

/// When a trace ends, and what it is divided into.
#[derive(Debug, Args)]
pub struct SpanArgs {
    /// Print a report for each interval, such as 1s, instead of one for the whole run.
    ///
    /// With --format json, each report is one line.
    #[arg(long, value_name = "TIME", value_parser = length, conflicts_with_all = ["verify", "html", "pager", "callers"])]
    pub interval: Option<Duration>,

    /// Report spans that a program starts and stops through a pipe or FIFO.
    ///
    /// The program writes lines `start NAME` and `stop`, which zctrace reads from its file
    /// descriptor CTL or a FIFO (`fifo:CTL[,ACK]`). When a span has begun or was reported, zctrace
    /// writes `ok` or `error: ...` to ACK.
    #[arg(long, value_name = "fd:CTL[,ACK]", value_parser = control, conflicts_with_all = ["interval", "verify", "html", "pager", "callers", "no_files"])]
    pub control: Option<SpanControl>,

    /// Report and stop tracing after this time, such as 10s; the command keeps running.
    #[arg(long, value_name = "TIME", value_parser = length, conflicts_with = "verify")]
    pub duration: Option<Duration>,

    /// At the end of --duration, kill the command and everything it started.
    #[arg(long, requires = "duration", conflicts_with_all = ["pids", "cgroup", "system_wide"])]
    pub kill: bool,
}

impl SpanArgs {
    /// Whether the trace is divided.
    pub const fn divides(&self) -> bool {
        self.interval.is_some() || self.control.is_some()
    }

    /// What becomes of the command at the end of the duration.
    pub const fn at_duration(&self) -> AtDuration {
        if self.kill {
            AtDuration::Kill
        } else {
            AtDuration::LeaveRunning
        }
    }
}

/// A length of time that is not 0.
pub(super) fn length(text: &str) -> Result<Duration, String> {
    match parse_duration(&with_unit(text))? {
        Duration::ZERO => Err(format!(
            "'{text}' is too short; write a time longer than 0, such as 10s"
        )),
        length => Ok(length),
    }
}

/// Opens what begins and ends spans, in perf's form: `fd:CTL[,ACK]` or `fifo:CTL[,ACK]`.
fn control(text: &str) -> Result<SpanControl, String> {
    let form = || format!("'{text}' is neither fd:CTL[,ACK] nor fifo:CTL[,ACK], as in fd:3,4");
    let (kind, names) = text.split_once(':').ok_or_else(form)?;
    let (commands, answers) = names
        .split_once(',')
        .map_or((names, None), |(commands, answers)| {
            (commands, Some(answers))
        });
    let open = |name, wrong| match kind {
        "fd" => inherited(name, wrong),
        "fifo" => fifo(name).map_err(|error| format!("cannot open '{name}': {}", reason(&error))),
        _ => Err(form()),
    };
    let commands = open(commands, OFlags::WRONLY)?;
    let answers = answers.map(|name| open(name, OFlags::RDONLY)).transpose()?;
    Ok(SpanControl::new(commands, answers))
}

/// A descriptor that zctrace was started with, unless it is only open for that. The command does not get
/// it.
fn inherited(number: &str, wrong: OFlags) -> Result<OwnedFd, String> {
    let number: RawFd = number
        .parse()
        .ok()
        .filter(|number| *number >= 0)
        .ok_or_else(|| format!("'{number}' is not the number of a descriptor"))?;
    if number < 3 {
        return Err(format!(
            "descriptor {number} belongs to the command; use another one, as in 3<FIFO"
        ));
    }
    // SAFETY: it is only looked at before it is known to be open, and nobody closes it.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    let flags = fcntl_getfd(descriptor).map_err(|_| {
        format!("descriptor {number} is not open; open it in the shell, as in {number}<FIFO")
    })?;
    if fcntl_getfl(descriptor).is_ok_and(|mode| mode & OFlags::RWMODE == wrong) {
        let what = if wrong == OFlags::WRONLY {
            "reading"
        } else {
            "writing"
        };
        return Err(format!("descriptor {number} is not open for {what}"));
    }
    let kind = fstat(descriptor).map(|found| FileType::from_raw_mode(found.st_mode));
    // Answers can go anywhere.
    let can_wait = matches!(kind, Ok(FileType::Fifo | FileType::Socket)) || isatty(descriptor);
    if wrong == OFlags::WRONLY && !can_wait {
        return Err(format!(
            "descriptor {number} is neither a pipe nor a socket: make a FIFO with mkfifo, and open it: {number}<FIFO"
        ));
    }
    fcntl_setfd(descriptor, flags | FdFlags::CLOEXEC)
        .and_then(|()| fcntl_dupfd_cloexec(descriptor, 0))
        .map_err(|error| format!("cannot use descriptor {number}: {error}"))
}

/// A FIFO. It is opened for both ends, so that opening it waits for nobody and it has no end.
fn fifo(path: &str) -> io::Result<OwnedFd> {
    let file = File::options().read(true).write(true).open(path)?;
    if file.metadata()?.file_type().is_fifo() {
        Ok(file.into())
    } else {
        Err(io::Error::other("it is not a FIFO; make one with mkfifo"))
    }
}
