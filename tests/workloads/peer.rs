//! The other side of a copy: `copier sink` or `copier feed`.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

use crate::program_beside;

/// A copier that plays the other side. It is killed when the value is dropped.
pub struct Peer {
    process: Child,
    stdout: BufReader<ChildStdout>,
    /// The address on which it listens, as an argument of the copier that connects to it.
    pub address: String,
}

impl Peer {
    /// Starts the copier with these arguments, and returns once it listens.
    pub fn start(arguments: &[&str]) -> Result<Self> {
        let mut copier = Command::new(program_beside("copier"));
        copier.args(arguments);
        let started = copier.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut process = started.context("cannot start the copier")?;
        let stdout = process.stdout.take().context("it has no output")?;
        let mut peer = Self {
            process,
            stdout: BufReader::new(stdout),
            address: String::new(),
        };
        let mut line = String::new();
        peer.stdout.read_line(&mut line)?;
        let address = line.trim_end().strip_prefix("listening ");
        let address = address.with_context(|| format!("the copier does not listen: {line:?}"))?;
        address.clone_into(&mut peer.address);
        Ok(peer)
    }

    /// Waits for its end, and returns what else it has printed.
    pub fn finish(mut self) -> Result<String> {
        let mut printed = String::new();
        self.stdout.read_to_string(&mut printed)?;
        let (status, address) = (self.process.wait()?, &self.address);
        ensure!(status.success(), "the other side of {address}: {status}");
        Ok(printed)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Both fail if it has ended already, which does not matter.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
