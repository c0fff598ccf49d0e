//! Operations of `io_uring` that the copier does not make.

use std::fs::{self, File};
use std::hint;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::{process, thread};

use anyhow::{Result, ensure};
use io_uring::{IoUring, opcode, squeue, types::Fd, types::Fixed};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};
use rustix::pipe::pipe;
use zc_tests::ring::{RING_CHUNK, complete, copy_by_requests, copy_by_ring, next_completion};

/// Operations close `a` and open `b` with the same descriptor, between calls that only read and
/// write: 1 byte of `a`, 2 of `b`.
pub(crate) fn replaced() -> Result<()> {
    let mut ring = IoUring::new(4)?;
    let (reader, writer) = pipe()?;
    fs::write("a", [b'a'; 10])?;
    fs::write("b", [b'b'; 10])?;
    let changing = File::open("a")?;
    let fd = changing.as_raw_fd();
    let mut byte = [0];
    let chain = [
        opcode::Read::new(Fd(reader.as_raw_fd()), byte.as_mut_ptr(), 1)
            .build()
            .flags(squeue::Flags::IO_LINK),
        opcode::Close::new(Fd(fd))
            .build()
            .flags(squeue::Flags::IO_LINK),
        opcode::OpenAt::new(Fd(libc::AT_FDCWD), c"b".as_ptr()).build(),
    ];
    // SAFETY: what the operations name lives until the last of them is complete, below.
    unsafe { ring.submission().push_multiple(&chain) }?;
    ring.submit()?;
    ensure!(read(&changing, &mut [0; 1])? == 1, "a byte of a");
    write(&writer, b"!")?;
    // This makes no call: completions are in shared memory.
    let mut results = Vec::new();
    while results.len() < chain.len() {
        results.extend(ring.completion().map(|completion| completion.result()));
        hint::spin_loop();
    }
    ensure!(results == [1, 0, fd], "the results are {results:?}");
    ensure!(read(&changing, &mut [0; 2])? == 2, "two bytes of b");
    Ok(())
}

/// Copies `in` to `out` by `read_fixed` and `write_fixed`, with registered files and a registered
/// buffer.
pub(crate) fn fixed() -> Result<()> {
    let mut ring = IoUring::new(2)?;
    let (from, to) = (File::open("in")?, File::create("out")?);
    let mut buffer = vec![0_u8; RING_CHUNK as usize];
    let part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: the buffer lives longer than the ring's last operation on it.
    unsafe { ring.submitter().register_buffers(&[part]) }?;
    let files = [from.as_raw_fd(), to.as_raw_fd()];
    ring.submitter().register_files(&files)?;
    let read = |part: &libc::iovec, at| {
        let read = opcode::ReadFixed::new(Fixed(0), part.iov_base.cast(), RING_CHUNK, 0);
        read.offset(at).build()
    };
    let write = |part: &libc::iovec, at| {
        let length = u32::try_from(part.iov_len).expect("short");
        let write = opcode::WriteFixed::new(Fixed(1), part.iov_base.cast(), length, 0);
        write.offset(at).build()
    };
    copy_by_requests(&mut ring, &mut buffer, read, write)?;
    Ok(())
}

/// Copies `in` to `out` by reads and writes that a kernel thread polls from the ring.
pub(crate) fn polled() -> Result<()> {
    let mut ring = IoUring::builder().setup_sqpoll(1000).build(2)?;
    let (from, to) = (File::open("in")?, File::create("out")?);
    copy_by_ring(&mut ring, from.as_raw_fd(), to.as_raw_fd())?;
    Ok(())
}

/// The same on a second thread, after the first thread has ended.
pub(crate) fn of_a_thread() -> Result<()> {
    thread::spawn(|| {
        let until_over = || -> Result<()> {
            while !fs::read_to_string("/proc/self/stat")?.contains(") Z ") {
                thread::yield_now();
            }
            polled()
        };
        process::exit(i32::from(until_over().is_err()));
    });
    // SAFETY: ends only this thread. The other one uses nothing of it.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    unreachable!("the thread has ended")
}

/// A write of 70 bytes to `silent` that does not report its success, and one of 80 bytes that does.
pub(crate) fn silent() -> Result<()> {
    let mut ring = IoUring::new(2)?;
    let file = File::create("silent")?;
    let bytes = [b's'; 80];
    let write = |length, at| {
        opcode::Write::new(Fd(file.as_raw_fd()), bytes.as_ptr(), length)
            .offset(at)
            .build()
    };
    let quiet = write(70, 0).flags(squeue::Flags::SKIP_SUCCESS | squeue::Flags::IO_LINK);
    // SAFETY: `bytes` lives until the second write, which waits for the first, is complete.
    unsafe { ring.submission().push(&quiet) }?;
    ensure!(
        complete_one(&mut ring, &write(80, 70))? == 80,
        "a short write"
    );
    Ok(())
}

/// Polls an eventfd with a multishot operation, and wakes it three times.
pub(crate) fn multishot() -> Result<()> {
    let mut ring = IoUring::new(2)?;
    let mut event = File::from(eventfd(0, EventfdFlags::CLOEXEC)?);
    let poll = opcode::PollAdd::new(Fd(event.as_raw_fd()), libc::POLLIN.unsigned_abs().into())
        .multi(true)
        .build();
    // SAFETY: the operation uses no memory of this process.
    unsafe { ring.submission().push(&poll) }?;
    ring.submit()?;
    for _ in 0..3 {
        event.write_all(&1_u64.to_ne_bytes())?;
        next_completion(&mut ring)?;
    }
    Ok(())
}

/// One operation that no kernel knows, and two that do nothing.
pub(crate) fn unknown_opcode() -> Result<()> {
    const UNKNOWN: u8 = 200;
    let mut ring = IoUring::new(2)?;
    let mut entry = opcode::Nop::new().build();
    // SAFETY: the opcode is the first byte of an entry (`struct io_uring_sqe` of the kernel's
    // include/uapi/linux/io_uring.h).
    unsafe { (&raw mut entry).cast::<u8>().write(UNKNOWN) };
    ensure!(
        complete_one(&mut ring, &entry).is_err(),
        "opcode {UNKNOWN} is known"
    );
    for _ in 0..2 {
        complete_one(&mut ring, &opcode::Nop::new().build())?;
    }
    Ok(())
}

/// Makes one request, and returns its result.
fn complete_one(ring: &mut IoUring, request: &squeue::Entry) -> Result<u32> {
    // SAFETY: the callers keep what the request names until this returns.
    Ok(unsafe { complete(ring, request) }?)
}
