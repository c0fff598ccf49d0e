//! `cargo xtask run` without a command: what `std::io::copy` does, seen by zctrace.

use std::{
    ffi::OsString,
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    command::{Scratch, exit_code, release_dir, run_to_end},
    run,
};

/// How much is copied, in MiB.
const FILE_MIB: usize = 256;

/// Traces the project's copier twice: to a file, and to a Unix socket.
pub(crate) fn run() -> Result<ExitCode> {
    run::build(&["zctrace", "zc-tests"])?;
    let copier = release_dir()?.join("copier");
    let directory = Scratch::new("demo")?;
    let input = directory.path("in");
    write_input(&input).context("cannot write the file to copy")?;

    let to_file = trace(&copier, &input, directory.path("out").into())?;
    let socket = directory.path("socket");
    let address = unix_address(&socket);
    let mut sink = Sink::start(&copier, &address)?;
    let to_socket = trace(&copier, &input, address)?;
    if to_socket.success() {
        sink.0.wait()?;
    }
    Ok(exit_code(if to_file.success() { to_socket } else { to_file }))
}

/// Prints what is copied, and traces one copy.
fn trace(copier: &Path, input: &Path, output: OsString) -> Result<ExitStatus> {
    eprintln!("\n== std::io::copy of {FILE_MIB} MiB, {} to {}\n", input.display(), output.display());
    let mut zctrace = run::zctrace()?;
    zctrace.arg(copier).args(["std-io-copy", "--from"]).arg(input).arg("--to").arg(output);
    run_to_end(&mut zctrace).context("cannot start zctrace")
}

/// The copier's notation for a socket.
fn unix_address(socket: &Path) -> OsString {
    let mut address = OsString::from("unix:");
    address.push(socket);
    address
}

/// Writes data that no filesystem stores as a hole.
fn write_input(path: &Path) -> Result<()> {
    let block: Vec<u8> = (1..=0xff_u8).cycle().take(1 << 20).collect();
    let mut file = File::create_new(path)?;
    for _ in 0..FILE_MIB {
        file.write_all(&block)?;
    }
    Ok(())
}

/// The process that reads the socket; killed with the value if it still runs.
struct Sink(Child);

impl Sink {
    /// Starts it and returns once it listens.
    fn start(copier: &Path, address: &OsString) -> Result<Self> {
        let mut sink = Command::new(copier);
        sink.arg("sink").arg(address).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut sink = Self(sink.spawn().context("cannot start the copier's sink")?);
        let stdout = sink.0.stdout.as_mut().context("the sink has no output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        if !line.starts_with("listening") {
            bail!("the copier's sink did not start to listen on {}", address.display());
        }
        Ok(sink)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // Both fail if it has ended already, which is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
