//! Signals that end a series of checks.

use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::{
    signal::{SigSet, SigmaskHow, Signal, pthread_sigmask},
    signalfd::{SfdFlags, SignalFd},
};

/// The signals that a person or a supervisor ends a program with.
const ENDING: [Signal; 4] = [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGHUP];

/// Holds these signals back as long as it lives, so that they can be waited for.
pub(super) struct Interrupts {
    fd: SignalFd,
    before: SigSet,
}

impl Interrupts {
    pub(super) fn hold() -> nix::Result<Self> {
        // Whoever started us so (`nohup`) wants it to have no effect.
        let held: SigSet = ENDING.into_iter().filter(|&signal| !is_ignored(signal)).collect();
        let mut before = SigSet::empty();
        pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&held), Some(&mut before))?;
        Ok(Self { fd: SignalFd::with_flags(&held, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?, before })
    }

    /// The mask that a child is to have.
    pub(super) fn before(&self) -> SigSet {
        self.before
    }

    /// A signal that came.
    pub(super) fn pending(&self) -> Option<Signal> {
        let info = self.fd.read_signal().ok().flatten()?;
        i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok())
    }
}

/// Whether a signal has no effect on this process.
fn is_ignored(signal: Signal) -> bool {
    // SAFETY: all zeros is a valid sigaction, and the call only fills it in.
    let action = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal as i32, std::ptr::null(), &raw mut action);
        action
    };
    action.sa_sigaction == libc::SIG_IGN
}

impl AsFd for Interrupts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&self.before), None);
    }
}
