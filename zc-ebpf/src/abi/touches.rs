//! What the kernel side says of the paths and addresses that calls touch, for `--paths`.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::{Arguments, COMM_BYTES};

/// What is done with a call. Arguments count from 1; 0: there is none. Aligned, because it is read
/// as two numbers.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, Immutable, IntoBytes)]
pub struct TouchSpec {
    /// One of [`touch_kind`]'s constants.
    pub kind: u8,
    /// The path.
    pub path: u8,
    /// The descriptor of the directory in which the path starts.
    pub directory: u8,
    /// The second path, or the target of a symbolic link.
    pub second: u8,
    /// The descriptor of the directory in which the second path starts.
    pub second_directory: u8,
    /// The descriptor of a file.
    pub file: u8,
    /// That of another one.
    pub other_file: u8,
    /// The address of a `sockaddr`, whose length is the next argument; or of a buffer that the call
    /// fills with what a file is.
    pub buffer: u8,
    /// Where the mode is in that buffer, in bytes. 0: nowhere.
    pub mode_at: u8,
    /// 1: if it succeeds, a path may lead to another file than before.
    pub changes_names: u8,
    /// The arguments that decide what the call does, each a bit from the lowest one on.
    pub words: u8,
    /// Unused; keeps the layout free of padding.
    pub reserved: [u8; 5],
}

/// What calls touch.
pub mod touch_kind {
    /// Nothing.
    pub const NONE: u8 = 0;
    /// Paths, whether it succeeds or not.
    pub const PATHS: u8 = 1;
    /// The same, and it changes the working directory.
    pub const CHDIR: u8 = 2;
    /// The same, unless it succeeds: then its memory is gone.
    pub const EXECUTE: u8 = 3;
    /// A path that it opens.
    pub const OPEN: u8 = 4;
    /// The same, with the flags at the address in the third argument (`openat2`).
    pub const OPEN_HOW: u8 = 5;
    /// The files of descriptors, if it succeeds.
    pub const FILES: u8 = 6;
    /// A file that it maps, if it succeeds.
    pub const MAP: u8 = 7;
    /// A file, if it succeeds and clones one (`ioctl`).
    pub const COMMAND: u8 = 8;
    /// The address of a socket, whether it succeeds or not.
    pub const ADDRESS: u8 = 9;
    /// The address that it returns (`accept`).
    pub const ACCEPT: u8 = 10;
    /// The address in a message (`sendmsg`).
    pub const MESSAGE: u8 = 11;
    /// Those of several messages (`sendmmsg`).
    pub const MESSAGES: u8 = 12;
    /// Nothing, but it matters that it succeeded.
    pub const NOTED: u8 = 13;
    /// The same, with flags at the address in the first argument (`clone3`).
    pub const NOTED_FLAGS: u8 = 14;
}

/// Kinds of messages in [`maps::TOUCH_EVENTS`](crate::maps::TOUCH_EVENTS).
pub mod touch_event {
    /// A [`FileSeen`](crate::FileSeen) whose number is that of a thread, and whose flags are one of
    /// [`touch_part`](super::touch_part)'s constants.
    pub const FILE: u32 = 1;
    /// A [`SyncText`](crate::SyncText).
    pub const TEXT: u32 = 2;
    /// A [`TouchCall`](crate::TouchCall).
    pub const CALL: u32 = 3;
}

/// The messages that belong to the next [`TouchCall`] of the same thread, each a bit of
/// [`TouchCall::parts`].
pub mod touch_part {
    /// The path.
    pub const PATH: u32 = 0;
    /// The second path.
    pub const SECOND: u32 = 1;
    /// The directory in which the path starts, or the file that it names by `/proc/self/fd`.
    pub const DIRECTORY: u32 = 2;
    /// The directory in which the second path starts.
    pub const SECOND_DIRECTORY: u32 = 3;
    /// The file of the first descriptor.
    pub const FILE: u32 = 4;
    /// The file of the second descriptor, or the file that the call opened.
    pub const OTHER_FILE: u32 = 5;
    /// No message: further calls like this one are counted at its key.
    pub const COUNTED: u32 = 6;
}

/// Stands for all calls that touch the same in the same way.
///
/// Of two different ones, a hash of 128 bits is not the same by chance.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, Immutable, IntoBytes)]
pub struct TouchKey {
    /// Of the paths as they were given, the files that they start at, the descriptors' files, the
    /// address, the flags, and [`TouchState::generation`].
    pub hash: [u64; 2],
    /// The call's slot in [`maps::SPECS`](crate::maps::SPECS).
    pub slot: u32,
    /// Its errno. 0: it succeeded.
    pub errno: u32,
}

/// The calls after the first one that had a message.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, Immutable, IntoBytes)]
pub struct TouchCounts {
    /// How many.
    pub calls: u64,
    /// The sum of their results, if they succeeded.
    pub results: u64,
    /// How long they took. Meaningless unless times are recorded.
    pub ns: u64,
}

/// The longest address of a socket that is read, in bytes: `struct sockaddr_storage`.
pub const ADDRESS_BYTES: usize = 128;

/// A call that touched something as no call before.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct TouchCall {
    /// [`touch_event::CALL`].
    pub kind: u32,
    /// Thread id.
    pub tid: u32,
    /// Process id.
    pub pid: u32,
    /// Which messages belong to it: bits of [`touch_part`].
    pub parts: u32,
    /// Its key. Its hash means nothing unless further calls are counted there.
    pub key: TouchKey,
    /// What it returned.
    pub result: i64,
    /// When: `CLOCK_MONOTONIC`, ns.
    pub at_ns: u64,
    /// How long it took. 0: unknown.
    pub took_ns: u64,
    /// Its arguments. The third one of `openat2` and the first one of `clone3` are the flags.
    pub arguments: Arguments,
    /// The type of the file that it looked up, as in `stat.st_mode`. 0: unknown.
    pub mode: u32,
    /// How many bytes of the address are known. Only these are sent.
    pub address_length: u32,
    /// The name of its process, which is its first thread's.
    pub comm: [u8; COMM_BYTES],
    /// The address of a socket.
    pub address: [u8; ADDRESS_BYTES],
}

/// What the programs share.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes)]
pub struct TouchState {
    /// One more with each call that moved or removed a name: a path may lead elsewhere since.
    pub generation: u64,
    /// How many calls are missing, or parts of them.
    pub lost: u64,
}

impl TouchState {
    /// The state at the start.
    pub const NEW: Self = Self {
        generation: 1,
        lost: 0,
    };
}
