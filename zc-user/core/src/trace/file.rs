//! [`File`]: the file behind a descriptor.

/// Index of a [`File`] in [`Trace::files`](super::Trace::files).
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
    /// Absolute path in the mount namespace of its process. For a Unix socket, the address that either end is bound to; for a file
    /// without a path, the kernel's name for it (`memfd:NAME`).
    pub path: Option<String>,
    /// Length in bytes.
    pub size_bytes: Option<u64>,
    /// `HOST:PORT` of a socket that has an address.
    pub local: Option<String>,
    /// `HOST:PORT` of the peer of a connected socket.
    pub peer: Option<String>,
    /// Inode of the peer of a connected Unix socket.
    pub peer_inode: Option<u64>,
    /// Samples of its bytes.
    pub streams: Streams,
}

/// Samples of the bytes that calls read from a file into memory or wrote from memory to it. `None`: there are none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Streams {
    /// The bytes that were read.
    pub read: Option<Stream>,
    /// The bytes that were written.
    pub written: Option<Stream>,
}

/// Bytes in the order of the calls that moved them. Where they are sampled depends only on how many bytes came before:
/// [`zc_ebpf::Stream`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// How many bytes.
    pub bytes: u64,
    /// A checksum of the sampled bytes.
    pub sum: u64,
    /// How many of the sampled bytes are not 0.
    pub telling: u64,
}

/// Tells a file from all others of the machine, even from earlier and later ones with the same inode number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIdentity {
    /// Device number of the filesystem (`st_dev`).
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Changes when the inode number is used again; `None` if only the kernel knows it.
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
    /// Something else with a descriptor but no inode of its own: `epoll`, `timerfd`, an io_uring.
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

    /// Whether a file of this kind can be the end of a transfer. Files that only notify (`eventfd`, `timerfd`, netlink) cannot.
    pub const fn carries_bytes(self) -> bool {
        !matches!(self, Self::Eventfd | Self::Netlink | Self::Directory | Self::Anonymous)
    }

    /// Its name in reports.
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

/// The files of a row's calls. Both `None`: the calls have no descriptor, or their files were not identified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ends {
    /// Where bytes came from; for a call that moves none (`fstat`), the file that it uses.
    pub input: Option<Input>,
    /// Where bytes went.
    pub output: Option<FileId>,
}

/// Where bytes came from, and how that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Input {
    /// The call names the file.
    Named(FileId),
    /// The call names only its output. Its thread last read from this file, and had not yet written everything that it read (see
    /// [`zc_ebpf::Sequence`]). [`Row::paired_bytes`](super::Row::paired_bytes) says how many of the row's bytes that explains.
    LastRead(FileId),
    /// The call names only its output. Its buffer holds bytes that the address space read from this file, and the sampled bytes have not
    /// changed since. [`Row::paired_bytes`](super::Row::paired_bytes) says how many of the row's bytes these are, and
    /// [`Row::checked_calls`](super::Row::checked_calls) how many of its calls were sampled.
    Held(FileId),
    /// As [`Held`](Self::Held), but the sampled bytes differ: the program changed them.
    Changed(FileId),
    /// As [`Held`](Self::Held), but without a sample: only the place in memory indicates the file.
    Unsampled(FileId),
    /// The call names only its output. Its buffer lies in a mapping of this file, with as many bytes as
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
