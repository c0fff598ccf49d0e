//! Buffers whose bytes the program changes, or drops, between the reads that filled them and the
//! writes.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::fd::AsRawFd as _,
};

use anyhow::{Context as _, Result, ensure};

/// Reads the beginning of `in`, and writes a shorter text of its own to `out` from the same buffer.
/// Both begin alike, as tables with the same headings do.
pub(crate) fn summary_begins_alike() -> Result<()> {
    let mut buffer = [0; 2136];
    File::open("in")?.read_exact(&mut buffer)?;
    for byte in &mut buffer[8..226] {
        *byte = !*byte;
    }
    Ok(File::create("out")?.write_all(&buffer[..226])?)
}

/// Copies `in` to `out` in pieces, after it has changed a field in each record of the buffer. The
/// field lies between the words that are sampled.
pub(crate) fn records_changed() -> Result<()> {
    let (mut from, mut to) = (File::open("in")?, File::create("out")?);
    let mut buffer = vec![0; 65_536];
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        for record in buffer.as_chunks_mut::<512>().0 {
            for byte in &mut record[222..290] {
                *byte = !*byte;
            }
        }
        for piece in buffer[..read].chunks(16_384) {
            to.write_all(piece)?;
        }
    }
}

/// Copies `in` to `out` through a pipe and a buffer that several reads fill, each of which wants
/// the rest and gets less. A byte in the middle of each buffer is changed.
pub(crate) fn filled_in_parts_and_changed() -> Result<()> {
    const PART: usize = 1448;
    const PARTS: usize = 10;
    let (mut from, mut to) = (File::open("in")?, File::create("out")?);
    let (mut reader, mut writer) = io::pipe()?;
    let (mut part, mut buffer) = ([0; PART], [0; PARTS * PART]);
    for _ in 0..20 {
        for filled in (0..buffer.len()).step_by(PART) {
            from.read_exact(&mut part)?;
            writer.write_all(&part)?;
            ensure!(reader.read(&mut buffer[filled..])? == PART, "a whole part");
        }
        buffer[5000] = !buffer[5000];
        to.write_all(&buffer)?;
    }
    Ok(())
}

/// Reads `in`, reads a header over its beginning, changes a field behind it, and writes all of it
/// to `out`.
pub(crate) fn header_read_over() -> Result<()> {
    let (mut from, mut zeroes, mut to) = (
        File::open("in")?,
        File::open("/dev/zero")?,
        File::create("out")?,
    );
    let mut buffer = [0; 8000];
    for _ in 0..10 {
        from.read_exact(&mut buffer)?;
        zeroes.read_exact(&mut buffer[..64])?;
        for byte in &mut buffer[200..240] {
            *byte = !*byte;
        }
        to.write_all(&buffer)?;
    }
    Ok(())
}

/// Writes the first half of what comes by standard input to `out`, each buffer twice, and drops the
/// second half.
pub(crate) fn half_dropped_half_doubled() -> Result<()> {
    const BUFFERS: usize = 24;
    let (mut input, mut to) = (io::stdin(), File::create("out")?);
    let mut buffer = [0; 4096];
    for number in 0..BUFFERS {
        input.read_exact(&mut buffer)?;
        if number < BUFFERS / 2 {
            to.write_all(&buffer)?;
            to.write_all(&buffer)?;
        }
    }
    Ok(())
}

/// Sends `in` with `MSG_ZEROCOPY`, and changes the buffer before anybody receives it.
pub(crate) fn lent_to_a_socket_and_changed() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let sender = TcpStream::connect(listener.local_addr()?)?;
    let (mut receiver, _) = listener.accept()?;
    let is_on: libc::c_int = 1;
    // SAFETY: the option is an int.
    let status = unsafe {
        let size = u32::try_from(size_of_val(&is_on))?;
        libc::setsockopt(
            sender.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ZEROCOPY,
            (&raw const is_on).cast(),
            size,
        )
    };
    ensure!(status == 0, "SO_ZEROCOPY is unknown");
    let mut buffer = vec![0; 60_000];
    File::open("in")?.read_exact(&mut buffer)?;
    // SAFETY: the buffer lives until the bytes have been received.
    let result = unsafe {
        libc::send(
            sender.as_raw_fd(),
            buffer.as_ptr().cast(),
            buffer.len(),
            libc::MSG_ZEROCOPY,
        )
    };
    let length = usize::try_from(result).context("send failed")?;
    buffer.fill(b'x');
    receiver.read_exact(&mut vec![0; length])?;
    drop(buffer);
    Ok(())
}
