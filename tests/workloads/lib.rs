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
//! - `kernel-copy` makes many short copies in one process.
//! - `int80` and `socketcall` (C, x86-64 only) make 32-bit calls from 64-bit code.
//!
//! A workload that states what it did prints one line of JSON (one `write`): `{"case": ...,
//! "calls": {NAME: Figure}, ...}`, where a [`Figure`] has the names and the meaning of zctrace's
//! own report. The line does not include its own `write`, nor the calls with which the language's
//! runtime starts and ends. Where those would mix with the deliberate calls, the deliberate ones
//! are made on a thread of their own. `"thread"` names it, and its rows in a per-thread report show
//! nothing else.

pub mod bpf;
mod tally;
pub mod truth;

use std::{
    fs,
    io::{self, ErrorKind, Write},
    os::fd::{AsFd, RawFd},
    path::{Path, PathBuf},
    process::ExitCode,
    ptr, slice, thread,
};

use anyhow::{Context as _, Error};
use io_uring::{IoUring, opcode, squeue, types::Fd};
use nix::errno::Errno;
use rustix::{
    mm::{MapFlags, ProtFlags, mmap},
    process::Pid,
};
pub use tally::{Figure, Figures, Tally, with_bare_thread};

/// The path of the C program `name` (`copier-c`, `int80`), which is beside the Rust programs.
pub fn c_program(name: &str) -> PathBuf {
    Path::new(env!("ZC_C_DIR")).join(name)
}

/// The environment variable that says how many times slower than usual this machine is. Guests set
/// it.
const PATIENCE_VARIABLE: &str = "ZC_TEST_PATIENCE";

/// How many times slower than usual this machine is.
///
/// # Panics
///
/// If `ZC_TEST_PATIENCE` is not a number.
pub fn patience() -> u32 {
    std::env::var(PATIENCE_VARIABLE).map_or(1, |factor| factor.parse().expect("a number of times"))
}

/// Prints the error of a program to stderr, if it failed, and returns its exit status.
pub fn exit_code(program: &str, result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("{program}: {err:#}");
            ExitCode::FAILURE
        }
    }
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

/// An I/O error with the name of its errno, if the kernel returned it: `EINVAL: Invalid argument`.
pub fn named(err: io::Error) -> Error {
    match err.raw_os_error() {
        Some(code) => Errno::from_raw(code).into(),
        None => err.into(),
    }
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

/// Maps the first `length` bytes of a file, privately and only for reading. The mapping stays for as
/// long as the process.
///
/// The files of workloads do not change while they are mapped. If one shrinks, SIGBUS ends whoever
/// looks at the bytes behind its end.
pub fn map_file(file: impl AsFd, length: usize) -> io::Result<&'static [u8]> {
    if length == 0 {
        // Nothing can be mapped.
        return Ok(&[]);
    }
    let (access, flags) = (ProtFlags::READ, MapFlags::PRIVATE);
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
    let start = unsafe { mmap(ptr::null_mut(), length, access, flags, file, 0)? };
    // SAFETY: the mapping has this many readable bytes, and is never unmapped.
    Ok(unsafe { slice::from_raw_parts(start.cast(), length) })
}

/// Makes one request to a ring that has no others, and waits for its result. The kernel waits even
/// if the descriptor is non-blocking (seen on 6.18).
///
/// # Errors
///
/// That of the ring, or the errno of the request.
///
/// # Safety
///
/// The memory that the request names lives until this returns.
pub unsafe fn complete(ring: &mut IoUring, request: &squeue::Entry) -> io::Result<u32> {
    // SAFETY: the caller sees to it.
    unsafe { ring.submission().push(request) }.map_err(io::Error::other)?;
    next_completion(ring)
}

/// Waits for the next completion of a ring: the result of its request.
///
/// # Errors
///
/// That of the ring, or the errno of the request.
pub fn next_completion(ring: &mut IoUring) -> io::Result<u32> {
    loop {
        match ring.submit_and_wait(1) {
            // A signal interrupts the wait but not the request.
            Err(err) if err.kind() != ErrorKind::Interrupted => return Err(err),
            _ => {}
        }
        if let Some(completion) = ring.completion().next() {
            let result = completion.result();
            return u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
        }
    }
}

/// How many bytes one read of [`copy_by_ring`] asks for.
pub const RING_CHUNK: u32 = 64 * 1024;

/// Copies to the end of the source, at the positions of both ends, by reads and writes of a ring
/// over one buffer, each with these flags. Returns how many bytes it copied.
///
/// # Errors
///
/// That of the ring, or the errno of a request.
pub fn copy_by_ring(
    ring: &mut IoUring,
    from: RawFd,
    to: RawFd,
    flags: squeue::Flags,
) -> io::Result<u64> {
    // This means the position. It also works for files without positions.
    const HERE: u64 = u64::MAX;
    let (from, to) = (Fd(from), Fd(to));
    let read = |part: &libc::iovec, _| {
        let read = opcode::Read::new(from, part.iov_base.cast(), RING_CHUNK);
        read.offset(HERE).build().flags(flags)
    };
    let write = |part: &libc::iovec, _| {
        let length = u32::try_from(part.iov_len).unwrap_or(u32::MAX);
        let write = opcode::Write::new(to, part.iov_base.cast(), length);
        write.offset(HERE).build().flags(flags)
    };
    copy_by_requests(ring, &mut vec![0; RING_CHUNK as usize], read, write)
}

/// Copies to the end of the source by requests to a ring that read to a part of the buffer, or
/// write it, at an offset.
///
/// # Errors
///
/// That of the ring, or the errno of a request.
pub fn copy_by_requests(
    ring: &mut IoUring,
    buffer: &mut [u8],
    read: impl Fn(&libc::iovec, u64) -> squeue::Entry,
    write: impl Fn(&libc::iovec, u64) -> squeue::Entry,
) -> io::Result<u64> {
    let mut at = 0;
    loop {
        let part = part_of(buffer);
        // SAFETY: the buffer and the part live longer. The same holds below.
        let count = unsafe { complete(ring, &read(&part, at)) }? as usize;
        if count == 0 {
            return Ok(at);
        }
        let mut done = 0;
        while done < count {
            let part = part_of(&mut buffer[done..count]);
            // SAFETY: as above.
            let written = unsafe { complete(ring, &write(&part, at)) }?;
            (done, at) = (done + written as usize, at + u64::from(written));
        }
    }
}

fn part_of(buffer: &mut [u8]) -> libc::iovec {
    libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    }
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
