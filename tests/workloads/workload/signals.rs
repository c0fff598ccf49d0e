//! Calls that signals interrupt, a known number of times.
//!
//! A read that a signal interrupts returns `ERESTARTSYS` inside the kernel, with and without `SA_RESTART`: only afterwards, on the
//! way to the handler, does it become `EINTR` or a restart. A tracer at the call's exit therefore sees `ERESTARTSYS` in both
//! cases, and that is what `calls` states; `program_saw` states what reached the program. A `recvfrom` on a socket with a receive
//! timeout returns a real `EINTR`.
//!
//! Calls that are entered and never return to the program:
//!
//! A tracer at the call's exit may still see one: a blocked read that a fatal signal ends leaves the kernel's read function with
//! `ERESTARTSYS`, and the task dies before it is back in the program.

use std::{
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    process,
    sync::atomic::{AtomicI32, AtomicUsize, Ordering::SeqCst},
    thread,
};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use rustix::{
    io::{Errno, read, write},
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair, sockopt},
    pipe::pipe,
    process::{Pid, WaitOptions, kill_process, waitpid},
};
use serde_json::json;
use zc_tests::{Figure, Figures, Tally, print_expectation, wait_until_in_call, with_bare_thread};

use crate::Parameters;

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

/// What the read asks for.
const READ_SIZE: usize = 16;

/// One unfinished read.
fn one_unfinished_read() -> Figures {
    [("read".to_owned(), Figure { unfinished: 1, bytes: Some(0), requested_bytes: Some(0), ..Figure::default() })].into()
}

/// Ends the process while its other thread is inside a read.
pub(crate) fn at_exit(parameters: Parameters) -> Result<()> {
    parameters.end()?;
    let (reader, _writer) = pipe()?;
    let tid = AtomicI32::new(0);
    let body = || {
        tid.store(rustix::thread::gettid().as_raw_nonzero().get(), SeqCst);
        let _never = read(&reader, &mut [0; READ_SIZE]);
    };
    let end = || -> Result<()> {
        while tid.load(SeqCst) == 0 {
            thread::yield_now();
        }
        wait_until_in_call(&format!("self/task/{}", tid.load(SeqCst)), libc::SYS_read)?;
        print_expectation("unfinished", &one_unfinished_read(), json!({ "thread": "zc-blocked" }))
    };
    // The thread never ends, so this must not return and wait for it.
    with_bare_thread(c"zc-blocked", body, |_| match end() {
        Ok(()) => process::exit(0),
        Err(err) => {
            eprintln!("workload: unfinished: {err:#}");
            process::exit(1)
        }
    })?
}

/// Kills a child that is inside a read.
pub(crate) fn killed(parameters: Parameters) -> Result<()> {
    parameters.end()?;
    let (reader, _writer) = pipe()?;
    let child = fork_reader(reader.as_fd())?;
    let blocked = wait_until_in_call(&child.as_raw_nonzero().to_string(), libc::SYS_read);
    kill_process(child, rustix::process::Signal::KILL)?;
    let (_, status) = waitpid(Some(child), WaitOptions::empty())?.context("the child is missing")?;
    blocked?;
    ensure!(status.terminating_signal() == Some(libc::SIGKILL), "the child ended with {status:?}");
    print_expectation("killed", &one_unfinished_read(), json!({ "pid": child.as_raw_nonzero() }))
}

/// Kills a child that is inside a `sendto` of which a part was sent: the kernel leaves the call with that part.
pub(crate) fn killed_sending(parameters: Parameters) -> Result<()> {
    parameters.end()?;
    let (ours, theirs) = UnixStream::pair()?;
    let child = fork(|| {
        let _never = send(&theirs, &vec![0; 1 << 20], SendFlags::empty());
    })?;
    let blocked = wait_until_in_call(&child.as_raw_nonzero().to_string(), libc::SYS_sendto);
    kill_process(child, rustix::process::Signal::KILL)?;
    let (_, status) = waitpid(Some(child), WaitOptions::empty())?.context("the child is missing")?;
    blocked?;
    drop(ours);
    ensure!(status.terminating_signal() == Some(libc::SIGKILL), "the child ended with {status:?}");
    let never = Figure { unfinished: 1, bytes: Some(0), requested_bytes: Some(0), ..Figure::default() };
    print_expectation("killed-sending", &[("sendto".to_owned(), never)].into(), json!({ "pid": child.as_raw_nonzero() }))
}

/// Starts a child that reads from an empty pipe for ever (it has a copy of the other end itself).
fn fork_reader(reader: impl AsFd) -> Result<Pid> {
    fork(|| {
        let _never = read(reader, &mut [0; READ_SIZE]);
    })
}

/// Starts a child that does this.
fn fork(body: impl FnOnce()) -> Result<Pid> {
    // SAFETY: this process has one thread, so the child may do as it likes; it does little and ends.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()).context("fork"),
        0 => {
            body();
            // SAFETY: ends the child at once, without the parent's exit handlers.
            unsafe { libc::_exit(1) }
        }
        pid => Pid::from_raw(pid).context("fork returned no process id"),
    }
}
