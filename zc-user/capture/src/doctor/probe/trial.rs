//! Trials: doing for a moment what a backend does, since no list of settings tells for sure what will be refused.

use std::{
    io::{self, PipeWriter},
    os::fd::AsRawFd as _,
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, kill},
        wait::{WaitStatus, waitpid},
    },
    unistd::{ForkResult, Pid, fork},
};

use super::{super::facts::Trial, limited};
use crate::{
    backend::{
        Limits,
        ebpf::{
            EbpfUnavailable,
            kernel::TypesFile,
            object::{Loaded, Settings},
        },
    },
    syscall::Selection,
};

/// Loads and attaches the eBPF programs with small maps, and takes them off again.
pub(super) fn ebpf() -> Trial {
    let limits = Limits { max_rows: 64, max_files: 64, max_tasks: 64 };
    let settings = Settings { selection: &Selection::default(), limits, verbose: false };
    match TypesFile::find().and_then(|types| Loaded::new(&settings, types)) {
        Ok(_) => Trial::Works,
        Err(EbpfUnavailable::NotPermitted) => Trial::Denied,
        Err(other) => Trial::Failed(other.to_string()),
    }
}

/// A child asks to be traced by this process. It neither stops nor runs anything.
pub(super) fn ptrace(limit: Duration) -> Trial {
    match ask_child(limit) {
        Ok(Some(0)) => Trial::Works,
        Ok(Some(errno)) => match Errno::from_raw(errno.into()) {
            Errno::EPERM | Errno::EACCES => Trial::Denied,
            errno => Trial::Failed(errno.desc().to_owned()),
        },
        Ok(None) => Trial::Failed("a process that asks for it is killed".to_owned()),
        Err(error) => Trial::Failed(error.to_string()),
    }
}

/// The errno that the child got, 0 for none; `None` if it died before it could tell.
fn ask_child(limit: Duration) -> io::Result<Option<u8>> {
    let (mut answer, question) = io::pipe()?;
    // SAFETY: other threads may hold locks, so the child only makes calls that are async-signal-safe, and never returns.
    match unsafe { fork() }? {
        ForkResult::Child => ask_to_be_traced(&question),
        ForkResult::Parent { child } => {
            drop(question);
            let said = limited::read(&mut answer, limit);
            end(child);
            Ok(said?.first().copied())
        }
    }
}

/// Runs in the forked child.
fn ask_to_be_traced(answer: &PipeWriter) -> ! {
    // SAFETY: this request takes no arguments.
    let refused = unsafe { libc::ptrace(libc::PTRACE_TRACEME) } < 0;
    // Linux's errnos that ptrace(2) can give are all below 134.
    let errno = if refused { u8::try_from(Errno::last_raw()).unwrap_or(u8::MAX) } else { 0 };
    // SAFETY: one byte of ours to a descriptor that is open. That nobody reads it any more does not matter.
    let _ = unsafe { libc::write(answer.as_raw_fd(), (&raw const errno).cast(), 1) };
    // SAFETY: ends this process at once; nothing that was inherited is flushed or dropped a second time.
    unsafe { libc::_exit(0) }
}

/// Makes sure that the child is gone. Should a signal have stopped it for its tracer, which is this process, this one ends it.
fn end(child: Pid) {
    // It has a pid as long as nobody waited for it. If SIGCHLD is ignored, the kernel does that: both calls then fail, as well.
    let _ = kill(child, Signal::SIGKILL);
    loop {
        match waitpid(child, None) {
            Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) => return,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_trial_has_an_end_and_leaves_nobody_behind() {
        let limit = Duration::from_mins(1);
        let began = Instant::now();
        for _ in 0..20 {
            // Whether it is allowed is up to the machine; that the child says so is not.
            assert!(!matches!(ptrace(limit), Trial::Failed(_)), "{:?}", ptrace(limit));
        }
        assert!(began.elapsed() < limit);
    }
}
