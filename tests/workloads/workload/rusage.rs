//! `rusage`: a child with page faults, switches and CPU time, and the kernel's own account of it.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr;
use std::slice;

use anyhow::{Context, Result, ensure};
use rustix::io::{read, write};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use rustix::pipe::pipe;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use zc_tests::{Figures, print_expectation, wait_until_in_call};

use crate::parameters::Parameters;

/// Pages that the child touches: its minor faults are at least as many.
const PAGES: usize = 1000;
/// Times that the child waits for its parent: its voluntary switches are at least about as many.
const ROUNDS: usize = 200;
/// CPU time that the child burns, in milliseconds.
const BURN_MS: i64 = 50;

/// Runs the child, and prints its process id and what `wait4` says of it.
pub(crate) fn run(parameters: Parameters) -> Result<()> {
    parameters.end()?;
    let (to_child, from_child) = (pipe()?, pipe()?);
    // SAFETY: this process has one thread, so the child may do as it likes.
    let pid = match unsafe { libc::fork() } {
        -1 => return Err(std::io::Error::last_os_error()).context("fork"),
        0 => {
            let worked = child(to_child.0.as_fd(), from_child.1.as_fd()).is_ok();
            // SAFETY: ends the child at once, without the parent's exit handlers.
            unsafe { libc::_exit(libc::c_int::from(!worked)) }
        }
        pid => pid,
    };
    drop((to_child.0, from_child.1));
    for _ in 0..ROUNDS {
        // Only a child that waits already has to switch: one that finds its byte there does not.
        wait_until_in_call(&pid.to_string(), libc::SYS_read)?;
        write(&to_child.1, b"!")?;
        ensure!(read(&from_child.0, &mut [0; 1])? == 1, "the child ended early");
    }
    let (status, usage) = wait_for(pid)?;
    ensure!(status == 0, "the child ended with status {status:#x}");
    print_expectation("rusage", &Figures::new(), json!({ "pid": pid, "rusage": fields(&usage) }))
}

/// What the child does.
fn child(commands: BorrowedFd<'_>, answers: BorrowedFd<'_>) -> Result<()> {
    touch_pages()?;
    for _ in 0..ROUNDS {
        ensure!(read(commands, &mut [0; 1])? == 1, "the parent ended");
        write(answers, b".")?;
    }
    while cpu_ms() < BURN_MS {
        std::hint::spin_loop();
    }
    Ok(())
}

/// Writes to every page of a new mapping, small pages only.
fn touch_pages() -> Result<()> {
    let page = rustix::param::page_size();
    let len = PAGES * page;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
    let address = unsafe { mmap_anonymous(ptr::null_mut(), len, access, MapFlags::PRIVATE)? };
    // SAFETY: the range is the mapping; the advice changes how its pages are made, not what they hold. A kernel without huge
    // pages refuses it, and has only small ones anyway.
    let _ = unsafe { madvise(address, len, Advice::LinuxNoHugepage) };
    // SAFETY: the mapping is `len` zero bytes, writable, never unmapped, and known to nobody else.
    let bytes = unsafe { slice::from_raw_parts_mut(address.cast::<u8>(), len) };
    bytes.iter_mut().step_by(page).for_each(|byte| *byte = 1);
    std::hint::black_box(bytes);
    Ok(())
}

/// The CPU time that this process has had, in milliseconds.
fn cpu_ms() -> i64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}

/// Waits for the child; its status and what it used.
fn wait_for(pid: libc::pid_t) -> Result<(libc::c_int, libc::rusage)> {
    let (mut status, mut usage) = (0, MaybeUninit::uninit());
    // SAFETY: both pointers are to writable memory of the right types.
    let waited = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
    ensure!(waited == pid, "wait4: {}", std::io::Error::last_os_error());
    // SAFETY: wait4 succeeded, so it has filled the struct.
    Ok((status, unsafe { usage.assume_init() }))
}

/// The fields that Linux fills.
fn fields(usage: &libc::rusage) -> serde_json::Value {
    let us = |time: libc::timeval| time.tv_sec * 1_000_000 + time.tv_usec;
    json!({
        "ru_utime_us": us(usage.ru_utime), "ru_stime_us": us(usage.ru_stime),
        "ru_minflt": usage.ru_minflt, "ru_majflt": usage.ru_majflt,
        "ru_nvcsw": usage.ru_nvcsw, "ru_nivcsw": usage.ru_nivcsw,
        "ru_maxrss_kib": usage.ru_maxrss, "ru_inblock": usage.ru_inblock, "ru_oublock": usage.ru_oublock,
    })
}
