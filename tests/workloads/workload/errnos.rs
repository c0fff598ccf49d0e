//! `errnos`: calls that fail, each with a known errno.

use std::{fs::File, ptr};

use anyhow::Result;
use rustix::{
    fs::{MemfdFlags, memfd_create},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
};
use serde_json::json;
use zc_tests::{PlannedCall, Tally, descriptor, leaked, print_expectation, with_bare_thread};

use crate::Parameters;

/// A descriptor that no process has, because the limit of descriptors is far lower.
const NOT_OPEN: usize = 0x7fff_fffe;
/// An address in the first page, which nothing is mapped to.
const BAD_ADDRESS: usize = 8;

/// Makes the calls, and prints them.
pub(crate) fn run(_: Parameters) -> Result<()> {
    let calls = calls()?;
    let mut tally = Tally::default();
    // SAFETY: the calls name memory that was leaked for them, or that the kernel refuses.
    let make = || unsafe { tally.make(&calls) };
    with_bare_thread(c"zc-errnos", make, |_| ())?;
    let facts = json!({ "thread": "zc-errnos" });
    print_expectation("errnos", &tally.figures()?, facts)
}

fn calls() -> Result<Vec<PlannedCall>> {
    let (reader, without_reader) = pipe_with(PipeFlags::CLOEXEC)?;
    drop(reader);
    let without_reader = descriptor(without_reader);
    let directory = descriptor(File::open("/")?);
    let read_only = descriptor(File::open("/dev/null")?);
    let memory = descriptor(memfd_create("zc-errnos", MemfdFlags::CLOEXEC)?);
    let (out, inlet) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let [out, inlet] = [out, inlet].map(descriptor);
    let buffer = leaked([0_u8; 100]);
    let bad_part = leaked(libc::iovec {
        iov_base: ptr::without_provenance_mut(BAD_ADDRESS),
        iov_len: 90,
    });
    let fails = |name, arguments: &[usize], asked: Option<usize>, errno| {
        PlannedCall::moving(name, arguments, asked, Err(errno))
    };
    let read = |fd, asked, errno| fails("read", &[fd, buffer, asked], Some(asked), errno);
    let write = |fd, from, asked, errno| fails("write", &[fd, from, asked], Some(asked), errno);
    let writev = |vector, asked| fails("writev", &[memory, vector, 1], asked, Errno::FAULT);
    Ok(vec![
        // Descriptors that are closed, open for the other direction, or of the wrong kind.
        read(NOT_OPEN, 100, Errno::BADF).times(3),
        write(read_only, buffer, 50, Errno::BADF).times(2),
        read(directory, 100, Errno::ISDIR).times(2),
        read(out, 20, Errno::AGAIN).times(5),
        // Rust ignores SIGPIPE.
        write(without_reader, buffer, 30, Errno::PIPE).times(4),
        // Pairs of files that a call does not work on.
        fails(
            "copy_file_range",
            &[memory, 0, inlet, 0, 70],
            Some(70),
            Errno::INVAL,
        ),
        fails(
            "splice",
            &[memory, 0, memory, 0, 60],
            Some(60),
            Errno::INVAL,
        ),
        fails("sendfile", &[inlet, out, 0, 80], Some(80), Errno::INVAL).times(2),
        // A buffer, a part, and a whole list of parts at an address that is not mapped. A list that
        // cannot be read asks for an unknown size.
        write(memory, BAD_ADDRESS, 40, Errno::FAULT),
        writev(bad_part, Some(90)),
        writev(BAD_ADDRESS, None),
    ])
}
