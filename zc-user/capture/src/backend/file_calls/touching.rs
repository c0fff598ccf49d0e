//! What calls touch, by their names.

use zctrace_core::touched::TouchAction::{
    self, Accepted, Bound, Changed, Connected, Created, Executed, LookedUp, Read, Removed, Renamed,
    SentTo, Written,
};

use super::{
    call::{ChildKind, FileCall},
    flag,
    kinds::written,
};
use crate::syscalls::{Fds, Spec, known_calls};

/// What a call touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touching {
    /// The file that it opens by a path, as its flags say.
    Opened,
    /// The file that it opens by a handle, with flags in this argument.
    OpenedByHandle(u8),
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
        /// That of the destination.
        to: u8,
    },
    /// The file that it maps.
    Mapped,
    /// The address in this argument.
    Address(TouchAction, u8),
    /// The addresses in the messages of the second argument.
    Sent,
    /// Nothing, but tasks may share the working directory otherwise than threads and processes do.
    Shared,
    /// If it succeeds, something may be touched that is not seen: a clause that says why.
    Unseen(&'static str),
    /// Nothing.
    Nothing,
}

/// Operations that make no call.
const ASYNCHRONOUS: &str =
    "the command may have submitted operations to io_uring or Linux AIO, which are not seen";
/// The same path is another file from then on.
const OTHER_ROOT: &str =
    "the command changed its root directory or what is mounted, so paths may mean other files";

/// The calls to watch, apart from those that are traced anyway.
pub fn watched_calls() -> impl Iterator<Item = &'static str> {
    const OTHERS: [&str; 5] = [
        "getdents",
        "getdents64",
        "fchown32",
        "fremovexattr",
        "unshare",
    ];
    let reads = known_calls().filter(|spec| matches!(spec.fds, Fds::Reads(_)));
    let reads = reads.map(|spec| spec.name);
    super::kinds::watched_calls().chain(reads).chain(OTHERS)
}

impl Touching {
    /// What a call of this name touches.
    pub fn new(name: &str) -> Self {
        match name {
            "open" | "openat" | "openat2" | "creat" => Self::Opened,
            "open_by_handle_at" => Self::OpenedByHandle(2),
            "truncate" | "truncate64" | "acct" | "swapon" => Self::Path(Written),
            "mkdir" | "mkdirat" | "mknod" | "mknodat" | "symlink" | "symlinkat" => {
                Self::Path(Created)
            }
            "unlink" | "unlinkat" | "rmdir" => Self::Path(Removed),
            "link" | "linkat" => Self::TwoPaths(LookedUp, Created),
            "rename" | "renameat" | "renameat2" => Self::TwoPaths(Renamed, Renamed),
            "execve" | "execveat" | "uselib" => Self::Path(Executed),
            "mount" | "umount" | "umount2" | "move_mount" | "open_tree" | "fsmount"
            | "pivot_root" | "chroot" | "setns" => Self::Unseen(OTHER_ROOT),
            "io_uring_setup" | "io_uring_enter" | "io_submit" => Self::Unseen(ASYNCHRONOUS),
            "clone" | "clone3" | "unshare" => Self::Shared,
            "connect" => Self::Address(Connected, 1),
            "bind" => Self::Address(Bound, 1),
            "accept" | "accept4" => Self::Address(Accepted, 1),
            "sendto" => Self::Address(SentTo, 4),
            "sendmsg" | "sendmmsg" => Self::Sent,
            "sendfile" | "sendfile64" => Self::Copied { from: 1, to: 0 },
            "copy_file_range" | "splice" => Self::Copied { from: 0, to: 2 },
            "read" | "pread64" | "readv" | "preadv" | "preadv2" | "getdents" | "getdents64" => {
                Self::File(Read, 0)
            }
            "ftruncate" | "ftruncate64" | "fallocate" | "ioctl" => Self::File(Written, 0),
            "fchmod" | "fchown" | "fchown32" | "fsetxattr" | "fremovexattr" => {
                Self::File(Changed, 0)
            }
            "mmap" | "mmap2" => Self::Mapped,
            name if ATTRIBUTES.contains(&name) => Self::Path(Changed),
            name => match (written(name), Spec::named(name).path) {
                (Some((argument, _)), _) => Self::File(Written, argument),
                (None, Some(_)) => Self::Path(LookedUp),
                (None, None) => Self::Nothing,
            },
        }
    }
}

/// The calls that change mode, owner, times or extended attributes of the file of a path.
const ATTRIBUTES: [&str; 20] = [
    "chmod",
    "fchmodat",
    "fchmodat2",
    "chown",
    "chown32",
    "lchown",
    "lchown32",
    "fchownat",
    "setxattr",
    "lsetxattr",
    "setxattrat",
    "removexattr",
    "lremovexattr",
    "removexattrat",
    "utime",
    "utimes",
    "utimensat",
    "utimensat_time64",
    "futimesat",
    "file_setattr",
];

/// The argument with the `AT_...` flags of a call, from 0 on.
pub fn at_flags(name: &str) -> Option<u8> {
    Some(match name {
        "unlinkat" | "statx" | "open_tree" | "setxattrat" | "removexattrat" => 2,
        "newfstatat" | "fstatat64" | "fchmodat2" | "utimensat" | "utimensat_time64"
        | "faccessat2" => 3,
        "fchownat" | "linkat" | "execveat" | "name_to_handle_at" | "file_setattr"
        | "file_getattr" => 4,
        _ => return None,
    })
}

impl FileCall<'_> {
    /// Whether it acts on what a symbolic link at the end of its path leads to.
    pub(super) fn follows_links(&self) -> bool {
        !self.name.starts_with('l') && !self.is_of_link()
    }

    /// Whether its flags say that it acts on a symbolic link itself.
    pub(super) fn is_of_link(&self) -> bool {
        at_flags(self.name).is_some_and(|index| self.has(index, flag::AT_SYMLINK_NOFOLLOW))
    }

    /// Whether it creates a task, or is an `unshare`, and leaves a process and another one with one
    /// working directory, or two threads of a process with two.
    pub(super) fn shares_otherwise(&self) -> bool {
        if self.name == "unshare" {
            return self.has(0, flag::CLONE_FS | flag::CLONE_NEWNS);
        }
        self.has(0, flag::CLONE_FS) != (self.child_kind() == ChildKind::Thread)
    }
}
