//! Signals that interrupt the copy, so that every case can show how it copes.

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result};
use libc::{ITIMER_REAL, c_int, itimerval, suseconds_t, time_t, timeval};
use nix::errno::Errno;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// How many came.
static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count(_signal: c_int) {
    SIGNALS.fetch_add(1, Relaxed);
}

/// Has `SIGALRM` come again and again; its handler does not restart the calls that it interrupts.
pub(crate) fn start(every: Duration) -> Result<()> {
    let action = SigAction::new(SigHandler::Handler(count), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler does nothing but add to an atomic.
    unsafe { sigaction(Signal::SIGALRM, &action) }.context("sigaction")?;
    set_timer(every)
}

/// Ends it: how many signals came, if any were to come.
pub(crate) fn stop(every: Option<Duration>) -> Result<Option<u64>> {
    every.map(|_| set_timer(Duration::ZERO).map(|()| SIGNALS.load(Relaxed))).transpose()
}

/// Sets the timer; zero stops it.
fn set_timer(every: Duration) -> Result<()> {
    let seconds = time_t::try_from(every.as_secs()).context("--interrupt-every")?;
    let interval = timeval { tv_sec: seconds, tv_usec: suseconds_t::from(every.subsec_micros()) };
    let timer = itimerval { it_interval: interval, it_value: interval };
    // SAFETY: the kernel reads one valid structure, and nobody asks for the old one.
    Errno::result(unsafe { libc::setitimer(ITIMER_REAL, &raw const timer, ptr::null_mut()) }).context("setitimer")?;
    Ok(())
}
