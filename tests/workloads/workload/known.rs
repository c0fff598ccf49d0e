//! `known`: known numbers of every call that moves data.
//!
//! One bare thread makes all of them, and the files, sockets and buffers exist before it starts. So
//! the thread's rows in a per-thread report have only these calls.

use std::{
    fs::{self, File},
    io::{IoSlice, IoSliceMut, Result, Seek},
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
    /// Two buffers for the calls that take several.
    first: [u8; 256],
    second: [u8; 256],
}

impl Files {
    /// Makes the files.
    fn new(dir: &Path) -> Result<Self> {
        fs::write(dir.join("in"), vec![b'z'; FILE_SIZE])?;
        let mut source = File::open(dir.join("in"))?;
        source.rewind()?;
        Ok(Self {
            input: File::open(dir.join("in"))?,
            source,
            output: File::create(dir.join("out"))?,
            buffer: vec![b'z'; 4096],
            first: [b'1'; 256],
            second: [b'2'; 256],
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
            tally.moved(
                "read",
                100,
                Ok(100),
                read(&self.input, &mut self.buffer[..100]),
            );
        }
        tally.moved(
            "read",
            100,
            Ok(0),
            read(&self.input, &mut self.buffer[..100]),
        );
        for _ in 0..500 {
            tally.moved("write", 64, Ok(64), write(&self.output, &self.buffer[..64]));
        }
    }

    /// Six full `pread64` and one that is short because the file ends; five `pwrite64`.
    fn at_offsets(&mut self, tally: &mut Tally) {
        for offset in 0..6 {
            tally.moved(
                "pread64",
                4096,
                Ok(4096),
                pread(&self.input, &mut self.buffer[..], offset * 4096),
            );
        }
        tally.moved(
            "pread64",
            4096,
            Ok(100),
            pread(&self.input, &mut self.buffer[..], FILE_SIZE as u64 - 100),
        );
        for offset in 0..5 {
            tally.moved(
                "pwrite64",
                1000,
                Ok(1000),
                pwrite(&self.output, &self.buffer[..1000], offset * 1000),
            );
        }
    }

    /// Three `readv` of 10 + 20 bytes, three `writev` of 30 + 40.
    fn vectored(&mut self, tally: &mut Tally) {
        self.input.rewind().expect("a file has a start");
        for _ in 0..3 {
            let mut parts = [
                IoSliceMut::new(&mut self.first[..10]),
                IoSliceMut::new(&mut self.second[..20]),
            ];
            tally.moved("readv", 30, Ok(30), readv(&self.input, &mut parts));
            let parts = [
                IoSlice::new(&self.first[..30]),
                IoSlice::new(&self.second[..40]),
            ];
            tally.moved("writev", 70, Ok(70), writev(&self.output, &parts));
        }
    }

    /// Two `preadv` of 100 + 200, two `pwritev` of 50 + 60, four `preadv2` of 5 + 6, four
    /// `pwritev2` of 7 + 8.
    fn vectored_at_offsets(&mut self, tally: &mut Tally) {
        let none = ReadWriteFlags::empty();
        for _ in 0..2 {
            let mut parts = [
                IoSliceMut::new(&mut self.first[..100]),
                IoSliceMut::new(&mut self.second[..200]),
            ];
            tally.moved("preadv", 300, Ok(300), preadv(&self.input, &mut parts, 1));
            let parts = [
                IoSlice::new(&self.first[..50]),
                IoSlice::new(&self.second[..60]),
            ];
            tally.moved("pwritev", 110, Ok(110), pwritev(&self.output, &parts, 1));
        }
        for _ in 0..4 {
            let mut parts = [
                IoSliceMut::new(&mut self.first[..5]),
                IoSliceMut::new(&mut self.second[..6]),
            ];
            tally.moved(
                "preadv2",
                11,
                Ok(11),
                preadv2(&self.input, &mut parts, 1, none),
            );
            let parts = [
                IoSlice::new(&self.first[..7]),
                IoSlice::new(&self.second[..8]),
            ];
            tally.moved(
                "pwritev2",
                15,
                Ok(15),
                pwritev2(&self.output, &parts, 1, none),
            );
        }
    }

    /// `sendfile` of the whole file and one at its end; `copy_file_range` of half, of the rest
    /// (asking for more), and at the end.
    fn between_files(&mut self, tally: &mut Tally) {
        tally.moved(
            "sendfile",
            FILE_SIZE,
            Ok(FILE_SIZE),
            sendfile(&self.output, &self.source, None, FILE_SIZE),
        );
        tally.moved(
            "sendfile",
            FILE_SIZE,
            Ok(0),
            sendfile(&self.output, &self.source, None, FILE_SIZE),
        );
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
    fn new(dir: &Path) -> Result<Self> {
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
        let got = unsafe {
            mmap(
                ptr::null_mut(),
                0,
                ProtFlags::READ,
                MapFlags::SHARED,
                &self.mapped,
                0,
            )
        };
        tally.done("mmap", Some(0), Err(Errno::INVAL), got);
        for _ in 0..2 {
            tally.done(
                "ioctl(FICLONE)",
                None,
                Err(Errno::OPNOTSUPP),
                ioctl_ficlone(&self.clone_to, &self.clone_from),
            );
        }
    }

    /// One `mmap`, one `msync` of one written page, one `munmap`.
    fn map_sync_unmap(&self, tally: &mut Tally) {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in
        // use.
        let mapping = unsafe {
            mmap(
                ptr::null_mut(),
                MAPPED_SIZE,
                access,
                MapFlags::SHARED,
                &self.mapped,
                0,
            )
        };
        tally.done("mmap", Some(MAPPED_SIZE), Ok(()), mapping);
        let Ok(address) = mapping else { return };
        // SAFETY: the mapping is writable, longer than one byte, and known to nobody else.
        unsafe { address.cast::<u8>().write_volatile(b'w') };
        // SAFETY: the range is the mapping's first page.
        tally.done("msync", Some(4096), Ok(()), unsafe {
            msync(address, 4096, MsyncFlags::SYNC)
        });
        // SAFETY: the range is exactly the mapping, and `address` is not used any more.
        tally.done("munmap", Some(MAPPED_SIZE), Ok(()), unsafe {
            munmap(address, MAPPED_SIZE)
        });
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
    fn new(dir: &Path) -> Result<Self> {
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
            tally.moved(
                "read",
                16,
                Err(Errno::AGAIN),
                read(&self.first.0, &mut self.buffer[..]),
            );
        }
    }

    /// File -> pipe, tee to the other pipe, and both pipes -> file: three `splice` and one `tee`.
    fn splice_and_tee(&self, tally: &mut Tally) {
        let none = SpliceFlags::empty();
        tally.moved(
            "splice",
            PIPE_SIZE,
            Ok(PIPE_SIZE),
            splice(&self.input, None, &self.first.1, None, PIPE_SIZE, none),
        );
        tally.moved(
            "tee",
            PIPE_SIZE,
            Ok(PIPE_SIZE),
            tee(&self.first.0, &self.second.1, PIPE_SIZE, none),
        );
        for pipe in [&self.first, &self.second] {
            tally.moved(
                "splice",
                PIPE_SIZE,
                Ok(PIPE_SIZE),
                splice(&pipe.0, None, &self.output, None, PIPE_SIZE, none),
            );
        }
    }

    /// One `vmsplice` of 1000 + 2000 bytes, and one `splice` that takes them out and asks for more.
    fn vmsplice(&self, tally: &mut Tally) {
        let (head, tail) = (
            IoSlice::new(&self.memory[..1000]),
            IoSlice::new(&self.memory[1000..]),
        );
        let parts = [IoSliceRaw::from_slice(&head), IoSliceRaw::from_slice(&tail)];
        // SAFETY: without SPLICE_F_GIFT the kernel only reads the pages, and `memory` is not
        // changed afterwards.
        let got = unsafe { vmsplice(&self.first.1, &parts, SpliceFlags::empty()) };
        tally.moved("vmsplice", 3000, Ok(3000), got);
        let got = splice(
            &self.first.0,
            None,
            &self.output,
            None,
            PIPE_SIZE,
            SpliceFlags::empty(),
        );
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
    fn new() -> Result<Self> {
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
            tally.moved(
                "sendto",
                300,
                Ok(300),
                send(&self.sender, &self.first[..300], SendFlags::empty()),
            );
        }
        for want in [
            Ok(300),
            Ok(300),
            Ok(300),
            Ok(300),
            Err(Errno::AGAIN),
            Err(Errno::AGAIN),
        ] {
            let got = recv(&self.receiver, &mut self.first[..], RecvFlags::empty())
                .map(|(count, _)| count);
            tally.moved("recvfrom", 512, want, got);
        }
    }

    /// Two `sendmsg` of 100 + 50 bytes; two `recvmsg` that ask for 100 + 100.
    fn messages(&mut self, tally: &mut Tally) {
        for _ in 0..2 {
            let parts = [
                IoSlice::new(&self.first[..100]),
                IoSlice::new(&self.second[..50]),
            ];
            let got = sendmsg(
                &self.sender,
                &parts,
                &mut SendAncillaryBuffer::default(),
                SendFlags::empty(),
            );
            tally.moved("sendmsg", 150, Ok(150), got);
        }
        for _ in 0..2 {
            let mut parts = [
                IoSliceMut::new(&mut self.first[..100]),
                IoSliceMut::new(&mut self.second[..100]),
            ];
            let got = recvmsg(
                &self.receiver,
                &mut parts,
                &mut RecvAncillaryBuffer::default(),
                RecvFlags::empty(),
            );
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
        let (messages, count) = (
            batch.as_mut_ptr(),
            libc::c_uint::try_from(BATCH).expect("a small number"),
        );
        // SAFETY: `batch` has `count` messages, and each names one part, which is 200 bytes of
        // `first`.
        let sent = unsafe { libc::sendmmsg(self.sender.as_raw_fd(), messages, count, 0) };
        tally.done("sendmmsg", None, Ok(()), all_messages(sent));
        // SAFETY: the same. Nothing else uses `first` while the three messages are written to it.
        let received = unsafe {
            libc::recvmmsg(
                self.receiver.as_raw_fd(),
                messages,
                count,
                0,
                ptr::null_mut(),
            )
        };
        tally.done("recvmmsg", None, Ok(()), all_messages(received));
    }
}

/// The result of a call that should have handled the whole batch. If it handled only a part, that
/// is an unexpected error.
fn all_messages(result: libc::c_int) -> std::result::Result<(), Errno> {
    match usize::try_from(result) {
        Ok(BATCH) => Ok(()),
        Ok(_) => Err(Errno::MSGSIZE),
        Err(_) => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}
