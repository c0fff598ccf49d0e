//! `write` and `exec-thread`: a plain known number of writes.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, ensure};
use rustix::io::write;

use crate::parameters::Parameters;

/// N writes of SIZE bytes, and no output.
pub(crate) fn run(mut parameters: Parameters) -> Result<()> {
    let (times, size) = (parameters.count(100)?, parameters.count(10)?);
    parameters.end()?;
    let null = File::options().write(true).open("/dev/null")?;
    write_exactly(null.as_fd(), times, &vec![0; size])
}

/// Writes the same bytes `times` times, with one call each.
pub(crate) fn write_exactly(fd: BorrowedFd<'_>, times: usize, bytes: &[u8]) -> Result<()> {
    for _ in 0..times {
        let count = write(fd, bytes)?;
        ensure!(count == bytes.len(), "write took {count} of {} bytes", bytes.len());
    }
    Ok(())
}

/// Executes `workload write N SIZE` from a thread that is not the leader: the process keeps its id, and the thread gets it.
pub(crate) fn exec_thread(mut parameters: Parameters) -> Result<()> {
    let (times, size) = (parameters.count(100)?, parameters.count(10)?);
    parameters.end()?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("workload").arg("write").arg(times.to_string()).arg(size.to_string());
    let thread = thread::Builder::new().name("zc-exec".to_owned()).spawn(move || command.exec())?;
    Err(thread.join().expect("the thread does not panic")).context("execve")
}
