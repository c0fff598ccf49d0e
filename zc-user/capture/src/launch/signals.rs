//! Signals to zctrace while a command runs.

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

/// The signals that a person or a supervisor ends a program with; zctrace must outlive its command to report on it.
const ENDING: [Signal; 4] = [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGHUP];
/// The other signals that would end zctrace, and that are meant for a program (`man 7 signal`). Real-time signals are among them.
/// Not SIGPIPE, which Rust's runtime ignores, nor those that tell of a fault of zctrace's own.
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

/// Signals to zctrace, held back from this thread so that they can be handed on.
///
/// They stay held back as long as the thread lives: what ends the command must not end zctrace before it has reported.
pub struct Signals {
    /// Where they come from; `None`: nothing is held back.
    fd: Option<AsyncFd<SignalFd>>,
    before: SigSet,
    on_tracer_exit: OnTracerExit,
}

thread_local! {
    /// The signal mask that this thread began with; the command has it. Noted once, since a second backend may take over.
    static MASK_BEFORE: OnceCell<SigSet> = const { OnceCell::new() };
}

impl Signals {
    /// Holds the signals back, to be handed on to a command with this on_tracer_exit. To be called in a tokio runtime, and in the program
    /// zctrace before any other thread is there: a signal goes to whichever thread does not hold it back.
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

    /// The next signal that the command has not had yet. What the terminal sends, it sends to the command too.
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

    /// The mask that a command is to have.
    pub(super) fn before(&self) -> SigSet {
        self.before
    }

    /// The same as [`next`](Self::next), if there is one already.
    pub fn pending(&self) -> Result<Option<Received>, SignalError> {
        let Some(fd) = &self.fd else { return Ok(None) };
        let Some(info) = fd.get_ref().read_signal().map_err(io::Error::from)? else { return Ok(None) };
        let number = i32::try_from(info.ssi_signo).map_err(io::Error::other)?;
        match ENDING.into_iter().find(|signal| *signal as i32 == number) {
            Some(signal) if self.on_tracer_exit != OnTracerExit::KeepRunning => Err(SignalError::Interrupted(signal)),
            Some(_) if info.ssi_code == FROM_KERNEL => Ok(Some(Received::FromTerminal)),
            // The kernel says that zctrace itself has used up its CPU time, or has written too much.
            None if [libc::SIGXCPU, libc::SIGXFSZ].contains(&number) && is_from_itself(&info) => Ok(Some(Received::Own)),
            _ => Ok(Some(Received::ToForward(number))),
        }
    }
}

/// The signals that are held back.
fn held() -> SigSet {
    let set: SigSet = ENDING.into_iter().chain(OTHERS).collect();
    let mut set = *set.as_ref();
    for number in libc::SIGRTMIN()..=libc::SIGRTMAX() {
        // SAFETY: the set is initialized; a number that is no signal's is an error and changes nothing.
        unsafe { libc::sigaddset(&raw mut set, number) };
    }
    // SAFETY: it was made of a valid set.
    unsafe { SigSet::from_sigset_t_unchecked(set) }
}

fn is_from_itself(info: &libc::signalfd_siginfo) -> bool {
    info.ssi_code == FROM_KERNEL || info.ssi_pid == std::process::id()
}

/// There is no signal to hand on.
#[derive(Debug, Error)]
pub enum SignalError {
    /// A signal came, and the command is of no use without zctrace: both are to end.
    #[error("interrupted by {0}")]
    Interrupted(Signal),
    /// Signals could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A signal to zctrace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// The command has it too.
    FromTerminal,
    /// The command is to have the signal of this number.
    ToForward(i32),
    /// It is about zctrace itself, and has no effect.
    Own,
}

impl Received {
    /// Whether a person or a supervisor wants an end of it.
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
