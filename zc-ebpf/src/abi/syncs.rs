//! What the kernel side says of changes and syncs of files, for `--syncs`.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::{Arguments, COMM_BYTES, FileKey};

/// What is done with a call. Arguments count from 1; 0: there is none. Aligned, because it is read
/// as one number.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, Immutable, IntoBytes)]
pub struct SyncSpec {
    /// One of [`sync_kind`]'s constants.
    pub kind: u8,
    /// The descriptor of the file that it is about.
    pub file: u8,
    /// The path.
    pub path: u8,
    /// The descriptor of the directory in which the path starts.
    pub directory: u8,
    /// The second path, or the target of a symbolic link.
    pub second: u8,
    /// The descriptor of the directory in which the second path starts.
    pub second_directory: u8,
    /// Flags in a register (`RWF_DSYNC`, `O_CREAT`), or the address of `struct open_how`. Of
    /// [`sync_kind::SYNC`], 1 if one file may have several handles.
    pub flags: u8,
    /// 1: failing with `ENOENT`, it says that a name is not there, or makes a mark.
    pub says_absent: u8,
}

/// What calls do to files.
pub mod sync_kind {
    /// Nothing that matters.
    pub const NONE: u8 = 0;
    /// It writes as many bytes to a file as it returns.
    pub const WRITE: u8 = 1;
    /// If it succeeds, it changes a file or names.
    pub const CHANGE: u8 = 2;
    /// It opens a file by its path.
    pub const OPEN: u8 = 3;
    /// The same, with its flags in memory (`openat2`).
    pub const OPEN_HOW: u8 = 4;
    /// It looks up a path.
    pub const LOOKUP: u8 = 5;
    /// It syncs a file.
    pub const SYNC: u8 = 6;
    /// It syncs a filesystem, or all.
    pub const SYNC_MANY: u8 = 7;
    /// It syncs a mapping.
    pub const SYNC_MAPPING: u8 = 8;
    /// It maps memory.
    pub const MAP: u8 = 9;
    /// An `ioctl`, which may clone a file.
    pub const COMMAND: u8 = 10;
    /// It submits operations that nobody sees; the second argument is their number.
    pub const SUBMIT: u8 = 11;
    /// It executes a program.
    pub const EXECUTE: u8 = 12;
    /// It makes an `io_uring`, to which operations may be submitted without a call.
    pub const SETUP: u8 = 13;
    /// It changes the protection of memory.
    pub const PROTECT: u8 = 14;
}

/// In [`SyncCall::files`].
pub mod sync_file {
    /// The file of the descriptor in [`SyncSpec::file`](crate::SyncSpec::file), or the one that
    /// `linkat` names by `/proc/self/fd`, or the one that is mapped where `msync` syncs or `mprotect`
    /// makes memory writable.
    pub const ABOUT: usize = 0;
    /// The directory in which the path starts.
    pub const DIRECTORY: usize = 1;
    /// The directory in which the second path starts.
    pub const SECOND_DIRECTORY: usize = 2;
    /// The working directory. 0: no path starts there.
    pub const WORKING: usize = 3;
    /// The file that was opened.
    pub const OPENED: usize = 4;
    /// How many these are.
    pub const COUNT: usize = 5;
}

/// Kinds of messages in [`maps::SYNC_EVENTS`](crate::maps::SYNC_EVENTS).
pub mod sync_event {
    /// A [`FileSeen`](crate::FileSeen) whose number is a handle of a file.
    pub const FILE: u32 = 1;
    /// A [`SyncText`](crate::SyncText).
    pub const TEXT: u32 = 2;
    /// A [`SyncCall`](crate::SyncCall) that was entered: a sync.
    pub const ENTERED: u32 = 3;
    /// A [`SyncCall`](crate::SyncCall) that returned.
    pub const RETURNED: u32 = 4;
    /// [`SyncCounts`](crate::SyncCounts).
    pub const COUNTS: u32 = 5;
}

/// A call that matters.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct SyncCall {
    /// One of [`sync_event`]'s constants.
    pub kind: u32,
    /// Its slot in [`maps::SPECS`](crate::maps::SPECS).
    pub slot: u32,
    /// Thread id.
    pub tid: u32,
    /// Process id.
    pub pid: u32,
    /// 1: its bytes were on the disk when it returned (`O_DSYNC`, `RWF_DSYNC`).
    pub is_synced: u8,
    /// 1: it opened a file that it created.
    pub is_created: u8,
    /// 1: when this sync was entered, a write was under way to what it syncs.
    pub is_written: u16,
    /// Handles of the files that it names: see [`sync_file`]. 0: none.
    pub files: [u32; sync_file::COUNT],
    /// When it was entered: `CLOCK_MONOTONIC`, ns. Syncs only.
    pub entered_ns: u64,
    /// When this message was sent: `CLOCK_MONOTONIC`, ns.
    pub at_ns: u64,
    /// What it returned.
    pub result: i64,
    /// Its arguments. The third one of `openat2` is the flags in its `struct open_how`, the second one
    /// of `io_uring_setup` those in its `struct io_uring_params`.
    pub arguments: Arguments,
    /// The name of its process, which is its first thread's.
    pub comm: [u8; COMM_BYTES],
}

/// A text that the next [`SyncCall`] of this thread was given.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct SyncText {
    /// [`sync_event::TEXT`].
    pub kind: u32,
    /// The thread.
    pub tid: u32,
    /// 0: the path. 1: the second path.
    pub index: u32,
    /// How many of the bytes there are. Only these are sent.
    pub length: u32,
    /// The text, without its NUL.
    pub bytes: [u8; SYNC_TEXT_BYTES],
}

/// The longest path that a call accepts, with its NUL: `PATH_MAX` of the kernel's
/// include/uapi/linux/limits.h.
pub const SYNC_TEXT_BYTES: usize = 4096;

/// Writes to a file of which there was no message, because they did not change its state.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct SyncCounts {
    /// [`sync_event::COUNTS`].
    pub kind: u32,
    /// The file.
    pub handle: u32,
    /// How many, and their bytes; those that were on the disk when they returned are apart.
    pub calls: u64,
    /// See above.
    pub bytes: u64,
    /// See above.
    pub synced_calls: u64,
    /// See above.
    pub synced_bytes: u64,
    /// When the last one of [`calls`](Self::calls) returned: `CLOCK_MONOTONIC`, ns.
    pub last_ns: u64,
    /// Its process.
    pub last_pid: u32,
    /// Its slot.
    pub last_slot: u32,
    /// The name of its process.
    pub last_comm: [u8; COMM_BYTES],
}

/// What the programs know of a file.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct SyncFile {
    /// 1: user space knows it.
    pub is_reported: u64,
    /// [`SyncState::generation`] when there was a message that it changed. 0: there was none since
    /// it was synced. Of what is no file, [`SyncState::sequence`] when there was one that it was
    /// written to.
    pub stamp: u64,
    /// 1: there was a message that it changed.
    pub has_changed: u64,
    /// How many writes to it are under way.
    pub writers: u64,
    /// Its handle, and the writes since then.
    pub counts: SyncCounts,
}

/// In [`FileKey::shared`] of the keys of [`maps::SYNC_FILES`](crate::maps::SYNC_FILES).
pub mod sync_class {
    /// A file or directory.
    pub const FILE: u32 = 0;
    /// What others read: a socket, a pipe, a device.
    pub const OTHERS: u32 = 1;
    /// The standard output that the command was given, whatever it is.
    pub const STDOUT: u32 = 2;
    /// What nobody needs.
    pub const IGNORED: u32 = 3;
    /// The standard error that the command was given, unless that is its standard output.
    pub const STDERR: u32 = 4;
    /// Also in [`FileSeen::open_flags`](crate::FileSeen::open_flags) of a handle, which is a class: a
    /// call opened it, whose own message follows.
    pub const OPENED: u32 = 1 << 8;
}

/// The call that a task is in, or was in last.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct SyncTask {
    /// 1: it is in it.
    pub is_under_way: u64,
    /// 1: that is one of [`SyncFile::writers`].
    pub is_writing: u64,
    /// The key of the file that it is about.
    pub key: FileKey,
    /// The call.
    pub call: SyncCall,
}

/// What the programs share.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes)]
pub struct SyncState {
    /// One more with each sync of a whole filesystem, and of a file if one may have several handles: the
    /// kernel drops an inode from memory, and reads it again to another address.
    pub generation: u64,
    /// One more with each message but those that others were told something.
    pub sequence: u64,
    /// The last handle that was given out.
    pub last_handle: u64,
    /// How many messages were lost.
    pub lost: u64,
    /// 1: the streams below are known.
    pub has_streams: u64,
    /// The `struct file` of the standard output that the command was given. 0: none.
    pub stdout: u64,
    /// That of its standard error.
    pub stderr: u64,
    /// 1: there was a message that operations were submitted which nobody sees.
    pub has_submitted: u64,
    /// 1: a file was mapped so that stores may reach it.
    pub has_mappings: u64,
    /// How many writes to files are under way.
    pub writers: u64,
}

impl SyncState {
    /// The state at the start.
    pub const NEW: Self = Self {
        generation: 1,
        sequence: 1,
        last_handle: 0,
        lost: 0,
        has_streams: 0,
        stdout: 0,
        stderr: 0,
        has_submitted: 0,
        has_mappings: 0,
        writers: 0,
    };
}
