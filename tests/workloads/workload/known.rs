//! `known`: known numbers of every call that moves data.
//!
//! One bare thread makes all of them, and the files, sockets and buffers exist before it starts. So
//! the thread's rows in a per-thread report have only these calls.

use std::{
    fs::{self, File},
    mem::zeroed,
    path::PathBuf,
    ptr,
};

use anyhow::Result;
use rustix::{
    fs::{MemfdFlags, memfd_create},
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, socketpair},
    pipe::{PipeFlags, pipe_with},
};
use serde_json::json;
use zc_tests::{PlannedCall, Tally, descriptor, leaked, print_expectation, with_bare_thread};

use crate::Parameters;

/// Makes the calls on files in `DIR` (the directory for temporary files), and prints them.
pub(crate) fn run(mut parameters: Parameters) -> Result<()> {
    let dir = parameters
        .text()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = tempfile::tempdir_in(dir)?;
    let [input, mapped] = ["input", "mapped"].map(|name| dir.path().join(name));
    fs::write(&input, vec![b'i'; FILE_SIZE])?;
    fs::write(&mapped, [b'm'; MAPPED_SIZE])?;
    let output = descriptor(File::create(dir.path().join("output"))?);
    let mapped = descriptor(File::options().read(true).write(true).open(mapped)?);
    // Each with a position of its own.
    let open = || File::open(&input).map(descriptor);
    let inputs = [open()?, open()?, open()?, open()?, open()?];
    let calls = [
        between_memory_and_files(inputs[0], inputs[1], output),
        between_files(inputs[2], inputs[3], output),
        through_pipes(inputs[4], output)?,
        through_sockets()?,
        mappings_and_clones(mapped)?,
    ]
    .concat();
    let mut tally = Tally::default();
    // SAFETY: the calls name only memory that was leaked for them.
    let make = || unsafe { tally.make(&calls) };
    with_bare_thread(c"zc-known", make, |_| ())?;
    print_expectation("known", &tally.figures()?, json!({ "thread": "zc-known" }))
}

/// The size of the file that is read.
const FILE_SIZE: usize = 100_000;
/// The size of a mapping, and where it is: nothing else is mapped there.
const MAPPED_SIZE: usize = 8192;
const MAPPED_AT: usize = 0x1000_0000_0000;
/// How many bytes one splice moves.
const PIPE_SIZE: usize = 10_000;
/// Flags of a receiving call.
const MSG_PEEK: usize = libc::MSG_PEEK as usize;
const MSG_TRUNC: usize = libc::MSG_TRUNC as usize;
/// How many messages one `sendmmsg` sends.
const BATCH: usize = 3;

/// The addresses of two buffers.
fn buffers() -> [usize; 2] {
    [b'1', b'2'].map(|byte| leaked([byte; 4096]))
}

/// The address of two `iovec`: so many bytes of each of these buffers.
fn vector(buffers: [usize; 2], lengths: [usize; 2]) -> usize {
    leaked([0, 1].map(|index| libc::iovec {
        iov_base: ptr::with_exposed_provenance_mut(buffers[index]),
        iov_len: lengths[index],
    }))
}

/// A message of so many parts.
fn message(vector: usize, parts: usize) -> libc::msghdr {
    // SAFETY: a `msghdr` of zeroes is an empty one.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = ptr::with_exposed_provenance_mut(vector);
    // musl has another type for it.
    message.msg_iovlen = parts as _;
    message
}

/// Reads and writes at the position and at offsets, with one buffer and with vectors.
fn between_memory_and_files(input: usize, source: usize, output: usize) -> Vec<PlannedCall> {
    let buffers = buffers();
    let parts = |first, second| vector(buffers, [first, second]);
    let [buffer, _] = buffers;
    let near_end = FILE_SIZE - 100;
    let full = PlannedCall::full;
    let moving = PlannedCall::moving;
    vec![
        full("read", &[input, buffer, 100], 100).times(1000),
        moving("read", &[input, buffer, 100], 100, Ok(0)),
        full("write", &[output, buffer, 64], 64).times(500),
        full("pread64", &[input, buffer, 4096, 1], 4096).times(6),
        moving("pread64", &[input, buffer, 4096, near_end], 4096, Ok(100)),
        full("pwrite64", &[output, buffer, 1000, 1], 1000).times(5),
        full("readv", &[source, parts(10, 20), 2], 30).times(3),
        full("writev", &[output, parts(30, 40), 2], 70).times(3),
        full("preadv", &[input, parts(100, 200), 2, 1], 300).times(2),
        full("pwritev", &[output, parts(50, 60), 2, 1], 110).times(2),
        full("preadv2", &[input, parts(5, 6), 2, 1], 11).times(4),
        full("pwritev2", &[output, parts(7, 8), 2, 1], 15).times(4),
    ]
}

/// `sendfile` of the whole file and one at its end; `copy_file_range` of half, of the rest (asking
/// for more), and at the end.
fn between_files(source: usize, copied: usize, output: usize) -> Vec<PlannedCall> {
    let send = |want| {
        let arguments = [output, source, 0, FILE_SIZE];
        PlannedCall::moving("sendfile", &arguments, FILE_SIZE, Ok(want))
    };
    let copy = |ask, want| {
        let arguments = [copied, 0, output, 0, ask];
        PlannedCall::moving("copy_file_range", &arguments, ask, Ok(want))
    };
    vec![
        send(FILE_SIZE),
        send(0),
        copy(50_000, 50_000),
        copy(60_000, 50_000),
        copy(60_000, 0),
    ]
}

/// File -> pipe, `tee` to the other pipe, and both pipes -> file. Two reads of the empty pipe. One
/// `vmsplice` of 1000 + 2000 bytes, and one `splice` that takes them out and asks for more.
fn through_pipes(source: usize, output: usize) -> Result<Vec<PlannedCall>> {
    // A mistake is an error and not a hang.
    let pipe = || pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK);
    let [(out, inlet), (other_out, other_inlet)] = [pipe()?, pipe()?];
    let [out, inlet, other_out, other_inlet] = [out, inlet, other_out, other_inlet].map(descriptor);
    let buffers = buffers();
    let parts = vector(buffers, [1000, 2000]);
    let splice = |from, to, want| {
        let arguments = [from, 0, to, 0, PIPE_SIZE];
        PlannedCall::moving("splice", &arguments, PIPE_SIZE, Ok(want))
    };
    let again = Err(Errno::AGAIN);
    Ok(vec![
        splice(source, inlet, PIPE_SIZE),
        PlannedCall::full("tee", &[out, other_inlet, PIPE_SIZE], PIPE_SIZE),
        splice(out, output, PIPE_SIZE),
        splice(other_out, output, PIPE_SIZE),
        PlannedCall::moving("read", &[out, buffers[0], 16], 16, again).times(2),
        PlannedCall::full("vmsplice", &[inlet, parts, 2], 3000),
        splice(out, output, 3000),
    ])
}

/// Five `sendto`, `recvfrom` of each, and two that find nothing. The fifth is first looked at, and then
/// received in part; both results are its length, of which 100 bytes moved. Messages of two parts, and one batch of messages
/// each way, whose result is how many these are.
fn through_sockets() -> Result<Vec<PlannedCall>> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (sender, receiver) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    let [sender, receiver] = [sender, receiver].map(descriptor);
    let buffers = buffers();
    let [buffer, _] = buffers;
    let (full, moving, other) = (PlannedCall::full, PlannedCall::moving, PlannedCall::other);
    let receive = |want| moving("recvfrom", &[receiver, buffer, 512], 512, want);
    let in_part = |flags| [receiver, buffer, 100, flags | MSG_TRUNC];
    let sent = leaked(message(vector(buffers, [100, 50]), 2));
    let arriving = leaked(message(vector(buffers, [100, 100]), 2));
    let part = message(vector(buffers, [200, 0]), 1);
    let batch = leaked(
        [libc::mmsghdr {
            msg_hdr: part,
            msg_len: 0,
        }; BATCH],
    );
    Ok(vec![
        full("sendto", &[sender, buffer, 300], 300).times(5),
        receive(Ok(300)).times(4),
        other("recvfrom", &in_part(MSG_PEEK), Some(100), Ok(300)),
        moving("recvfrom", &in_part(0), 100, Ok(300)),
        receive(Err(Errno::AGAIN)).times(2),
        full("sendmsg", &[sender, sent], 150).times(2),
        moving("recvmsg", &[receiver, arriving], 200, Ok(150)).times(2),
        other("sendmmsg", &[sender, batch, BATCH], None, Ok(BATCH)),
        other("recvmmsg", &[receiver, batch, BATCH], None, Ok(BATCH)),
    ])
}

/// Three times one `mmap`, one `msync` of one page, one `munmap`; one `mmap` of nothing. Two clones
/// that are refused.
fn mappings_and_clones(mapped: usize) -> Result<Vec<PlannedCall>> {
    let bits = |bits: i32| usize::try_from(bits).expect("not negative");
    let access = bits(libc::PROT_READ | libc::PROT_WRITE);
    let flags = bits(libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE);
    let other = PlannedCall::other;
    let map = |length, want| {
        let arguments = [MAPPED_AT, length, access, flags, mapped];
        other("mmap", &arguments, Some(length), want)
    };
    let sync = [MAPPED_AT, 4096, bits(libc::MS_SYNC)];
    let unmap = [MAPPED_AT, MAPPED_SIZE];
    let once = [
        map(MAPPED_SIZE, Ok(MAPPED_AT)),
        other("msync", &sync, Some(4096), Ok(0)),
        other("munmap", &unmap, Some(MAPPED_SIZE), Ok(0)),
    ];
    // In memory, because no filesystem in memory can share blocks, while that of the directory may.
    let memory = |name| memfd_create(name, MemfdFlags::CLOEXEC).map(descriptor);
    let (to, clone) = (memory(c"zc-to")?, usize::try_from(libc::FICLONE)?);
    let clone = [to, clone, memory(c"zc-from")?];
    let refused = Err(Errno::OPNOTSUPP);
    let refused = other("ioctl(FICLONE)", &clone, None, refused).times(2);
    Ok([
        &once[..],
        &once,
        &once,
        &[map(0, Err(Errno::INVAL)), refused],
    ]
    .concat())
}
