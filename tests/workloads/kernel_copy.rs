//! `kernel-copy`: makes many short copies in one process, by `std::io::copy` or by the loop that it
//! was before it used kernel interfaces. These are the benchmarks of rust-lang/rust#75272. A tracer
//! sees the same calls many times, and the time does not depend on the start of the process.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek as _, Take, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    thread,
};

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, ValueEnum};

/// Make many short copies.
#[derive(Parser)]
struct KernelCopyArguments {
    /// Source and destination
    ends: CopiedEnds,
    /// How to copy
    by: CopiesBy,
    /// The file to read
    #[arg(long, required_if_eq_any([("ends", "file-file"), ("ends", "file-socket")]))]
    from: Option<PathBuf>,
    /// The file to write
    #[arg(long, required_if_eq("ends", "file-file"))]
    to: Option<PathBuf>,
    /// How many copies
    #[arg(long)]
    copies: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum CopiedEnds {
    /// A file to a file
    FileFile,
    /// A file to a TCP socket
    FileSocket,
    /// A TCP socket to a pipe, and that to another TCP socket
    SocketPipeSocket,
}

#[derive(Clone, Copy, ValueEnum)]
enum CopiesBy {
    /// `std::io::copy`
    StdIoCopy,
    /// A loop of reads and writes over 8 KiB
    Loop,
}

/// Bytes of one copy.
const BYTES: u64 = 128 << 10;

fn main() -> Result<()> {
    let arguments = KernelCopyArguments::parse();
    let KernelCopyArguments { by, copies, .. } = arguments;
    let source = || File::open(arguments.from.unwrap_or_default()).context("--from");
    match arguments.ends {
        CopiedEnds::FileFile => {
            let mut to = OpenOptions::new();
            to.write(true).create(true).truncate(true);
            let mut sink = to.open(arguments.to.unwrap_or_default()).context("--to")?;
            copy_from_start(copies, &mut source()?, |source| {
                sink.rewind()?;
                by.copy(source, &mut sink)
            })
        }
        CopiedEnds::FileSocket => {
            let (mut sink, other_end) = tcp_pair()?;
            let drain = thread::spawn(move || drain(other_end));
            copy_from_start(copies, &mut source()?, |source| by.copy(source, &mut sink))?;
            drop(sink);
            end_of(drain)
        }
        CopiedEnds::SocketPipeSocket => socket_to_pipe_to_socket(by, copies),
    }
}

/// Copies the beginning of the source so many times.
fn copy_from_start(
    copies: u32,
    source: &mut File,
    mut copy: impl FnMut(Take<&mut File>) -> io::Result<u64>,
) -> Result<()> {
    for _ in 0..copies {
        source.rewind()?;
        let count = copy(source.take(BYTES))?;
        ensure!(count == BYTES, "one copy moved {count} bytes");
    }
    Ok(())
}

fn socket_to_pipe_to_socket(by: CopiesBy, copies: u32) -> Result<()> {
    let (mut source, mut far_source) = tcp_pair()?;
    let (mut sink, far_sink) = tcp_pair()?;
    let (mut pipe_out, mut pipe_in) = io::pipe()?;
    let feed = thread::spawn(move || {
        let block = vec![1; 128 << 10];
        (0..copies).try_for_each(|_| far_source.write_all(&block))
    });
    let drain = thread::spawn(move || drain(far_sink));
    let second_half = thread::spawn(move || {
        (0..copies).try_for_each(|_| by.copy((&mut pipe_out).take(BYTES), &mut sink).map(drop))
    });
    for _ in 0..copies {
        let count = by.copy((&mut source).take(BYTES), &mut pipe_in)?;
        ensure!(count == BYTES, "one copy moved {count} bytes");
    }
    [feed, second_half, drain].into_iter().try_for_each(end_of)
}

impl CopiesBy {
    fn copy(self, mut source: Take<impl Read>, sink: &mut impl Write) -> io::Result<u64> {
        if let Self::StdIoCopy = self {
            return io::copy(&mut source, sink);
        }
        let (mut buffer, mut total) = ([0; 8 * 1024], 0);
        loop {
            let count = source.read(&mut buffer)?;
            if count == 0 {
                return Ok(total);
            }
            sink.write_all(&buffer[..count])?;
            total += count as u64;
        }
    }
}

/// The two ends of a TCP connection.
fn tcp_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    Ok((near, listener.accept()?.0))
}

/// Reads to the end.
fn drain(mut source: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; 256 * 1024];
    while source.read(&mut buffer)? > 0 {}
    Ok(())
}

/// Waits for a thread, and returns its error.
fn end_of(thread: thread::JoinHandle<io::Result<()>>) -> Result<()> {
    Ok(thread.join().expect("it does not panic")?)
}
