//! Errors by the names that manual pages use.

use std::io;

use anyhow::Error;
use nix::errno::Errno;

/// An I/O error that reads `EINVAL: Invalid argument`, where it comes from the kernel.
pub fn named(err: io::Error) -> Error {
    match err.raw_os_error() {
        Some(code) => Errno::from_raw(code).into(),
        None => err.into(),
    }
}

/// The name of an errno: `EAGAIN` for 11.
pub fn errno_name(code: i32) -> String {
    format!("{:?}", Errno::from_raw(code))
}
