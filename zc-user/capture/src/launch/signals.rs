//! Blocks signals to zctrace while a command runs, and forwards them to the command.

use std::{cell::OnceCell, io};

use nix::{
    errno::Errno,
    sys::{
        signal::{SigSet, SigmaskHow, Signal, pthread_sigmask},
        signalfd::{SfdFlags, SignalFd},
    },
    unistd::Pid,
};
use thiserror::Error;
use tokio::io::unix::AsyncFd;

use super::OnTracerExit;
use crate::async_fd::watch_readable;

/// The signals by which a person or a supervisor ends a program. zctrace must outlive its command to report on it.
const ENDING: [Signal; 4] = [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGHUP];
/// The other signals that would end zctrace and that somebody may send to the command (`man 7 signal`); real-time signals are added in
/// [`held`]. Not SIGPIPE, which Rust's runtime ignores, nor those that report a fault of zctrace itself.
const OTHERS: [Signal; 10] = [
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGVTALRM,
    Signal::SIGPROF,
    Signal::SIGSTKFLT,
    Signal::SIGIO,
    Signal::SIGPWR,
    Signal::SIGXCPU,
    Signal::SIGXFSZ,
];
/// `SI_KERNEL` of the kernel's include/uapi/asm-generic/siginfo.h: the terminal sent the signal, to the whole process group.
const FROM_KERNEL: i32 = 0x80;

/// Signals to zctrace, blocked in this thread so that they can be forwarded.
///
/// They stay blocked as long as the thread lives: a signal that ends the command must not end zctrace before it has reported.
pub struct Signals {
    /// The descriptor that they are read from; `None` if none are blocked.
    fd: Option<AsyncFd<SignalFd>>,
    before: SigSet,
    on_tracer_exit: OnTracerExit,
}

thread_local! {
    /// The signal mask that this thread began with, which the command gets. It is noted once, since a second backend may take over.
    static MASK_BEFORE: OnceCell<SigSet> = const { OnceCell::new() };
}

impl Signals {
    /// Blocks the signals, unless zctrace is a guest in this process. To be called in a tokio runtime, and in the program zctrace before
    /// any other thread exists: the kernel delivers a signal to any thread that does not block it.
    pub fn hold(on_tracer_exit: OnTracerExit) -> io::Result<Self> {
        if on_tracer_exit == OnTracerExit::KillInHost {
            return Ok(Self { fd: None, before: SigSet::thread_get_mask()?, on_tracer_exit });
        }
        let held = held();
        let mut before = SigSet::empty();
        pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&held), Some(&mut before))?;
        let before = MASK_BEFORE.with(|noted| *noted.get_or_init(|| before));
        let fd = SignalFd::with_flags(&held, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Self { fd: Some(watch_readable(fd)?), before, on_tracer_exit })
    }

    /// The next signal. One from the terminal has reached the command already.
    pub async fn next(&self) -> Result<Received, SignalError> {
        let Some(fd) = &self.fd else { return std::future::pending().await };
        loop {
            let mut ready = fd.readable().await?;
            match self.pending()? {
                Some(received) => return Ok(received),
                None => ready.clear_ready(),
            }
        }
    }

    /// The signal mask for the command.
    pub(super) fn before(&self) -> SigSet {
        self.before
    }

    /// Like [`next`](Self::next), but does not wait.
    pub fn pending(&self) -> Result<Option<Received>, SignalError> {
        let Some(fd) = &self.fd else { return Ok(None) };
        let Some(info) = fd.get_ref().read_signal().map_err(io::Error::from)? else { return Ok(None) };
        let number = i32::try_from(info.ssi_signo).map_err(io::Error::other)?;
        match ENDING.into_iter().find(|signal| *signal as i32 == number) {
            Some(signal) if self.on_tracer_exit != OnTracerExit::KeepRunning => Err(SignalError::Interrupted(signal)),
            Some(_) if info.ssi_code == FROM_KERNEL => Ok(Some(Received::FromTerminal)),
            // The kernel reports that zctrace itself exceeded its limit of CPU time or file size.
            None if [libc::SIGXCPU, libc::SIGXFSZ].contains(&number) && is_from_itself(&info) => Ok(Some(Received::Own)),
            _ => Ok(Some(Received::ToForward(number))),
        }
    }
}

/// The signals that are blocked.
fn held() -> SigSet {
    let set: SigSet = ENDING.into_iter().chain(OTHERS).collect();
    let mut set = *set.as_ref();
    for number in libc::SIGRTMIN()..=libc::SIGRTMAX() {
        // SAFETY: the set is initialized; for an invalid number it fails and changes nothing.
        unsafe { libc::sigaddset(&raw mut set, number) };
    }
    // SAFETY: it was made of a valid set.
    unsafe { SigSet::from_sigset_t_unchecked(set) }
}

fn is_from_itself(info: &libc::signalfd_siginfo) -> bool {
    info.ssi_code == FROM_KERNEL || info.ssi_pid == std::process::id()
}

/// Why there is no signal to forward.
#[derive(Debug, Error)]
pub enum SignalError {
    /// A signal came that ends both the command and zctrace.
    #[error("interrupted by {0}")]
    Interrupted(Signal),
    /// Signals could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A signal to zctrace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// The terminal sent it to the command, too.
    FromTerminal,
    /// The signal of this number has to be forwarded to the command.
    ToForward(i32),
    /// It is about zctrace itself, and has no effect.
    Own,
}

impl Received {
    /// Whether a person or a supervisor wants the command to end.
    pub fn is_ending(self) -> bool {
        match self {
            Self::FromTerminal => true,
            Self::ToForward(number) => ENDING.into_iter().any(|signal| signal as i32 == number),
            Self::Own => false,
        }
    }
}

/// Sends the signal of this number to a process.
pub(crate) fn send(process: Pid, number: i32) -> Result<(), Errno> {
    // SAFETY: no pointers are passed.
    Errno::result(unsafe { libc::kill(process.as_raw(), number) }).map(drop)
}
