//! Small cases: a known number of writes, and calls that tracers may not know.

use std::{
    fs::File,
    hint::black_box,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::process::CommandExt,
    },
    process::Command,
    thread,
};

use anyhow::{Context, Result, ensure};
use rustix::io::write;

use crate::Parameters;

/// N writes of SIZE bytes, and no output.
pub(crate) fn write_only(mut parameters: Parameters) -> Result<()> {
    let (times, size) = (parameters.count(100)?, parameters.count(10)?);
    let null = File::options().write(true).open("/dev/null")?;
    write_exactly(null.as_fd(), times, &vec![0; size])
}

/// N times `stat`, `openat`, `fsync` and `close` of this program: calls that move no data.
pub(crate) fn sync_only(mut parameters: Parameters) -> Result<()> {
    let times = parameters.count(100)?;
    let program = std::env::current_exe()?;
    for _ in 0..times {
        nix::sys::stat::stat(&program)?;
        File::open(&program)?.sync_all()?;
    }
    Ok(())
}

/// Writes the same bytes `times` times, with one call each.
pub(crate) fn write_exactly(fd: BorrowedFd<'_>, times: usize, bytes: &[u8]) -> Result<()> {
    for _ in 0..times {
        let count = write(fd, bytes)?;
        ensure!(
            count == bytes.len(),
            "write took {count} of {} bytes",
            bytes.len()
        );
    }
    Ok(())
}

/// 4 writes on the first thread and 4 on another one, each with so many KiB on the stack below the
/// function that the thread began with.
pub(crate) fn deep(mut parameters: Parameters) -> Result<()> {
    let kib = parameters.count(16)?;
    let null = File::options().write(true).open("/dev/null")?;
    write_below(kib, null.as_fd())?;
    thread::scope(|scope| {
        scope
            .spawn(|| write_below(kib, null.as_fd()))
            .join()
            .expect("a writer does not panic")
    })
}

/// Calls itself until there are so many frames of 1 KiB, then writes.
#[inline(never)]
fn write_below(kib: usize, fd: BorrowedFd<'_>) -> Result<()> {
    // A frame has some words more.
    let mut frame = [0_u8; 960];
    black_box(&mut frame);
    let result = if kib == 0 {
        write_exactly(fd, 4, &[0; 8])
    } else {
        write_below(kib - 1, fd)
    };
    black_box(&mut frame);
    result
}

/// Executes `workload write N SIZE` from a thread that is not the leader: the process keeps its id,
/// and the thread gets that id.
pub(crate) fn exec_thread(mut parameters: Parameters) -> Result<()> {
    let (times, size) = (parameters.count(100)?, parameters.count(10)?);
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("workload")
        .arg("write")
        .arg(times.to_string())
        .arg(size.to_string());
    let thread = thread::Builder::new()
        .name("zc-exec".to_owned())
        .spawn(move || command.exec())?;
    Err(thread.join().expect("the thread does not panic")).context("execve")
}

/// Calls with the numbers 700, 2000, 5000 and -1.
pub(crate) fn unknown_numbers(_: Parameters) -> Result<()> {
    for number in [700, 2000, 5000, -1] {
        // SAFETY: there is no such call, and the arguments are not pointers.
        let result = unsafe { libc::syscall(number, 0, 0, 0, 0, 0, 0) };
        ensure!(result == -1, "there is a call {number}");
    }
    Ok(())
}
