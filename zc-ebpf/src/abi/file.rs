//! Files: how the programs tell them apart, and what they report about each.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::zeroed;

/// Number of a file, unique within a trace: none is given out twice. 0: none. Two numbers may
/// belong to the same file (see [`FileSeen`]).
pub type FileNumber = u32;

/// Of a call under way: there is a file, but all numbers are taken.
pub const NO_ROOM: FileNumber = (1 << 31) - 1;

/// How it is known that bytes came from a file. A number, not an enum, because every bit pattern in
/// a map must be valid.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, Immutable, IntoBytes)]
pub struct How(pub u32);

impl How {
    /// The call names the file, or no file is known.
    pub const NAMED: Self = Self(0);
    /// A read had filled the memory from the file, and no word of it was compared.
    pub const UNCOMPARED: Self = Self(0b1000);
    /// The same, but words were compared, which are the same, and zeros.
    pub const ZEROS: Self = Self(0b1001);
    /// The same, and not all of them are zeros.
    pub const SAME: Self = Self(0b1011);
    /// A read had filled the memory from the file, and a word differs that was not written since: the
    /// program has changed it on the way.
    pub const CHANGED: Self = Self(0b1111);
    /// The same, but the bytes had been written to the same file since: the program uses the memory
    /// for something else.
    pub const OTHER_USE: Self = Self(1);
    /// The memory is a mapping of the file.
    pub const MAPPING: Self = Self(2);
    /// In rows of [`PART`](crate::PART)s: memory that a read had filled from the file was forgotten
    /// to make room for more, so that it is not known what was written from there. No file: that of
    /// several files. With an output: it is not known whether the calls wrote there from a mapping.
    pub const FORGOTTEN: Self = Self(3);

    /// What is known of all bytes of a file in a call, if this is known of some and `other` of others.
    /// `None`: both stay apart.
    #[inline(always)]
    pub fn with(self, other: Self) -> Option<Self> {
        // The bits of what says more include those of what says less.
        let are_of_words = self.0 & other.0 & Self::UNCOMPARED.0 != 0;
        (are_of_words || self == other).then_some(Self(self.0 | other.0))
    }
}

/// The files that a call moves bytes between.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, Immutable, IntoBytes)]
pub struct NumberedEnds {
    /// The file that bytes came from, or the file that a call acts on if it moves none. 0: unknown,
    /// or none.
    pub input: FileNumber,
    /// How that is known.
    pub how: How,
    /// The file that bytes went to. 0: unknown.
    pub output: FileNumber,
}

impl NumberedEnds {
    /// No file is known.
    pub const NONE: Self = Self::named(0, 0);

    /// The files that a call names.
    #[inline(always)]
    pub const fn named(input: FileNumber, output: FileNumber) -> Self {
        Self {
            input,
            how: How::NAMED,
            output,
        }
    }

    /// Whether no file is known.
    #[inline(always)]
    pub const fn is_none(self) -> bool {
        self.input == 0 && self.output == 0
    }

    /// Whether one of the files could not get a number.
    #[inline(always)]
    pub const fn lack_room(self) -> bool {
        self.input == NO_ROOM || self.output == NO_ROOM
    }
}

/// Words that were compared when memory was written which a read had filled.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, Immutable, IntoBytes)]
pub struct WordCounts {
    /// How many.
    pub compared: u64,
    /// How many of them had changed.
    pub changed: u64,
}

impl WordCounts {
    /// None.
    pub const NONE: Self = zeroed();

    /// Adds others.
    #[inline(always)]
    pub const fn add(&mut self, other: Self) {
        self.compared += other.compared;
        self.changed += other.changed;
    }
}

/// Where bytes that a call wrote came from.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, Immutable, IntoBytes)]
pub struct Origin {
    /// The file. 0: the program's own memory.
    pub file: FileNumber,
    /// How that is known.
    pub how: How,
    /// How many bytes.
    pub bytes: u64,
    /// What was compared of them.
    pub words: WordCounts,
    /// How many of the bytes may have been written to that file before, since they were read.
    pub repeated_bytes: u64,
}

impl Origin {
    /// The program's own memory.
    pub const NONE: Self = zeroed();

    /// The files of a call that names `ends`, if its bytes came from here.
    #[inline(always)]
    pub const fn ends(&self, ends: NumberedEnds) -> NumberedEnds {
        if self.file == 0 {
            ends
        } else {
            NumberedEnds {
                input: self.file,
                how: self.how,
                output: ends.output,
            }
        }
    }
}

/// Identifies a file as long as the kernel has it in memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, Immutable, IntoBytes)]
pub struct FileKey {
    /// Address of its `inode`, or of its `file` if it shares the inode with other files.
    pub address: u64,
    /// `inode.i_ino`.
    pub inode: u64,
    /// `inode.i_generation`.
    pub generation: u32,
    /// 1: it shares its inode with other files, as all files that the kernel calls `anon_inode` do.
    /// In the map with [`ODD_GENERATION`] or not.
    pub shared: u32,
}

/// In [`FileKey::shared`]: the entry belongs to an odd generation, see
/// [`maps::FILE_ROOM`](crate::maps::FILE_ROOM).
pub const ODD_GENERATION: u32 = 1 << 31;

/// Which entries of [`maps::FILES`](crate::maps::FILES) count, and how many files can still get a
/// number.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, Immutable, IntoBytes)]
pub struct FileRoom {
    /// 0 or [`ODD_GENERATION`]: what the keys have that programs use.
    pub generation: u32,
    /// How many numbers given out so far no longer count.
    /// [`Control::max_files`](crate::Control::max_files) limits the others.
    pub given_up: u32,
}

/// Whether most of the room for files is used: `last` is the last number that was given out,
/// `given_up` is [`FileRoom::given_up`].
#[inline(always)]
pub const fn is_room_low(last: FileNumber, given_up: u32, max_files: u32) -> bool {
    last.saturating_sub(given_up) > max_files / 4 * 3
}

/// What the programs know of a [`FileKey`].
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct KnownFile {
    /// Its number.
    pub number: FileNumber,
    /// What user space knows of it: an or of the constants in [`reported`].
    pub reported: u32,
}

/// What has been reported to user space about a file.
pub mod reported {
    /// Its kind, and its path if it has one.
    pub const KIND: u32 = 1;
    /// A socket's own address.
    pub const LOCAL: u32 = 2;
    /// A socket's peer.
    pub const PEER: u32 = 4;
    /// Everything.
    pub const ALL: u32 = KIND | LOCAL | PEER;
    /// Nothing, ever: this is a shared inode, and each of its files has a key of its own.
    pub const SHARED: u32 = 8;
}

/// The most bytes of names that an event carries: enough for every path that a call accepts
/// (`PATH_MAX`).
pub const NAMES_BYTES: usize = 4096;
/// The most bytes of a name in a path, with its NUL.
pub const NAME_BYTES: usize = 256;
/// The most bytes of the name of a filesystem's type, with its NUL.
pub const FILESYSTEM_BYTES: usize = 16;

/// A counted call used a file for the first time, or a socket has got an address since. A later
/// event with the same number replaces the earlier one.
///
/// A file gets a second number if the kernel drops its inode from memory and reads it again, or if
/// it is used again after user space gave up its entry
/// ([`maps::FILE_ROOM`](crate::maps::FILE_ROOM)). Device, inode and generation stay the same.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
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
    /// `file.f_flags` of the descriptor by which it was used.
    pub open_flags: u32,
    /// How [`names`](Self::names) ends: one of [`path_end`]'s constants.
    pub path_end: u16,
    /// 1: the name in the directory that it was opened by had been removed.
    pub is_deleted: u16,
    /// How many bytes of [`names`](Self::names) are filled. Only these are sent.
    pub names_length: u32,
    /// Socket: `sock_common.skc_family`. 0: not a socket.
    pub family: u16,
    /// Socket: `sock.sk_type`.
    pub socket_type: u16,
    /// Socket: `sock.sk_protocol`.
    pub protocol: u16,
    /// IP socket: its own port. 0: none.
    pub local_port: u16,
    /// IP socket: the peer's port. 0: none.
    pub peer_port: u16,
    /// `inode.i_mode`.
    pub mode: u16,
    /// Connected Unix socket: the inode of the peer. 0: unknown.
    pub peer_inode: u64,
    /// IP socket: its own address. IPv4 uses the first four bytes.
    pub local: [u8; 16],
    /// IP socket: the peer's address.
    pub peer: [u8; 16],
    /// Name of the filesystem's type, NUL-terminated.
    pub filesystem: [u8; FILESYSTEM_BYTES],
    /// The filesystem's subtype (`sshfs` in `fuse.sshfs`), NUL-terminated.
    pub subtype: [u8; FILESYSTEM_BYTES],
    /// The names of the path, each NUL-terminated, from the file up to the root. Unix socket: the
    /// `sun_path` that it, or its peer, is bound to.
    pub names: [u8; NAMES_BYTES],
}

/// How the names of a path end.
pub mod path_end {
    /// There is no path: the kernel's fields for it are unknown, or the file is a socket.
    pub const NONE: u16 = 0;
    /// At the root directory of the process, or at the root of all mounts.
    pub const ROOT: u16 = 1;
    /// At something that is in no directory. The last name is the kernel's name for it.
    pub const DETACHED: u16 = 2;
    /// The path is longer than the event has room for.
    pub const CUT: u16 = 3;
}
