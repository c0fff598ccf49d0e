//! Files that are easily mistaken for others: a path that is too long, descriptors whose file
//! changes, files without a path.

use std::{
    fs::{self, File},
    io::{IoSlice, IoSliceMut, Read as _, Write as _},
    mem::MaybeUninit,
    net::{TcpListener, TcpStream},
    os::{
        fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    thread,
};

use anyhow::{Context, Result, ensure};
use rustix::{
    event::{EventfdFlags, eventfd},
    fs::{MemfdFlags, memfd_create},
    io::dup2,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
    },
    pipe::pipe,
    process::{WaitOptions, waitpid},
};
use zc_tests::{fork, print_line};

/// Writes 60 bytes to a file whose path is longer than a call can take.
pub(crate) fn very_long() -> Result<()> {
    let name = "d".repeat(200);
    for _ in 0..30 {
        fs::create_dir(&name)?;
        std::env::set_current_dir(&name)?;
    }
    let mut file = File::create("deep")?;
    file.write_all(&[b'l'; 60])?;
    ensure!(file.metadata()?.len() == 60, "it is there");
    Ok(())
}

/// How often the file behind the descriptor changes.
const CHANGES: usize = 100;

/// Another thread replaces the file of a descriptor by `a` and `b` in turn, with `dup2`. The writing
/// thread makes no other call in between: it writes 1 byte to `a` each time, and 2 to `b`.
pub(crate) fn replaced_by_thread() -> Result<()> {
    let (a, b) = (File::create("a")?, File::create("b")?);
    let mut changing = OwnedFd::from(File::open("/dev/null")?);
    dup2(&a, &mut changing)?;
    let changing = changing.as_fd();
    let (written, replaced) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for turn in 0..2 * CHANGES {
                spin_until(&replaced, turn);
                write_once(changing, if turn % 2 == 0 { b"1" } else { b"22" })?;
                written.store(turn + 1, SeqCst);
            }
            anyhow::Ok(())
        });
        for turn in 1..2 * CHANGES {
            spin_until(&written, turn);
            let file = if turn % 2 == 0 { &a } else { &b };
            // SAFETY: replaces the file of a descriptor of this process, which stays open.
            let result = unsafe { libc::dup2(file.as_raw_fd(), changing.as_raw_fd()) };
            ensure!(result >= 0, "dup2");
            replaced.store(turn, SeqCst);
        }
        writer.join().expect("the writer does not panic")
    })
}

fn spin_until(count: &AtomicUsize, wanted: usize) {
    while count.load(SeqCst) < wanted {
        std::hint::spin_loop();
    }
}

fn write_once(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<()> {
    let written = rustix::io::write(fd, bytes)?;
    ensure!(written == bytes.len(), "a short write");
    Ok(())
}

/// A child receives a descriptor of `passed` through a socket and writes 500 bytes to it.
pub(crate) fn passed() -> Result<()> {
    let kind = SocketType::STREAM;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, SocketFlags::empty(), None)?;
    let child = fork(|| {
        let written = receive(&theirs).and_then(|fd| write_once(fd.as_fd(), &[b'p'; 500]));
        written.is_ok()
    })?;
    drop(theirs);
    send(&ours, &File::create("passed")?)?;
    let ended = waitpid(Some(child), WaitOptions::empty())?;
    let is_good = ended.is_some_and(|(_, status)| status.exit_status() == Some(0));
    ensure!(is_good, "the child failed");
    Ok(())
}

fn send(socket: &OwnedFd, file: &File) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let (files, byte) = ([file.as_fd()], [IoSlice::new(b"!")]);
    let has_room = control.push(SendAncillaryMessage::ScmRights(&files));
    ensure!(has_room, "room for a descriptor");
    sendmsg(socket, &byte, &mut control, SendFlags::empty())?;
    Ok(())
}

fn receive(socket: &OwnedFd) -> Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut byte = [IoSliceMut::new(&mut byte)];
    recvmsg(socket, &mut byte, &mut control, RecvFlags::empty())?;
    let mut files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    files.next().context("no descriptor came")
}

/// Connects through a Unix socket with a path, and by TCP over IPv4 and IPv6, and sends 11, 44 and
/// 66 bytes to the listening side. Prints its TCP ports.
pub(crate) fn sockets() -> Result<()> {
    let unix = UnixListener::bind("listening")?;
    let near = UnixStream::connect("listening")?;
    send_through(near.into(), unix.accept()?.0.into(), 11)?;
    let mut ports = Vec::new();
    for (address, bytes) in [("127.0.0.1:0", 44), ("[::1]:0", 66)] {
        let tcp = TcpListener::bind(address)?;
        let there = tcp.local_addr()?;
        ports.push(there.port().to_string());
        let near = TcpStream::connect(there)?;
        send_through(near.into(), tcp.accept()?.0.into(), bytes)?;
    }
    Ok(print_line(&ports.join(" "))?)
}

/// Writes 21, 22, 23 and 8 bytes to a socket pair, a pipe, a memfd and an eventfd.
pub(crate) fn nameless() -> Result<()> {
    let (one, other) = UnixStream::pair()?;
    send_through(one.into(), other.into(), 21)?;
    let (reader, writer) = pipe()?;
    send_through(writer, reader, 22)?;
    File::from(memfd_create("zc-memory", MemfdFlags::CLOEXEC)?).write_all(&[b'm'; 23])?;
    File::from(eventfd(0, EventfdFlags::CLOEXEC)?).write_all(&1_u64.to_ne_bytes())?;
    Ok(())
}

/// One `write` and one `read` of this many bytes.
fn send_through(to: OwnedFd, from: OwnedFd, bytes: usize) -> Result<()> {
    File::from(to).write_all(&vec![b's'; bytes])?;
    File::from(from).read_exact(&mut vec![0; bytes])?;
    Ok(())
}
