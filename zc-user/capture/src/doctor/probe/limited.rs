//! Hearing what somebody says without waiting for ever, or for ever listening.

use std::{
    io::{self, Read},
    os::fd::{AsFd, AsRawFd as _, BorrowedFd},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// More than anybody has to say here, in bytes.
const MOST: usize = 1 << 16;

/// What a program writes to stdout. It gets no input, and after the limit no more time.
pub(super) fn output(command: &mut Command, limit: Duration) -> io::Result<String> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let said = match child.stdout.take() {
        Some(mut stdout) => read(&mut stdout, limit),
        None => Err(io::ErrorKind::BrokenPipe.into()),
    };
    // It has said what it had to say, or it never will. That it has ended by itself is no error.
    let _ = child.kill();
    let _ = child.wait();
    said.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// What comes up to the end of a pipe, or the first [`MOST`] bytes. An error if neither is there within the limit.
pub(super) fn read(pipe: &mut (impl Read + AsFd), limit: Duration) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + limit;
    let mut all = Vec::new();
    let mut chunk = [0; 4096];
    while all.len() < MOST {
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

/// Waits until there is something to read, the end included; `false` if there is nothing in time.
fn is_readable(fd: BorrowedFd<'_>, within: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + within;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // Rounded up: it must not return before the deadline.
        let left_ms = i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX);
        let mut wanted = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which is ours; the descriptor is open as long as it is borrowed.
        match unsafe { libc::poll(&raw mut wanted, 1, left_ms) } {
            0 => return Ok(false),
            1.. => return Ok(true),
            _ => {}
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn an_answer_is_heard() {
        let said = output(Command::new("cat").arg("--version"), LONG).expect("cat answers");
        assert!(said.contains("cat"), "{said}");
        assert_eq!(output(&mut Command::new("false"), LONG).expect("it ends"), "");
    }

    #[test]
    fn silence_has_an_end() {
        let began = Instant::now();
        let error = output(Command::new("sleep").arg("600"), SHORT).expect_err("sleep says nothing");
        assert_eq!(error.to_string(), "no answer within 50ms");
        assert!(began.elapsed() < LONG);
    }

    #[test]
    fn what_has_no_end_is_cut() {
        let said = output(&mut Command::new("yes"), LONG).expect("yes answers");
        assert!((MOST..2 * MOST).contains(&said.len()), "{}", said.len());
    }

    #[test]
    fn closing_stdout_is_no_way_to_keep_us_waiting() {
        let began = Instant::now();
        assert_eq!(output(Command::new("sh").args(["-c", "exec >&-; exec sleep 600"]), LONG).expect("an end"), "");
        assert!(began.elapsed() < LONG);
    }
}
