//! Requests to a ring of `io_uring`, one at a time.

use std::{
    io::{self, ErrorKind},
    os::fd::RawFd,
};

use io_uring::{IoUring, opcode, squeue, types::Fd};

/// Makes one request to a ring that has no others, and waits for its result. The kernel waits even
/// if the descriptor is non-blocking (seen on 6.18).
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
/// over one buffer. Returns how many bytes it copied.
pub fn copy_by_ring(ring: &mut IoUring, from: RawFd, to: RawFd) -> io::Result<u64> {
    // This means the position. It also works for files without positions.
    const HERE: u64 = u64::MAX;
    let (from, to) = (Fd(from), Fd(to));
    let read = |part: &libc::iovec, _| {
        let read = opcode::Read::new(from, part.iov_base.cast(), RING_CHUNK);
        read.offset(HERE).build()
    };
    let write = |part: &libc::iovec, _| {
        let length = u32::try_from(part.iov_len).unwrap_or(u32::MAX);
        let write = opcode::Write::new(to, part.iov_base.cast(), length);
        write.offset(HERE).build()
    };
    copy_by_requests(ring, &mut vec![0; RING_CHUNK as usize], read, write)
}

/// Copies to the end of the source by requests to a ring that read to a part of the buffer, or
/// write it, at an offset.
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
