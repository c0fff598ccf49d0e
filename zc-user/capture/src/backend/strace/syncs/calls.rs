//! What calls are about, by their names and flags.

use zctrace_core::{
    durable::{Change, Doubt, SyncResult},
    text::from_bytes,
};

use super::descriptors::OpenFile;
use crate::{
    backend::strace::{
        args::{Args, number},
        decode::{has_flag, is_constant},
        file_name,
        line::Ending,
        syntax::unsigned,
    },
    syscalls::{Fds, Spec, known_calls},
};

/// The calls that open something which is no file, each with who reads what is written there.
const OTHER_DESCRIPTORS: [(&str, Option<&str>); 17] = [
    ("socket", Some("socket")),
    ("accept", Some("socket")),
    ("accept4", Some("socket")),
    ("eventfd", None),
    ("eventfd2", None),
    ("epoll_create", None),
    ("epoll_create1", None),
    ("timerfd_create", None),
    ("signalfd", None),
    ("signalfd4", None),
    ("inotify_init", None),
    ("inotify_init1", None),
    ("memfd_create", None),
    ("pidfd_open", None),
    ("io_uring_setup", None),
    ("perf_event_open", None),
    ("userfaultfd", None),
];

/// The other calls that the order of changes and syncs depends on, apart from those that are traced
/// anyway.
const WATCHED_CALLS: [&str; 36] = [
    "fsync",
    "fdatasync",
    "sync",
    "syncfs",
    "msync",
    "open_by_handle_at",
    "close",
    "close_range",
    "fcntl",
    "fcntl64",
    "ftruncate",
    "ftruncate64",
    "fallocate",
    "ioctl",
    "fchmod",
    "fchown",
    "fsetxattr",
    "mmap",
    "mmap2",
    "mprotect",
    "pkey_mprotect",
    "getcwd",
    "pipe",
    "pipe2",
    "munmap",
    "mremap",
    "chroot",
    "pivot_root",
    "mount",
    "umount",
    "umount2",
    "move_mount",
    "open_tree",
    "fsmount",
    "setns",
    "unshare",
];

/// The calls that the order of changes and syncs depends on, apart from those that are traced anyway.
pub fn watched_calls() -> impl Iterator<Item = &'static str> {
    let names = known_calls().map(|spec| spec.name);
    let writes = names.filter(|name| written(name).is_some());
    let openers = OTHER_DESCRIPTORS.iter().map(|(name, _)| *name);
    writes.chain(openers).chain(WATCHED_CALLS)
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
pub fn opens_other(name: &str) -> Option<OpenFile> {
    let found = OTHER_DESCRIPTORS.iter().find(|(call, _)| *call == name);
    found.map(|(_, reader)| OpenFile::other(*reader))
}

/// The number of a descriptor, with a name or without.
pub fn descriptor(text: &[u8]) -> Option<u32> {
    let (number, rest) = unsigned(text)?;
    let is_whole = rest.is_empty() || rest.starts_with(b"<") || rest.starts_with(b" /*");
    u32::try_from(number).ok().filter(|_| is_whole)
}

/// What the name of a descriptor says about its file.
#[derive(Debug)]
pub enum NamedFile {
    /// It is in a filesystem, and has this path.
    Path(String),
    /// It is none, and this is who reads what is written to it.
    Others(&'static str),
    /// Its path is gone. It may have another one.
    Gone,
    /// Nobody needs what is written to it.
    Nothing,
}

impl NamedFile {
    /// What this name says: what strace prints between the angle brackets.
    pub fn new(name: &[u8]) -> Self {
        const KINDS: [(&[u8], &str); 5] = [
            (b"TCP", "tcp"),
            (b"UDP", "udp"),
            (b"UNIX", "unix"),
            (b"socket:", "socket"),
            (b"pipe:", "pipe"),
        ];
        if !name.starts_with(b"/") {
            let kind = KINDS.iter().find(|(start, _)| name.starts_with(start));
            return kind.map_or(Self::Nothing, |(_, kind)| Self::Others(kind));
        }
        let parsed = file_name::parse(name, file_name::Devices::default());
        match parsed.path {
            Some(path) if path.starts_with(b"/dev/pts/") => Self::Others("terminal"),
            Some(path) => Self::at(from_bytes(&path), parsed.is_deleted),
            None => Self::Nothing,
        }
    }

    /// What is at this path, or was.
    pub fn at(path: String, is_deleted: bool) -> Self {
        /// Memory that has no name, but a path of this kind.
        const MEMORY: [&str; 3] = ["/memfd:", "/SYSV", "/anon_hugepage"];
        let is_memory = is_deleted && MEMORY.iter().any(|start| path.starts_with(start));
        match is_deleted {
            _ if is_memory || is_of_kernel(&path) => Self::Nothing,
            true => Self::Gone,
            false => Self::Path(path),
        }
    }
}

/// The path of a file or directory that strace prints in angle brackets.
pub fn shown_path(name: &[u8]) -> Option<String> {
    match NamedFile::new(name) {
        NamedFile::Path(path) => Some(path),
        NamedFile::Others(_) | NamedFile::Gone | NamedFile::Nothing => None,
    }
}

/// Whether a path is in a filesystem that the kernel makes up.
pub fn is_of_kernel(path: &str) -> bool {
    let is_below = |directory: &str| path.starts_with(directory);
    ["/proc/", "/sys/"].into_iter().any(is_below) || (is_below("/dev/") && !is_below("/dev/shm/"))
}

/// What opens a file: the arguments of the directory and of the path, and the flags. The path of
/// `open_by_handle_at` is unknown.
pub fn open_arguments<'a>(name: &str, args: &Args<'a>) -> Option<(Option<u8>, u8, &'a [u8])> {
    Some(match name {
        "open" => (None, 0, args.nth(1)?),
        "creat" => (None, 0, b"O_WRONLY|O_CREAT|O_TRUNC".as_slice()),
        "openat2" => (Some(0), 1, args.field(2, b"flags=")?),
        "open_by_handle_at" => (None, u8::MAX, args.nth(2)?),
        _ => (Some(0), 1, args.nth(2)?),
    })
}

/// Whether the flags of an `open` have this one.
pub fn has_open_flag(flags: &[u8], bit: i32, name: &[u8]) -> bool {
    has_flag(flags, u64::from(bit.unsigned_abs()), name)
}

/// What an `ioctl` with this request changes a file by; `None`: it does not.
///
/// Its number, and the name that strace prints: the kernel's include/uapi/linux/fs.h and
/// include/linux/falloc.h.
pub fn changing_ioctl(request: &[u8]) -> Option<&'static str> {
    const REQUESTS: [(u64, &str, &str); 5] = [
        (0x4004_9409, "FICLONE", "ioctl(FICLONE)"),
        (0x4020_940d, "FICLONERANGE", "ioctl(FICLONE)"),
        (0x4030_5829, "FS_IOC_UNRESVSP", "ioctl(FS_IOC_UNRESVSP)"),
        (0x4030_582b, "FS_IOC_UNRESVSP64", "ioctl(FS_IOC_UNRESVSP)"),
        (0x4030_5839, "FS_IOC_ZERO_RANGE", "ioctl(FS_IOC_ZERO_RANGE)"),
    ];
    let is_meant = |number: u64, name: &str| {
        // The parts of a number that this strace has no name for: `_IOC` of the kernel's
        // include/uapi/asm-generic/ioctl.h.
        let [kind, at, bytes] = [number >> 8 & 0xff, number & 0xff, number >> 16 & 0x3fff];
        let parts = format!("_IOC(_IOC_WRITE, {kind:#x}, {at:#x}, {bytes:#x})");
        is_constant(request, number, name.as_bytes()) || request == parts.as_bytes()
    };
    let mut requests = REQUESTS.iter();
    let found = requests.find(|(number, name, _)| is_meant(*number, name));
    found.map(|(.., call)| *call)
}

/// Whether a file was opened for reading alone.
pub fn is_read_only(flags: &[u8]) -> bool {
    let is_for = |bit, name: &[u8]| has_open_flag(flags, bit, name);
    !is_for(libc::O_WRONLY, b"O_WRONLY") && !is_for(libc::O_RDWR, b"O_RDWR")
}

/// How a file was cut to this length.
pub fn cut(length: Option<&[u8]>) -> Change {
    if length.and_then(number) == Some(0) {
        Change::Emptied
    } else {
        Change::Resized
    }
}

/// What `fallocate` with this mode changes; `None`: only how much room the file has.
pub fn allocated(mode: &[u8]) -> Option<Change> {
    // Numbers: the kernel's include/uapi/linux/falloc.h.
    let has = |bit, name: &[u8]| has_flag(mode, bit, name);
    let moves = has(8, b"FALLOC_FL_COLLAPSE_RANGE") || has(0x20, b"FALLOC_FL_INSERT_RANGE");
    let makes_zeros = has(2, b"FALLOC_FL_PUNCH_HOLE") || has(0x10, b"FALLOC_FL_ZERO_RANGE");
    let keeps_length = has(1, b"FALLOC_FL_KEEP_SIZE");
    match (moves, makes_zeros, keeps_length) {
        (true, ..) => Some(Change::Cached),
        (_, true, _) => Some(Change::Maybe(Doubt::MayHaveHadLength)),
        (_, _, false) => Some(Change::Resized),
        (_, _, true) => None,
    }
}
