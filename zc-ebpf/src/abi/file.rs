//! Files behind descriptors: how the programs tell them apart, and what they say of each.

/// Number of a file, unique within a trace. 0: none. Two numbers may turn out to be the same file (see [`FileSeen`]).
pub type FileNumber = u32;

/// In [`Ends::input`]: the call names only its output, and its buffer lies in a mapping of this file.
pub const MAPPED: FileNumber = 1 << 31;

/// Likewise: its buffer lies where bytes of this file had been read to (see [`Memory`](crate::Memory)).
pub const HELD: FileNumber = 1 << 30;

/// Beside [`HELD`]: the sampled bytes are not those that were read, so the program changed them on the way.
pub const CHANGED: FileNumber = 1 << 29;

/// Beside [`HELD`]: nothing but the place speaks for the file, since no sample lies in what was written.
pub const UNSAMPLED: FileNumber = 1 << 28;

/// In [`Ends`] of a call under way: there is a file, but no room to give it a number.
pub const NO_ROOM: FileNumber = UNSAMPLED - 1;

/// The files at the ends of a call.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ends {
    /// The file that bytes came from, or that a call is about which moves none; of a call that names only its output, with
    /// [`MAPPED`] or [`HELD`] that of its buffer, or else the file that the task had read from last. 0: none is known.
    pub input: FileNumber,
    /// The file that bytes went to; 0: none is known.
    pub output: FileNumber,
}

impl Ends {
    /// No file is known.
    pub const NONE: Self = Self { input: 0, output: 0 };

    /// Whether no file is known.
    #[inline(always)]
    pub const fn is_none(self) -> bool {
        self.input == 0 && self.output == 0
    }

    /// Whether there is a file without a number, for want of room.
    #[inline(always)]
    pub const fn lack_room(self) -> bool {
        self.input == NO_ROOM || self.output == NO_ROOM
    }
}

/// What tells a file from the others as long as it is in memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileKey {
    /// Address of its `inode`; of what shares an inode with others, that of its `file`.
    pub address: u64,
    /// `inode.i_ino`.
    pub inode: u64,
    /// `inode.i_generation`.
    pub generation: u32,
    /// 1: it shares its inode, as everything does that the kernel calls `anon_inode`.
    pub shared: u32,
}

/// Files below this number have [`Stream`](crate::Stream)s.
pub const STREAM_FILES: FileNumber = 1 << 13;

/// Where the stream of what was read from a file stands, or of what was written to it.
#[inline(always)]
pub const fn stream_slot(file: FileNumber, is_written: bool) -> u32 {
    2 * file + is_written as u32
}

/// What the programs know of a [`FileKey`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KnownFile {
    /// Its number.
    pub number: FileNumber,
    /// [`told`]'s constants.
    pub told: u32,
}

/// What user space has been told of a file.
pub mod told {
    /// What it is.
    pub const KIND: u32 = 1;
    /// A socket's own address.
    pub const LOCAL: u32 = 2;
    /// A socket's peer.
    pub const PEER: u32 = 4;
    /// All there is to tell.
    pub const ALL: u32 = KIND | LOCAL | PEER;
    /// Nothing, ever: the inode is shared, so each of its files has a key of its own.
    pub const SHARED: u32 = 8;
}

/// Most bytes of names that an event carries: enough for any path that a call takes (`PATH_MAX`).
pub const NAMES_BYTES: usize = 4096;
/// Bytes of a name in a path, with its NUL.
pub const NAME_BYTES: usize = 256;
/// Bytes of the name of a filesystem's type, with its NUL.
pub const FILESYSTEM_BYTES: usize = 16;

/// A file was used for the first time by a counted call, or a socket has got an address since: a later event of the same number
/// takes the place of an earlier one.
///
/// A file whose inode the kernel dropped from memory and read again gets a second number; device, inode and generation are the same.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FileSeen {
    /// [`event_kind::FILE`](crate::event_kind::FILE).
    pub kind: u32,
    /// Its number.
    pub number: FileNumber,
    /// `inode.i_ino`.
    pub inode: u64,
    /// `inode.i_size`, bytes.
    pub size: u64,
    /// `inode.i_generation`.
    pub generation: u32,
    /// `super_block.s_dev`: the major number in the upper 12 bits, the minor in the lower 20.
    pub device: u32,
    /// `inode.i_mode`.
    pub mode: u32,
    /// How [`names`](Self::names) ends: one of [`path_end`]'s constants.
    pub path_end: u32,
    /// How many bytes of [`names`](Self::names) are filled; no more than these are sent.
    pub names_length: u32,
    /// Of a socket, `sock_common.skc_family`; 0: no socket.
    pub family: u16,
    /// Of a socket, `sock.sk_type`.
    pub socket_type: u16,
    /// Of a socket, `sock.sk_protocol`.
    pub protocol: u16,
    /// Of an IP socket, its own port; 0: none.
    pub local_port: u16,
    /// Of an IP socket, the peer's port; 0: none.
    pub peer_port: u16,
    /// Unused; keeps the layout free of padding.
    pub reserved: u16,
    /// Of a connected Unix socket, the inode of the peer; 0: unknown.
    pub peer_inode: u64,
    /// Of an IP socket, its own address; IPv4 has the first four bytes.
    pub local: [u8; 16],
    /// Of an IP socket, the peer's address.
    pub peer: [u8; 16],
    /// Name of the filesystem's type, NUL-terminated.
    pub filesystem: [u8; FILESYSTEM_BYTES],
    /// What is behind the type (`sshfs` of `fuse`), NUL-terminated.
    pub subtype: [u8; FILESYSTEM_BYTES],
    /// The names of the path, each NUL-terminated, from the file up to the root; of a Unix socket, the `sun_path` bound at either end.
    pub names: [u8; NAMES_BYTES],
}

/// How the names of a path end.
pub mod path_end {
    /// There is no path: this kernel's fields for it are unknown, or the file is a socket.
    pub const NONE: u32 = 0;
    /// At the root: of the process, or of all mounts.
    pub const ROOT: u32 = 1;
    /// At something that is in no directory: the last name is what the kernel calls it.
    pub const DETACHED: u32 = 2;
    /// There is more than the event has room for.
    pub const CUT: u32 = 3;
}
