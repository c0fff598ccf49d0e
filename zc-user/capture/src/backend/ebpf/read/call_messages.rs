//! [`CallMessages`]: the messages about calls on files, for `--syncs` and for `--paths`.

use std::io;

use aya::maps::{MapData, RingBuf};
use tokio::io::unix::AsyncFd;
use zc_ebpf::{SyncText, errno_of};
use zctrace_core::text::from_bytes;

use super::events::read;
use crate::{
    async_fd::watch_readable,
    backend::file_calls::{Ending, GivenArgument, OutsideKind},
    trace::FileKind,
};

/// The messages in a ring buffer.
pub struct CallMessages(AsyncFd<RingBuf<MapData>>);

impl CallMessages {
    /// Reads from this ring buffer. Call this in a tokio runtime.
    pub fn new(ring: RingBuf<MapData>) -> io::Result<Self> {
        watch_readable(ring).map(Self)
    }

    /// Waits until there are many.
    pub async fn more(&mut self) -> io::Result<()> {
        self.0.readable_mut().await?.clear_ready();
        Ok(())
    }

    /// Passes on each one that is there. Returns how many `add` could not read.
    pub fn drain(&mut self, mut add: impl FnMut(&[u8]) -> Option<()>) -> u64 {
        let mut unreadable = 0;
        while let Some(bytes) = self.0.get_mut().next() {
            unreadable += u64::from(add(&bytes).is_none());
        }
        unreadable
    }
}

/// A text that the next call of a thread was given.
pub struct ReadText {
    /// The thread.
    pub tid: u32,
    /// Which one of its texts.
    pub index: usize,
    /// The text.
    pub text: String,
}

impl ReadText {
    /// From its message. `None`: it is cut.
    pub fn parse(message: &[u8]) -> Option<Self> {
        let (head, bytes) = message.split_at_checked(std::mem::offset_of!(SyncText, bytes))?;
        let field = |index: usize| read::<u32>(head.get(4 * index..)?);
        let text = bytes.get(..usize::try_from(field(3)?).ok()?)?;
        Some(Self {
            tid: field(1)?,
            index: usize::try_from(field(2)?).ok()?,
            text: from_bytes(text),
        })
    }
}

/// The argument with this text, if it is known.
pub fn given_text(text: Option<&String>) -> GivenArgument {
    text.map_or(GivenArgument::Unknown, |text| GivenArgument::Text {
        text: text.clone(),
        is_cut: false,
    })
}

/// How a call ended that returned this.
pub const fn ending_of(result: i64) -> Ending {
    match errno_of(result) {
        0 => Ending::Value(result),
        errno => Ending::Error(Some(errno)),
    }
}

/// What a file is that is in no directory.
pub const fn outside_kind(kind: Option<FileKind>) -> OutsideKind {
    use FileKind::{Netlink, Pipe, Socket, Tcp, Udp, UnixDatagram, UnixSeqpacket, UnixStream};
    match kind {
        Some(Tcp) => OutsideKind::Tcp,
        Some(Udp) => OutsideKind::Udp,
        Some(UnixStream | UnixDatagram | UnixSeqpacket) => OutsideKind::Unix,
        Some(Socket | Netlink) => OutsideKind::OtherSocket,
        Some(Pipe) => OutsideKind::Pipe,
        _ => OutsideKind::Other,
    }
}
