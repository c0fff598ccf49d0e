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

/// How many bytes come before those that are copied.
const HEADER: usize = 246;

/// A buffer as long as a [`PIECE`].
fn buffer() -> Vec<u8> {
    vec![0; PIECE]
}

/// Copies `in` without its first [`HEADER`] bytes to `out` by `fwrite`: stdio writes whole blocks
/// from the caller's buffer, and the rest from its own.
pub(crate) fn stdio_after_a_header() -> Result<()> {
    let mut from = File::open("in")?;
    // SAFETY: both are C strings.
    let to = unsafe { libc::fopen(c"out".as_ptr(), c"w".as_ptr()) };
    ensure!(!to.is_null(), "cannot open out");
    let mut piece = [0; 14_000];
    let mut skipped = HEADER;
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

/// Two threads copy `in` to `out0` and `out1`. Each reads to a buffer on its stack and writes from
/// another one, and the two overlap. The bytes are copied from one to the other through the heap.
pub(crate) fn stack_buffers() -> Result<()> {
    let copies = ["out0", "out1"].map(|name| thread::spawn(move || copy_through_the_heap(name)));
    copies
        .into_iter()
        .try_for_each(|copy| copy.join().expect("it does not panic"))
}

/// Copies `in` to `out` as Java's streams do, which use the stack in this way: it reads to a
/// buffer, copies the bytes to the heap, and writes them from another buffer, which overlaps the
/// first one.
pub(crate) fn overlapping_buffers() -> Result<()> {
    const SHIFT: usize = 256;
    let (mut from, mut to) = (File::open("in")?, File::create("out")?);
    let mut stack = [0; SHIFT + 8192];
    loop {
        let read = from.read(&mut stack[SHIFT..])?;
        if read == 0 {
            return Ok(());
        }
        let heap = std::hint::black_box(stack[SHIFT..][..read].to_vec());
        stack[..read].copy_from_slice(&heap);
        to.write_all(&stack[..read])?;
    }
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

/// Peeks at a message of 100 bytes and writes a copy of it to `out`, then receives the message and
/// writes it to `out` once more.
pub(crate) fn peeked_and_written() -> Result<()> {
    let (there, here) = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let (mut to, mut message) = (File::create("out")?, [7; 100]);
    ensure!(
        send(&there, &message, SendFlags::empty())? == message.len(),
        "a short message"
    );
    recv(&here, &mut message, RecvFlags::PEEK)?;
    let copy = std::hint::black_box(message);
    to.write_all(&copy)?;
    recv(&here, &mut message, RecvFlags::empty())?;
    Ok(to.write_all(&message)?)
}

/// Copies `in` to `out`, except that it flips one bit of every third piece.
pub(crate) fn one_bit_changed() -> Result<()> {
    let mut pieces = 0;
    refilled(|buffer| {
        if pieces % 3 == 0 {
            buffer[PIECE / 3] ^= 1;
        }
        pieces += 1;
        Ok(())
    })
}

/// Writes each piece of `in` to `out`, and then again from a copy in another buffer.
pub(crate) fn written_again_from_a_copy() -> Result<()> {
    let (mut from, mut to) = (File::open("in")?, File::create("out")?);
    let (mut buffer, mut copy) = (buffer(), buffer());
    loop {
        let read = from.read(&mut buffer[..])?;
        if read == 0 {
            return Ok(());
        }
        copy[..read].copy_from_slice(&buffer[..read]);
        to.write_all(&buffer[..read])?;
        to.write_all(&copy[..read])?;
    }
}

/// Writes each piece of `in` and a copy of it to `out`, by one call.
pub(crate) fn written_twice_in_one_call() -> Result<()> {
    let (mut from, mut to) = (File::open("in")?, File::create("out")?);
    let mut memory = vec![0; 2 * PIECE];
    loop {
        let read = from.read(&mut memory[..PIECE])?;
        if read == 0 {
            return Ok(());
        }
        memory.copy_within(..read, read);
        to.write_all(&memory[..2 * read])?;
    }
}

/// Copies `in` to `out`, except that it replaces [`HEADER`] bytes of every fifth piece with bytes
/// of its own.
pub(crate) fn a_part_replaced() -> Result<()> {
    let mut pieces = 0;
    refilled(|buffer| {
        if pieces % 5 == 0 {
            buffer[PIECE / 3..][..HEADER].fill(7);
        }
        pieces += 1;
        Ok(())
    })
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

/// Reads `in`, and for each piece writes as many other bytes to `out`.
pub(crate) fn replaced() -> Result<()> {
    by_another_buffer(0, |_| b'x')
}

/// Changes every byte of `in` on the way to another buffer, and writes that one to `out`.
pub(crate) fn changed_by_another_buffer() -> Result<()> {
    by_another_buffer(0, |byte| byte ^ 1)
}

/// Copies `in` without its first [`HEADER`] bytes to another buffer, and writes that one to `out`.
pub(crate) fn copied_by_another_buffer() -> Result<()> {
    by_another_buffer(HEADER, |byte| byte)
}

/// Reads `in`, makes other bytes of all but the first ones, and writes these to `out` from another
/// buffer.
fn by_another_buffer(skipped: usize, change: impl Fn(u8) -> u8) -> Result<()> {
    let (mut from, mut to) = (File::open("in")?, File::create("out")?);
    let (mut piece, mut other) = ([0; SHORT_PIECE], [0; SHORT_PIECE]);
    let mut skipped = skipped;
    loop {
        let read = from.read(&mut piece)?;
        if read == 0 {
            return Ok(());
        }
        let kept = &piece[skipped.min(read)..read];
        for (byte, &old) in other.iter_mut().zip(kept) {
            *byte = change(old);
        }
        to.write_all(&other[..kept.len()])?;
        skipped -= read - kept.len();
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
