//! Calls that seccomp traps or denies, so that the kernel does not make them.

use std::{io, os::unix::process::CommandExt, process::Command, sync::atomic::Ordering::SeqCst};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{SaFlags, Signal};
use rustix::{io::Errno, pipe::pipe};
use serde_json::json;
use zc_tests::{
    Figure, Figures, PlannedCall, descriptor, leaked, print_expectation, with_bare_thread,
};

use crate::{
    Parameters,
    signals::{HANDLED, InterruptedCalls, install},
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
/// wait is a `ppoll` without anything, because arm64 has no `pause`.
pub(crate) fn trapped_in_handler(mut parameters: Parameters) -> Result<()> {
    install(Signal::SIGSYS, ignore, SaFlags::empty())?;
    let interrupted = InterruptedCalls {
        case: "trapped-in-handler",
        thread: c"zc-paused",
        call: PlannedCall::other("ppoll", &[], None, Err(Errno::INTR)),
        errno_at_exit: "ERESTARTNOHAND",
    };
    interrupted.run(parameters.count(3)?, ask_for_parent, || {
        answer(libc::SYS_getppid, libc::SECCOMP_RET_TRAP)
    })
}

/// Signals interrupt a read of an empty pipe N times, and their handler makes a `getppid`, which
/// seccomp denies with an error.
pub(crate) fn denied_in_handler(mut parameters: Parameters) -> Result<()> {
    let (reader, _writer) = pipe()?;
    let arguments = [descriptor(reader), leaked(0_u8), 1];
    let interrupted = InterruptedCalls {
        case: "denied-in-handler",
        thread: c"zc-reading",
        call: PlannedCall::moving("read", &arguments, 1, Err(Errno::INTR)),
        errno_at_exit: "ERESTARTSYS",
    };
    interrupted.run(parameters.count(3)?, ask_for_parent, || {
        let denied = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
        answer(libc::SYS_getppid, denied)
    })
}

/// Makes the call that seccomp traps or denies.
extern "C" fn ask_for_parent(_signal: libc::c_int) {
    // SAFETY: has no preconditions, and may be called at any moment.
    unsafe { libc::syscall(libc::SYS_getppid) };
    HANDLED.fetch_add(1, SeqCst);
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
