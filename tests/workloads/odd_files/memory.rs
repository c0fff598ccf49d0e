//! Bytes that only their place in memory tells from others.

use std::fs::{self, File};
use std::io::{IoSlice, IoSliceMut, Read as _, Write as _};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

use anyhow::{Result, ensure};

/// What is read at once.
const PIECE: usize = 1000;

/// Copies `in` to `out` and `in2`, as long, to `out2`, a piece of each in turn, and writes a line to `log` in between.
pub(crate) fn in_turn() -> Result<()> {
    fs::copy("in", "in2")?;
    let [mut from, mut from2] = [File::open("in")?, File::open("in2")?];
    let [mut to, mut to2, mut log] = [File::create("out")?, File::create("out2")?, File::create("log")?];
    let [mut piece, mut piece2] = [[0; PIECE], [0; PIECE]];
    loop {
        let (read, read2) = (from.read(&mut piece)?, from2.read(&mut piece2)?);
        if read == 0 {
            return Ok(());
        }
        log.write_all(b"a piece of each\n")?;
        to.write_all(&piece[..read])?;
        to2.write_all(&piece2[..read2])?;
    }
}

/// Copies `in` to `out` by vectors: the bytes are read into two buffers, and written after a header of 10 bytes.
pub(crate) fn vectors() -> Result<()> {
    let (mut from, mut to) = (File::open("in")?, File::create("out")?);
    let [mut first, mut second] = [[0; PIECE], [0; PIECE]];
    loop {
        let read = from.read_vectored(&mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)])?;
        if read == 0 {
            return Ok(());
        }
        let (first_read, second_read) = (read.min(PIECE), read.saturating_sub(PIECE));
        let parts = [IoSlice::new(b"0123456789"), IoSlice::new(&first[..first_read]), IoSlice::new(&second[..second_read])];
        ensure!(to.write_vectored(&parts)? == 10 + read, "a short write");
    }
}

/// Writes as many bytes as `in` has to `out`, in pieces as long as those that it reads, and none of them from there.
pub(crate) fn replaced() -> Result<()> {
    let (mut from, mut to) = (File::open("in")?, File::create("out")?);
    let (mut piece, other) = ([0; PIECE], [b'x'; PIECE]);
    loop {
        let read = from.read(&mut piece)?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&other[..read])?;
    }
}

/// Copies `in` to `out` and `in2`, as long, to `out2` by two threads: each writes what the other has read.
pub(crate) fn passed_on() -> Result<()> {
    fs::copy("in", "in2")?;
    let [(there, here), (back, elsewhere)] = [mpsc::sync_channel(1), mpsc::sync_channel(1)];
    let (from, to) = (File::open("in2")?, File::create("out")?);
    let other = thread::spawn(move || pass_on(from, &back, &here, to));
    pass_on(File::open("in")?, &there, &elsewhere, File::create("out2")?)?;
    other.join().expect("the thread does not panic")
}

/// Gives what is read from one file to another thread, and writes what that has read to another file.
fn pass_on(mut from: File, give: &SyncSender<Vec<u8>>, take: &Receiver<Vec<u8>>, mut to: File) -> Result<()> {
    loop {
        let mut piece = vec![0; PIECE];
        let read = from.read(&mut piece)?;
        piece.truncate(read);
        give.send(piece)?;
        to.write_all(&take.recv()?)?;
        if read == 0 {
            return Ok(());
        }
    }
}
