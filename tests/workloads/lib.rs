//! The workloads are programs whose system calls are known, so that zctrace can be tested with
//! them. This library is what they share.
//!
//! - `copier` (Rust) and `copier-c` (C) move bytes from one end to another by a chosen kernel
//!   interface; `--list` shows the cases.
//! - `workload` has named cases that make exactly known calls and print what a tracer has to find;
//!   `--list` shows them.
//! - `odd-files` has named cases that use files in ways that are easily mistaken.
//! - `random-io` makes random calls that move bytes, and records where every byte came from;
//!   [`truth`] is the record.
//! - `file-script` makes the calls of a script that change, sync and name files.
//! - `kernel-copy` makes many short copies in one process.
//! - `int80` and `socketcall` (C, x86-64 only) make 32-bit calls from 64-bit code.
//!
//! A workload that states what it did prints one line of JSON (one `write`): `{"case": ...,
//! "calls": {NAME: Figure}, ...}`, where a [`Figure`] has the names and the meaning of zctrace's
//! own report. The line does not include its own `write`, nor the calls with which the language's
//! runtime starts and ends. Where those would mix with the deliberate calls, the deliberate ones
//! are made on a thread of their own. `"thread"` names it, and its rows in a per-thread report show
//! nothing else.
#![expect(
    clippy::missing_panics_doc,
    reason = "a workload that panics fails its test"
)]

mod peer;
pub mod ring;
mod tally;
pub mod truth;

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    thread,
};

use anyhow::Context as _;
use nix::errno::Errno;
use rustix::process::Pid;

pub use peer::Peer;
pub use tally::{
    Figure, Figures, PlannedCall, Tally, descriptor, leaked, raw_call, with_bare_thread,
};

/// The path of a program of this package: the C programs are beside those in Rust.
pub fn program_beside(name: &str) -> PathBuf {
    Path::new(env!("ZC_C_DIR")).join(name)
}

/// The environment variable with the path of the `zctrace` to test.
pub const BIN_VARIABLE: &str = "ZCTRACE_BIN";

/// The path of the zctrace to test: the one that the environment names, or the one that was built
/// beside the workloads.
pub fn zctrace_to_test() -> PathBuf {
    let named = std::env::var_os(BIN_VARIABLE);
    named.map_or_else(|| program_beside("zctrace"), PathBuf::from)
}

/// The environment variable that says how many times slower than usual this machine is. Guests set
/// it.
const PATIENCE_VARIABLE: &str = "ZC_TEST_PATIENCE";

/// How many times slower than usual this machine is.
pub fn patience() -> u32 {
    std::env::var(PATIENCE_VARIABLE).map_or(1, |factor| factor.parse().expect("a number of times"))
}

/// Prints one line to stdout with exactly one `write`.
pub fn print_line(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(format!("{line}\n").as_bytes())?;
    stdout.flush()
}

/// Prints what a case did as one line of JSON: its name, its deliberate calls, and other facts.
pub fn print_expectation(
    case: &str,
    calls: &Figures,
    facts: serde_json::Value,
) -> anyhow::Result<()> {
    let mut line = serde_json::json!({ "case": case, "calls": calls });
    if let (serde_json::Value::Object(line), serde_json::Value::Object(facts)) = (&mut line, facts)
    {
        line.extend(facts);
    }
    Ok(print_line(&line.to_string())?)
}

/// The name of an errno: `EAGAIN` for 11.
pub fn errno_name(code: i32) -> String {
    format!("{:?}", Errno::from_raw(code))
}

/// Waits until the task `task` (`self/task/TID`, or `PID`) is inside the system call numbered
/// `number`.
///
/// It polls `/proc/TASK/syscall`, which says `running` or the number of the call that the task
/// waits in. That takes an unknown number of `openat`, `read` and `close` calls on the calling
/// thread.
pub fn wait_until_in_call(task: &str, number: libc::c_long) -> io::Result<()> {
    let path = format!("/proc/{task}/syscall");
    let number = number.to_string();
    while fs::read_to_string(&path)?.split_whitespace().next() != Some(&number) {
        thread::yield_now();
    }
    Ok(())
}

/// Forks a child that runs `body` and exits: with status 0 if that returns true, else with 1.
///
/// The process must have only one thread.
pub fn fork(body: impl FnOnce() -> bool) -> anyhow::Result<Pid> {
    // SAFETY: this process has one thread, so the child may make any calls.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()).context("fork"),
        0 => {
            let is_success = body();
            // SAFETY: ends the child at once, without the parent's exit handlers.
            unsafe { libc::_exit(i32::from(!is_success)) }
        }
        child => Pid::from_raw(child).context("fork returned no process id"),
    }
}
