//! Children that a tracer is not to follow, and calls that no table has.

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::parameters::Parameters;

/// A child, made with `CLONE_UNTRACED`, that writes 100 times 10 bytes to /dev/null.
pub(crate) fn untraced_child(parameters: Parameters) -> Result<()> {
    parameters.end()?;
    let null = std::fs::File::options().write(true).open("/dev/null")?;
    // SAFETY: as fork: this process has one thread, and the child makes a few calls and ends.
    match unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_UNTRACED | libc::SIGCHLD, 0, 0, 0, 0) } {
        -1 => Err(std::io::Error::last_os_error()).context("clone"),
        0 => {
            for _ in 0..100 {
                let _ = rustix::io::write(&null, b"0123456789");
            }
            // SAFETY: ends the child at once, without the parent's exit handlers.
            unsafe { libc::_exit(0) }
        }
        child => {
            waitpid(Pid::from_raw(i32::try_from(child)?), WaitOptions::empty())?;
            Ok(())
        }
    }
}

/// Calls of the numbers 700, 2000, 5000 and -1.
pub(crate) fn unknown_numbers(parameters: Parameters) -> Result<()> {
    parameters.end()?;
    for number in [700, 2000, 5000, -1] {
        // SAFETY: there is no such call, and the arguments are no pointers.
        let result = unsafe { libc::syscall(number, 0, 0, 0, 0, 0, 0) };
        ensure!(result == -1, "there is a call {number}");
    }
    Ok(())
}
