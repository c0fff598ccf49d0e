//! Copies that make their system calls directly: inside the kernel, through a buffer, from a
//! mapping, by `io_uring`.

use std::{
    alloc::{Layout, alloc_zeroed},
    cell::RefCell,
    ffi::c_void,
    io::{self, IoSlice, Read, Write},
    os::fd::{AsFd, AsRawFd, RawFd},
    ptr::{self, NonNull},
    slice,
};

use anyhow::Result;
use io_uring::{IoUring, opcode, squeue::Entry, types::Fd};
use rustix::{
    fs::{SeekFrom, copy_file_range as rustix_copy_file_range, seek},
    io::Errno,
    mm::{MapFlags, ProtFlags, mmap, munmap},
    pipe::{IoSliceRaw, SpliceFlags, fcntl_setpipe_size, pipe, splice},
};

use crate::{
    ends::Source,
    job::{Job, all_of, retry},
};

/// The most that one `sendfile` or `copy_file_range` moves: `MAX_RW_COUNT` with pages of 4 KiB.
const MOST: usize = 0x7fff_f000;
/// How much a pipe holds by default.
pub(crate) const PIPE: usize = 64 * 1024;

/// `libc::sendfile64`, both ends at their own positions.
pub(crate) fn libc_sendfile64(job: &mut Job) -> Result<u64> {
    let (source, sink) = job.open()?;
    let (from, to) = (source.as_fd().as_raw_fd(), sink.as_fd().as_raw_fd());
    job.pump("sendfile", job.buffer().unwrap_or(MOST), |ask| {
        // SAFETY: both descriptors are open for as long as this function runs; a null offset is
        // allowed.
        let count = unsafe { libc::sendfile64(to, from, ptr::null_mut(), ask) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    })
}

/// nix's `sendfile64`, both ends at their own positions.
pub(crate) fn nix_sendfile64(job: &mut Job) -> Result<u64> {
    let (source, sink) = job.open()?;
    job.pump("sendfile", job.buffer().unwrap_or(MOST), |ask| {
        nix::sys::sendfile::sendfile64(&sink, &source, None, ask).map_err(io::Error::from)
    })
}

/// `copy_file_range`, both ends at their own positions.
pub(crate) fn copy_file_range(job: &mut Job) -> Result<u64> {
    let (source, sink) = job.open()?;
    job.pump("copy_file_range", job.buffer().unwrap_or(MOST), |ask| {
        Ok(rustix_copy_file_range(&source, None, &sink, None, ask)?)
    })
}

/// `splice` from the source into a pipe, and from the pipe to the destination, until the pipe is
/// empty again.
pub(crate) fn splice_pipe(job: &mut Job) -> Result<u64> {
    let (source, sink) = job.open()?;
    let (pipe_out, pipe_in) = wide_pipe(job)?;
    job.pump("splice", job.buffer().unwrap_or(PIPE), |ask| {
        let count = retry(|| {
            Ok(splice(
                &source,
                None,
                &pipe_in,
                None,
                ask,
                SpliceFlags::MOVE,
            )?)
        })?;
        all_of(count, |left| {
            Ok(splice(
                &pipe_out,
                None,
                &sink,
                None,
                left,
                SpliceFlags::MOVE,
            )?)
        })?;
        Ok(count)
    })
}

/// A pipe that holds as much as one call asks for.
pub(crate) fn wide_pipe(job: &Job) -> Result<(impl AsFd, impl AsFd)> {
    let (pipe_out, pipe_in) = pipe().map_err(|err| job.failed("pipe")(err.into()))?;
    if let Some(size) = job.buffer().filter(|size| *size > PIPE) {
        fcntl_setpipe_size(&pipe_in, size)
            .map_err(|err| job.failed("fcntl(F_SETPIPE_SZ)")(err.into()))?;
    }
    Ok((pipe_out, pipe_in))
}

/// The size of the buffer; `std::io::copy` uses the same.
const BUFFER: usize = 8 * 1024;

/// Reads into a buffer and writes from it, with the calls that std makes for each end
/// (`read`/`recvfrom`, `write`/`sendto`).
pub(crate) fn read_write(job: &mut Job) -> Result<u64> {
    let (source, sink) = job.open()?;
    job.relay(source, sink, &mut zeroed(job, BUFFER)?)
}

/// A buffer of the job's size, or of `default` bytes. If there is not enough memory, this is an
/// error, where `vec!` would abort.
pub(crate) fn zeroed(job: &Job, default: usize) -> Result<Box<[u8]>> {
    let size = job.buffer().unwrap_or(default);
    let no_memory = || job.failed("malloc")(Errno::NOMEM.into());
    let layout = Layout::array::<u8>(size).map_err(|_| no_memory())?;
    // SAFETY: the size is at least 1, on the command line and in the defaults of all cases.
    let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(no_memory)?;
    // SAFETY: the global allocator has just allocated this many bytes with that layout, and all are
    // zero.
    Ok(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(start.as_ptr(), size)) })
}

/// A file in memory, read-only and private.
struct Mapping {
    address: *mut c_void,
    len: usize,
    /// Where the copy begins: the file's position.
    start: usize,
}

impl Mapping {
    /// Maps the job's source up to the job's size. An empty source cannot be mapped, so it becomes
    /// an empty slice.
    fn new(job: &Job, source: &Source) -> Result<Self> {
        let seek_to = |position| {
            seek(source.as_fd(), position).map_err(|err| job.failed("lseek")(err.into()))
        };
        let (start, end) = (seek_to(SeekFrom::Current(0))?, seek_to(SeekFrom::End(0))?);
        let end = job
            .size()
            .map_or(end, |size| end.min(start.saturating_add(size)));
        let (start, len) = (usize::try_from(start)?, usize::try_from(end)?);
        if len <= start {
            return Ok(Self {
                address: ptr::dangling_mut(),
                len: 0,
                start: 0,
            });
        }
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in
        // use.
        let address = unsafe {
            mmap(
                ptr::null_mut(),
                len,
                ProtFlags::READ,
                MapFlags::PRIVATE,
                source,
                0,
            )
        };
        Ok(Self {
            address: address.map_err(|err| job.failed("mmap")(err.into()))?,
            len,
            start,
        })
    }

    /// The bytes to copy.
    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has `len` readable bytes and lives as long as `self`. The files of
        // workloads do not change during a copy. If one shrinks, SIGBUS ends the program.
        let bytes: &[u8] = unsafe { slice::from_raw_parts(self.address.cast(), self.len) };
        &bytes[self.start..]
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the range was mapped by `new`, and no borrow of it outlives `self`.
            let _ = unsafe { munmap(self.address, self.len) };
        }
    }
}

/// Writes the mapping with the call that std makes for the destination: all at once, or in pieces
/// of `--buffer`.
pub(crate) fn mmap_write(job: &mut Job) -> Result<u64> {
    let (source, mut sink) = job.open()?;
    let mapping = Mapping::new(job, &source)?;
    for piece in mapping.bytes().chunks(job.buffer().unwrap_or(usize::MAX)) {
        sink.write_all(piece).map_err(job.failed("write"))?;
    }
    Ok(mapping.bytes().len() as u64)
}

/// Puts the mapping's pages into a pipe with `vmsplice`, piece by piece, and splices them out of
/// it.
///
/// It uses a mapping, because these pages must not change until the other side has read them, so a
/// buffer could not be used again.
pub(crate) fn vmsplice(job: &mut Job) -> Result<u64> {
    let (source, sink) = job.open()?;
    let mapping = Mapping::new(job, &source)?;
    let (pipe_out, pipe_in) = wide_pipe(job)?;
    let chunk = job.buffer().unwrap_or(PIPE);
    let mut rest = mapping.bytes();
    while !rest.is_empty() {
        let piece = IoSlice::new(&rest[..chunk.min(rest.len())]);
        let pieces = [IoSliceRaw::from_slice(&piece)];
        // SAFETY: the pages are read-only and stay mapped until the pipe is drained, below.
        let lend =
            || Ok(unsafe { rustix::pipe::vmsplice(&pipe_in, &pieces, SpliceFlags::empty())? });
        let count = retry(lend).map_err(job.failed("vmsplice"))?;
        all_of(count, |left| {
            Ok(splice(
                &pipe_out,
                None,
                &sink,
                None,
                left,
                SpliceFlags::MOVE,
            )?)
        })
        .map_err(job.failed("splice"))?;
        rest = &rest[count..];
    }
    Ok(mapping.bytes().len() as u64)
}

/// The size of a read through the ring.
const RING_BUFFER: usize = 64 * 1024;
/// The offset that means "at the file's own position". It also works for files without positions.
const HERE: u64 = u64::MAX;

/// Reads into a buffer and writes from it. Each read and write is one request to the ring, and the
/// copier waits for its completion.
pub(crate) fn io_uring(job: &mut Job) -> Result<u64> {
    let (source, sink) = job.open()?;
    let ring = RefCell::new(IoUring::new(1).map_err(job.failed("io_uring_setup"))?);
    let (from, to) = (
        End {
            ring: &ring,
            fd: source.as_fd().as_raw_fd(),
        },
        End {
            ring: &ring,
            fd: sink.as_fd().as_raw_fd(),
        },
    );
    job.relay(from, to, &mut zeroed(job, RING_BUFFER)?)
}

/// A descriptor that is read or written through the ring.
struct End<'a> {
    ring: &'a RefCell<IoUring>,
    fd: RawFd,
}

impl End<'_> {
    /// Makes a request, and returns its result. Linux 6.1 cancels a request if a signal comes
    /// before it has begun; then it is made again.
    fn complete(&self, request: &Entry) -> io::Result<usize> {
        loop {
            match self.complete_once(request) {
                Err(error) if error.raw_os_error() == Some(libc::ECANCELED) => {}
                result => return result,
            }
        }
    }

    /// Makes a request once. The kernel waits even if the descriptor is non-blocking (seen on
    /// 6.18).
    fn complete_once(&self, request: &Entry) -> io::Result<usize> {
        let mut ring = self.ring.borrow_mut();
        // SAFETY: `read` and `write` below borrow the memory that the request names. They return
        // after the request is complete, or if it was never submitted.
        unsafe { ring.submission().push(request) }.map_err(io::Error::other)?;
        loop {
            match ring.submit_and_wait(1) {
                Err(err) if err.kind() != io::ErrorKind::Interrupted => return Err(err),
                // A signal interrupts the wait but not the request.
                _ => {}
            }
            if let Some(completion) = ring.completion().next() {
                return usize::try_from(completion.result())
                    .map_err(|_| io::Error::from_raw_os_error(-completion.result()));
            }
        }
    }
}

/// The length of a request, as much of it as fits. The rest is left for the next request.
fn length(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

impl Read for End<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let request = opcode::Read::new(Fd(self.fd), buffer.as_mut_ptr(), length(buffer.len()))
            .offset(HERE)
            .build();
        self.complete(&request)
    }
}

impl Write for End<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let request = opcode::Write::new(Fd(self.fd), bytes.as_ptr(), length(bytes.len()))
            .offset(HERE)
            .build();
        self.complete(&request)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
