//! `known`: known numbers of every call that moves data.
//!
//! One bare thread makes all of them, and the files, sockets and buffers exist before it starts. So
//! the thread's rows in a per-thread report have only these calls.

use std::{
    fs::{self, File},
    io::{self, IoSlice, IoSliceMut, Seek as _},
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
    let dir = tempfile::tempdir_in(dir)?;
    let mut ends = KnownEnds::new(dir.path())?;
    let mut tally = Tally::default();
    let calls = || {
        ends.plain(&mut tally);
        ends.at_offsets(&mut tally);
        ends.vectored(&mut tally);
        ends.vectored_at_offsets(&mut tally);
        ends.between_files(&mut tally);
        ends.through_pipes(&mut tally);
        ends.memory_into_pipe(&mut tally);
        ends.datagrams(&mut tally);
        ends.messages(&mut tally);
        ends.batches(&mut tally);
        ends.mappings(&mut tally);
        ends.clones(&mut tally);
    };
    with_bare_thread(c"zc-known", calls, |_| ())?;
    print_expectation("known", &tally.figures()?, json!({ "thread": "zc-known" }))
}

/// The size of the file that is read.
const FILE_SIZE: usize = 100_000;
/// The size of a mapping.
const MAPPED_SIZE: usize = 8192;
/// How many bytes one splice moves.
const PIPE_SIZE: usize = 10_000;
/// How many messages one `sendmmsg` sends.
const BATCH: usize = 3;

/// What the calls read and write. Pipes and sockets are non-blocking, so that a mistake is an error
/// and not a hang.
struct KnownEnds {
    input: File,
    /// The same file, opened again with a position of its own.
    source: File,
    output: File,
    mapped: File,
    /// In memory, because no filesystem in memory can share blocks, while that of the directory
    /// may.
    clone_from: OwnedFd,
    clone_to: OwnedFd,
    pipe: (OwnedFd, OwnedFd),
    other_pipe: (OwnedFd, OwnedFd),
    /// A pair of datagram sockets.
    sender: OwnedFd,
    receiver: OwnedFd,
    buffers: BufferPair,
    /// For the messages of sockets.
    messages: BufferPair,
}

/// Two buffers.
struct BufferPair {
    first: [u8; 4096],
    second: [u8; 4096],
}

impl BufferPair {
    const fn new() -> Self {
        Self {
            first: [b'1'; 4096],
            second: [b'2'; 4096],
        }
    }

    /// Their beginnings, to read to.
    fn for_reading(&mut self, first: usize, second: usize) -> [IoSliceMut<'_>; 2] {
        [&mut self.first[..first], &mut self.second[..second]].map(IoSliceMut::new)
    }

    /// The same, to write from.
    fn for_writing(&self, first: usize, second: usize) -> [IoSlice<'_>; 2] {
        [&self.first[..first], &self.second[..second]].map(IoSlice::new)
    }
}

impl KnownEnds {
    fn new(dir: &Path) -> io::Result<Self> {
        let [input, output, mapped] = ["in", "out", "mapped"].map(|name| dir.join(name));
        fs::write(&input, vec![b'z'; FILE_SIZE])?;
        fs::write(&mapped, [0; MAPPED_SIZE])?;
        let pipe_flags = PipeFlags::NONBLOCK | PipeFlags::CLOEXEC;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (sender, receiver) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        Ok(Self {
            source: File::open(&input)?,
            input: File::open(input)?,
            output: File::create(output)?,
            mapped: File::options().read(true).write(true).open(mapped)?,
            clone_from: memfd_create("zc-from", MemfdFlags::CLOEXEC)?,
            clone_to: memfd_create("zc-to", MemfdFlags::CLOEXEC)?,
            pipe: pipe_with(pipe_flags)?,
            other_pipe: pipe_with(pipe_flags)?,
            sender,
            receiver,
            buffers: BufferPair::new(),
            messages: BufferPair::new(),
        })
    }

    /// 1000 reads of 100 bytes and one at the end of the file; 500 writes of 64 bytes.
    fn plain(&mut self, tally: &mut Tally) {
        for _ in 0..1000 {
            tally.full(
                "read",
                100,
                read(&self.input, &mut self.buffers.first[..100]),
            );
        }
        let at_end = read(&self.input, &mut self.buffers.first[..100]);
        tally.moved("read", 100, Ok(0), at_end);
        for _ in 0..500 {
            tally.full("write", 64, write(&self.output, &self.buffers.first[..64]));
        }
    }

    /// Six full `pread64` and one that is short because the file ends; five `pwrite64`.
    fn at_offsets(&mut self, tally: &mut Tally) {
        for offset in 0..6 {
            let got = pread(&self.input, &mut self.buffers.first[..], offset * 4096);
            tally.full("pread64", 4096, got);
        }
        let short = pread(
            &self.input,
            &mut self.buffers.first[..],
            FILE_SIZE as u64 - 100,
        );
        tally.moved("pread64", 4096, Ok(100), short);
        for offset in 0..5 {
            let got = pwrite(&self.output, &self.buffers.first[..1000], offset * 1000);
            tally.full("pwrite64", 1000, got);
        }
    }

    /// Three `readv` of 10 + 20 bytes, three `writev` of 30 + 40.
    fn vectored(&mut self, tally: &mut Tally) {
        self.source.rewind().expect("a file has a start");
        for _ in 0..3 {
            let got = readv(&self.source, &mut self.buffers.for_reading(10, 20));
            tally.full("readv", 30, got);
            let got = writev(&self.output, &self.buffers.for_writing(30, 40));
            tally.full("writev", 70, got);
        }
    }

    /// Two `preadv` of 100 + 200, two `pwritev` of 50 + 60, four `preadv2` of 5 + 6, four
    /// `pwritev2` of 7 + 8.
    fn vectored_at_offsets(&mut self, tally: &mut Tally) {
        let none = ReadWriteFlags::empty();
        for _ in 0..2 {
            let got = preadv(&self.input, &mut self.buffers.for_reading(100, 200), 1);
            tally.full("preadv", 300, got);
            let got = pwritev(&self.output, &self.buffers.for_writing(50, 60), 1);
            tally.full("pwritev", 110, got);
        }
        for _ in 0..4 {
            let got = preadv2(&self.input, &mut self.buffers.for_reading(5, 6), 1, none);
            tally.full("preadv2", 11, got);
            let got = pwritev2(&self.output, &self.buffers.for_writing(7, 8), 1, none);
            tally.full("pwritev2", 15, got);
        }
    }

    /// `sendfile` of the whole file and one at its end; `copy_file_range` of half, of the rest
    /// (asking for more), and at the end.
    fn between_files(&mut self, tally: &mut Tally) {
        self.source.rewind().expect("a file has a start");
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

    /// File -> pipe, tee to the other pipe, and both pipes -> file: three `splice` and one `tee`.
    /// Two reads of the empty pipe.
    fn through_pipes(&mut self, tally: &mut Tally) {
        self.source.rewind().expect("a file has a start");
        let (none, pipe) = (SpliceFlags::empty(), &self.pipe);
        let got = splice(&self.source, None, &pipe.1, None, PIPE_SIZE, none);
        tally.full("splice", PIPE_SIZE, got);
        let got = tee(&pipe.0, &self.other_pipe.1, PIPE_SIZE, none);
        tally.full("tee", PIPE_SIZE, got);
        for pipe in [pipe, &self.other_pipe] {
            let got = splice(&pipe.0, None, &self.output, None, PIPE_SIZE, none);
            tally.full("splice", PIPE_SIZE, got);
        }
        for _ in 0..2 {
            let got = read(&pipe.0, &mut self.buffers.first[..16]);
            tally.moved("read", 16, Err(Errno::AGAIN), got);
        }
    }

    /// One `vmsplice` of 1000 + 2000 bytes, and one `splice` that takes them out and asks for more.
    fn memory_into_pipe(&self, tally: &mut Tally) {
        let none = SpliceFlags::empty();
        let parts = self.buffers.for_writing(1000, 2000);
        let parts = parts.each_ref().map(|part| IoSliceRaw::from_slice(part));
        // SAFETY: without SPLICE_F_GIFT the kernel only reads the pages, and the buffers do not
        // change before it has copied them to the file.
        let got = unsafe { vmsplice(&self.pipe.1, &parts, none) };
        tally.full("vmsplice", 3000, got);
        let got = splice(&self.pipe.0, None, &self.output, None, PIPE_SIZE, none);
        tally.moved("splice", PIPE_SIZE, Ok(3000), got);
    }

    /// Four `sendto` of 300 bytes; `recvfrom` of each, asking for 512, and two that find nothing.
    fn datagrams(&mut self, tally: &mut Tally) {
        let none = RecvFlags::empty();
        for _ in 0..4 {
            let got = send(
                &self.sender,
                &self.messages.first[..300],
                SendFlags::empty(),
            );
            tally.full("sendto", 300, got);
        }
        for index in 0..6 {
            let nothing = Err(Errno::AGAIN);
            let want = if index < 4 { Ok(300) } else { nothing };
            let got = recv(&self.receiver, &mut self.messages.first[..512], none);
            tally.moved("recvfrom", 512, want, got.map(|(count, _)| count));
        }
    }

    /// Two `sendmsg` of 100 + 50 bytes; two `recvmsg` that ask for 100 + 100.
    fn messages(&mut self, tally: &mut Tally) {
        for _ in 0..2 {
            let parts = self.messages.for_writing(100, 50);
            let mut control = SendAncillaryBuffer::default();
            let got = sendmsg(&self.sender, &parts, &mut control, SendFlags::empty());
            tally.full("sendmsg", 150, got);
        }
        for _ in 0..2 {
            let mut parts = self.messages.for_reading(100, 100);
            let mut control = RecvAncillaryBuffer::default();
            let got = recvmsg(&self.receiver, &mut parts, &mut control, RecvFlags::empty());
            tally.moved("recvmsg", 200, Ok(150), got.map(|message| message.bytes));
        }
    }

    /// One `sendmmsg` and one `recvmmsg` of three messages; their results count messages, not
    /// bytes.
    fn batches(&mut self, tally: &mut Tally) {
        let mut part = libc::iovec {
            iov_base: self.messages.first.as_mut_ptr().cast(),
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

    /// Three times one `mmap`, one `msync` of one written page, one `munmap`; one `mmap` of nothing.
    fn mappings(&self, tally: &mut Tally) {
        let (access, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in
        // use.
        let map =
            |length| unsafe { mmap(ptr::null_mut(), length, access, shared, &self.mapped, 0) };
        for _ in 0..3 {
            let mapping = map(MAPPED_SIZE);
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
        tally.done("mmap", Some(0), Err(Errno::INVAL), map(0));
    }

    /// Two clones that are refused.
    fn clones(&self, tally: &mut Tally) {
        for _ in 0..2 {
            let got = ioctl_ficlone(&self.clone_to, &self.clone_from);
            tally.done("ioctl(FICLONE)", None, Err(Errno::OPNOTSUPP), got);
        }
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
