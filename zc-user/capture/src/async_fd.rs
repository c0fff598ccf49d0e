//! Waiting for a file descriptor that is owned by what it is wrapped in.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
};

use aya::maps::{MapData, RingBuf};
use aya_log::EbpfLogger;
use nix::sys::signalfd::SignalFd;
use tokio::io::{Interest, unix::AsyncFd};

/// Types that own one descriptor, which stays the same and open as long as they live.
///
/// # Safety
///
/// Just that must be true.
pub(crate) unsafe trait OwnsFd: AsRawFd {}
// SAFETY: that is what it is for.
unsafe impl OwnsFd for OwnedFd {}
// SAFETY: wraps an OwnedFd.
unsafe impl OwnsFd for SignalFd {}
// SAFETY: owns the map's descriptor.
unsafe impl OwnsFd for RingBuf<MapData> {}
// SAFETY: owns the ring buffer.
unsafe impl<T> OwnsFd for EbpfLogger<T> {}

/// The descriptor, to wait until it is readable. To be called in a tokio runtime.
pub(crate) fn watch_readable<T: OwnsFd>(owner: T) -> io::Result<AsyncFd<T>> {
    // SAFETY: the descriptor is that of the owner as long as it lives, as OwnsFd promises.
    unsafe { AsyncFd::register_with_interest(owner, Interest::READABLE) }.map_err(io::Error::from)
}
