//! Writes from memory that held something else before, or that no single read filled.

use std::{
    fs::{self, File},
    io::{IoSlice, Read as _, Write as _},
    os::fd::AsRawFd as _,
    ptr, thread,
};

use anyhow::{Result, ensure};
use io_uring::{IoUring, opcode, types::Fd};
use rustix::{
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair},
    pipe::{SpliceFlags, pipe, splice},
    rand::{GetRandomFlags, getrandom},
};
use zc_tests::{map_file, ring::complete};

/// The size of a read.
const PIECE: usize = 60_000;

/// What is written before the bytes of the file.
const HEADER: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";

fn files() -> Result<(File, File)> {
    Ok((File::open("in")?, File::create("out")?))
}

/// Copies from one file to another until the end, so many bytes at a time.
fn copy(from: &mut File, to: &mut File, size: usize) -> Result<()> {
    let mut buffer = vec![0; size];
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..read])?;
    }
}

/// Copies `in` twice from one descriptor: 4 KiB at a time to `small`, and 1 MiB at a time to
/// `large`.
pub(crate) fn two_loops() -> Result<()> {
    let mut from = File::open("in")?;
    for (name, size) in [("small", 4096), ("large", 1 << 20)] {
        std::io::Seek::rewind(&mut from)?;
        copy(&mut from, &mut File::create(name)?, size)?;
    }
    Ok(())
}

fn write_with_header(to: &mut File, body: &[u8]) -> Result<()> {
    let parts = [IoSlice::new(HEADER), IoSlice::new(body)];
    ensure!(to.write_vectored(&parts)? == HEADER.len() + body.len());
    Ok(())
}

/// Reads `in`, and writes it to `out` after a header, in one call.
pub(crate) fn header_and_buffer() -> Result<()> {
    let (mut from, mut to) = files()?;
    let mut body = vec![0; from.metadata()?.len().try_into()?];
    from.read_exact(&mut body)?;
    write_with_header(&mut to, &body)
}

/// The same with a mapping of `in`.
pub(crate) fn header_and_mapping() -> Result<()> {
    let (from, mut to) = files()?;
    let length = from.metadata()?.len().try_into()?;
    write_with_header(&mut to, map_file(&from, length)?)
}

/// Writes two pages of a mapping of `mapped` to `out`, shortens the file to a page and four bytes,
/// and writes the same memory again.
pub(crate) fn mapping_shortened() -> Result<()> {
    fs::write("mapped", &fs::read("in")?[..8192])?;
    let (mapped, mut to) = (
        File::options().read(true).write(true).open("mapped")?,
        File::create("out")?,
    );
    let memory = map_file(&mapped, 8192)?;
    to.write_all(memory)?;
    mapped.set_len(4100)?;
    Ok(to.write_all(memory)?)
}

/// Copies `in` without its first 246 bytes to `out` by `fwrite`: stdio writes whole blocks from the
/// caller's buffer, and the rest from its own.
pub(crate) fn stdio_after_a_header() -> Result<()> {
    let mut from = File::open("in")?;
    // SAFETY: both are C strings.
    let to = unsafe { libc::fopen(c"out".as_ptr(), c"w".as_ptr()) };
    ensure!(!to.is_null(), "cannot open out");
    let (mut piece, mut skipped) = ([0; 14_000], 246);
    loop {
        let read = from.read(&mut piece)?;
        if read == 0 {
            break;
        }
        let rest = &piece[skipped..read];
        skipped = 0;
        // SAFETY: `rest` has this many bytes, and the stream is open.
        let written = unsafe { libc::fwrite(rest.as_ptr().cast(), 1, rest.len(), to) };
        ensure!(written == rest.len(), "a short fwrite");
    }
    // SAFETY: the stream is open, and not used after this.
    ensure!(unsafe { libc::fclose(to) } == 0, "cannot close out");
    Ok(())
}

/// Reads `/dev/zero` to a buffer, then `in` to the same buffer in another way, and writes the buffer
/// to `out`.
fn filled_twice(mut read: impl FnMut(&mut File, &mut [u8]) -> Result<usize>) -> Result<()> {
    let (mut from, mut to) = files()?;
    let (mut zeroes, mut buffer) = (File::open("/dev/zero")?, vec![0; PIECE]);
    loop {
        zeroes.read_exact(&mut buffer)?;
        let count = read(&mut from, &mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..count])?;
    }
}

/// One thread reads `/dev/zero` to a buffer, another reads `in` to the same buffer, and the first
/// writes the buffer to `out`.
pub(crate) fn filled_by_another_thread() -> Result<()> {
    filled_twice(|from, buffer| {
        let read = thread::scope(|scope| {
            let reader = scope.spawn(|| from.read(buffer));
            reader.join().expect("it does not panic")
        });
        Ok(read?)
    })
}

/// The same by one thread that reads `in` by a ring.
pub(crate) fn refilled_by_a_ring() -> Result<()> {
    let (mut ring, mut at) = (IoUring::new(2)?, 0);
    filled_twice(|from, buffer| {
        let (fd, length) = (Fd(from.as_raw_fd()), u32::try_from(buffer.len())?);
        let read = opcode::Read::new(fd, buffer.as_mut_ptr(), length).offset(at);
        // SAFETY: the buffer lives longer.
        let count = unsafe { complete(&mut ring, &read.build()) }?;
        at += u64::from(count);
        Ok(count as usize)
    })
}

/// Reads `in` to a buffer, refills that, and writes it to `out`.
fn refilled(mut refill: impl FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
    let (mut from, mut to) = files()?;
    let mut buffer = vec![0; PIECE];
    while from.read(&mut buffer)? == PIECE {
        refill(&mut buffer)?;
        to.write_all(&buffer)?;
    }
    Ok(())
}

/// Reads `in` to a buffer, receives a datagram of zeroes there by `recvmmsg`, and writes the buffer
/// to `out`.
pub(crate) fn refilled_by_messages() -> Result<()> {
    let kind = SocketType::DGRAM;
    let (there, here) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    let zeroes = vec![0; PIECE];
    refilled(|buffer| {
        send(&there, &zeroes[..], SendFlags::empty())?;
        let mut part = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        // SAFETY: a `msghdr` of zeroes is an empty one.
        let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (&raw mut part, 1);
        let fd = here.as_raw_fd();
        // SAFETY: the message names the buffer, which lives until the call returns.
        let received = unsafe { libc::recvmmsg(fd, &raw mut message, 1, 0, ptr::null_mut()) };
        ensure!(received == 1 && message.msg_len == u32::try_from(PIECE)?);
        Ok(())
    })
}

/// Reads `in` to a buffer, fills that by `getrandom`, and writes it to `out`.
pub(crate) fn refilled_with_random() -> Result<()> {
    refilled(|buffer| {
        let mut filled = 0;
        while filled < buffer.len() {
            filled += getrandom(&mut buffer[filled..], GetRandomFlags::empty())?;
        }
        Ok(())
    })
}

/// Moves `in` into a pipe by `splice` and out of it by `read`; then zeroes into the pipe by
/// `write`, and out of it to `out` by `splice`.
pub(crate) fn drained_pipe() -> Result<()> {
    const BYTES: usize = 50_000;
    let (from, to) = files()?;
    let (reader, writer) = pipe()?;
    let (mut drained, zeroes) = (vec![0; BYTES], vec![0; BYTES]);
    let mut outlet = File::from(reader.try_clone()?);
    let mut inlet = File::from(writer.try_clone()?);
    while splice(&from, None, &writer, None, BYTES, SpliceFlags::empty())? == BYTES {
        outlet.read_exact(&mut drained)?;
        inlet.write_all(&zeroes)?;
        let mut left = BYTES;
        while left > 0 {
            left -= splice(&reader, None, &to, None, left, SpliceFlags::empty())?;
        }
    }
    Ok(())
}

/// Two threads copy `in` to `out0` and `out1`. Each reads to a buffer on its stack and writes from
/// another one, and the two overlap. The bytes are copied from one to the other through the heap.
pub(crate) fn stack_buffers() -> Result<()> {
    let copies = ["out0", "out1"].map(|name| thread::spawn(move || copy_through_the_heap(name)));
    copies
        .into_iter()
        .try_for_each(|copy| copy.join().expect("it does not panic"))
}

fn copy_through_the_heap(name: &str) -> Result<()> {
    let (mut from, mut to) = (File::open("in")?, File::create(name)?);
    let mut heap = Vec::with_capacity(8192);
    loop {
        read_to_stack(&mut from, &mut heap)?;
        if heap.is_empty() {
            return Ok(());
        }
        write_from_stack(&mut to, &heap)?;
    }
}

#[inline(never)]
fn read_to_stack(from: &mut File, heap: &mut Vec<u8>) -> Result<()> {
    let mut piece = [0; 8192];
    let read = from.read(&mut piece)?;
    heap.clear();
    heap.extend_from_slice(&piece[..read]);
    Ok(())
}

#[inline(never)]
fn write_from_stack(to: &mut File, heap: &[u8]) -> Result<()> {
    // This shifts the next buffer a little from the one that was read to.
    let padding = std::hint::black_box([1_u8; 256]);
    let mut piece = [padding[0]; 8192];
    piece[..heap.len()].copy_from_slice(heap);
    Ok(to.write_all(&piece[..heap.len()])?)
}

/// Peeks at 100 bytes of a socket (`MSG_PEEK`) before each receive, and writes what it receives to
/// `out`. A thread sends `in`.
pub(crate) fn peeked() -> Result<()> {
    let kind = SocketType::STREAM;
    let (there, here) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    let (mut from, mut to) = files()?;
    let sender = thread::spawn(move || copy(&mut from, &mut File::from(there), 8192));
    let mut buffer = vec![0; PIECE];
    loop {
        recv(&here, &mut buffer[..100], RecvFlags::PEEK)?;
        let (received, _) = recv(&here, &mut buffer[..], RecvFlags::empty())?;
        if received == 0 {
            return sender.join().expect("it does not panic");
        }
        to.write_all(&buffer[..received])?;
    }
}

/// Copies `in` to `out` through two buffers, as asynchronous runtimes do.
pub(crate) fn copied_by_another_buffer() -> Result<()> {
    let (mut from, mut to) = files()?;
    let mut piece = [0; 1000];
    loop {
        let read = from.read(&mut piece)?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&std::hint::black_box(piece[..read].to_vec()))?;
    }
}

/// Reads eight files into one buffer, and writes the buffer to each of ten other files.
pub(crate) fn several_to_several() -> Result<()> {
    let mut buffer = [0; 8000];
    for (number, piece) in buffer.chunks_exact_mut(1000).enumerate() {
        let name = format!("from{number}");
        fs::copy("in", &name)?;
        File::open(name)?.read_exact(piece)?;
    }
    (0..10).try_for_each(|number| Ok(File::create(format!("to{number}"))?.write_all(&buffer)?))
}
