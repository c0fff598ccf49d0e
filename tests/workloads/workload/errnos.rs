//! `errnos`: calls that fail, each with a known errno.

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    ptr,
};

use anyhow::Result;
use rustix::{
    fs::{MemfdFlags, copy_file_range, memfd_create, sendfile},
    io::{Errno, read, write},
    pipe::{PipeFlags, SpliceFlags, pipe_with, splice},
};
use serde_json::json;
use zc_tests::{Tally, print_expectation, with_bare_thread};

use crate::Parameters;

/// A descriptor that no process has, because the limit of descriptors is far lower.
const NOT_OPEN: RawFd = RawFd::MAX - 1;
/// An address in the first page, which nothing is mapped to.
const BAD_ADDRESS: usize = 8;

/// Makes the calls, and prints them.
pub(crate) fn run(_: Parameters) -> Result<()> {
    let (reader, pipe_without_reader) = pipe_with(PipeFlags::CLOEXEC)?;
    drop(reader);
    let fixture = Fixture {
        directory: File::open("/")?,
        read_only: File::open("/dev/null")?,
        memory: memfd_create("zc-errnos", MemfdFlags::CLOEXEC)?,
        empty_pipe: pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?,
        pipe_without_reader,
    };
    let mut tally = Tally::default();
    let calls = || {
        let calls = Fixture::CALLS.iter();
        for &(name, asked, errno, times, call) in calls {
            for _ in 0..times {
                let mut buffer = [0; 100];
                let got = call(&fixture, &mut buffer[..asked.unwrap_or(0)]);
                tally.moved(name, asked, Err(errno), got);
            }
        }
    };
    with_bare_thread(c"zc-errnos", calls, |_| ())?;
    let facts = json!({ "thread": "zc-errnos" });
    print_expectation("errnos", &tally.figures()?, facts)
}

/// Descriptors of every kind that the calls need.
struct Fixture {
    directory: File,
    read_only: File,
    memory: OwnedFd,
    empty_pipe: (OwnedFd, OwnedFd),
    pipe_without_reader: OwnedFd,
}

/// A call that fails: its name, the size that it asks for (at most 100), its errno, how often it is
/// made, and how, with a buffer of that size.
type FailingCall = (
    &'static str,
    Option<usize>,
    Errno,
    usize,
    fn(&Fixture, &mut [u8]) -> Result<usize, Errno>,
);

impl Fixture {
    const CALLS: &[FailingCall] = &[
        // Descriptors that are closed, open for the other direction, or of the wrong kind.
        ("read", Some(100), Errno::BADF, 3, |_, buffer| {
            let (start, length) = (buffer.as_mut_ptr().cast(), buffer.len());
            // SAFETY: the buffer has this many writable bytes. The descriptor is not open.
            result(unsafe { libc::read(NOT_OPEN, start, length) })
        }),
        ("write", Some(50), Errno::BADF, 2, |one, buffer| {
            write(&one.read_only, buffer)
        }),
        ("read", Some(100), Errno::ISDIR, 2, |one, buffer| {
            read(&one.directory, buffer)
        }),
        ("read", Some(20), Errno::AGAIN, 5, |one, buffer| {
            read(&one.empty_pipe.0, buffer)
        }),
        // Rust ignores SIGPIPE.
        ("write", Some(30), Errno::PIPE, 4, |one, buffer| {
            write(&one.pipe_without_reader, buffer)
        }),
        // Pairs of files that a call does not work on.
        ("copy_file_range", Some(70), Errno::INVAL, 1, |one, _| {
            copy_file_range(&one.memory, None, &one.empty_pipe.1, None, 70)
        }),
        ("splice", Some(60), Errno::INVAL, 1, |one, _| {
            let none = SpliceFlags::empty();
            splice(&one.memory, None, &one.memory, None, 60, none)
        }),
        ("sendfile", Some(80), Errno::INVAL, 2, |one, _| {
            sendfile(&one.empty_pipe.1, &one.empty_pipe.0, None, 80)
        }),
        // A buffer, a part, and a whole list of parts at an address that is not mapped. A list that
        // cannot be read asks for an unknown size.
        ("write", Some(40), Errno::FAULT, 1, |one, _| {
            let fd = one.memory.as_raw_fd();
            // SAFETY: the kernel checks addresses that it is given, and refuses this one.
            result(unsafe { libc::write(fd, ptr::without_provenance(BAD_ADDRESS), 40) })
        }),
        ("writev", Some(90), Errno::FAULT, 1, |one, _| {
            let part = libc::iovec {
                iov_base: ptr::without_provenance_mut(BAD_ADDRESS),
                iov_len: 90,
            };
            // SAFETY: the list is one valid `iovec`; the kernel checks the address in it, and
            // refuses it.
            result(unsafe { libc::writev(one.memory.as_raw_fd(), &raw const part, 1) })
        }),
        ("writev", None, Errno::FAULT, 1, |one, _| {
            let fd = one.memory.as_raw_fd();
            // SAFETY: the kernel checks the address of the list, and refuses it.
            result(unsafe { libc::writev(fd, ptr::without_provenance(BAD_ADDRESS), 1) })
        }),
    ];
}

/// The result of a call of the C library.
fn result(count: libc::ssize_t) -> Result<usize, Errno> {
    usize::try_from(count)
        .map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}
