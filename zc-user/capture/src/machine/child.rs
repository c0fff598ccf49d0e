//! Short-lived child processes that answer a question, each with a deadline: what a program prints, and whether ptrace(2) is allowed.

use std::{
    io::{self, PipeWriter, Read},
    os::fd::{AsFd, AsRawFd as _, BorrowedFd},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, kill},
        wait::{WaitStatus, waitpid},
    },
    unistd::{ForkResult, Pid, fork},
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Trial;

/// Bytes that are read of an answer at most.
const MAX_BYTES: usize = 1 << 16;

/// What a program writes to stdout within the time limit. It gets no input.
pub(crate) fn output(command: &mut Command, limit: Duration) -> io::Result<String> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let said = match child.stdout.take() {
        Some(mut stdout) => read(&mut stdout, limit),
        None => Err(io::ErrorKind::BrokenPipe.into()),
    };
    // Its answer is complete or too late. It may have ended by itself already.
    let _ = child.kill();
    let _ = child.wait();
    said.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads a pipe to its end, or its first [`MAX_BYTES`] bytes. It is an error if that takes longer than the limit.
fn read(pipe: &mut (impl Read + AsFd), limit: Duration) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + limit;
    let mut all = Vec::new();
    let mut chunk = [0; 4096];
    while all.len() < MAX_BYTES {
        if !is_readable(pipe.as_fd(), deadline.saturating_duration_since(Instant::now()))? {
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {limit:?}")));
        }
        match pipe.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => all.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// Waits until there is something to read, or the end of the pipe; `false` if neither comes in time.
fn is_readable(fd: BorrowedFd<'_>, within: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + within;
    loop {
        let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).map_err(io::Error::other)?;
        match poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether a child of this process may be traced. It only asks: it neither stops nor executes a program.
pub(crate) fn try_ptrace(limit: Duration) -> Trial {
    match ask_child(limit) {
        Ok(Some(0)) => Trial::Works,
        Ok(Some(errno)) => match Errno::from_raw(errno.into()) {
            Errno::EPERM | Errno::EACCES => Trial::Denied,
            errno => Trial::Failed(errno.desc().to_owned()),
        },
        Ok(None) => Trial::Failed("the process that asked for it was killed".to_owned()),
        Err(error) => Trial::Failed(error.to_string()),
    }
}

/// The errno that the child got, 0 if none; `None` if it died before it could answer.
fn ask_child(limit: Duration) -> io::Result<Option<u8>> {
    let (mut answer, question) = io::pipe()?;
    // SAFETY: other threads may hold locks, so the child only makes async-signal-safe calls, and never returns.
    match unsafe { fork() }? {
        ForkResult::Child => ask_to_be_traced(&question),
        ForkResult::Parent { child } => {
            drop(question);
            let said = read(&mut answer, limit);
            kill_and_wait(child);
            Ok(said?.first().copied())
        }
    }
}

/// Runs in the forked child.
fn ask_to_be_traced(answer: &PipeWriter) -> ! {
    // SAFETY: this request takes no arguments.
    let refused = unsafe { libc::ptrace(libc::PTRACE_TRACEME) } < 0;
    // All errnos of ptrace(2) are below 134.
    let errno = if refused { u8::try_from(Errno::last_raw()).unwrap_or(u8::MAX) } else { 0 };
    // SAFETY: writes one byte of ours to an open descriptor. An error does not matter: nobody reads it then.
    let _ = unsafe { libc::write(answer.as_raw_fd(), (&raw const errno).cast(), 1) };
    // SAFETY: ends this process at once, so that nothing inherited is flushed or dropped twice.
    unsafe { libc::_exit(0) }
}

/// Kills the child and waits for it, even if a signal has stopped it for its tracer, which is this process.
fn kill_and_wait(child: Pid) {
    // The pid is valid until somebody waits for the child. If SIGCHLD is ignored, the kernel does; then both calls fail.
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
    use super::*;

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn the_output_of_a_program_is_read() {
        let said = output(Command::new("cat").arg("--version"), LONG).expect("cat answers");
        assert!(said.contains("cat"), "{said}");
        assert_eq!(output(&mut Command::new("false"), LONG).expect("it ends"), "");
    }

    #[test]
    fn a_program_that_writes_nothing_times_out() {
        let began = Instant::now();
        let error = output(Command::new("sleep").arg("600"), SHORT).expect_err("sleep says nothing");
        assert_eq!(error.to_string(), "no answer within 50ms");
        assert!(began.elapsed() < LONG);
    }

    #[test]
    fn endless_output_is_cut() {
        let said = output(&mut Command::new("yes"), LONG).expect("yes answers");
        assert!((MAX_BYTES..2 * MAX_BYTES).contains(&said.len()), "{}", said.len());
    }

    #[test]
    fn a_program_that_closes_stdout_is_not_waited_for() {
        let began = Instant::now();
        assert_eq!(output(Command::new("sh").args(["-c", "exec >&-; exec sleep 600"]), LONG).expect("an end"), "");
        assert!(began.elapsed() < LONG);
    }

    #[test]
    fn trying_ptrace_ends_and_leaves_no_process() {
        let limit = Duration::from_mins(1);
        let began = Instant::now();
        for _ in 0..20 {
            // This machine may deny it; but the child must answer.
            assert!(!matches!(try_ptrace(limit), Trial::Failed(_)), "{:?}", try_ptrace(limit));
        }
        assert!(began.elapsed() < limit);
    }
}
