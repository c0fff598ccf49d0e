//! What is no regular file.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};

use anyhow::Result;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::pipe::pipe;

/// A Unix socket with a path, and TCP over IPv4 and IPv6: 11, 44 and 66 bytes to the one that listens. Says its TCP ports.
pub(crate) fn sockets() -> Result<()> {
    let unix = UnixListener::bind("listening")?;
    send(UnixStream::connect("listening")?.into(), unix.accept()?.0.into(), 11)?;
    let mut ports = Vec::new();
    for (address, bytes) in [("127.0.0.1:0", 44), ("[::1]:0", 66)] {
        let tcp = TcpListener::bind(address)?;
        let there = tcp.local_addr()?;
        ports.push(there.port().to_string());
        send(TcpStream::connect(there)?.into(), tcp.accept()?.0.into(), bytes)?;
    }
    Ok(zc_tests::print_line(&ports.join(" "))?)
}

/// A socket pair, a pipe, a memfd and an eventfd: 21, 22, 23 and 8 bytes.
pub(crate) fn nameless() -> Result<()> {
    let (one, other) = UnixStream::pair()?;
    send(one.into(), other.into(), 21)?;
    let (reader, writer) = pipe()?;
    send(writer, reader, 22)?;
    File::from(memfd_create("zc-memory", MemfdFlags::CLOEXEC)?).write_all(&[b'm'; 23])?;
    File::from(eventfd(0, EventfdFlags::CLOEXEC)?).write_all(&1_u64.to_ne_bytes())?;
    Ok(())
}

/// One `write` and one `read` of so many bytes.
fn send(to: OwnedFd, from: OwnedFd, bytes: usize) -> Result<()> {
    File::from(to).write_all(&vec![b's'; bytes])?;
    File::from(from).read_exact(&mut vec![0; bytes])?;
    Ok(())
}
