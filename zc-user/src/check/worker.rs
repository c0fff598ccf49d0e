//! A worker: a `zctrace` process that does one run after the other, so that it loads the programs
//! once. It can be killed with everything below it.
//!
//! Its stdin is a socket, on which it gets jobs and answers them.

use std::{
    io::{self, PipeWriter},
    os::{
        fd::OwnedFd,
        unix::{net, process::CommandExt as _},
    },
    path::Path,
    process::{Command, Stdio},
};

use nix::{
    sys::{
        prctl,
        signal::{SigSet, SigmaskHow, Signal, pthread_sigmask},
    },
    unistd::{Pid, getpid},
};
use rustix::{
    buffer::spare_capacity,
    process::{WaitId, WaitIdOptions, setsid, waitid},
};
use serde_json::value::RawValue;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufStream},
    net::{UnixStream, unix::pipe::Receiver},
};

use super::job::{Answer, Job, from_line, to_line};
use crate::{descendants, launch::Child};

/// The name by which `zctrace` knows that it is a worker: the first word of its command line.
pub const WORKER: &str = "zctrace: worker of check";

/// A worker that waits for jobs. Dropping it kills it with all its descendants.
pub(super) struct Worker {
    pid: Pid,
    child: Child,
    jobs: BufStream<UnixStream>,
    stderr: Stderr,
    is_dead: bool,
    /// Whether it has done a job.
    has_worked: bool,
}

impl Worker {
    /// Starts one, in a tokio runtime. `mask` is its signal mask. If `shows_output`, it writes to
    /// this process's stdout and stderr.
    pub(super) fn start(zctrace: &Path, shows_output: bool, mask: SigSet) -> io::Result<Self> {
        let (jobs, other_end) = net::UnixStream::pair()?;
        jobs.set_nonblocking(true)?;
        let mut command = Command::new(zctrace);
        command.arg0(WORKER).stdin(OwnedFd::from(other_end));
        let mut stderr = Stderr::default();
        if !shows_output {
            let (reader, writer) = Stderr::pipe()?;
            stderr = reader;
            command.stdout(Stdio::null()).stderr(writer);
        }
        let parent = getpid();
        // SAFETY: the closure runs between fork and exec, and only makes plain system calls.
        unsafe {
            command.pre_exec(move || {
                // Keeps what it does to its process group and terminal away from this process and
                // from other checks.
                setsid()?;
                // Keeps all its descendants below it, where they can be found.
                prctl::set_child_subreaper(true)?;
                descendants::end_with_parent(parent, Signal::SIGKILL)?;
                pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&mask), None).map_err(io::Error::from)
            });
        }
        let pid = Pid::from_raw(command.spawn()?.id().cast_signed());
        Ok(Self {
            pid,
            child: Child::adopt(pid)?,
            jobs: BufStream::new(UnixStream::from_std(jobs)?),
            stderr,
            is_dead: false,
            has_worked: false,
        })
    }

    /// Its process ID.
    pub(super) const fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether it died while it waited for a job.
    pub(super) fn is_gone(&self) -> bool {
        // It stays as it is for `kill`, which waits for it.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let pid = rustix::process::Pid::from_raw(self.pid.as_raw());
        let ended = pid.map(|pid| waitid(WaitId::Pid(pid), look));
        !matches!(ended, Some(Ok(None)))
    }

    /// Has it do a job. An error: it died.
    pub(super) async fn work(&mut self, job: &Job) -> io::Result<Answer<Box<RawValue>>> {
        self.jobs.write_all(&to_line(job)?).await?;
        self.jobs.flush().await?;
        let mut line = Vec::new();
        let answered = self.jobs.read_until(b'\n', &mut line);
        tokio::pin!(answered);
        loop {
            tokio::select! {
                // It may die after its answer.
                biased;
                read = &mut answered => {
                    read?;
                    break;
                }
                exit = self.child.wait(), if !self.is_dead => {
                    self.is_dead = true;
                    exit?;
                }
                () = self.stderr.read_more() => {}
            }
        }
        self.has_worked |= !line.is_empty();
        from_line(&line)
    }

    /// Whether this is the error of a job that it had not begun: it died while it waited for one. The
    /// kernel says so of a socket that is closed before all is read (`unix_release_sock`). One that
    /// has done nothing yet may never be able to.
    pub(super) fn died_before(&self, error: &io::Error) -> bool {
        let unread = [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
        self.has_worked && unread.contains(&error.kind())
    }

    /// What was written to stderr since the last time, as lines: the end of it.
    pub(super) fn take_lines(&mut self) -> Vec<String> {
        self.stderr.read_rest();
        self.stderr.take_lines()
    }

    /// Kills it with all its descendants.
    pub(super) fn kill(&mut self) {
        if !self.is_dead {
            descendants::kill_with_descendants(self.pid);
            self.is_dead = true;
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// How many bytes of stderr are kept at most.
const MAX_BYTES: usize = 64 << 10;
/// How many bytes are read at a time. A pipe holds as many by default, so one read gets everything
/// that was written before the process ended.
const PIPE_BYTES: usize = 64 << 10;

/// The end of what a command writes to stderr.
#[derive(Default)]
struct Stderr {
    /// `None` once every writer has closed it, and for a command that writes elsewhere.
    pipe: Option<Receiver>,
    kept: Vec<u8>,
    /// Whether earlier bytes were dropped.
    is_cut: bool,
}

impl Stderr {
    /// A pipe, with the end that the command writes to.
    fn pipe() -> io::Result<(Self, PipeWriter)> {
        let (reader, writer) = io::pipe()?;
        let stderr = Self {
            pipe: Some(Receiver::from_owned_fd(OwnedFd::from(reader))?),
            ..Self::default()
        };
        Ok((stderr, writer))
    }

    /// Waits until something is written, and reads it, so that the pipe does not fill up and block
    /// the command. Never returns once every writer has closed it.
    async fn read_more(&mut self) {
        let Some(pipe) = &self.pipe else {
            return std::future::pending().await;
        };
        let _ = pipe.readable().await;
        let mut bytes = Vec::with_capacity(PIPE_BYTES);
        let read = pipe.try_read_buf(&mut bytes);
        self.keep(read.ok(), &mut bytes);
    }

    /// Reads what was written before the process ended, without waiting. It may have left a process
    /// that goes on writing.
    fn read_rest(&mut self) {
        if let Some(pipe) = &self.pipe {
            let mut bytes = Vec::with_capacity(PIPE_BYTES);
            let read = rustix::io::read(pipe, spare_capacity(&mut bytes));
            self.keep(read.ok(), &mut bytes);
        }
    }

    /// Keeps the end of what was read so far.
    fn keep(&mut self, read: Option<usize>, bytes: &mut Vec<u8>) {
        if read == Some(0) {
            self.pipe = None;
        }
        self.kept.append(bytes);
        let too_many = self.kept.len().saturating_sub(MAX_BYTES);
        self.is_cut |= too_many > 0;
        self.kept.drain(..too_many);
    }

    /// The lines that were kept, which are forgotten.
    fn take_lines(&mut self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.kept);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if let Some(first) = lines.first_mut().filter(|_| self.is_cut) {
            first.insert(0, '…');
        }
        (self.kept, self.is_cut) = (Vec::new(), false);
        lines
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[tokio::test]
    async fn the_end_of_stderr_is_kept_and_the_writer_is_not_blocked() {
        let (mut stderr, mut writer) = Stderr::pipe().expect("a pipe");
        for number in 0..30_000 {
            // The pipe holds more than 1000 lines, so no write blocks.
            writeln!(writer, "line {number}").expect("is read");
            if number % 1000 == 0 {
                stderr.read_more().await;
            }
        }
        stderr.read_rest();
        drop(writer);
        // A process that another test forks has a copy of the writing end until its exec.
        while stderr.pipe.is_some() {
            stderr.read_more().await;
        }
        assert!(stderr.kept.len() <= MAX_BYTES);
        let lines = stderr.take_lines();
        assert!(lines[0].starts_with('…'), "{}", lines[0]);
        assert_eq!(lines.last().map(String::as_str), Some("line 29999"));
    }
}
