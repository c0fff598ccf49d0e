//! The files that calls used, and how a call used them.

use super::open_ends::EndInode;
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
    /// Its path when the trace ended, if that is another name in the same directory.
    pub path_at_end: Option<String>,
    /// Length in bytes.
    pub size_bytes: Option<u64>,
    /// `HOST:PORT` of a socket that has an address.
    pub local: Option<String>,
    /// `HOST:PORT` of the peer of a connected socket.
    pub peer: Option<String>,
    /// Inode of the peer of a connected Unix socket.
    pub peer_inode: Option<u64>,
    /// Flags of the descriptor by which it was used.
    pub open_flags: Option<OpenFlags>,
    /// If it stands for many files that are no longer told apart: what was compared of the bytes
    /// that went between them and others.
    pub sum: Option<SummedContent>,
}

impl File {
    /// What it is called: its path, the address of the other end or its own, or else what it is.
    pub fn label(&self) -> Option<&str> {
        let names = [&self.path, &self.peer, &self.local].into_iter().flatten();
        let kind = self.kind.map(FileKind::name);
        names.map(String::as_str).chain(kind).next()
    }

    /// Whether it was opened with `O_DIRECT`.
    pub fn is_direct(&self) -> bool {
        self.open_flags
            .is_some_and(|flags| flags.0 & libc::O_DIRECT != 0)
    }

    /// The other end of a pipe or connection of Unix sockets, of which a call writes to this end, or
    /// reads from it. `None`: it is none, or that is unknown.
    pub fn other_end(&self, is_written: bool) -> Option<EndInode> {
        use FileKind::{Pipe, UnixDatagram, UnixSeqpacket, UnixStream};
        match self.kind? {
            Pipe if is_written => Some(EndInode::PipeToRead(self.identity?.inode)),
            Pipe => Some(EndInode::PipeToWrite(self.identity?.inode)),
            UnixStream | UnixDatagram | UnixSeqpacket => Some(EndInode::Socket(self.peer_inode?)),
            _ => None,
        }
    }

    /// Whether it is in a directory, and reports list it by its path.
    pub const fn is_in_directory(&self) -> bool {
        use FileKind::{Block, Char, Directory, Regular};
        matches!(self.kind, Some(Regular | Directory | Block | Char))
    }
}

/// Those flags of a descriptor that change what its reads and writes do: `O_DIRECT`, `O_DSYNC` and
/// `O_SYNC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFlags(i32);

impl OpenFlags {
    /// `O_SYNC` has the bit of `O_DSYNC`, so it comes first.
    const NAMED: [(&str, i32); 3] = [
        ("O_SYNC", libc::O_SYNC),
        ("O_DSYNC", libc::O_DSYNC),
        ("O_DIRECT", libc::O_DIRECT),
    ];

    /// Those among the flags of an `open`.
    pub const fn from_bits(flags: i32) -> Self {
        Self(flags & (libc::O_SYNC | libc::O_DIRECT))
    }

    /// Those with these names. Other names are ignored.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut flags = 0;
        for name in names {
            for (known, bits) in Self::NAMED {
                if known.as_bytes() == name {
                    flags |= bits;
                }
            }
        }
        Self(flags)
    }

    /// Their names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let mut rest = self.0;
        Self::NAMED.into_iter().filter_map(move |(name, bits)| {
            let is_set = rest & bits == bits;
            rest &= if is_set { !bits } else { !0 };
            is_set.then_some(name)
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_a_descriptor_have_names() {
        let names = |bits: i32| OpenFlags::from_bits(bits).names().collect::<Vec<_>>();
        assert_eq!(names(libc::O_WRONLY | libc::O_APPEND), [""; 0]);
        assert_eq!(names(libc::O_RDWR | libc::O_DSYNC), ["O_DSYNC"]);
        let both = ["O_SYNC", "O_DIRECT"];
        assert_eq!(names(libc::O_SYNC | libc::O_DIRECT), both);
        let parsed = OpenFlags::from_names(["O_WRONLY", "O_DIRECT", "O_SYNC"].map(str::as_bytes));
        assert_eq!(parsed.names().collect::<Vec<_>>(), both);
    }
}
