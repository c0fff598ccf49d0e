//! The process at the other end of a pipe: this program again, as `feed -` or `sink -`.
//!
//! It gets its files as stdin and stdout, so all that can fail early fails here, in the copier, by name.

use std::env;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::process::{Signal, set_parent_process_death_signal};
use zc_tests::named;

use crate::moved::Moved;

/// A process that feeds or drains; it ends with the pipe, with this value, and with this process.
pub(crate) struct Helper {
    /// Taken when it is waited for.
    child: Option<Child>,
}

impl Helper {
    /// A pipe that another process feeds from the file.
    pub(crate) fn feed(file: File) -> Result<(PipeReader, Self)> {
        let (reader, writer) = io::pipe().map_err(named)?;
        Ok((reader, Self::start(&["feed", "-", "--from", "-"], file.into(), writer.into())?))
    }

    /// A pipe that another process drains into the file, and sums up if asked to.
    pub(crate) fn drain(file: File, checksum: bool) -> Result<(PipeWriter, Self)> {
        let (reader, writer) = io::pipe().map_err(named)?;
        let words: &[&str] = &["sink", "-", "--to", "-", "--checksum"];
        let words = if checksum { words } else { &words[..4] };
        Ok((writer, Self::start(words, reader.into(), file.into())?))
    }

    /// Has another process copy one file to another, and waits for it.
    pub(crate) fn fill(from: File, to: &File) -> Result<()> {
        let to = to.try_clone().map_err(named)?;
        Self::start(&["feed", "-", "--from", "-"], from.into(), to.into())?.finish()?;
        Ok(())
    }

    fn start(words: &[&str], stdin: Stdio, stdout: Stdio) -> Result<Self> {
        let mut command = Command::new(env::current_exe().map_err(named).context("find this program")?);
        command.args(words).stdin(stdin).stdout(stdout).stderr(Stdio::piped());
        // SAFETY: between fork and exec only one system call is made, and nothing is allocated.
        unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?)) };
        Ok(Self { child: Some(command.spawn().map_err(named).context("start a process for the other end")?) })
    }

    /// Waits for its end, which comes once this side is closed: what it says it moved.
    pub(crate) fn finish(mut self) -> Result<Moved> {
        let child = self.child.take().context("it is waited for once")?;
        let output = child.wait_with_output().map_err(named)?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            bail!("the process at the other end failed ({}): {}", output.status, said.trim_end());
        }
        said.trim_end().split_once(' ').and_then(|(_, moved)| moved.parse().ok()).with_context(|| format!("it says {said:?}"))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Both fail if it has ended, which is what is wanted.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
