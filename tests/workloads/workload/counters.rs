//! The kernel's own counters, with which a tracer can be compared: `/proc/self/io` of a thread, and
//! the rusage of a child.
//!
//! `/proc/self/io` counts a read after it has been made. So the difference between the first look
//! and the last one includes the first look's own read, but not that of the last look: the thread
//! made one read more than `syscr` grew by. `not_in_growth` has that read and its bytes.

use std::{
    fs::File,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd},
    ptr,
};

use anyhow::{Context, Result, ensure};
use rustix::{
    io::{read, write},
    mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous},
    pipe::pipe,
    time::{ClockId, clock_gettime},
};
use serde_json::json;
use zc_tests::{
    Figures, PlannedCall, Tally, descriptor, fork, print_expectation, wait_until_in_call,
    with_bare_thread,
};

use crate::Parameters;

/// More than the length of `/proc/self/io`.
const ROOM: usize = 1024;

/// One look at `/proc/self/io`.
struct Look {
    file: File,
    text: [u8; ROOM],
    len: usize,
}

/// Reads from `/dev/zero` and writes to `/dev/null` between two looks, on a bare thread, and prints
/// what the kernel counted.
pub(crate) fn proc_io(mut parameters: Parameters) -> Result<()> {
    let (reads, writes, size) = (
        parameters.count(1000)?,
        parameters.count(500)?,
        parameters.count(100)?,
    );
    let zero = descriptor(File::open("/dev/zero")?);
    let null = descriptor(File::options().write(true).open("/dev/null")?);
    let (mut first, mut last) = (Look::new()?, Look::new()?);
    let mut buffer = vec![0_u8; size];
    let buffer = buffer.as_mut_ptr().expose_provenance();
    let planned = [
        PlannedCall::full("read", &[zero, buffer, size], size).times(reads),
        PlannedCall::full("write", &[null, buffer, size], size).times(writes),
    ];
    let mut tally = Tally::default();
    let calls = || {
        first.take(&mut tally);
        // SAFETY: they name the buffer, which lives longer.
        unsafe { tally.make(&planned) };
        last.take(&mut tally);
    };
    with_bare_thread(c"zc-proc-io", calls, |_| ())?;
    let growth = |name| Ok::<_, anyhow::Error>(last.value(name)? - first.value(name)?);
    let facts = json!({
        "thread": "zc-proc-io",
        "growth": {
            "syscr": growth("syscr")?, "syscw": growth("syscw")?, "rchar": growth("rchar")?, "wchar": growth("wchar")?,
        },
        "not_in_growth": { "read": { "calls": 1, "bytes": last.len } },
    });
    print_expectation("proc-io", &tally.figures()?, facts)
}

impl Look {
    /// Opens the file. Each look has a descriptor of its own, which is at the start of the file.
    fn new() -> Result<Self> {
        Ok(Self {
            file: File::open("/proc/self/io")?,
            text: [0; ROOM],
            len: 0,
        })
    }

    /// Reads the file with one call.
    fn take(&mut self, tally: &mut Tally) {
        let got = read(&self.file, &mut self.text);
        self.len = got.unwrap_or(0);
        tally.moved("read", ROOM, got, got);
    }

    /// One of the counters.
    fn value(&self, name: &str) -> Result<u64> {
        let text = str::from_utf8(&self.text[..self.len])?;
        let mut values = text
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        values
            .next()
            .and_then(|value| value.parse().ok())
            .with_context(|| format!("no {name} in /proc/self/io: {text:?}"))
    }
}

/// How many pages the child touches. It has at least this many minor faults.
const PAGES: usize = 1000;
/// How many times the child waits for its parent. It has about as many voluntary switches, or more.
const ROUNDS: usize = 200;
/// How much CPU time the child uses, in milliseconds.
const BURN_MS: i64 = 50;

/// Runs the child, and prints its process id and its rusage from `wait4`.
pub(crate) fn rusage(_: Parameters) -> Result<()> {
    let (to_child, from_child) = (pipe()?, pipe()?);
    let pid = fork(|| child(to_child.0.as_fd(), from_child.1.as_fd()).is_ok())?.as_raw_pid();
    drop((to_child.0, from_child.1));
    for _ in 0..ROUNDS {
        // The child switches only if it has to wait, so the byte must not be there before.
        wait_until_in_call(&pid.to_string(), libc::SYS_read)?;
        write(&to_child.1, b"!")?;
        ensure!(
            read(&from_child.0, &mut [0; 1])? == 1,
            "the child ended early"
        );
    }
    let usage = rusage_of(pid)?;
    let us = |time: libc::timeval| time.tv_sec * 1_000_000 + time.tv_usec;
    let rusage = json!({
        "ru_utime_us": us(usage.ru_utime), "ru_stime_us": us(usage.ru_stime),
        "ru_minflt": usage.ru_minflt, "ru_majflt": usage.ru_majflt,
        "ru_nvcsw": usage.ru_nvcsw, "ru_nivcsw": usage.ru_nivcsw,
    });
    let facts = json!({ "pid": pid, "rusage": rusage });
    print_expectation("rusage", &Figures::new(), facts)
}

/// The work of the child.
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
    // SAFETY: the range is the mapping. The advice changes the size of its pages, not their
    // content. A kernel without huge pages refuses it, which does not matter.
    let _ = unsafe { madvise(address, len, Advice::LinuxNoHugepage) };
    for offset in (0..len).step_by(page) {
        // SAFETY: the mapping has `len` writable bytes, and nobody else knows it.
        unsafe { address.cast::<u8>().add(offset).write_volatile(1) };
    }
    Ok(())
}

/// The CPU time that this process has used, in milliseconds.
fn cpu_ms() -> i64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}

/// Waits for the child, which must succeed: its rusage.
fn rusage_of(pid: libc::pid_t) -> Result<libc::rusage> {
    let (mut status, mut usage) = (0, MaybeUninit::uninit());
    // SAFETY: both pointers are to writable memory of the right types.
    let waited = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
    ensure!(waited == pid, "wait4: {}", std::io::Error::last_os_error());
    ensure!(status == 0, "the child ended with status {status:#x}");
    // SAFETY: wait4 succeeded, so it has filled the struct.
    Ok(unsafe { usage.assume_init() })
}
