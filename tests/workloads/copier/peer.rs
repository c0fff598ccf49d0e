//! The other side of a copy: `sink` receives bytes, `feed` sends them.
//!
//! Neither stays behind. Until a peer connects, it watches for the end of its parent and for
//! signals that ask it to end. The file of a Unix socket is removed as soon as a peer has
//! connected. After that it ends with its peer.

use std::{
    fs,
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::PathBuf,
};

use anyhow::{Context, Result, bail};
use nix::sys::{
    signal::{SigSet, Signal},
    signalfd::{SfdFlags, SignalFd},
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::retry_on_intr,
    process::{PidfdFlags, getppid, pidfd_open},
};
use zc_tests::{named, print_line};

use crate::{
    checksum::{Meter, Moved},
    ends::{Sink, SinkOptions, Source, Spec, open_sink, open_source},
    job::retry,
};

/// The size of a read: large for a sink, which must not be the bottleneck; for a feed, what a pipe
/// holds.
const SINK_BUFFER: usize = 256 * 1024;
const FEED_BUFFER: usize = 64 * 1024;

/// How a sink's destination is opened.
const PLAIN: SinkOptions = SinkOptions {
    append: false,
    send_buffer: None,
    checksum: false,
};

/// Drains one peer, or stdin, into `to` or to nowhere. Prints `received N bytes` at the end.
pub(crate) fn sink(address: &Spec, to: Option<&Spec>, checksum: bool) -> Result<()> {
    let mut destination = to.map(|to| open_sink(to, PLAIN)).transpose()?;
    let mut peer = if *address == Spec::Standard {
        open_source(address)?.0
    } else {
        accept_one(address)?.into()
    };
    let mut meter = Meter::new(checksum);
    let mut buffer = vec![0; SINK_BUFFER];
    while let count @ 1.. = read(&mut peer, &mut buffer, address)? {
        meter.pass(&buffer[..count]);
        if let (Some((sink, _)), Some(to)) = (&mut destination, to) {
            sink.write_all(&buffer[..count])
                .map_err(named)
                .with_context(|| format!("write to {to}"))?;
        }
    }
    report("received", meter.read(), to == Some(&Spec::Standard))
}

/// Drains one peer after the other until its parent ends. Prints `received N bytes` for each.
pub(crate) fn keep_draining(address: &Spec) -> Result<()> {
    let mut buffer = vec![0; SINK_BUFFER];
    serve_each(address, |peer| {
        let (mut peer, mut meter) = (Source::from(peer), Meter::new(false));
        while let count @ 1.. = read(&mut peer, &mut buffer, address)? {
            meter.pass(&buffer[..count]);
        }
        report("received", meter.read(), false)
    })
}

/// Sends the source's bytes to one peer, or to stdout, until the peer takes no more. Prints `sent N
/// bytes` at the end.
pub(crate) fn feed(address: &Spec, from: &Spec) -> Result<()> {
    let (mut source, _feeder) = open_source(from)?;
    let mut peer = if *address == Spec::Standard {
        open_sink(address, PLAIN)?.0
    } else {
        accept_one(address)?.into()
    };
    let mut meter = Meter::new(false);
    let mut buffer = vec![0; FEED_BUFFER];
    'source: while let count @ 1.. = read(&mut source, &mut buffer, from)? {
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            let taken = match retry(|| peer.write(rest)) {
                // The peer has enough and closed the connection.
                Err(err)
                    if matches!(
                        err.kind(),
                        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
                    ) =>
                {
                    break 'source;
                }
                taken => taken
                    .map_err(named)
                    .with_context(|| format!("write to {address}"))?,
            };
            meter.pass(&rest[..taken]);
            rest = &rest[taken..];
        }
    }
    report("sent", meter.read(), *address == Spec::Standard)
}

fn read(source: &mut Source, buffer: &mut [u8], name: &Spec) -> Result<usize> {
    retry(|| source.read(buffer))
        .map_err(named)
        .with_context(|| format!("read from {name}"))
}

/// Prints the last line: to stderr if the bytes went to stdout.
fn report(verb: &str, moved: Moved, is_stdout_taken: bool) -> Result<()> {
    let line = format!("{verb} {moved}");
    if is_stdout_taken {
        eprintln!("{line}");
        return Ok(());
    }
    print_line(&line).map_err(named)
}

/// A connected peer.
pub(crate) enum Peer {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl From<Peer> for Source {
    fn from(peer: Peer) -> Self {
        match peer {
            Peer::Unix(stream) => Self::Unix(stream),
            Peer::Tcp(stream) => Self::Tcp(stream),
        }
    }
}

impl From<Peer> for Sink {
    fn from(peer: Peer) -> Self {
        match peer {
            Peer::Unix(stream) => Self::Unix(stream),
            Peer::Tcp(stream) => Self::Tcp(stream),
        }
    }
}

/// Listens on `address`, prints that (`listening unix:PATH`, or with the real port), and returns
/// the first peer.
pub(crate) fn accept_one(address: &Spec) -> Result<Peer> {
    let ending = block_ending_signals()?;
    let listener = Listener::open(address)?;
    let peer = match listener
        .next(&ending)
        .with_context(|| format!("accept on {address}"))?
    {
        Next::Peer(peer) => peer,
        Next::Orphaned => bail!("accept on {address}: the parent ended and nobody had connected"),
        Next::Ended => bail!("accept on {address}: ended by a signal before anybody connected"),
    };
    ending.thread_unblock()?;
    Ok(peer)
}

/// Listens on `address`, prints that, and serves one peer after the other until the parent ends, or
/// a signal comes between two of them.
pub(crate) fn serve_each(address: &Spec, mut serve: impl FnMut(Peer) -> Result<()>) -> Result<()> {
    let ending = block_ending_signals()?;
    let listener = Listener::open(address)?;
    while let Next::Peer(peer) = listener
        .next(&ending)
        .with_context(|| format!("accept on {address}"))?
    {
        serve(peer)?;
    }
    Ok(())
}

/// What a listener waits for.
enum Next {
    /// A peer connected.
    Peer(Peer),
    /// The parent ended.
    Orphaned,
    /// A signal asked this process to end.
    Ended,
}

/// A listening socket. A Unix socket owns its file.
enum Listener {
    Unix(UnixListener, SocketFile),
    Tcp(TcpListener),
}

/// A socket's file, removed when dropped.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // It may have been removed already.
        let _ = fs::remove_file(&self.0);
    }
}

impl Listener {
    /// Listens on the address, and prints that.
    fn open(address: &Spec) -> Result<Self> {
        let listener = Self::bind(address).with_context(|| format!("listen on {address}"))?;
        print_line(&format!("listening {}", listener.address()?)).map_err(named)?;
        Ok(listener)
    }

    /// Listens on the address.
    fn bind(address: &Spec) -> Result<Self> {
        match address {
            Spec::Unix(path) => {
                let listener = UnixListener::bind(path).map_err(named)?;
                Ok(Self::Unix(listener, SocketFile(path.clone())))
            }
            Spec::Tcp(address) => Ok(Self::Tcp(TcpListener::bind(address).map_err(named)?)),
            _ => bail!("the address is unix:PATH, tcp:HOST:PORT, or -"),
        }
    }

    /// The address; for TCP port 0 it has the port that the kernel chose.
    fn address(&self) -> Result<Spec> {
        Ok(match self {
            Self::Unix(_, file) => Spec::Unix(file.0.clone()),
            Self::Tcp(listener) => Spec::Tcp(listener.local_addr().map_err(named)?.to_string()),
        })
    }

    /// Waits for a peer, the end of the parent or a signal.
    fn next(&self, ending: &SigSet) -> Result<Next> {
        let listener = match self {
            Self::Unix(listener, _) => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        };
        if let Some(end) = wait_for_peer(listener, ending)? {
            return Ok(end);
        }
        Ok(Next::Peer(match self {
            Self::Unix(listener, _) => Peer::Unix(listener.accept().map_err(named)?.0),
            Self::Tcp(listener) => Peer::Tcp(listener.accept().map_err(named)?.0),
        }))
    }
}

/// Blocks the signals that would end this process, so that the file of the socket can be removed
/// first.
fn block_ending_signals() -> Result<SigSet> {
    let ending = SigSet::from_iter([
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
    ]);
    ending.thread_block()?;
    Ok(ending)
}

/// Waits until a peer connects: then the result is `None`. If the parent ends or one of the signals
/// `ending` comes first, it is that.
fn wait_for_peer(listener: BorrowedFd<'_>, ending: &SigSet) -> Result<Option<Next>> {
    let signals = SignalFd::with_flags(ending, SfdFlags::SFD_CLOEXEC)?;
    let parent = getppid().context("the parent has ended")?;
    let parent_end = pidfd_open(parent, PidfdFlags::empty()).context("watch the parent")?;
    if getppid() != Some(parent) {
        return Ok(Some(Next::Orphaned));
    }
    let mut watched = [
        PollFd::from_borrowed_fd(listener, PollFlags::IN),
        PollFd::from_borrowed_fd(parent_end.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN),
    ];
    retry_on_intr(|| poll(&mut watched, None)).context("poll")?;
    let [connected, orphaned, asked_to_end] = watched.map(|fd| !fd.revents().is_empty());
    Ok(match (connected, orphaned, asked_to_end) {
        (true, ..) => None,
        (_, true, _) => Some(Next::Orphaned),
        (..) => Some(Next::Ended),
    })
}
