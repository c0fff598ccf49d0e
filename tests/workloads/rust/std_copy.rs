//! `std-copy library FILE` copies a small file to a Unix socket by `std::io::copy`, `std-copy hand
//! FILE` by a loop of its own. GNU ld links it, whose programs libunwind can unwind; the other Rust
//! programs are linked by whatever the compiler links with.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::unix::net::UnixStream,
};

#[inline(never)]
fn by_library(file: &str, socket: &mut UnixStream) -> io::Result<u64> {
    io::copy(&mut File::open(file)?, socket)
}

#[inline(never)]
fn by_hand(file: &str, socket: &mut UnixStream) -> io::Result<()> {
    let (mut from, mut buffer) = (File::open(file)?, vec![0; 4096]);
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            count => socket.write_all(&buffer[..count])?,
        }
    }
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().collect();
    // The other end stays open, and nobody reads there: the file must fit into the socket's buffer.
    let (mut socket, _other) = UnixStream::pair()?;
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, "library", file] => by_library(file, &mut socket).map(drop),
        [_, "hand", file] => by_hand(file, &mut socket),
        _ => Err(io::Error::other("usage: std-copy library|hand FILE")),
    }
}
