//! What a command writes to stderr: a pipe of which the end is kept.

use std::{
    io::{self, PipeReader, PipeWriter, Read as _},
    os::fd::{AsFd, BorrowedFd},
};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// How many bytes are kept at least.
const MOST_BYTES: usize = 64 << 10;
/// How many lines are shown.
const MOST_LINES: usize = 20;
/// How many characters of a line are shown.
const MOST_CHARS: usize = 300;
/// How much is taken at a time: as much as a pipe holds, so that what was written before a process ended is taken then, and no more than
/// that, should another go on writing.
const PIPE_BYTES: usize = 64 << 10;

/// The reading end of a command's stderr.
pub(super) struct Stderr {
    /// `None` after its end.
    pipe: Option<PipeReader>,
    kept: Vec<u8>,
    /// Whether what is kept has a beginning that is not.
    is_cut: bool,
}

impl Stderr {
    /// With the end that the command writes to.
    pub(super) fn new() -> io::Result<(Self, PipeWriter)> {
        let (reader, writer) = io::pipe()?;
        fcntl_setfl(&reader, fcntl_getfl(&reader)? | OFlags::NONBLOCK)?;
        Ok((Self { pipe: Some(reader), ..Self::nowhere() }, writer))
    }

    /// Of a command that writes elsewhere.
    pub(super) fn nowhere() -> Self {
        Self { pipe: None, kept: Vec::new(), is_cut: false }
    }

    /// What can be waited for: there is something to take.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Takes what was written.
    pub(super) fn take(&mut self) {
        let mut buffer = vec![0; PIPE_BYTES];
        let Some(pipe) = &mut self.pipe else { return };
        let mut taken = 0;
        while taken < PIPE_BYTES {
            match pipe.read(&mut buffer) {
                Ok(0) => {
                    self.pipe = None;
                    break;
                }
                Ok(count) => {
                    taken += count;
                    self.kept.extend_from_slice(&buffer[..count]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let too_many = self.kept.len().saturating_sub(MOST_BYTES);
        self.is_cut |= too_many > 0;
        self.kept.drain(..too_many);
    }

    /// The lines that are kept.
    pub(super) fn lines(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.kept);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if let Some(first) = lines.first_mut().filter(|_| self.is_cut) {
            first.insert(0, '…');
        }
        lines
    }
}

/// The last lines, as far as they are shown.
pub(super) fn last_of(mut lines: Vec<String>) -> Vec<String> {
    lines.drain(..lines.len().saturating_sub(MOST_LINES));
    for line in &mut lines {
        if let Some((end, _)) = line.char_indices().nth(MOST_CHARS) {
            line.truncate(end);
            line.push('…');
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_end_is_kept_and_a_writer_never_waits_for_long() {
        let (mut stderr, mut writer) = Stderr::new().expect("a pipe");
        for number in 0..30_000 {
            // As long as the pipe has room, the next byte is taken at once.
            writeln!(writer, "line {number}").expect("is read");
            if number % 1000 == 0 {
                stderr.take();
            }
        }
        stderr.take();
        drop(writer);
        // A process that another test starts may have it, too, until its exec.
        while stderr.fd().is_some() {
            stderr.take();
            std::thread::yield_now();
        }
        let lines = stderr.lines();
        assert!(stderr.kept.len() <= MOST_BYTES);
        assert!(lines[0].starts_with('…'), "{}", lines[0]);
        let last = last_of(lines);
        assert_eq!((last.len(), last[MOST_LINES - 1].as_str()), (MOST_LINES, "line 29999"));
    }

    #[test]
    fn long_lines_are_cut() {
        let (mut stderr, mut writer) = Stderr::new().expect("a pipe");
        writer.write_all("é".repeat(1000).as_bytes()).expect("is read");
        stderr.take();
        assert!(stderr.fd().is_some(), "somebody may go on writing");
        assert_eq!(last_of(stderr.lines()), ["é".repeat(MOST_CHARS) + "…"]);
    }
}
