//! [`File`]: what stands behind a file descriptor.

/// Position of a [`File`] in [`Trace::files`](super::Trace::files).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// A file, as it was when a counted call first used it. `None`: the backend cannot know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct File {
    /// What it is.
    pub kind: Option<FileKind>,
    /// Which one it is.
    pub identity: Option<FileIdentity>,
    /// Name of its filesystem's type, as in `/proc/mounts`: `ext4`, `tmpfs`, `proc`.
    pub filesystem: Option<String>,
    /// Absolute path in the namespace of its process; of a Unix socket the address bound at either end; of what has no path,
    /// what the kernel calls it (`memfd:NAME`).
    pub path: Option<String>,
    /// Length in bytes.
    pub size_bytes: Option<u64>,
    /// Of a socket with an address of its own: `HOST:PORT`.
    pub local: Option<String>,
    /// Of a connected socket: its peer's `HOST:PORT`.
    pub peer: Option<String>,
    /// Of a connected Unix socket: the inode of its peer.
    pub peer_inode: Option<u64>,
    /// What is known of the bytes themselves.
    pub streams: Streams,
}

/// What is known of the bytes that calls put into memory and took from there. `None`: nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Streams {
    /// Of those that were read from a file.
    pub read: Option<Stream>,
    /// Of those that were written to it.
    pub written: Option<Stream>,
}

/// Bytes in the order of the calls that moved them, sampled at places that depend on nothing but how many bytes came before:
/// [`zc_ebpf::Stream`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// How many bytes.
    pub bytes: u64,
    /// A sum of the sampled ones.
    pub sum: u64,
    /// How many of the sampled ones are no zeroes.
    pub telling: u64,
}

/// What tells a file from all others of the machine, also from those that had or will have its inode number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIdentity {
    /// Device number of the filesystem (`st_dev`).
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Changes when the inode number is used again; `None` where only the kernel knows it.
    pub generation: Option<u32>,
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A regular file of `memfd_create`.
    Memfd,
    /// A directory.
    Directory,
    /// A block device.
    Block,
    /// A character device.
    Char,
    /// A pipe, with a name or without.
    Pipe,
    /// A Unix stream socket.
    UnixStream,
    /// A Unix datagram socket.
    UnixDatagram,
    /// A Unix socket of ordered messages.
    UnixSeqpacket,
    /// A TCP socket, IPv4 or IPv6.
    Tcp,
    /// A UDP socket, IPv4 or IPv6.
    Udp,
    /// A netlink socket.
    Netlink,
    /// A socket of another family or type.
    Socket,
    /// An `eventfd`.
    Eventfd,
    /// Something else that has a descriptor and no inode of its own: `epoll`, `timerfd`, an io_uring.
    Anonymous,
}

impl FileKind {
    /// Every one.
    pub const ALL: [Self; 15] = [
        Self::Regular,
        Self::Memfd,
        Self::Directory,
        Self::Block,
        Self::Char,
        Self::Pipe,
        Self::UnixStream,
        Self::UnixDatagram,
        Self::UnixSeqpacket,
        Self::Tcp,
        Self::Udp,
        Self::Netlink,
        Self::Socket,
        Self::Eventfd,
        Self::Anonymous,
    ];

    /// Whether a file of this kind can be the end of a transfer: what wakes and tells (`eventfd`, `timerfd`, netlink) carries nothing on.
    pub const fn carries_bytes(self) -> bool {
        !matches!(self, Self::Eventfd | Self::Netlink | Self::Directory | Self::Anonymous)
    }

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Regular => "regular",
            Self::Memfd => "memfd",
            Self::Directory => "directory",
            Self::Block => "block",
            Self::Char => "char",
            Self::Pipe => "pipe",
            Self::UnixStream => "unix-stream",
            Self::UnixDatagram => "unix-dgram",
            Self::UnixSeqpacket => "unix-seqpacket",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Netlink => "netlink",
            Self::Socket => "socket",
            Self::Eventfd => "eventfd",
            Self::Anonymous => "anonymous",
        }
    }
}

/// The files at the ends of a row's calls. Both `None`: the calls have no descriptor, or their files were not identified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ends {
    /// Where bytes came from; of a call that moves none (`fstat`), the file it is about.
    pub input: Option<Input>,
    /// Where bytes went.
    pub output: Option<FileId>,
}

/// How it is known where bytes came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Input {
    /// The call names it.
    Named(FileId),
    /// The call names only the output; its thread had last read from this file, and had not yet written all that it read
    /// (see [`zc_ebpf::Sequence`]). How many of the row's bytes that covers is [`Row::paired_bytes`](super::Row::paired_bytes).
    LastRead(FileId),
    /// The call names only the output; its buffer holds bytes that the address space read from this file, and the bytes that were
    /// sampled are the same as when they were read. [`Row::paired_bytes`](super::Row::paired_bytes) of the row's bytes lie there, and
    /// [`Row::checked_calls`](super::Row::checked_calls) of its calls were sampled.
    Held(FileId),
    /// As [`Held`](Self::Held), but the sampled bytes differ: the program changed them on the way.
    Changed(FileId),
    /// As [`Held`](Self::Held), but no sample lies in these bytes: nothing but the place speaks for the file.
    Unsampled(FileId),
    /// The call names only the output; its buffer lies in a mapping of this file, with so many bytes as
    /// [`Row::paired_bytes`](super::Row::paired_bytes) says.
    Mapped(FileId),
}

impl Input {
    /// The file.
    pub const fn file(self) -> FileId {
        match self {
            Self::Named(file)
            | Self::LastRead(file)
            | Self::Held(file)
            | Self::Changed(file)
            | Self::Unsampled(file)
            | Self::Mapped(file) => file,
        }
    }
}
