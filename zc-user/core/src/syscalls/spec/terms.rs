//! The terms of the table of calls: what their arguments and results mean, and what they do.

use crate::touched::TouchAction;

/// Name of `ioctl` with the command `FICLONE`.
pub const FICLONE: &str = "ioctl(FICLONE)";
/// Name of `ioctl` with the command `FICLONERANGE`.
pub const FICLONERANGE: &str = "ioctl(FICLONERANGE)";

/// Where a call says how many bytes it asks for. Arguments count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requested {
    /// Nowhere, or not in bytes.
    Nowhere,
    /// In this argument.
    Size(u8),
    /// In the I/O vector that argument `base` points to, of as many elements as argument `count`
    /// says.
    Iovec {
        /// Index of the pointer.
        base: u8,
        /// Index of the number of elements.
        count: u8,
    },
    /// In the I/O vector of the message that this argument points to.
    Message(u8),
}

impl Requested {
    /// Whether the bytes may lie at several places in memory.
    pub const fn is_vector(self) -> bool {
        matches!(self, Self::Iovec { .. } | Self::Message(_))
    }
}

/// Which arguments are file descriptors, and in which direction bytes go. Arguments count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fds {
    /// None, or none that zctrace follows.
    None,
    /// Bytes come from the file of this argument.
    Reads(u8),
    /// Bytes go to the file of this argument.
    Writes(u8),
    /// Bytes go from one file to another.
    Copies {
        /// Index of the source's descriptor.
        from: u8,
        /// Index of the destination's descriptor.
        to: u8,
    },
    /// `vmsplice`: into the pipe of this argument if that is open for writing, out of it if it is
    /// open for reading.
    Pipe(u8),
    /// `ioctl(FICLONERANGE)`: to the file of argument `to`, from the file whose descriptor is the
    /// first 64-bit number of the struct that argument `request` points to (`struct
    /// file_clone_range` of the kernel's include/uapi/linux/fs.h).
    ClonesRange {
        /// Index of the destination's descriptor.
        to: u8,
        /// Index of the pointer.
        request: u8,
    },
    /// The call uses the open file of this argument and moves no bytes. A call that resolves a path
    /// from a directory's descriptor uses another file.
    On(u8),
    /// The call is `mmap`: it maps the file of this argument. That is the output if the mapping is
    /// shared and writable, so that stores reach the file, and else the input.
    Maps(u8),
}

impl Fds {
    /// For the kernel side: one of the constants of [`zc_ebpf::fds`], and its arguments.
    pub(super) const fn to_kernel(self) -> (u8, u8, u8) {
        use zc_ebpf::fds;
        match self {
            Self::None => (fds::NONE, 0, 0),
            Self::Reads(from) => (fds::READS, from, 0),
            Self::Writes(to) => (fds::WRITES, to, 0),
            Self::Copies { from, to } => (fds::COPIES, from, to),
            Self::Pipe(pipe) => (fds::PIPE, pipe, 0),
            Self::ClonesRange { to, request } => (fds::IOCTL, to, request),
            Self::On(file) => (fds::ON, file, 0),
            Self::Maps(file) => (fds::MAPS, file, 0),
        }
    }
}

/// What a positive result means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returned {
    /// Bytes moved.
    Bytes,
    /// Something else: how many bytes moved is unknown.
    Other,
}

/// Which memory of its caller a call fills, apart from bytes that it reads from a file. Arguments
/// count from 0.
///
/// A call that overwrites memory ends what is known of its bytes: a write from there is not a copy
/// of what was read before. Only results that are large enough to lie in a buffer are in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::syscalls) enum FilledMemory {
    /// None that a read could have filled.
    None,
    /// Memory at the address in argument `pointer`, of as many elements as argument `count` says;
    /// without it, one element.
    At {
        pointer: u8,
        count: Option<u8>,
        element_bytes: u16,
    },
    /// Any: structures that zctrace does not read describe it.
    Any,
    /// All above the end of the heap, which `brk` removes.
    AboveHeap,
    /// What `madvise` discards, if its advice is to do so.
    Discarded,
    /// None before the end of the call: `mremap` moves memory, with what is in it.
    Moved,
}

/// It fills a structure of so many bytes at the address in argument `pointer`.
pub(in crate::syscalls) const fn structure(pointer: u8, bytes: u16) -> FilledMemory {
    FilledMemory::At {
        pointer,
        count: None,
        element_bytes: bytes,
    }
}

/// It fills as many elements as argument `count` says, at the address in argument `pointer`.
pub(in crate::syscalls) const fn array(pointer: u8, count: u8, element_bytes: u16) -> FilledMemory {
    FilledMemory::At {
        pointer,
        count: Some(count),
        element_bytes,
    }
}

/// What a call does to tasks, to descriptors or to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEffect {
    /// Nothing that concerns zctrace.
    None,
    /// It creates a task.
    CreatesTask,
    /// It replaces the program, and the memory of its caller.
    Executes,
    /// It ends its caller, and never returns.
    Exits,
    /// It returns the thread id of its caller.
    ReturnsOwnTid,
    /// It opens the file of a path.
    Opens,
    /// It gives a file another descriptor.
    Duplicates,
    /// It creates a file in memory.
    CreatesMemfd,
    /// It creates a socket.
    CreatesSocket,
    /// It creates a pair of sockets.
    CreatesSocketPair,
    /// It creates the socket of an accepted connection.
    Accepts,
    /// It connects a socket.
    Connects,
    /// It may tell the pending error of a socket.
    ReadsSocketError,
    /// It fills memory with bytes that are not from a file.
    FillsMemory,
    /// It submits operations, which may fill memory.
    Submits,
    /// It puts back the registers that a signal handler interrupted. What looks like its result is
    /// one of them, so it never fails.
    RestoresRegisters,
}

impl CallEffect {
    /// Whether it opens, creates or connects a file.
    pub const fn is_about_files(self) -> bool {
        use CallEffect::{
            Accepts, Connects, CreatesMemfd, CreatesSocket, CreatesSocketPair, Duplicates, Opens,
        };
        matches!(
            self,
            Opens
                | Duplicates
                | CreatesMemfd
                | CreatesSocket
                | CreatesSocketPair
                | Accepts
                | Connects
        )
    }
}

/// What a call returns if it waited until its time limit had passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::syscalls) enum TimeLimit {
    /// It has no time limit, or returns the same for other reasons.
    None,
    /// 0, and for no other reason.
    Returns0,
    /// `ETIMEDOUT`.
    Fails,
}

/// How the arguments of a call decide which call it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variants {
    /// Not at all.
    None,
    /// `ioctl`: its second argument is a command.
    Command,
    /// `socketcall`: its first argument is the number of a call.
    Socketcall,
}

/// The argument with the path that a call looks up. Arguments count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathArgument {
    /// Its index.
    pub index: u8,
    /// Index of the argument with the descriptor of the directory in which a relative path starts;
    /// `None`: it is the working directory.
    pub directory: Option<u8>,
}

/// A relative path in this argument starts in the working directory.
pub(in crate::syscalls) const fn path(index: u8) -> PathArgument {
    let directory = None;
    PathArgument { index, directory }
}

/// A relative path in this argument starts in the directory of the argument before it.
pub(in crate::syscalls) const fn path_at(index: u8) -> PathArgument {
    let directory = Some(index - 1);
    PathArgument { index, directory }
}

/// How a call is given its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathForm {
    /// By itself.
    One,
    /// As the first of two, as of `rename`. The target of a symbolic link is not looked up.
    Two,
    /// In the address of a socket, if that is a Unix socket.
    Address,
}

/// What a call touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touching {
    /// The file that it opens by a path, as its flags say.
    Opened,
    /// The file that it opens by a handle.
    OpenedByHandle,
    /// The path that it looks up.
    Path(TouchAction),
    /// The two paths that it looks up.
    TwoPaths(TouchAction, TouchAction),
    /// The file of the descriptor in this argument.
    File(TouchAction, u8),
    /// The files of two descriptors: bytes go from one to the other.
    Copied {
        /// The argument of the source.
        from: u8,
        /// The argument of the destination.
        to: u8,
    },
    /// The file that it maps.
    Mapped,
    /// The address in this argument.
    Address(TouchAction, u8),
    /// The addresses in the messages of the second argument.
    Sent,
    /// A family of sockets, in the first argument.
    Family,
    /// Nothing, but tasks may share the working directory otherwise than threads and processes do.
    Shared,
    /// If it succeeds, something may be touched that is not seen: a clause that says why.
    Unseen(&'static str),
    /// Nothing.
    Nothing,
}

impl Touching {
    /// Operations that make no call.
    pub(in crate::syscalls) const ASYNCHRONOUS: Self = Self::Unseen(
        "the command may have submitted operations to io_uring or Linux AIO, which are not seen",
    );
    /// They have names, but no paths.
    pub(in crate::syscalls) const OF_QUEUES: Self = Self::Unseen(
        "the command opened or removed a POSIX message queue, whose path is not followed",
    );
    /// The path is in memory.
    pub(in crate::syscalls) const PINNED: Self =
        Self::Unseen("the command called bpf, which can pin objects to paths that are not seen");
    /// The same path is another file from then on.
    pub(in crate::syscalls) const OTHER_ROOT: Self = Self::Unseen(
        "the command changed its root directory or what is mounted, so paths may mean other files",
    );
}
