//! A terminal for a program to run on.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::{fd::BorrowedFd, unix::process::CommandExt as _},
};

use rustix::{
    fs::{Mode, OFlags, open},
    process::{ioctl_tiocsctty, setsid},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize},
};

use super::{Group, Launch, group::with_default_interrupts};

/// A program that runs in the foreground of a terminal of its own.
pub struct Terminal {
    screen: File,
    group: Group,
    shown: String,
}

impl Terminal {
    /// Starts a program on a new terminal that is so many columns wide.
    pub fn start(columns: u16, launch: &Launch) -> Self {
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a pseudoterminal");
        grantpt(&screen).and_then(|()| unlockpt(&screen)).expect("it is ours");
        tcsetwinsize(&screen, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).expect("it is a terminal");
        let path = ptsname(&screen, Vec::new()).expect("it is a pseudoterminal");
        let line = File::from(open(path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).expect("unlocked"));
        // Else the kernel throws away what is shown just after a key that sends a signal.
        let mut modes = tcgetattr(&line).expect("it is a terminal");
        modes.local_modes |= LocalModes::NOFLSH;
        tcsetattr(&line, OptionalActions::Now, &modes).expect("it is a terminal");
        let stream = || line.try_clone().expect("one more descriptor");
        let mut command = launch.command();
        command.stdin(stream()).stdout(stream()).stderr(stream());
        // SAFETY: the closure makes two system calls and nothing else, and stdin is open.
        unsafe {
            command.pre_exec(|| {
                setsid()?;
                Ok(ioctl_tiocsctty(BorrowedFd::borrow_raw(0))?)
            });
        }
        let child = with_default_interrupts(&mut command).spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Self { screen: screen.into(), group: Group::of(child), shown: String::new() }
    }

    /// Waits until this text is shown.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        while !self.shown.contains(text) {
            assert!(self.read_more(), "no {text:?} on the terminal: {}", self.shown);
        }
    }

    /// Types.
    pub fn type_in(&mut self, keys: &str) {
        self.screen.write_all(keys.as_bytes()).expect("a terminal takes keys");
    }

    /// Waits for the program's end: its exit status, and everything that was shown.
    pub fn finish(mut self) -> (Option<i32>, String) {
        while self.read_more() {}
        (self.group.wait(), self.shown)
    }

    /// Reads what is shown next; false if nobody has the terminal open any more.
    fn read_more(&mut self) -> bool {
        let mut bytes = [0; 4096];
        match self.screen.read(&mut bytes) {
            Ok(0) => false,
            Ok(count) => {
                self.shown.push_str(&String::from_utf8_lossy(&bytes[..count]));
                true
            }
            // That is what a terminal without the other side says.
            Err(error) if error.raw_os_error() == Some(libc::EIO) => false,
            Err(error) => panic!("cannot read from the terminal: {error}"),
        }
    }
}
