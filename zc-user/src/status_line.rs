//! The status line: a sign of life of a run that lasts, on the terminal, which leaves nothing
//! behind.
//!
//! It is only shown where it cannot mix with what the command writes: the command's stdout and
//! stderr are files or `/dev/null`. A pipe may end on the terminal (`zctrace make 2>&1 | tee log`).
//! A command may also open the terminal itself, for a password or a full screen; it changes the
//! terminal's modes then, and the line is not shown any more.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::{fd::AsFd, unix::fs::OpenOptionsExt as _},
};

use rustix::{
    fs::{FileType, fstat},
    process::getpgrp,
    termios::{LocalModes, tcgetattr, tcgetpgrp},
};
use zctrace::backend::Progress;
use zctrace_core::{text::plural, units};

use crate::output::terminal_width;

/// A line on the controlling terminal.
pub struct StatusLine {
    terminal: File,
    /// The terminal's modes before the command ran.
    modes: LocalModes,
    is_shown: bool,
    /// Whether the command uses the terminal.
    is_over: bool,
}

impl StatusLine {
    /// The status line, if there is a terminal that it can be shown on.
    pub fn open() -> Option<Self> {
        let can_erase =
            std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
        if !can_erase || !is_apart(&io::stdout()) || !is_apart(&io::stderr()) {
            return None;
        }
        let terminal = OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_NOCTTY)
            .open("/dev/tty")
            .ok()?;
        Some(Self {
            modes: tcgetattr(&terminal).ok()?.local_modes,
            terminal,
            is_shown: false,
            is_over: false,
        })
    }

    /// Shows how far the run is.
    pub fn show(&mut self, progress: &Progress) {
        let has_modes =
            tcgetattr(&self.terminal).is_ok_and(|found| found.local_modes == self.modes);
        self.is_over |= !has_modes;
        // Job control: in the background, the terminal belongs to other programs.
        let is_foreground = tcgetpgrp(&self.terminal).is_ok_and(|group| group == getpgrp());
        if self.is_over || !is_foreground {
            return;
        }
        let line: String = line(progress)
            .chars()
            .take(terminal_width(&self.terminal).saturating_sub(1))
            .collect();
        // The cursor goes back to the beginning, so that what the terminal echoes is erased with
        // the line.
        self.is_shown = write!(self.terminal, "\r{line}\x1b[K\r").is_ok();
    }

    /// Erases the line, until it is shown again.
    pub fn erase(&mut self) {
        if self.is_shown {
            let _ = self.terminal.write_all(b"\r\x1b[K");
            self.is_shown = false;
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.erase();
    }
}

/// Whether nothing that is written to this stream comes to a terminal.
fn is_apart(stream: &(impl AsFd + io::IsTerminal)) -> bool {
    let kind = fstat(stream).map(|stat| FileType::from_raw_mode(stat.st_mode));
    !stream.is_terminal() && matches!(kind, Ok(FileType::RegularFile | FileType::CharacterDevice))
}

/// `zctrace: 12 s, 161 processes, 1240000 calls, 312 MiB`.
fn line(progress: &Progress) -> String {
    format!(
        "zctrace: {} s, {}, {}, {}",
        progress.elapsed.as_secs(),
        plural(progress.processes, "process", "processes"),
        plural(progress.calls, "call", "calls"),
        units::short_bytes(progress.bytes),
    )
}
