//! The files that calls used, and how a call used them.

use crate::words::names;

/// Index of a [`File`] in [`Trace::files`](super::Trace::files).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

impl FileId {
    /// The file with this index; `None` if there is none.
    pub fn in_files(self, files: &[File]) -> Option<&File> {
        files.get(usize::try_from(self.0).ok()?)
    }
}

/// What the kernel adds to a path if the file's name had been removed, and perhaps given to another
/// file.
pub const DELETED_SUFFIX: &str = " (deleted)";

/// A file, as it was when a counted call first used it. `None`: the backend cannot know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct File {
    /// What it is.
    pub kind: Option<FileKind>,
    /// Which one it is.
    pub identity: Option<FileIdentity>,
    /// Name of its filesystem's type, as in `/proc/mounts`: `ext4`, `tmpfs`, `proc`.
    pub filesystem: Option<String>,
    /// Absolute path in the mount namespace of its process. For a Unix socket, the address that
    /// either end is bound to; for a file without a path, the kernel's name for it (`memfd:NAME`).
    /// [`DELETED_SUFFIX`] follows if the name had been removed by then.
    pub path: Option<String>,
    /// Length in bytes.
    pub size_bytes: Option<u64>,
    /// `HOST:PORT` of a socket that has an address.
    pub local: Option<String>,
    /// `HOST:PORT` of the peer of a connected socket.
    pub peer: Option<String>,
    /// Inode of the peer of a connected Unix socket.
    pub peer_inode: Option<u64>,
    /// If it stands for many files that are no longer told apart: what was compared of the bytes
    /// that went between them and others.
    pub sum: Option<SummedContent>,
}

impl File {
    /// Whether it is in a directory, and reports list it by its path.
    pub const fn is_in_directory(&self) -> bool {
        use FileKind::{Block, Char, Directory, Regular};
        matches!(self.kind, Some(Regular | Directory | Block | Char))
    }
}

/// What comparisons showed of the bytes that went from memory filled by one file to another one,
/// before one of these was summed with others. Sums are told apart by it, because one file whose bytes
/// were changed says nothing about the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SummedContent {
    /// They are the same, or nothing was read into memory.
    Same,
    /// More bytes were written than had been read.
    Reused,
    /// The program changed some on the way.
    Changed,
    /// They are the program's own.
    Own,
}

/// Tells a file from all others of the machine, even from earlier and later ones with the same
/// inode number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIdentity {
    /// Device number of the filesystem (`st_dev`).
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Changes when the inode number is used again; `None` if only the kernel knows it.
    pub generation: Option<u32>,
}

/// A pipe or socket that was open before the launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpenBefore {
    /// Device number of its filesystem (`st_dev`).
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

names! {
    /// What a file is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum FileKind {
        /// A regular file.
        Regular = "regular",
        /// A regular file of `memfd_create`.
        Memfd = "memfd",
        /// A directory.
        Directory = "directory",
        /// A block device.
        Block = "block",
        /// A character device.
        Char = "char",
        /// A pipe, with a name or without.
        Pipe = "pipe",
        /// A Unix stream socket.
        UnixStream = "unix-stream",
        /// A Unix datagram socket.
        UnixDatagram = "unix-dgram",
        /// A Unix socket of ordered messages.
        UnixSeqpacket = "unix-seqpacket",
        /// A TCP socket, IPv4 or IPv6.
        Tcp = "tcp",
        /// A UDP socket, IPv4 or IPv6.
        Udp = "udp",
        /// A netlink socket.
        Netlink = "netlink",
        /// A socket of another family or type.
        Socket = "socket",
        /// An `eventfd`.
        Eventfd = "eventfd",
        /// Something else with a descriptor but no inode of its own: `epoll`, `timerfd`, an
        /// io_uring.
        Anonymous = "anonymous",
    }
}

impl FileKind {
    /// Whether a file of this kind can be the end of a transfer. Files that only notify (`eventfd`,
    /// `timerfd`, netlink) cannot.
    pub const fn carries_bytes(self) -> bool {
        !matches!(
            self,
            Self::Eventfd | Self::Netlink | Self::Directory | Self::Anonymous
        )
    }
}

/// The files of a row's calls. Both `None`: the calls have no descriptor, or their files were not
/// identified.
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
    /// The call wrote memory that an earlier read had filled from this file.
    Buffer(FileId, Content),
    /// The call wrote memory that maps this file, into which no call had read since.
    Mapping(FileId),
    /// The backend sees no memory. The thread wrote exactly as many bytes as it had read last, from
    /// this file, and the bytes that are shown are the same.
    Sequence(FileId),
}

/// What a comparison of words showed when a call wrote memory that a read had filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Content {
    /// The words that were compared are the same, and one is not all zeros.
    Same,
    /// The words that were compared are the same, and all zeros.
    Zeros,
    /// One differs, and these bytes had not been written there since they were read: the program
    /// changed them on the way.
    Changed,
    /// One differs, and these bytes had been written there since: the program uses the memory for
    /// something else.
    OtherUse,
    /// No word was compared.
    Uncompared,
}

impl Input {
    /// The file.
    pub const fn file(self) -> FileId {
        match self {
            Self::Named(file)
            | Self::Buffer(file, _)
            | Self::Mapping(file)
            | Self::Sequence(file) => file,
        }
    }

    /// The same with another file.
    #[must_use]
    pub const fn with_file(self, file: FileId) -> Self {
        match self {
            Self::Named(_) => Self::Named(file),
            Self::Buffer(_, content) => Self::Buffer(file, content),
            Self::Mapping(_) => Self::Mapping(file),
            Self::Sequence(_) => Self::Sequence(file),
        }
    }
}
