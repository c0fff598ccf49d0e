//! The process that drains the socket, for all runs of a scenario.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

/// `copier sink --keep`; ended with the value.
pub struct Drain(Child);

impl Drain {
    /// Starts it and returns once it listens.
    pub fn start(copier: &Path, address: &str) -> Result<Self> {
        let mut sink = Command::new(copier);
        sink.args(["sink", address, "--keep"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut sink = Self(sink.spawn().context("cannot start the copier's sink")?);
        let stdout = sink.0.stdout.take().context("the sink has no output")?;
        let mut lines = BufReader::new(stdout);
        let mut line = String::new();
        lines.read_line(&mut line)?;
        if !line.starts_with("listening") {
            bail!("the copier's sink did not start to listen on {address}");
        }
        // Its reports of what it received are nobody's, but must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Ok(sink)
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        // Both fail if it has ended, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
