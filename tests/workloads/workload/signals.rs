//! Calls that signals interrupt, a known number of times.
//!
//! A read that a signal interrupts returns `ERESTARTSYS` inside the kernel, with and without `SA_RESTART`: only afterwards, on the
//! way to the handler, does it become `EINTR` or a restart. A tracer at the call's exit therefore sees `ERESTARTSYS` in both
//! cases, and that is what `calls` states; `program_saw` states what reached the program. A `recvfrom` on a socket with a receive
//! timeout returns a real `EINTR`.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::SeqCst};
use std::thread;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use rustix::io::{Errno, read, write};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair, sockopt};
use rustix::pipe::pipe;
use serde_json::json;
use zc_tests::{Figure, Figures, Tally, print_expectation, wait_until_in_call, with_bare_thread};

use crate::parameters::Parameters;

/// The signal that interrupts.
const SIGNAL: Signal = Signal::SIGUSR1;
/// What an interrupted call asks for.
const SIZE: usize = 16;

/// How many times the handler has run.
static HANDLED: AtomicUsize = AtomicUsize::new(0);

/// The handler.
extern "C" fn count(_signal: libc::c_int) {
    HANDLED.fetch_add(1, SeqCst);
}

/// Installs the handler.
fn install(flags: SaFlags) -> Result<()> {
    let action = SigAction::new(SigHandler::Handler(count), flags, SigSet::empty());
    // SAFETY: the handler only adds to an atomic, which is async-signal-safe; the one it replaces is the default.
    unsafe { sigaction(SIGNAL, &action) }.context("sigaction").map(drop)
}

/// Sends the signal to one thread.
fn interrupt(thread: libc::pthread_t) {
    // SAFETY: callers pass a thread that has not been joined.
    unsafe { libc::pthread_kill(thread, SIGNAL as libc::c_int) };
}

/// N reads of an empty pipe, each ended by a signal.
pub(crate) fn reads(mut parameters: Parameters) -> Result<()> {
    let times = parameters.count(1000)?;
    parameters.end()?;
    let (reader, _writer) = pipe()?;
    let calls = interrupted("read", "ERESTARTSYS", times, |buffer| read(&reader, buffer))?;
    print_expectation("signal-reads", &calls, json!({ "thread": "zc-reader", "program_saw": { "EINTR": times } }))
}

/// N receptions from a silent socket with a receive timeout, each ended by a signal.
pub(crate) fn receives(mut parameters: Parameters) -> Result<()> {
    let times = parameters.count(1000)?;
    parameters.end()?;
    let (receiver, _sender) = silent_socket()?;
    let receive = |buffer: &mut [u8]| recv(&receiver, buffer, RecvFlags::empty()).map(|(count, _)| count);
    let calls = interrupted("recvfrom", "EINTR", times, receive)?;
    print_expectation("signal-recv", &calls, json!({ "thread": "zc-reader", "program_saw": { "EINTR": times } }))
}

/// A pair of sockets, the first with a timeout of an hour.
fn silent_socket() -> Result<(OwnedFd, OwnedFd)> {
    let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let hour = std::time::Duration::from_hours(1);
    sockopt::set_socket_timeout(&pair.0, sockopt::Timeout::Recv, Some(hour))?;
    Ok(pair)
}

/// Makes `times` calls on a bare thread, and sends signals until every one of them has been interrupted. A signal that comes
/// between two calls interrupts none, so there may be more signals than calls; of the calls there are exactly `times`.
fn interrupted(
    name: &'static str,
    errno_at_exit: &str,
    times: usize,
    call: impl Fn(&mut [u8]) -> Result<usize, Errno> + Sync,
) -> Result<Figures> {
    install(SaFlags::empty())?;
    let done = AtomicUsize::new(0);
    let mut tally = Tally::default();
    let body = || {
        for _ in 0..times {
            tally.moved(name, SIZE, Err(Errno::INTR), call(&mut [0; SIZE]));
            done.fetch_add(1, SeqCst);
        }
    };
    with_bare_thread(c"zc-reader", body, |thread| {
        while done.load(SeqCst) < times {
            interrupt(thread);
            thread::yield_now();
        }
    })?;
    let mut calls = tally.figures()?;
    for figure in calls.values_mut() {
        figure.errnos = [(errno_at_exit.to_owned(), figure.errors)].into();
    }
    Ok(calls)
}

/// One read that N signals interrupt and the kernel restarts, and that a byte ends.
pub(crate) fn restart(mut parameters: Parameters) -> Result<()> {
    let times = parameters.count(1000)?;
    parameters.end()?;
    install(SaFlags::SA_RESTART)?;
    let (reader, writer) = pipe()?;
    let (tid, mut got) = (AtomicI32::new(0), Ok(0));
    let body = || {
        tid.store(rustix::thread::gettid().as_raw_nonzero().get(), SeqCst);
        got = read(&reader, &mut [0; SIZE]);
    };
    with_bare_thread(c"zc-reader", body, |thread| {
        let interrupted = interrupt_inside_read(thread, &tid, times);
        // In any case: the reader waits for it.
        write(&writer, b"!").map_err(anyhow::Error::from).and(interrupted)
    })??;
    ensure!(got == Ok(1), "the read returned {got:?} instead of 1 byte");
    let (calls, errors) = (times as u64 + 1, times as u64);
    let figure = Figure {
        calls,
        errors,
        errnos: [("ERESTARTSYS".to_owned(), errors)].into(),
        unfinished: 0,
        bytes: Some(1),
        requested_bytes: Some(calls * SIZE as u64),
    };
    let facts = json!({ "thread": "zc-reader", "program_saw": { "handler_runs": HANDLED.load(SeqCst) } });
    print_expectation("signal-restart", &[("read".to_owned(), figure)].into(), facts)
}

/// Sends `times` signals, each when the last one has been handled and the thread is inside its read again.
fn interrupt_inside_read(thread: libc::pthread_t, tid: &AtomicI32, times: usize) -> Result<()> {
    while tid.load(SeqCst) == 0 {
        thread::yield_now();
    }
    let task = format!("self/task/{}", tid.load(SeqCst));
    for sent in 0..times {
        wait_until_in_call(&task, libc::SYS_read)?;
        interrupt(thread);
        while HANDLED.load(SeqCst) <= sent {
            thread::yield_now();
        }
    }
    Ok(wait_until_in_call(&task, libc::SYS_read)?)
}
