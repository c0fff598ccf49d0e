//! The process at the other side of a socket.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};

/// `copier feed` or `copier sink`; ended with the value, should it still run.
pub struct Peer {
    process: Child,
    address: String,
}

impl Peer {
    /// Somebody who gives the bytes of a file.
    pub fn feed(copier: &Path, address: &str, file: PathBuf) -> Result<Self> {
        Self::start(Command::new(copier).args(["feed", address, "--from"]).arg(file))
    }

    /// Somebody who takes all bytes.
    pub fn sink(copier: &Path, address: &str) -> Result<Self> {
        Self::start(Command::new(copier).args(["sink", address]))
    }

    /// Where it listens, as the copier names it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Waits until it is done.
    pub fn finish(mut self) -> Result<()> {
        let status = self.process.wait()?;
        ensure!(status.success(), "the other side of {} failed ({status})", self.address);
        Ok(())
    }

    /// Returns once it listens.
    fn start(command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut peer = Self { process: command.spawn().context("cannot start the copier")?, address: String::new() };
        let stdout = peer.process.stdout.take().context("the copier has no output")?;
        let mut lines = BufReader::new(stdout);
        let mut line = String::new();
        lines.read_line(&mut line)?;
        let Some(address) = line.trim_end().strip_prefix("listening ") else { bail!("the copier does not listen: {line:?}") };
        address.clone_into(&mut peer.address);
        // Its last line fits into the pipe; with nobody to read it, it must still be able to write it.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Ok(peer)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Both fail if it has ended, which is what is wanted.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
