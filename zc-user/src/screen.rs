//! The whole terminal, for the live view: keys come as they are typed, and a second screen is drawn
//! on, so that what the terminal showed before is still there when the view ends.
//!
//! Whatever ends the view gives the terminal back: [`Screen`] does when it is dropped, and a panic in
//! any thread does before its message. Only SIGKILL to zctrace leaves that undone.

use std::{
    fs::File,
    io::{self, BufWriter},
    os::fd::{AsFd as _, BorrowedFd},
    panic,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Context as _, ensure};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::{
    Frame, Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor, execute,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen},
    },
};
use rustix::{
    process::getpgrp,
    termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr},
};
use zctrace::top::{KeyPress, is_cut, parse_keys};

/// How long to wait for the rest of the bytes of a key, in ms. Without a rest, it was Escape.
const REST_MS: u8 = 50;

/// Opens the terminal, if a view can be shown on it.
pub fn open_terminal() -> anyhow::Result<File> {
    let term = std::env::var("TERM").unwrap_or_default();
    ensure!(
        !term.is_empty() && term != "dumb",
        "the live view needs a terminal that can move its cursor, and TERM is '{term}': set TERM, or leave out `top`"
    );
    let tty = File::options().read(true).write(true).open("/dev/tty");
    let tty = tty.ok();
    let tty = tty.context("the live view needs a terminal, and there is none: leave out `top`")?;
    let is_foreground = tcgetpgrp(&tty).is_ok_and(|group| group == getpgrp());
    ensure!(
        is_foreground,
        "the live view needs the terminal, and zctrace runs in its background: start it in the foreground"
    );
    Ok(tty)
}

/// What happened on the terminal, or beside it.
pub enum ScreenEvent {
    /// These keys were pressed.
    Keys(Vec<KeyPress>),
    /// There is something new to show.
    News,
    /// There will be nothing new any more, or the terminal is gone.
    Over,
}

/// The terminal while the view is shown.
pub struct Screen {
    tty: File,
    terminal: Terminal<CrosstermBackend<BufWriter<File>>>,
    lent: Arc<LentTerminal>,
}

impl Screen {
    /// Takes the terminal.
    pub fn open(tty: File) -> anyhow::Result<Self> {
        let lent = Arc::new(LentTerminal::take(tty.try_clone()?)?);
        give_back_on_panic(&lent);
        let backend = CrosstermBackend::new(BufWriter::new(tty.try_clone()?));
        let terminal = Terminal::new(backend)?;
        Ok(Self {
            tty,
            terminal,
            lent,
        })
    }

    /// Draws the screen anew; only what differs is written. A terminal that has another size by now
    /// is drawn in that size.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(draw).map(drop)
    }

    /// Waits until keys are pressed or there is a byte in `news`, which is over when its writer is
    /// closed.
    pub fn wait(&mut self, news: &mut io::PipeReader) -> io::Result<ScreenEvent> {
        let tty = is_ready(&[self.tty.as_fd(), news.as_fd()], PollTimeout::NONE)?;
        if tty[0] {
            return self.read_keys();
        }
        let mut bytes = [0; 64];
        Ok(match io::Read::read(news, &mut bytes)? {
            0 => ScreenEvent::Over,
            _ => ScreenEvent::News,
        })
    }

    fn read_keys(&mut self) -> io::Result<ScreenEvent> {
        let mut bytes = Vec::new();
        loop {
            let mut more = [0; 256];
            match io::Read::read(&mut self.tty, &mut more) {
                // It has hung up.
                Ok(0) | Err(_) => return Ok(ScreenEvent::Over),
                Ok(count) => bytes.extend_from_slice(&more[..count]),
            }
            if !is_cut(&bytes) || !is_ready(&[self.tty.as_fd()], REST_MS.into())?[0] {
                return Ok(ScreenEvent::Keys(parse_keys(&bytes)));
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.lent.give_back();
    }
}

/// Waits until one of these can be read, or has hung up: which.
fn is_ready(files: &[BorrowedFd<'_>], limit: PollTimeout) -> io::Result<Vec<bool>> {
    let mut polled: Vec<PollFd<'_>> = files
        .iter()
        .map(|&file| PollFd::new(file, PollFlags::POLLIN))
        .collect();
    poll(&mut polled, limit)?;
    Ok(polled.iter().map(|file| file.any() == Some(true)).collect())
}

/// A terminal with what it has to become again.
struct LentTerminal {
    tty: File,
    modes: Termios,
    is_lent: AtomicBool,
}

impl LentTerminal {
    fn take(tty: File) -> io::Result<Self> {
        let modes = tcgetattr(&tty)?;
        let mut raw = modes.clone();
        raw.make_raw();
        tcsetattr(&tty, OptionalActions::Now, &raw)?;
        let this = Self {
            tty,
            modes,
            is_lent: AtomicBool::new(true),
        };
        match execute!(&this.tty, EnterAlternateScreen, cursor::Hide) {
            Ok(()) => Ok(this),
            Err(error) => {
                this.give_back();
                Err(error)
            }
        }
    }

    /// Gives the terminal back, once. If that fails, the terminal is gone.
    fn give_back(&self) {
        if self.is_lent.swap(false, Ordering::Relaxed) {
            let _ = execute!(&self.tty, LeaveAlternateScreen, cursor::Show);
            // Keys that were not read were meant for the view.
            let _ = tcsetattr(&self.tty, OptionalActions::Flush, &self.modes);
        }
    }
}

/// Gives the terminal back before the message of a panic, which would be lost with the view.
fn give_back_on_panic(lent: &Arc<LentTerminal>) {
    let lent = Arc::clone(lent);
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        lent.give_back();
        before(panic);
    }));
}
