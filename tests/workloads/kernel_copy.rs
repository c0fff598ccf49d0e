//! `kernel-copy`: makes many short copies in one process, by `std::io::copy` or by the loop that it
//! was before it used kernel interfaces. These are the benchmarks of rust-lang/rust#75272. A tracer
//! sees the same calls many times, and the time does not depend on the start of the process.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum};
use zc_tests::parse_size;

/// Make many short copies.
#[derive(Parser)]
struct Arguments {
    /// Source and destination
    ends: Ends,
    /// How to copy
    by: By,
    /// The file to read
    #[arg(long)]
    from: Option<PathBuf>,
    /// The file to write
    #[arg(long)]
    to: Option<PathBuf>,
    /// Bytes of one copy
    #[arg(long, default_value = "128KiB", value_parser = parse_size)]
    bytes: u64,
    /// How many copies
    #[arg(long)]
    copies: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum Ends {
    /// A file to a file
    FileFile,
    /// A file to a TCP socket
    FileSocket,
    /// A TCP socket to a pipe, and that to another TCP socket
    SocketPipeSocket,
}

#[derive(Clone, Copy, ValueEnum)]
enum By {
    /// `std::io::copy`
    StdIoCopy,
    /// A loop of reads and writes over 8 KiB
    Loop,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("kernel-copy: {err:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    match arguments.ends {
        Ends::FileFile => file_to_file(arguments),
        Ends::FileSocket => file_to_socket(arguments),
        Ends::SocketPipeSocket => socket_to_pipe_to_socket(arguments),
    }
}

fn file_to_file(arguments: &Arguments) -> Result<()> {
    let mut source = source_file(arguments)?;
    let path = arguments.to.as_ref().context("--to FILE is missing")?;
    let sink = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path);
    let mut sink = sink.with_context(|| path.display().to_string())?;
    for _ in 0..arguments.copies {
        source.rewind()?;
        sink.rewind()?;
        one_copy(
            arguments,
            Read::by_ref(&mut source).take(arguments.bytes),
            &mut sink,
        )?;
    }
    Ok(())
}

fn file_to_socket(arguments: &Arguments) -> Result<()> {
    let mut source = source_file(arguments)?;
    let (mut sink, mut other_end) = tcp_pair()?;
    let drain = thread::spawn(move || discard(&mut other_end));
    for _ in 0..arguments.copies {
        source.rewind()?;
        one_copy(
            arguments,
            Read::by_ref(&mut source).take(arguments.bytes),
            &mut sink,
        )?;
    }
    drop(sink);
    finished(drain)?;
    Ok(())
}

fn socket_to_pipe_to_socket(arguments: &Arguments) -> Result<()> {
    let (mut source, mut far_source) = tcp_pair()?;
    let (mut sink, mut far_sink) = tcp_pair()?;
    let (mut pipe_out, mut pipe_in) = io::pipe()?;
    let (by, bytes, copies) = (arguments.by, arguments.bytes, arguments.copies);
    let feed = thread::spawn(move || {
        let block = vec![1; usize::try_from(bytes).map_err(io::Error::other)?];
        (0..copies).try_for_each(|_| far_source.write_all(&block))
    });
    let drain = thread::spawn(move || discard(&mut far_sink));
    let second_half = thread::spawn(move || {
        (0..copies).try_for_each(|_| copy(by, (&mut pipe_out).take(bytes), &mut sink).map(drop))
    });
    for _ in 0..copies {
        one_copy(arguments, (&mut source).take(bytes), &mut pipe_in)?;
    }
    finished(feed)?;
    finished(second_half)?;
    finished(drain)?;
    Ok(())
}

/// Copies once, and checks that all bytes were copied.
fn one_copy(
    arguments: &Arguments,
    source: io::Take<impl Read>,
    sink: &mut (impl Write + ?Sized),
) -> Result<()> {
    let count = copy(arguments.by, source, sink)?;
    ensure!(
        count == arguments.bytes,
        "one copy moved {count} bytes instead of {}",
        arguments.bytes
    );
    Ok(())
}

fn copy(
    by: By,
    mut source: io::Take<impl Read>,
    sink: &mut (impl Write + ?Sized),
) -> io::Result<u64> {
    match by {
        By::StdIoCopy => io::copy(&mut source, sink),
        By::Loop => {
            let mut buffer = [0; 8 * 1024];
            let mut total = 0;
            loop {
                match source.read(&mut buffer) {
                    Ok(0) => return Ok(total),
                    Ok(count) => {
                        sink.write_all(&buffer[..count])?;
                        total += count as u64;
                    }
                    Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                    Err(err) => return Err(err),
                }
            }
        }
    }
}

fn source_file(arguments: &Arguments) -> Result<File> {
    let path = arguments.from.as_ref().context("--from FILE is missing")?;
    File::open(path).with_context(|| path.display().to_string())
}

/// The two ends of a TCP connection.
fn tcp_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    Ok((near, listener.accept()?.0))
}

/// Reads to the end.
fn discard(source: &mut TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; 256 * 1024];
    while source.read(&mut buffer)? > 0 {}
    Ok(())
}

/// Waits for a thread, and returns its error.
fn finished(thread: thread::JoinHandle<io::Result<()>>) -> Result<()> {
    Ok(thread
        .join()
        .map_err(|_| anyhow::anyhow!("a thread panicked"))??)
}
