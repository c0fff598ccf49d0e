//! Writes from memory that held something else before, and several copies in the same memory at the
//! same time.

use std::{
    fs::{self, File},
    io::{IoSlice, IoSliceMut, Read as _, Write as _},
    os::fd::AsRawFd as _,
    ptr,
    sync::mpsc::{self, Receiver, SyncSender},
    thread,
};

use anyhow::{Context as _, Result, ensure};
use io_uring::{IoUring, opcode, types::Fd};
use rustix::{
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair},
    pipe::{SpliceFlags, pipe, splice},
};

/// The size of a read.
const PIECE: usize = 60_000;

/// A buffer as long as a [`PIECE`].
fn buffer() -> Vec<u8> {
    vec![0; PIECE]
}

/// One thread reads `/dev/zero` to a buffer, another reads `in` to the same buffer, and the first
/// writes the buffer to `out`.
pub(crate) fn filled_by_another_thread() -> Result<()> {
    let (mut zeroes, mut from, mut to) = (
        File::open("/dev/zero")?,
        File::open("in")?,
        File::create("out")?,
    );
    let mut buffer = buffer();
    loop {
        zeroes.read_exact(&mut buffer[..])?;
        let read = thread::scope(|scope| {
            scope
                .spawn(|| from.read(&mut buffer[..]))
                .join()
                .expect("it does not panic")
        })?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..read])?;
    }
}

/// Reads `in` to a buffer, receives a datagram of zeroes there by `recvmmsg`, and writes the buffer
/// to `out`.
pub(crate) fn refilled_by_messages() -> Result<()> {
    let (there, here) = socketpair(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let zeroes = buffer();
    refilled(|buffer| {
        send(&there, &zeroes[..], SendFlags::empty())?;
        let mut part = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        // SAFETY: a `msghdr` of zeroes is an empty one.
        let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (&raw mut part, 1);
        // SAFETY: the message names the buffer, which lives until the call returns.
        let received =
            unsafe { libc::recvmmsg(here.as_raw_fd(), &raw mut message, 1, 0, ptr::null_mut()) };
        ensure!(
            received == 1 && message.msg_len == u32::try_from(PIECE)?,
            "one whole message"
        );
        Ok(())
    })
}

/// Reads `in` to a buffer, fills that by `getrandom`, and writes it to `out`.
pub(crate) fn refilled_with_random() -> Result<()> {
    refilled(fill_with_random)
}

/// Has the kernel fill a buffer, by `getrandom`.
pub(crate) fn fill_with_random(buffer: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        let rest = &mut buffer[filled..];
        // SAFETY: the rest has this many bytes.
        let got = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        filled += usize::try_from(got).context("getrandom failed")?;
    }
    Ok(())
}

/// Reads `in` to a buffer, refills that, and writes it to `out`.
fn refilled(mut refill: impl FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
    let (mut from, mut to) = (File::open("in")?, File::create("out")?);
    let mut buffer = buffer();
    while from.read(&mut buffer[..])? == PIECE {
        refill(&mut buffer[..])?;
        to.write_all(&buffer[..])?;
    }
    Ok(())
}

/// Reads `/dev/zero` to a buffer, reads `in` to the same buffer by a ring, and writes the buffer to
/// `out`.
pub(crate) fn refilled_by_a_ring() -> Result<()> {
    let mut ring = IoUring::new(2)?;
    let (mut zeroes, from, mut to) = (
        File::open("/dev/zero")?,
        File::open("in")?,
        File::create("out")?,
    );
    let mut buffer = buffer();
    let mut at = 0;
    loop {
        zeroes.read_exact(&mut buffer[..])?;
        let length = u32::try_from(PIECE)?;
        let read = opcode::Read::new(Fd(from.as_raw_fd()), buffer.as_mut_ptr().cast(), length)
            .offset(at)
            .build();
        // SAFETY: the buffer lives until the read is complete, below.
        unsafe { ring.submission().push(&read) }?;
        ring.submit_and_wait(1)?;
        let result = ring.completion().next().context("a completion")?.result();
        let read = usize::try_from(result).context("the read failed")?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..read])?;
        at += u64::try_from(read)?;
    }
}

/// Moves `in` into a pipe by `splice` and out of it by `read`; then zeroes into the pipe by
/// `write`, and out of it to `out` by `splice`.
pub(crate) fn drained_pipe() -> Result<()> {
    const BYTES: usize = 50_000;
    let (from, to) = (File::open("in")?, File::create("out")?);
    let (reader, writer) = pipe()?;
    let (mut drained, zeroes) = (vec![0; BYTES], vec![0; BYTES]);
    let (mut outlet, mut inlet) = (
        File::from(reader.try_clone()?),
        File::from(writer.try_clone()?),
    );
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

/// Peeks at 100 bytes of a socket (`MSG_PEEK`) before each receive, and writes what it receives to
/// `out`. A thread sends `in`.
pub(crate) fn peeked() -> Result<()> {
    let (there, here) = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let sender = thread::spawn(move || -> Result<()> {
        let mut from = File::open("in")?;
        let mut piece = vec![0; 8192];
        loop {
            let read = from.read(&mut piece)?;
            if read == 0 {
                return Ok(());
            }
            let mut sent = 0;
            while sent < read {
                sent += send(&there, &piece[sent..read], SendFlags::empty())?;
            }
        }
    });
    let (mut to, mut buffer) = (File::create("out")?, buffer());
    loop {
        recv(&here, &mut buffer[..100], RecvFlags::PEEK)?;
        let (received, _) = recv(&here, &mut buffer[..], RecvFlags::empty())?;
        if received == 0 {
            return sender.join().expect("it does not panic");
        }
        to.write_all(&buffer[..received])?;
    }
}

/// Reads `in` to a buffer, and then uses the buffer for messages of its own that are a little
/// shorter, as functions reuse the stack.
pub(crate) fn used_for_messages() -> Result<()> {
    let (mut from, mut to) = (File::open("in")?, File::create("out")?);
    let mut buffer = buffer();
    let mut number = 0_u8;
    while from.read(&mut buffer[..])? == PIECE {
        for byte in &mut buffer {
            number = number.wrapping_mul(5).wrapping_add(1);
            *byte = number;
        }
        to.write_all(&buffer[..PIECE - 1])?;
    }
    Ok(())
}

/// Reads `in`, puts the bytes into a pipe by `vmsplice`, and moves them to `out` by `splice`.
pub(crate) fn lent_after_a_read() -> Result<()> {
    let (mut from, to) = (File::open("in")?, File::create("out")?);
    let (reader, writer) = pipe()?;
    let mut buffer = buffer();
    loop {
        let read = from.read(&mut buffer[..])?;
        if read == 0 {
            return Ok(());
        }
        let mut done = 0;
        while done < read {
            let part = libc::iovec {
                iov_base: buffer[done..].as_mut_ptr().cast(),
                iov_len: read - done,
            };
            // SAFETY: the buffer lives until the pipe is drained, below.
            let bytes = usize::try_from(unsafe {
                libc::vmsplice(writer.as_raw_fd(), &raw const part, 1, 0)
            })?;
            let mut left = bytes;
            while left > 0 {
                left -= splice(&reader, None, &to, None, left, SpliceFlags::empty())?;
            }
            done += bytes;
        }
    }
}

/// One thread reads `in` to adjacent buffers, another writes these to `out` while the next ones are
/// read.
pub(crate) fn buffers_side_by_side() -> Result<()> {
    const BUFFERS: usize = 6;
    let (mut from, mut to) = (File::open("in")?, File::create("out")?);
    let mut memory = vec![0; BUFFERS * 16_384];
    let (give, given) = mpsc::channel::<&mut [u8]>();
    let (fill, filled) = mpsc::channel::<(&mut [u8], usize)>();
    for buffer in memory.chunks_mut(16_384) {
        give.send(buffer).ok().context("the reader is gone")?;
    }
    thread::scope(|scope| {
        let reader = scope.spawn(move || -> Result<()> {
            for buffer in given {
                let read = from.read(buffer)?;
                if read == 0 {
                    break;
                }
                fill.send((buffer, read))
                    .ok()
                    .context("the writer is gone")?;
            }
            Ok(())
        });
        for (buffer, read) in filled {
            to.write_all(&buffer[..read])?;
            // The reader may have ended.
            let _ = give.send(buffer);
        }
        reader.join().expect("it does not panic")
    })
}

/// The size of a read by the cases below.
const SHORT_PIECE: usize = 1000;

/// Copies `in` to `out`, and `in2`, which is as long, to `out2`: a piece of each in turn, with a
/// line to `log` in between.
pub(crate) fn in_turn() -> Result<()> {
    fs::copy("in", "in2")?;
    let [mut from, mut from2] = [File::open("in")?, File::open("in2")?];
    let [mut to, mut to2, mut log] = [
        File::create("out")?,
        File::create("out2")?,
        File::create("log")?,
    ];
    let [mut piece, mut piece2] = [[0; SHORT_PIECE], [0; SHORT_PIECE]];
    loop {
        let (read, read2) = (from.read(&mut piece)?, from2.read(&mut piece2)?);
        if read == 0 {
            return Ok(());
        }
        log.write_all(b"a piece of each\n")?;
        to.write_all(&piece[..read])?;
        to2.write_all(&piece2[..read2])?;
    }
}

/// Copies `in` to `out` by vectored calls: it reads into two buffers, and writes them after a
/// header of 10 bytes.
pub(crate) fn vectors() -> Result<()> {
    let (mut from, mut to) = (File::open("in")?, File::create("out")?);
    let [mut first, mut second] = [[0; SHORT_PIECE], [0; SHORT_PIECE]];
    loop {
        let read =
            from.read_vectored(&mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)])?;
        if read == 0 {
            return Ok(());
        }
        let (first_read, second_read) = (read.min(SHORT_PIECE), read.saturating_sub(SHORT_PIECE));
        let parts = [
            IoSlice::new(b"0123456789"),
            IoSlice::new(&first[..first_read]),
            IoSlice::new(&second[..second_read]),
        ];
        ensure!(to.write_vectored(&parts)? == 10 + read, "a short write");
    }
}

/// Reads ten files into one buffer, and writes the buffer to each of ten other files.
pub(crate) fn several_to_several() -> Result<()> {
    const FILES: usize = 10;
    let mut buffer = [0; FILES * SHORT_PIECE];
    for (number, piece) in buffer.chunks_exact_mut(SHORT_PIECE).enumerate() {
        let name = format!("from{number}");
        fs::copy("in", &name)?;
        File::open(name)?.read_exact(piece)?;
    }
    (0..FILES).try_for_each(|number| Ok(File::create(format!("to{number}"))?.write_all(&buffer)?))
}

/// Copies `in` to another buffer, and writes that one to `out`.
pub(crate) fn copied_by_another_buffer() -> Result<()> {
    let (mut from, mut to) = (File::open("in")?, File::create("out")?);
    let (mut piece, mut other) = ([0; SHORT_PIECE], [0; SHORT_PIECE]);
    loop {
        let read = from.read(&mut piece)?;
        if read == 0 {
            return Ok(());
        }
        other[..read].copy_from_slice(&piece[..read]);
        to.write_all(&std::hint::black_box(&other)[..read])?;
    }
}

/// Copies `in` to `out`, and `in2`, which is as long, to `out2`, by two threads: each writes what
/// the other has read.
pub(crate) fn passed_on() -> Result<()> {
    fs::copy("in", "in2")?;
    let [(there, here), (back, elsewhere)] = [mpsc::sync_channel(1), mpsc::sync_channel(1)];
    let (from, to) = (File::open("in2")?, File::create("out")?);
    let other = thread::spawn(move || pass_on(from, &back, &here, to));
    pass_on(File::open("in")?, &there, &elsewhere, File::create("out2")?)?;
    other.join().expect("the thread does not panic")
}

/// Reads one file and gives the pieces to another thread; writes the pieces that the other thread
/// has read to another file.
fn pass_on(
    mut from: File,
    give: &SyncSender<Vec<u8>>,
    take: &Receiver<Vec<u8>>,
    mut to: File,
) -> Result<()> {
    loop {
        let mut piece = vec![0; SHORT_PIECE];
        let read = from.read(&mut piece)?;
        piece.truncate(read);
        give.send(piece)?;
        to.write_all(&take.recv()?)?;
        if read == 0 {
            return Ok(());
        }
    }
}
