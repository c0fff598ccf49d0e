//! What calls are about, by their names and flags.

use zctrace_core::durable::{Change, Doubt, SyncResult};

use super::{
    call::{ChildKind, Ending, FileCall},
    descriptors::OpenDescription,
    flag,
};
use crate::syscalls::{FICLONE, Fds, Spec, Touching, known_calls};

/// The calls that open something which is neither a file nor a socket. Nobody reads what is written
/// there.
const OTHER_OPENERS: &str = "eventfd eventfd2 epoll_create epoll_create1 timerfd_create signalfd \
    signalfd4 inotify_init inotify_init1 memfd_create pidfd_open io_uring_setup perf_event_open \
    userfaultfd";

/// The calls that open a socket.
const SOCKET_OPENERS: &str = "socket accept accept4";

/// The other calls that the order of changes and syncs depends on, apart from those that are traced
/// anyway.
const WATCHED_CALLS: &str = "fsync fdatasync sync syncfs msync open_by_handle_at close close_range \
    fcntl fcntl64 ftruncate ftruncate64 fallocate ioctl fchmod fchown fsetxattr mmap mmap2 mprotect \
    pkey_mprotect getcwd pipe pipe2 munmap mremap chroot pivot_root mount umount umount2 move_mount \
    open_tree fsmount setns unshare";

/// The calls that the order of changes and syncs depends on, apart from those that are traced anyway.
pub fn watched_calls() -> impl Iterator<Item = &'static str> {
    let names = known_calls().map(|spec| spec.name);
    let writes = names.filter(|name| written(name).is_some());
    let others = [OTHER_OPENERS, SOCKET_OPENERS, WATCHED_CALLS].into_iter();
    writes.chain(others.flat_map(str::split_whitespace))
}

/// The calls that touch something, apart from those that are traced anyway.
pub fn touching_calls() -> impl Iterator<Item = &'static str> {
    let touching = known_calls().filter(|spec| spec.touching() != Touching::Nothing);
    watched_calls().chain(touching.map(|spec| spec.name))
}

/// Whether a call is a sync. `sync_file_range` is none: it promises nothing about metadata.
pub fn is_sync(name: &str) -> bool {
    matches!(name, "fsync" | "fdatasync" | "sync" | "syncfs" | "msync")
}

/// What a sync did that ended so; `None`: the program does not know.
pub fn sync_result(ending: Ending) -> Option<SyncResult> {
    match ending {
        Ending::Value(_) => Some(SyncResult::Succeeded),
        Ending::Error(Some(errno)) if is_of_disk(errno) => Some(SyncResult::Failed(errno)),
        Ending::Error(_) => Some(SyncResult::Refused),
        Ending::Never | Ending::UnderWay => None,
    }
}

/// Whether an errno says that the disk did not take what was written.
fn is_of_disk(errno: u32) -> bool {
    [libc::EIO, libc::ENOSPC, libc::EDQUOT].contains(&errno.cast_signed())
}

/// Whether a call changes names if it succeeds.
pub fn changes_names(name: &str) -> bool {
    const STEMS: [&str; 7] = [
        "mkdir", "mknod", "symlink", "link", "rename", "unlink", "rmdir",
    ];
    let stem = name.strip_suffix('2').unwrap_or(name);
    STEMS.contains(&stem.strip_suffix("at").unwrap_or(stem))
}

/// The descriptor that a call writes bytes to, and its name.
pub fn written(name: &str) -> Option<(u8, &'static str)> {
    let Spec { name, fds, .. } = Spec::named(name);
    match fds {
        Fds::Writes(to) | Fds::Pipe(to) | Fds::Copies { to, .. } => Some((to, name)),
        _ => None,
    }
}

/// What a call opens, if that is no file.
pub fn opens_other(name: &str) -> Option<OpenDescription> {
    let is_in = |list: &str| list.split_whitespace().any(|call| call == name);
    if is_in(SOCKET_OPENERS) {
        return Some(OpenDescription::no_file(Some("socket")));
    }
    is_in(OTHER_OPENERS).then(|| OpenDescription::no_file(None))
}

/// What opens a file: the arguments of the directory and of the path, and the flags; `None`: those are
/// unknown. `open_by_handle_at` has no text as its path.
pub fn open_arguments(call: FileCall<'_>) -> Option<(Option<u8>, u8, u64)> {
    let spec = Spec::named(call.name);
    let path = spec
        .path
        .map_or((Some(0), 1), |path| (path.directory, path.index));
    let flags = match spec.open_flags {
        Some(index) => call.number(index)?,
        // `creat`
        None => flag::O_WRONLY | flag::O_CREAT | flag::O_TRUNC,
    };
    Some((path.0, path.1, flags))
}

/// What an `ioctl` with this request changes a file by, and why it may change nothing; `None`: it
/// changes no file.
pub const fn changing_ioctl(request: u64) -> Option<(&'static str, Doubt)> {
    Some(match request {
        flag::FICLONE | flag::FICLONERANGE => (FICLONE, Doubt::EmptyClone),
        flag::FS_IOC_UNRESVSP | flag::FS_IOC_UNRESVSP64 => {
            ("ioctl(FS_IOC_UNRESVSP)", Doubt::MayHaveHadLength)
        }
        flag::FS_IOC_ZERO_RANGE => ("ioctl(FS_IOC_ZERO_RANGE)", Doubt::MayHaveHadLength),
        _ => return None,
    })
}

/// Whether a file was opened for reading alone.
pub const fn is_read_only(flags: u64) -> bool {
    flags & (flag::O_WRONLY | flag::O_RDWR) == 0
}

/// How a file was cut to this length.
pub fn change_to_length(length: Option<u64>) -> Change {
    if length == Some(0) {
        Change::Emptied
    } else {
        Change::Resized
    }
}

/// What `fallocate` with this mode changes; `None`: only how much room the file has.
pub fn allocated(mode: u64) -> Option<Change> {
    let has = |flags| mode & flags != 0;
    if has(flag::FALLOC_FL_COLLAPSE_RANGE | flag::FALLOC_FL_INSERT_RANGE) {
        Some(Change::Cached)
    } else if has(flag::FALLOC_FL_PUNCH_HOLE | flag::FALLOC_FL_ZERO_RANGE) {
        Some(Change::Maybe(Doubt::MayHaveHadLength))
    } else if has(flag::FALLOC_FL_KEEP_SIZE) {
        None
    } else {
        Some(Change::Resized)
    }
}

impl FileCall<'_> {
    /// Whether it acts on what a symbolic link at the end of its path leads to.
    pub(super) fn follows_links(&self) -> bool {
        !self.name.starts_with('l') && !self.is_of_link()
    }

    /// Whether its flags say that it acts on a symbolic link itself.
    pub(super) fn is_of_link(&self) -> bool {
        Spec::named(self.name)
            .at_flags
            .is_some_and(|index| self.has_any(index, flag::AT_SYMLINK_NOFOLLOW))
    }

    /// Whether it creates a task, or is an `unshare`, and leaves a process and another one with one
    /// working directory, or two threads of a process with two.
    pub(super) fn shares_otherwise(&self) -> bool {
        if self.name == "unshare" {
            return self.has_any(0, flag::CLONE_FS | flag::CLONE_NEWNS);
        }
        self.has_any(0, flag::CLONE_FS) != (self.child_kind() == ChildKind::Thread)
    }
}
