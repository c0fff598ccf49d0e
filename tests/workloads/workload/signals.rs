//! Calls that signals interrupt a known number of times, and calls that are entered and never
//! return to the program.
//!
//! A read that a signal interrupts returns `ERESTARTSYS` inside the kernel, with and without
//! `SA_RESTART`. Only afterwards, on the way to the handler, does this become `EINTR` or a restart.
//! So a tracer at the call's exit sees `ERESTARTSYS` in both cases, and `calls` states that;
//! `program_saw` states what reached the program. A `recvfrom` on a socket with a receive timeout
//! returns a real `EINTR`.
//!
//! A tracer at the exit may also see a call that never returns to the program: a blocked read that
//! a fatal signal ends leaves the kernel's read function with `ERESTARTSYS`, and the task dies
//! before it is back in the program.

use std::{
    ffi::CStr,
    io,
    os::{fd::AsRawFd as _, unix::net::UnixStream},
    process,
    sync::atomic::{AtomicI32, AtomicUsize, Ordering::SeqCst},
    thread,
};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction, signal};
use rustix::{
    io::{Errno, ioctl_fionread, read, write},
    net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair, sockopt},
    pipe::pipe,
    process::{Pid, WaitOptions, kill_process, waitpid},
};
use serde_json::json;
use zc_tests::{
    Figure, Figures, PlannedCall, Tally, descriptor, fork, leaked, print_expectation,
    wait_until_in_call, with_bare_thread,
};

use crate::Parameters;

/// The signal that interrupts.
const SIGNAL: Signal = Signal::SIGUSR1;
/// The size that an interrupted call asks for.
const SIZE: usize = 16;

/// How many times a handler has run to its end.
pub(crate) static HANDLED: AtomicUsize = AtomicUsize::new(0);

/// The handler that does nothing else.
extern "C" fn count(_signal: libc::c_int) {
    HANDLED.fetch_add(1, SeqCst);
}

/// Installs a handler that may run at any moment.
pub(crate) fn install(
    signal: Signal,
    handler: extern "C" fn(libc::c_int),
    flags: SaFlags,
) -> Result<()> {
    let action = SigAction::new(SigHandler::Handler(handler), flags, SigSet::empty());
    // SAFETY: the handlers of this program add to an atomic, make a call, or do nothing: all of
    // this is async-signal-safe.
    unsafe { sigaction(signal, &action) }
        .context("sigaction")
        .map(drop)
}

/// Sends the signal to one thread.
fn interrupt(thread: libc::pthread_t) {
    // SAFETY: callers pass a thread that has not been joined.
    unsafe { libc::pthread_kill(thread, SIGNAL as libc::c_int) };
}

/// N reads of an empty pipe, each ended by a signal.
pub(crate) fn reads(mut parameters: Parameters) -> Result<()> {
    let (reader, _writer) = pipe()?;
    let arguments = [descriptor(reader), leaked([0_u8; SIZE]), SIZE];
    let interrupted = InterruptedCalls {
        case: "signal-reads",
        thread: c"zc-reader",
        call: PlannedCall::moving("read", &arguments, SIZE, Err(Errno::INTR)),
        errno_at_exit: "ERESTARTSYS",
    };
    interrupted.run(parameters.count(1000)?, count, || Ok(()))
}

/// N receives from a silent socket with a receive timeout of an hour, each ended by a signal.
pub(crate) fn receives(mut parameters: Parameters) -> Result<()> {
    let kind = SocketType::STREAM;
    let (receiver, _sender) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    let hour = std::time::Duration::from_hours(1);
    sockopt::set_socket_timeout(&receiver, sockopt::Timeout::Recv, Some(hour))?;
    let arguments = [descriptor(receiver), leaked([0_u8; SIZE]), SIZE];
    let interrupted = InterruptedCalls {
        case: "signal-recv",
        thread: c"zc-reader",
        call: PlannedCall::moving("recvfrom", &arguments, SIZE, Err(Errno::INTR)),
        errno_at_exit: "EINTR",
    };
    interrupted.run(parameters.count(1000)?, count, || Ok(()))
}

/// Calls on a bare thread, each ended by a signal.
pub(crate) struct InterruptedCalls {
    pub(crate) case: &'static str,
    /// The thread that makes them.
    pub(crate) thread: &'static CStr,
    pub(crate) call: PlannedCall,
    /// How they fail inside the kernel.
    pub(crate) errno_at_exit: &'static str,
}

impl InterruptedCalls {
    /// Makes them so many times, after the thread has prepared them.
    pub(crate) fn run(
        &self,
        times: usize,
        handler: extern "C" fn(libc::c_int),
        prepare: impl FnOnce() -> io::Result<()> + Send,
    ) -> Result<()> {
        install(SIGNAL, handler, SaFlags::empty())?;
        let (mut tally, mut prepared) = (Tally::default(), Ok(()));
        let body = || {
            prepared = prepare();
            // SAFETY: the call names memory that was leaked for it.
            unsafe { tally.make(&[self.call.times(times)]) };
        };
        interrupt_inside(self.thread, self.call.number(), times, body, |_| Ok(()))?;
        prepared?;
        let mut calls = tally.figures()?;
        for figure in calls.values_mut() {
            figure.errnos = [(self.errno_at_exit.to_owned(), figure.errors)].into();
        }
        let facts = json!({ "thread": self.thread.to_str()? });
        print_expectation(self.case, &calls, facts)
    }
}

/// One read that N signals interrupt and the kernel restarts, and that a byte ends.
pub(crate) fn restart(mut parameters: Parameters) -> Result<()> {
    let times = parameters.count(1000)?;
    install(SIGNAL, count, SaFlags::SA_RESTART)?;
    let (reader, writer) = pipe()?;
    let mut got = Ok(0);
    let body = || got = read(&reader, &mut [0; SIZE]);
    interrupt_inside(c"zc-reader", libc::SYS_read, times, body, |task| {
        let waited = wait_until_in_call(task, libc::SYS_read);
        // Even after an error, because the reader waits for the byte.
        write(&writer, b"!").map_err(io::Error::from).and(waited)
    })?;
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
    let calls = [("read".to_owned(), figure)].into();
    print_expectation("signal-restart", &calls, json!({ "thread": "zc-reader" }))
}

/// Runs `body` on a bare thread of this name, and sends it so many signals, each once the last one
/// has been handled and the thread is inside this call again. Then runs
/// `afterwards` with the thread's path below `/proc`, which must let `body` end.
fn interrupt_inside(
    name: &CStr,
    call: libc::c_long,
    times: usize,
    body: impl FnOnce() + Send,
    afterwards: impl FnOnce(&str) -> io::Result<()>,
) -> Result<()> {
    let tid = AtomicI32::new(0);
    let body = || {
        tid.store(rustix::thread::gettid().as_raw_nonzero().get(), SeqCst);
        body();
    };
    with_bare_thread(name, body, |thread| {
        let task = task_of(&tid);
        let interrupted = (0..times).try_for_each(|sent| {
            wait_until_in_call(&task, call)?;
            interrupt(thread);
            while HANDLED.load(SeqCst) <= sent {
                thread::yield_now();
            }
            Ok(())
        });
        afterwards(&task).and(interrupted)
    })??;
    Ok(())
}

/// The thread's path below `/proc`, once it has stored its id.
fn task_of(tid: &AtomicI32) -> String {
    while tid.load(SeqCst) == 0 {
        thread::yield_now();
    }
    format!("self/task/{}", tid.load(SeqCst))
}

/// The figures of one unfinished call.
fn one_unfinished(name: &str) -> Figures {
    let figure = Figure {
        unfinished: 1,
        bytes: Some(0),
        requested_bytes: Some(0),
        ..Figure::default()
    };
    [(name.to_owned(), figure)].into()
}

/// Ends the process while its other thread is inside a read.
pub(crate) fn at_exit(_: Parameters) -> Result<()> {
    let (reader, _writer) = pipe()?;
    let tid = AtomicI32::new(0);
    let body = || {
        tid.store(rustix::thread::gettid().as_raw_nonzero().get(), SeqCst);
        let _never = read(&reader, &mut [0; SIZE]);
    };
    let end = || -> Result<()> {
        wait_until_in_call(&task_of(&tid), libc::SYS_read)?;
        let facts = json!({ "thread": "zc-blocked" });
        print_expectation("unfinished", &one_unfinished("read"), facts)
    };
    // The thread never ends, so this closure must exit: if it returned, it would wait for the
    // thread.
    with_bare_thread(c"zc-blocked", body, |_| match end() {
        Ok(()) => process::exit(0),
        Err(err) => {
            eprintln!("workload: unfinished: {err:#}");
            process::exit(1)
        }
    })?
}

/// Kills a child that is inside a read.
pub(crate) fn killed(_: Parameters) -> Result<()> {
    let (reader, _writer) = pipe()?;
    // The child has a copy of the other end, so its read never returns.
    let child = fork(|| read(&reader, &mut [0; SIZE]).is_err())?;
    kill_inside(child, libc::SYS_read)?;
    let facts = json!({ "pid": child.as_raw_nonzero() });
    print_expectation("killed", &one_unfinished("read"), facts)
}

/// Kills a child that is inside a `sendto` and has sent a part. Inside the kernel the call then
/// returns that part, which strace does not see.
pub(crate) fn killed_sending(_: Parameters) -> Result<()> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let data = vec![0; 1 << 20];
    // The child never gets to the status.
    let child = fork(|| send(&theirs, &data, SendFlags::empty()).is_err())?;
    kill_inside(child, libc::SYS_sendto)?;
    drop(theirs);
    let sent = io::copy(&mut ours, &mut io::sink())?;
    let facts = json!({ "pid": child.as_raw_nonzero() });
    print_expectation("killed-sending", &one_call("sendto", sent, 1 << 20), facts)
}

/// Closes a pipe that a child is writing to, after a part. The call returns that part, and SIGPIPE
/// ends the child.
pub(crate) fn broken_pipe(_: Parameters) -> Result<()> {
    let (reader, writer) = pipe()?;
    let data = vec![0; 1 << 20];
    let child = fork(|| {
        // SAFETY: the child does not use it.
        unsafe { rustix::io::close(reader.as_raw_fd()) };
        // SAFETY: this installs no handler.
        let is_default = unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) }.is_ok();
        is_default && write(&writer, &data).is_err()
    })?;
    wait_until_in_call(&child.as_raw_nonzero().to_string(), libc::SYS_write)?;
    let written = ioctl_fionread(&reader)?;
    drop(reader);
    wait_for_end(child, libc::SIGPIPE)?;
    let facts = json!({ "pid": child.as_raw_nonzero() });
    print_expectation("broken-pipe", &one_call("write", written, 1 << 20), facts)
}

/// The figures of one call that moved a part of what it was asked for.
fn one_call(name: &str, bytes: u64, requested_bytes: u64) -> Figures {
    let figure = Figure {
        calls: 1,
        bytes: Some(bytes),
        requested_bytes: Some(requested_bytes),
        ..Figure::default()
    };
    [(name.to_owned(), figure)].into()
}

/// Kills a child once it is inside this call.
fn kill_inside(child: Pid, call: libc::c_long) -> Result<()> {
    let blocked = wait_until_in_call(&child.as_raw_nonzero().to_string(), call);
    kill_process(child, rustix::process::Signal::KILL)?;
    wait_for_end(child, libc::SIGKILL)?;
    Ok(blocked?)
}

/// Waits for a child, which this signal must have ended.
fn wait_for_end(child: Pid, signal: libc::c_int) -> Result<()> {
    let (_, status) = waitpid(Some(child), WaitOptions::empty())?.context("there is no child")?;
    let found = status.terminating_signal();
    ensure!(found == Some(signal), "the child ended with {status:?}");
    Ok(())
}
