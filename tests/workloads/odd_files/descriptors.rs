//! Descriptors that stand for one file now, and for another soon after.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use anyhow::{Context, Result, ensure};
use rustix::io::dup2;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{WaitOptions, waitpid};

/// How often the file behind the descriptor changes.
const CHANGES: usize = 100;

fn new_files() -> Result<[File; 2]> {
    Ok([File::create("a")?, File::create("b")?])
}

/// Opens, writes and closes `a` and `b` in turn, always under the same descriptor: 1 byte to `a` each time, 2 to `b`.
pub(crate) fn reopened() -> Result<()> {
    for _ in 0..CHANGES {
        File::create("a")?.write_all(b"1")?;
        File::create("b")?.write_all(b"22")?;
    }
    Ok(())
}

/// Puts `a` and `b` in turn over one descriptor by `dup2`, with as many bytes.
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

/// The same, but another thread does it, and the one that writes makes no other call in between.
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
            // SAFETY: replaces what a descriptor of this process stands for; its owner keeps it open.
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

/// A child gets a descriptor of `passed` over a socket and writes 500 bytes through it.
pub(crate) fn passed() -> Result<()> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None)?;
    // SAFETY: this process has one thread, so the child may do as it likes.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()).context("fork"),
        0 => {
            drop(ours);
            let written = receive(&theirs).and_then(|fd| write_once(fd.as_fd(), &[b'p'; 500]));
            // SAFETY: ends the child at once, without the parent's exit handlers.
            unsafe { libc::_exit(i32::from(written.is_err())) }
        }
        child => {
            drop(theirs);
            send(&ours, &File::create("passed")?)?;
            let ended = waitpid(rustix::process::Pid::from_raw(child), WaitOptions::empty())?;
            ensure!(ended.is_some_and(|(_, status)| status.exit_status() == Some(0)), "the child failed");
            Ok(())
        }
    }
}

fn send(socket: &OwnedFd, file: &File) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    ensure!(control.push(SendAncillaryMessage::ScmRights(&files)), "room for a descriptor");
    sendmsg(socket, &[IoSlice::new(b"!")], &mut control, SendFlags::empty())?;
    Ok(())
}

fn receive(socket: &OwnedFd) -> Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(socket, &mut [IoSliceMut::new(&mut [0])], &mut control, RecvFlags::empty())?;
    let mut files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    files.next().context("no descriptor came")
}
