//! Waits for a file descriptor together with the value that owns it.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
};

use aya::maps::{MapData, RingBuf};
use aya_log::EbpfLogger;
use nix::sys::signalfd::SignalFd;
use tokio::io::{Interest, unix::AsyncFd};

/// A type that owns one descriptor.
///
/// # Safety
///
/// The descriptor must stay the same and open as long as the value lives.
pub(crate) unsafe trait OwnsFd: AsRawFd {}
// SAFETY: it owns its descriptor.
unsafe impl OwnsFd for OwnedFd {}
// SAFETY: wraps an OwnedFd.
unsafe impl OwnsFd for SignalFd {}
// SAFETY: owns the map's descriptor.
unsafe impl OwnsFd for RingBuf<MapData> {}
// SAFETY: owns the ring buffer.
unsafe impl<T> OwnsFd for EbpfLogger<T> {}

/// Registers the descriptor, so that one can wait until it is readable. To be called in a tokio
/// runtime.
pub(crate) fn watch_readable<T: OwnsFd>(owner: T) -> io::Result<AsyncFd<T>> {
    // SAFETY: the descriptor stays valid as long as its owner lives, as OwnsFd promises.
    unsafe { AsyncFd::register_with_interest(owner, Interest::READABLE) }.map_err(io::Error::from)
}
