//! The other side of a copy: `sink` receives bytes, `feed` sends them. It ends with its peer, and
//! the kernel ends it with its parent.

use std::{
    fs, io,
    io::{ErrorKind, Read, Write},
    net::TcpListener,
    os::unix::{fs::FileTypeExt as _, net::UnixListener},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Signal, set_parent_process_death_signal};
use zc_tests::print_line;

use crate::ends::{CopyEnd, EndSpec, open_sink, open_source};

/// The size of a read: large for a sink, which must not be the bottleneck; for a feed, what a pipe
/// holds.
const SINK_BUFFER: usize = 256 * 1024;
const FEED_BUFFER: usize = 64 * 1024;

/// Drains one peer; with `keep`, one peer after the other. Prints `received N bytes` for each.
pub(crate) fn sink(address: &EndSpec, keep: bool) -> Result<()> {
    let listener = Listener::open(address)?;
    loop {
        let mut peer: CopyEnd<io::PipeReader> = listener.next()?;
        let received = copy_to_the_end(&mut peer, &mut io::sink(), SINK_BUFFER);
        let bytes = received.with_context(|| format!("drain {address}"))?;
        print_line(&format!("received {bytes} bytes"))?;
        if !keep {
            return Ok(());
        }
    }
}

/// Sends the source's bytes to one peer, until the peer takes no more. Prints `sent N bytes` at the
/// end.
pub(crate) fn feed(address: &EndSpec, from: &EndSpec) -> Result<()> {
    let mut source = open_source(from, &mut Vec::new())?;
    let mut peer: CopyEnd<io::PipeWriter> = Listener::open(address)?.next()?;
    let sent = copy_to_the_end(&mut source, &mut peer, FEED_BUFFER);
    let bytes = sent.with_context(|| format!("feed {address} from {from}"))?;
    Ok(print_line(&format!("sent {bytes} bytes"))?)
}

/// Copies stdin to stdout. It prints nothing: what it printed would also go through a pipe.
pub(crate) fn relay() -> Result<()> {
    let mut helpers = Vec::new();
    let mut source = open_source(&EndSpec::Standard, &mut helpers)?;
    let mut sink = open_sink(&EndSpec::Standard, false, &mut helpers)?;
    copy_to_the_end(&mut source, &mut sink, FEED_BUFFER).map(drop)
}

/// Copies to the end of the source, or until the destination takes no more. Returns how many bytes
/// were read and written.
fn copy_to_the_end(from: &mut impl Read, to: &mut impl Write, size: usize) -> Result<u64> {
    let (mut buffer, mut bytes) = (vec![0; size], 0);
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            return Ok(bytes);
        }
        match to.write_all(&buffer[..count]) {
            Ok(()) => bytes += count as u64,
            Err(err)
                if matches!(
                    err.kind(),
                    ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
                ) =>
            {
                return Ok(bytes);
            }
            Err(err) => return Err(err.into()),
        }
    }
}

/// A listening socket.
enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Listens on the address, and prints that: `listening unix:PATH`, or with the real port. A
    /// socket that an earlier process left at the path is replaced.
    fn open(address: &EndSpec) -> Result<Self> {
        set_parent_process_death_signal(Some(Signal::TERM))?;
        let listening = match address {
            EndSpec::Unix(path) => {
                if fs::metadata(path).is_ok_and(|about| about.file_type().is_socket()) {
                    fs::remove_file(path)?;
                }
                UnixListener::bind(path).map(|listener| (Self::Unix(listener), address.to_string()))
            }
            EndSpec::Tcp(host) => TcpListener::bind(host).and_then(|listener| {
                let address = format!("tcp:{}", listener.local_addr()?);
                Ok((Self::Tcp(listener), address))
            }),
            _ => bail!("the address is unix:PATH or tcp:HOST:PORT"),
        };
        let (listener, address) = listening.with_context(|| format!("listen on {address}"))?;
        print_line(&format!("listening {address}"))?;
        Ok(listener)
    }

    /// Waits for a peer.
    fn next<P>(&self) -> Result<CopyEnd<P>> {
        let peer = match self {
            Self::Unix(listener) => listener.accept().map(|(peer, _)| CopyEnd::Unix(peer)),
            Self::Tcp(listener) => listener.accept().map(|(peer, _)| CopyEnd::Tcp(peer)),
        };
        peer.context("accept")
    }
}
