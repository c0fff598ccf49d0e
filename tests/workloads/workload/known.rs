//! `known`: known numbers of every call that moves data.
//!
//! One bare thread makes all of them, and the files, sockets and buffers exist before it starts. So
//! the thread's rows in a per-thread report have only these calls.

use std::{
    ffi::c_void,
    fs::{self, File},
    io::{self, IoSlice, IoSliceMut, Seek},
    mem::zeroed,
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    ptr,
};

use rustix::{
    fs::{MemfdFlags, copy_file_range, ioctl_ficlone, memfd_create, sendfile},
    io::{
        Errno, ReadWriteFlags, pread, preadv, preadv2, pwrite, pwritev, pwritev2, read, readv,
        write, writev,
    },
    mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap},
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags,
        SocketType, recv, recvmsg, send, sendmsg, socketpair,
    },
    pipe::{IoSliceRaw, PipeFlags, SpliceFlags, pipe_with, splice, tee, vmsplice},
};
use serde_json::json;
use zc_tests::{Tally, print_expectation, with_bare_thread};

use crate::Parameters;

/// Makes the calls on files in `DIR` (the directory for temporary files), and prints them.
pub(crate) fn run(mut parameters: Parameters) -> anyhow::Result<()> {
    let dir = parameters
        .text()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    parameters.end()?;
    let dir = tempfile::tempdir_in(dir)?;
    let mut files = Files::new(dir.path())?;
    let mut pipes = Pipes::new(dir.path())?;
    let mut sockets = Sockets::new()?;
    let memory = Memory::new(dir.path())?;
    let mut tally = Tally::default();
    let calls = || {
        files.call(&mut tally);
        pipes.call(&mut tally);
        sockets.call(&mut tally);
        memory.call(&mut tally);
    };
    with_bare_thread(c"zc-known", calls, |_| ())?;
    print_expectation("known", &tally.figures()?, json!({ "thread": "zc-known" }))
}

/// The size of the file that is read.
const FILE_SIZE: usize = 100_000;

/// Open files, and buffers for them.
struct Files {
    input: File,
    /// The same file, opened again with a position of its own.
    source: File,
    output: File,
    buffer: Vec<u8>,
    /// For the calls that take several.
    pair: Pair,
}

/// Two buffers.
struct Pair {
    first: [u8; 256],
    second: [u8; 256],
}

impl Pair {
    /// Their beginnings, to read to.
    fn for_reading(&mut self, first: usize, second: usize) -> [IoSliceMut<'_>; 2] {
        [&mut self.first[..first], &mut self.second[..second]].map(IoSliceMut::new)
    }

    /// The same, to write from.
    fn for_writing(&self, first: usize, second: usize) -> [IoSlice<'_>; 2] {
        [&self.first[..first], &self.second[..second]].map(IoSlice::new)
    }
}

impl Files {
    /// Makes the files.
    fn new(dir: &Path) -> io::Result<Self> {
        fs::write(dir.join("in"), vec![b'z'; FILE_SIZE])?;
        let mut source = File::open(dir.join("in"))?;
        source.rewind()?;
        Ok(Self {
            input: File::open(dir.join("in"))?,
            source,
            output: File::create(dir.join("out"))?,
            buffer: vec![b'z'; 4096],
            pair: Pair {
                first: [b'1'; 256],
                second: [b'2'; 256],
            },
        })
    }

    /// Makes the calls.
    fn call(&mut self, tally: &mut Tally) {
        self.plain(tally);
        self.at_offsets(tally);
        self.vectored(tally);
        self.vectored_at_offsets(tally);
        self.between_files(tally);
    }

    /// 1000 reads of 100 bytes and one at the end of the file; 500 writes of 64 bytes.
    fn plain(&mut self, tally: &mut Tally) {
        for _ in 0..1000 {
            tally.full("read", 100, read(&self.input, &mut self.buffer[..100]));
        }
        let at_end = read(&self.input, &mut self.buffer[..100]);
        tally.moved("read", 100, Ok(0), at_end);
        for _ in 0..500 {
            tally.full("write", 64, write(&self.output, &self.buffer[..64]));
        }
    }

    /// Six full `pread64` and one that is short because the file ends; five `pwrite64`.
    fn at_offsets(&mut self, tally: &mut Tally) {
        for offset in 0..6 {
            let got = pread(&self.input, &mut self.buffer[..], offset * 4096);
            tally.full("pread64", 4096, got);
        }
        let short = pread(&self.input, &mut self.buffer[..], FILE_SIZE as u64 - 100);
        tally.moved("pread64", 4096, Ok(100), short);
        for offset in 0..5 {
            let got = pwrite(&self.output, &self.buffer[..1000], offset * 1000);
            tally.full("pwrite64", 1000, got);
        }
    }

    /// Three `readv` of 10 + 20 bytes, three `writev` of 30 + 40.
    fn vectored(&mut self, tally: &mut Tally) {
        self.input.rewind().expect("a file has a start");
        for _ in 0..3 {
            tally.full(
                "readv",
                30,
                readv(&self.input, &mut self.pair.for_reading(10, 20)),
            );
            tally.full(
                "writev",
                70,
                writev(&self.output, &self.pair.for_writing(30, 40)),
            );
        }
    }

    /// Two `preadv` of 100 + 200, two `pwritev` of 50 + 60, four `preadv2` of 5 + 6, four
    /// `pwritev2` of 7 + 8.
    fn vectored_at_offsets(&mut self, tally: &mut Tally) {
        let none = ReadWriteFlags::empty();
        for _ in 0..2 {
            let got = preadv(&self.input, &mut self.pair.for_reading(100, 200), 1);
            tally.full("preadv", 300, got);
            let got = pwritev(&self.output, &self.pair.for_writing(50, 60), 1);
            tally.full("pwritev", 110, got);
        }
        for _ in 0..4 {
            let got = preadv2(&self.input, &mut self.pair.for_reading(5, 6), 1, none);
            tally.full("preadv2", 11, got);
            let got = pwritev2(&self.output, &self.pair.for_writing(7, 8), 1, none);
            tally.full("pwritev2", 15, got);
        }
    }

    /// `sendfile` of the whole file and one at its end; `copy_file_range` of half, of the rest
    /// (asking for more), and at the end.
    fn between_files(&mut self, tally: &mut Tally) {
        for want in [FILE_SIZE, 0] {
            let got = sendfile(&self.output, &self.source, None, FILE_SIZE);
            tally.moved("sendfile", FILE_SIZE, Ok(want), got);
        }
        self.source.rewind().expect("a file has a start");
        for (ask, want) in [(50_000, 50_000), (60_000, 50_000), (60_000, 0)] {
            let got = copy_file_range(&self.source, None, &self.output, None, ask);
            tally.moved("copy_file_range", ask, Ok(want), got);
        }
    }
}

/// The size of a mapping.
const MAPPED_SIZE: usize = 8192;

/// A file to map, and two that cannot share blocks.
struct Memory {
    mapped: File,
    clone_from: File,
    clone_to: File,
}

impl Memory {
    /// Makes the files.
    fn new(dir: &Path) -> io::Result<Self> {
        let mapped = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(dir.join("mapped"))?;
        mapped.set_len(MAPPED_SIZE as u64)?;
        // In memory, because no filesystem in memory can share blocks, while that of the directory
        // may.
        let memfd = |name| memfd_create(name, MemfdFlags::CLOEXEC).map(File::from);
        Ok(Self {
            mapped,
            clone_from: memfd("zc-from")?,
            clone_to: memfd("zc-to")?,
        })
    }

    /// Makes the calls.
    fn call(&self, tally: &mut Tally) {
        for _ in 0..3 {
            self.map_sync_unmap(tally);
        }
        // SAFETY: an empty mapping is refused, so no memory changes.
        let got = unsafe { self.map(0, ProtFlags::READ) };
        tally.done("mmap", Some(0), Err(Errno::INVAL), got);
        for _ in 0..2 {
            let got = ioctl_ficlone(&self.clone_to, &self.clone_from);
            tally.done("ioctl(FICLONE)", None, Err(Errno::OPNOTSUPP), got);
        }
    }

    /// One `mmap` at an address of the kernel's choice.
    unsafe fn map(&self, length: usize, access: ProtFlags) -> Result<*mut c_void, Errno> {
        let anywhere = ptr::null_mut();
        // SAFETY: the caller sees to it.
        unsafe { mmap(anywhere, length, access, MapFlags::SHARED, &self.mapped, 0) }
    }

    /// One `mmap`, one `msync` of one written page, one `munmap`.
    fn map_sync_unmap(&self, tally: &mut Tally) {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in
        // use.
        let mapping = unsafe { self.map(MAPPED_SIZE, access) };
        tally.done("mmap", Some(MAPPED_SIZE), Ok(()), mapping);
        let Ok(address) = mapping else { return };
        // SAFETY: the mapping is writable, longer than one byte, and known to nobody else.
        unsafe { address.cast::<u8>().write_volatile(b'w') };
        // SAFETY: the range is the mapping's first page.
        let synced = unsafe { msync(address, 4096, MsyncFlags::SYNC) };
        tally.done("msync", Some(4096), Ok(()), synced);
        // SAFETY: the range is exactly the mapping, and `address` is not used any more.
        let unmapped = unsafe { munmap(address, MAPPED_SIZE) };
        tally.done("munmap", Some(MAPPED_SIZE), Ok(()), unmapped);
    }
}

/// How many bytes one splice moves.
const PIPE_SIZE: usize = 10_000;

/// Two pipes and two files. The pipes are non-blocking, so that a mistake is an error and not a
/// hang.
struct Pipes {
    first: (OwnedFd, OwnedFd),
    second: (OwnedFd, OwnedFd),
    input: File,
    output: File,
    memory: Vec<u8>,
    buffer: [u8; 16],
}

impl Pipes {
    /// Makes the pipes and the files.
    fn new(dir: &Path) -> io::Result<Self> {
        fs::write(dir.join("pipe-in"), vec![b'p'; PIPE_SIZE])?;
        Ok(Self {
            first: pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?,
            second: pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?,
            input: File::open(dir.join("pipe-in"))?,
            output: File::create(dir.join("pipe-out"))?,
            memory: vec![b'm'; 3000],
            buffer: [0; 16],
        })
    }

    /// Makes the calls.
    fn call(&mut self, tally: &mut Tally) {
        self.splice_and_tee(tally);
        self.vmsplice(tally);
        for _ in 0..2 {
            let got = read(&self.first.0, &mut self.buffer[..]);
            tally.moved("read", 16, Err(Errno::AGAIN), got);
        }
    }

    /// File -> pipe, tee to the other pipe, and both pipes -> file: three `splice` and one `tee`.
    fn splice_and_tee(&self, tally: &mut Tally) {
        let none = SpliceFlags::empty();
        let got = splice(&self.input, None, &self.first.1, None, PIPE_SIZE, none);
        tally.full("splice", PIPE_SIZE, got);
        let got = tee(&self.first.0, &self.second.1, PIPE_SIZE, none);
        tally.full("tee", PIPE_SIZE, got);
        for pipe in [&self.first, &self.second] {
            let got = splice(&pipe.0, None, &self.output, None, PIPE_SIZE, none);
            tally.full("splice", PIPE_SIZE, got);
        }
    }

    /// One `vmsplice` of 1000 + 2000 bytes, and one `splice` that takes them out and asks for more.
    fn vmsplice(&self, tally: &mut Tally) {
        let none = SpliceFlags::empty();
        let parts = [&self.memory[..1000], &self.memory[1000..]].map(IoSlice::new);
        let parts = [
            IoSliceRaw::from_slice(&parts[0]),
            IoSliceRaw::from_slice(&parts[1]),
        ];
        // SAFETY: without SPLICE_F_GIFT the kernel only reads the pages, and `memory` is not
        // changed afterwards.
        let got = unsafe { vmsplice(&self.first.1, &parts, none) };
        tally.full("vmsplice", 3000, got);
        let got = splice(&self.first.0, None, &self.output, None, PIPE_SIZE, none);
        tally.moved("splice", PIPE_SIZE, Ok(3000), got);
    }
}

/// How many messages one `sendmmsg` sends.
const BATCH: usize = 3;

/// A pair of sockets, and buffers for their messages.
struct Sockets {
    sender: OwnedFd,
    receiver: OwnedFd,
    first: [u8; 512],
    second: [u8; 512],
}

impl Sockets {
    /// Makes the pair.
    fn new() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (sender, receiver) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        Ok(Self {
            sender,
            receiver,
            first: [b'1'; 512],
            second: [b'2'; 512],
        })
    }

    /// Makes the calls.
    fn call(&mut self, tally: &mut Tally) {
        self.plain(tally);
        self.messages(tally);
        self.batches(tally);
    }

    /// Four `sendto` of 300 bytes; `recvfrom` of each, asking for 512, and two that find nothing.
    fn plain(&mut self, tally: &mut Tally) {
        for _ in 0..4 {
            let got = send(&self.sender, &self.first[..300], SendFlags::empty());
            tally.full("sendto", 300, got);
        }
        for index in 0..6 {
            let got = recv(&self.receiver, &mut self.first[..], RecvFlags::empty());
            let want = if index < 4 {
                Ok(300)
            } else {
                Err(Errno::AGAIN)
            };
            tally.moved("recvfrom", 512, want, got.map(|(count, _)| count));
        }
    }

    /// Two `sendmsg` of 100 + 50 bytes; two `recvmsg` that ask for 100 + 100.
    fn messages(&mut self, tally: &mut Tally) {
        for _ in 0..2 {
            let parts = [&self.first[..100], &self.second[..50]].map(IoSlice::new);
            let mut control = SendAncillaryBuffer::default();
            let got = sendmsg(&self.sender, &parts, &mut control, SendFlags::empty());
            tally.full("sendmsg", 150, got);
        }
        for _ in 0..2 {
            let parts = [&mut self.first[..100], &mut self.second[..100]];
            let mut parts = parts.map(IoSliceMut::new);
            let mut control = RecvAncillaryBuffer::default();
            let got = recvmsg(&self.receiver, &mut parts, &mut control, RecvFlags::empty());
            tally.moved("recvmsg", 200, Ok(150), got.map(|message| message.bytes));
        }
    }

    /// One `sendmmsg` and one `recvmmsg` of three messages; their results count messages, not
    /// bytes.
    fn batches(&mut self, tally: &mut Tally) {
        let mut part = libc::iovec {
            iov_base: self.first.as_mut_ptr().cast(),
            iov_len: 200,
        };
        // SAFETY: all fields of these C structs may be zero.
        let mut batch: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
        for message in &mut batch {
            message.msg_hdr.msg_iov = &raw mut part;
            message.msg_hdr.msg_iovlen = 1;
        }
        let messages = batch.as_mut_ptr();
        let count = libc::c_uint::try_from(BATCH).expect("a small number");
        // SAFETY: `batch` has `count` messages, and each names one part, which is 200 bytes of
        // `first`.
        let sent = unsafe { libc::sendmmsg(self.sender.as_raw_fd(), messages, count, 0) };
        tally.done("sendmmsg", None, Ok(()), all_messages(sent));
        let (socket, no_limit) = (self.receiver.as_raw_fd(), ptr::null_mut());
        // SAFETY: the same. Nothing else uses `first` while the three messages are written to it.
        let got = unsafe { libc::recvmmsg(socket, messages, count, 0, no_limit) };
        tally.done("recvmmsg", None, Ok(()), all_messages(got));
    }
}

/// The result of a call that should have handled the whole batch. If it handled only a part, that
/// is an unexpected error.
fn all_messages(result: libc::c_int) -> Result<(), Errno> {
    match usize::try_from(result) {
        Ok(BATCH) => Ok(()),
        Ok(_) => Err(Errno::MSGSIZE),
        Err(_) => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}
