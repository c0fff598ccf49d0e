//! Files that are easily mistaken for others: several names, reused inode numbers, descriptors
//! whose file changes, files without a path.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{IoSlice, IoSliceMut, Read as _, Write as _},
    mem::MaybeUninit,
    net::{TcpListener, TcpStream},
    os::{
        fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::{
            ffi::OsStrExt as _,
            fs::MetadataExt as _,
            net::{UnixListener, UnixStream},
        },
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

/// How many files are created and deleted one after the other.
const GENERATIONS: usize = 20;

/// Creates, writes and deletes twenty files in turn, with 1, 2, ... 20 bytes. On ext4 they get the
/// same inode number. Prints how many numbers there were.
pub(crate) fn same_inode_number() -> Result<()> {
    let mut numbers = std::collections::BTreeSet::new();
    for generation in 1..=GENERATIONS {
        let mut file = File::create("again")?;
        file.write_all(&vec![b'g'; generation])?;
        numbers.insert(file.metadata()?.ino());
        fs::remove_file("again")?;
    }
    Ok(print_line(&numbers.len().to_string())?)
}

/// Opens one file under two names, and writes 100 and 200 bytes.
pub(crate) fn two_names() -> Result<()> {
    let mut one = File::create("one")?;
    fs::hard_link("one", "two")?;
    let mut two = File::options().append(true).open("two")?;
    one.write_all(&[b'1'; 100])?;
    two.write_all(&[b'2'; 200])?;
    Ok(())
}

/// Writes 10 bytes to `before`, and 20 more after it was renamed to `after`.
pub(crate) fn renamed() -> Result<()> {
    let mut file = File::create("before")?;
    file.write_all(&[b'b'; 10])?;
    fs::rename("before", "after")?;
    file.write_all(&[b'a'; 20])?;
    Ok(())
}

/// Writes 40 bytes to a file that was deleted before.
pub(crate) fn deleted() -> Result<()> {
    let mut file = File::create("gone")?;
    fs::remove_file("gone")?;
    file.write_all(&[b'd'; 40])?;
    Ok(())
}

/// Writes 50 bytes to a file whose name is not UTF-8.
pub(crate) fn not_utf8() -> Result<()> {
    File::create(OsStr::from_bytes(b"caf\xe9"))?.write_all(&[b'n'; 50])?;
    Ok(())
}

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

fn new_files() -> Result<[File; 2]> {
    Ok([File::create("a")?, File::create("b")?])
}

/// Opens, writes and closes `a` and `b` in turn, always with the same descriptor: 1 byte to `a`
/// each time, 2 to `b`.
pub(crate) fn reopened() -> Result<()> {
    for _ in 0..CHANGES {
        File::create("a")?.write_all(b"1")?;
        File::create("b")?.write_all(b"22")?;
    }
    Ok(())
}

/// Replaces the file of one descriptor by `a` and `b` in turn, with `dup2`, and writes the same
/// numbers of bytes.
pub(crate) fn replaced() -> Result<()> {
    let [a, b] = new_files()?;
    let mut changing = OwnedFd::from(File::open("/dev/null")?);
    for _ in 0..CHANGES {
        for (file, bytes) in [(&a, &b"1"[..]), (&b, b"22")] {
            dup2(file, &mut changing)?;
            write_once(changing.as_fd(), bytes)?;
        }
    }
    Ok(())
}

/// The same, but another thread replaces the file, and the writing thread makes no other call in
/// between.
pub(crate) fn replaced_by_thread() -> Result<()> {
    let [a, b] = new_files()?;
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
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::empty(),
        None,
    )?;
    let child = fork(|| {
        receive(&theirs)
            .and_then(|fd| write_once(fd.as_fd(), &[b'p'; 500]))
            .is_ok()
    })?;
    drop(theirs);
    send(&ours, &File::create("passed")?)?;
    let ended = waitpid(Some(child), WaitOptions::empty())?;
    ensure!(
        ended.is_some_and(|(_, status)| status.exit_status() == Some(0)),
        "the child failed"
    );
    Ok(())
}

fn send(socket: &OwnedFd, file: &File) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    ensure!(
        control.push(SendAncillaryMessage::ScmRights(&files)),
        "room for a descriptor"
    );
    sendmsg(
        socket,
        &[IoSlice::new(b"!")],
        &mut control,
        SendFlags::empty(),
    )?;
    Ok(())
}

fn receive(socket: &OwnedFd) -> Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut [0])],
        &mut control,
        RecvFlags::empty(),
    )?;
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
    send_through(
        UnixStream::connect("listening")?.into(),
        unix.accept()?.0.into(),
        11,
    )?;
    let mut ports = Vec::new();
    for (address, bytes) in [("127.0.0.1:0", 44), ("[::1]:0", 66)] {
        let tcp = TcpListener::bind(address)?;
        let there = tcp.local_addr()?;
        ports.push(there.port().to_string());
        send_through(
            TcpStream::connect(there)?.into(),
            tcp.accept()?.0.into(),
            bytes,
        )?;
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
