//! Calls that seccomp traps or denies, so that the kernel does not make them.

use std::{
    ffi::CStr,
    io,
    os::{fd::AsRawFd as _, unix::process::CommandExt},
    process::Command,
    ptr,
    sync::atomic::{AtomicI32, AtomicUsize, Ordering::SeqCst},
};

use anyhow::{Context, Result, bail};
use rustix::{io::Errno, pipe::pipe};
use serde_json::json;
use zc_tests::{Figure, Figures, print_expectation, with_bare_thread};

use crate::{Parameters, signals::interrupt_inside};

/// Sends and writes that seccomp traps. Their "results" are the number of the call on x86, and its
/// first argument on ARM.
pub(crate) fn trapped(mut parameters: Parameters) -> Result<()> {
    let times = parameters.count(10)?;
    parameters.end()?;
    let handler: extern "C" fn(libc::c_int) = ignore;
    // SAFETY: the handler does nothing, which is safe at any moment.
    let before = unsafe { libc::signal(libc::SIGSYS, handler as libc::sighandler_t) };
    if before == libc::SIG_ERR {
        return Err(io::Error::last_os_error()).context("signal");
    }
    let mut outcome = Ok(());
    let calls = || outcome = trap(times);
    with_bare_thread(c"zc-trapped", calls, |_| ())?;
    outcome?;
    let never = || Figure {
        unfinished: times as u64,
        bytes: Some(0),
        requested_bytes: Some(0),
        ..Figure::default()
    };
    let figures: Figures = [
        ("sendto".to_owned(), never()),
        ("write".to_owned(), never()),
    ]
    .into();
    print_expectation("trapped", &figures, json!({ "thread": "zc-trapped" }))
}

extern "C" fn ignore(_signal: libc::c_int) {}

/// The first argument of the trapped calls. A result of 1 looks like a number of bytes.
const FIRST: libc::c_long = 1;

fn trap(times: usize) -> io::Result<()> {
    for number in [libc::SYS_sendto, libc::SYS_write] {
        answer(number, libc::SECCOMP_RET_TRAP)?;
        for _ in 0..times {
            // SAFETY: the call is not made.
            let result = unsafe { libc::syscall(number, FIRST, c"abcdef".as_ptr(), 6, 0, 0, 0) };
            let expected = if cfg!(target_arch = "x86_64") {
                number
            } else {
                FIRST
            };
            if result != expected {
                return Err(io::Error::other(format!(
                    "a call that was trapped returned {result}, not {expected}"
                )));
            }
        }
    }
    Ok(())
}

/// Signals interrupt a wait N times, and their handler makes a `getppid`, which seccomp traps. The
/// wait is a `ppoll`, because arm64 has no `pause`.
pub(crate) fn trapped_in_handler(mut parameters: Parameters) -> Result<()> {
    let times = parameters.count(3)?;
    parameters.end()?;
    handle(libc::SIGSYS, ignore)?;
    handle(libc::SIGUSR1, ask_for_parent)?;
    let body = || {
        answer(libc::SYS_getppid, libc::SECCOMP_RET_TRAP)?;
        for _ in 0..times {
            // SAFETY: there are no descriptors, no time limit and no mask.
            unsafe { libc::ppoll(ptr::null_mut(), 0, ptr::null(), ptr::null()) };
        }
        Ok(())
    };
    interrupt(c"zc-paused", libc::SYS_ppoll, times, body)?;
    print_interrupted("trapped-in-handler", "ppoll", "ERESTARTNOHAND", times)
}

/// Signals interrupt a read of an empty pipe N times, and their handler makes a `getppid`, which
/// seccomp denies with an error.
pub(crate) fn denied_in_handler(mut parameters: Parameters) -> Result<()> {
    let times = parameters.count(3)?;
    parameters.end()?;
    let (reader, _writer) = pipe()?;
    handle(libc::SIGUSR1, ask_for_parent)?;
    let body = || {
        answer(
            libc::SYS_getppid,
            libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs(),
        )?;
        for _ in 0..times {
            // SAFETY: the buffer has one byte.
            unsafe { libc::read(reader.as_raw_fd(), (&raw mut READ).cast(), 1) };
        }
        Ok(())
    };
    interrupt(c"zc-reading", libc::SYS_read, times, body)?;
    print_interrupted("denied-in-handler", "read", "ERESTARTSYS", times)
}

/// The buffer of the reads of [`denied_in_handler`].
static mut READ: u8 = 0;

/// How many times [`ask_for_parent`] has run.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// Makes the call that seccomp traps or denies.
extern "C" fn ask_for_parent(_signal: libc::c_int) {
    // SAFETY: has no preconditions, and may be called at any moment.
    unsafe { libc::syscall(libc::SYS_getppid) };
    ASKED.fetch_add(1, SeqCst);
}

/// Installs a handler that does not restart calls.
fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) -> Result<()> {
    // SAFETY: zeroes are no flags and an empty set; the handlers of this file may run at any
    // moment.
    let done = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as libc::sighandler_t;
        libc::sigaction(signal, &raw const action, ptr::null_mut())
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error()).context("sigaction")
    }
}

/// Runs `body` on a thread of this name, and sends it this many signals, each while it waits in
/// this call.
fn interrupt(
    name: &CStr,
    call: libc::c_long,
    times: usize,
    body: impl FnOnce() -> io::Result<()> + Send,
) -> Result<()> {
    let tid = AtomicI32::new(0);
    let mut outcome = Ok(());
    let body = || {
        tid.store(rustix::thread::gettid().as_raw_nonzero().get(), SeqCst);
        outcome = body();
    };
    with_bare_thread(name, body, |thread| {
        interrupt_inside(call, times, &ASKED, thread, &tid)
    })??;
    Ok(outcome?)
}

fn print_interrupted(case: &str, name: &str, errno: &str, times: usize) -> Result<()> {
    let count = times as u64;
    let figure = Figure {
        calls: count,
        errors: count,
        errnos: [(errno.to_owned(), count)].into(),
        ..Figure::default()
    };
    print_expectation(case, &[(name.to_owned(), figure)].into(), json!({}))
}

/// Executes a program for which one call fails at once.
pub(crate) fn deny(mut parameters: Parameters) -> Result<()> {
    let (errno, number) = (parameters.count(0)?, parameters.count(0)?);
    let words = parameters.rest();
    let Some((program, arguments)) = words.split_first() else {
        bail!("which program?")
    };
    let errno = Errno::from_raw_os_error(i32::try_from(errno)?)
        .raw_os_error()
        .unsigned_abs();
    answer(i64::try_from(number)?, libc::SECCOMP_RET_ERRNO | errno)?;
    Err(Command::new(program).args(arguments).exec()).context("execve")
}

/// Makes seccomp take this action whenever this thread makes the call with this number.
fn answer(number: libc::c_long, action: u32) -> io::Result<()> {
    let code = |code: u32| u16::try_from(code).map_err(io::Error::other);
    let statement = |code: u16, jt: u8, jf: u8, k: u32| libc::sock_filter { code, jt, jf, k };
    let (load, compare) = (
        code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS)?,
        code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K)?,
    );
    let give = code(libc::BPF_RET | libc::BPF_K)?;
    let number = u32::try_from(number).map_err(io::Error::other)?;
    // The number is the first field of `struct seccomp_data`.
    let mut program = [
        statement(load, 0, 0, 0),
        statement(compare, 0, 1, number),
        statement(give, 0, 0, action),
        statement(give, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: 4,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the program is complete, and the kernel copies it.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ) == 0
    };
    if done {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
