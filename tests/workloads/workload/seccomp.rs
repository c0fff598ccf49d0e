//! Calls that seccomp traps or denies, so that the kernel does not make them.

use std::{
    ffi::CStr,
    io,
    os::{fd::AsRawFd as _, unix::process::CommandExt},
    process::Command,
    ptr,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{SaFlags, Signal};
use rustix::{io::Errno, pipe::pipe};
use serde_json::json;
use zc_tests::{Figure, Figures, print_expectation, with_bare_thread};

use crate::{
    Parameters,
    signals::{install, interrupt_inside},
};

/// Sends and writes that seccomp traps. Their "results" are the number of the call on x86, and its
/// first argument on ARM.
pub(crate) fn trapped(mut parameters: Parameters) -> Result<()> {
    let times = parameters.count(10)?;
    install(Signal::SIGSYS, ignore, SaFlags::empty())?;
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
pub(crate) fn trapped_in_handler(parameters: Parameters) -> Result<()> {
    install(Signal::SIGSYS, ignore, SaFlags::empty())?;
    let interrupted = InterruptedCall {
        case: "trapped-in-handler",
        thread: c"zc-paused",
        name: "ppoll",
        number: libc::SYS_ppoll,
        errno: "ERESTARTNOHAND",
    };
    interrupted.run(parameters, libc::SECCOMP_RET_TRAP, || {
        // SAFETY: there are no descriptors, no time limit and no mask.
        unsafe { libc::ppoll(ptr::null_mut(), 0, ptr::null(), ptr::null()) };
    })
}

/// Signals interrupt a read of an empty pipe N times, and their handler makes a `getppid`, which
/// seccomp denies with an error.
pub(crate) fn denied_in_handler(parameters: Parameters) -> Result<()> {
    let (reader, _writer) = pipe()?;
    let interrupted = InterruptedCall {
        case: "denied-in-handler",
        thread: c"zc-reading",
        name: "read",
        number: libc::SYS_read,
        errno: "ERESTARTSYS",
    };
    let denied = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
    interrupted.run(parameters, denied, || {
        // SAFETY: the buffer has one byte.
        unsafe { libc::read(reader.as_raw_fd(), (&raw mut READ).cast(), 1) };
    })
}

/// A call that signals interrupt, in whose handler seccomp does something to a `getppid`.
struct InterruptedCall {
    case: &'static str,
    /// The thread that makes it.
    thread: &'static CStr,
    name: &'static str,
    number: libc::c_long,
    /// How it fails.
    errno: &'static str,
}

impl InterruptedCall {
    fn run(
        &self,
        mut parameters: Parameters,
        action: u32,
        mut call: impl FnMut() + Send,
    ) -> Result<()> {
        let times = parameters.count(3)?;
        install(Signal::SIGUSR1, ask_for_parent, SaFlags::empty())?;
        let mut outcome = Ok(());
        let body = || {
            outcome = answer(libc::SYS_getppid, action);
            (0..times).for_each(|_| call());
        };
        let asked = (times, &ASKED);
        interrupt_inside(self.thread, self.number, asked, body, |_| Ok(()))?;
        outcome?;
        let count = times as u64;
        let figure = Figure {
            calls: count,
            errors: count,
            errnos: [(self.errno.to_owned(), count)].into(),
            ..Figure::default()
        };
        let calls = [(self.name.to_owned(), figure)].into();
        print_expectation(self.case, &calls, json!({}))
    }
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
    let (load, equals) = (
        code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS)?,
        code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K)?,
    );
    let give = code(libc::BPF_RET | libc::BPF_K)?;
    let number = u32::try_from(number).map_err(io::Error::other)?;
    // SAFETY: these only make values. The number is the first field of `struct seccomp_data`.
    let mut program = unsafe {
        [
            libc::BPF_STMT(load, 0),
            libc::BPF_JUMP(equals, number, 0, 1),
            libc::BPF_STMT(give, action),
            libc::BPF_STMT(give, libc::SECCOMP_RET_ALLOW),
        ]
    };
    let program = libc::sock_fprog {
        len: 4,
        filter: program.as_mut_ptr(),
    };
    let (mode, program) = (libc::SECCOMP_MODE_FILTER, &raw const program);
    // SAFETY: the program is complete, and the kernel copies it.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, mode, program) == 0
    };
    done.then_some(()).ok_or_else(io::Error::last_os_error)
}
