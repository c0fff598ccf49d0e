//! Calls that seccomp answers before the kernel makes them.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use serde_json::json;
use zc_tests::{Figure, Figures, print_expectation, with_bare_thread};

use crate::parameters::Parameters;

/// Sends and writes that seccomp traps: each "returns" its own number on x86, and its first argument on ARM.
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
    let never = || Figure { unfinished: times as u64, bytes: Some(0), requested_bytes: Some(0), ..Figure::default() };
    let figures: Figures = [("sendto".to_owned(), never()), ("write".to_owned(), never())].into();
    print_expectation("trapped", &figures, json!({ "thread": "zc-trapped" }))
}

extern "C" fn ignore(_signal: libc::c_int) {}

/// The first argument of what is trapped. As a result it would be a number of bytes.
const FIRST: libc::c_long = 1;

fn trap(times: usize) -> io::Result<()> {
    for number in [libc::SYS_sendto, libc::SYS_write] {
        answer(number, libc::SECCOMP_RET_TRAP)?;
        for _ in 0..times {
            // SAFETY: the call is not made.
            let result = unsafe { libc::syscall(number, FIRST, c"abcdef".as_ptr(), 6, 0, 0, 0) };
            let expected = if cfg!(target_arch = "x86_64") { number } else { FIRST };
            if result != expected {
                return Err(io::Error::other(format!("a call that was trapped returned {result}, not {expected}")));
            }
        }
    }
    Ok(())
}

/// Executes a program for which one call fails at once.
pub(crate) fn deny(mut parameters: Parameters) -> Result<()> {
    let (errno, number) = (parameters.count(0)?, parameters.count(0)?);
    let words = parameters.rest();
    let Some((program, arguments)) = words.split_first() else { bail!("which program?") };
    let errno = Errno::from_raw_os_error(i32::try_from(errno)?).raw_os_error().unsigned_abs();
    answer(i64::try_from(number)?, libc::SECCOMP_RET_ERRNO | errno)?;
    Err(Command::new(program).args(arguments).exec()).context("execve")
}

/// Has seccomp do this whenever this thread makes the call of this number.
fn answer(number: libc::c_long, action: u32) -> io::Result<()> {
    let code = |code: u32| u16::try_from(code).map_err(io::Error::other);
    let statement = |code: u16, jt: u8, jf: u8, k: u32| libc::sock_filter { code, jt, jf, k };
    let (load, compare) = (code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS)?, code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K)?);
    let give = code(libc::BPF_RET | libc::BPF_K)?;
    let number = u32::try_from(number).map_err(io::Error::other)?;
    // The number is the first field of `struct seccomp_data`.
    let mut program = [
        statement(load, 0, 0, 0),
        statement(compare, 0, 1, number),
        statement(give, 0, 0, action),
        statement(give, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: program.as_mut_ptr() };
    // SAFETY: the program is a whole one, and the kernel copies it.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}
