//! Calls that are entered and never return to the program.
//!
//! A tracer at the call's exit may still see one: a blocked read that a fatal signal ends leaves the kernel's read function with
//! `ERESTARTSYS`, and the task dies before it is back in the program.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::thread;

use anyhow::{Context, Result, ensure};
use rustix::io::read;
use rustix::net::{SendFlags, send};
use rustix::pipe::pipe;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::json;
use zc_tests::{Figure, Figures, print_expectation, wait_until_in_call, with_bare_thread};

use crate::parameters::Parameters;

/// What the read asks for.
const SIZE: usize = 16;

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
        let _never = read(&reader, &mut [0; SIZE]);
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
    kill_process(child, Signal::KILL)?;
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
    kill_process(child, Signal::KILL)?;
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
        let _never = read(reader, &mut [0; SIZE]);
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
