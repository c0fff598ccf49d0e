//! Calls that are about one open file and move no bytes of it.

/// Index of the argument that names the file; `None`: this call has none.
pub(super) fn argument(name: &str) -> Option<u8> {
    FIRST.contains(&name).then_some(0)
}

/// Calls whose first argument is a descriptor. Source: the manual page of each. Those that resolve a path from a directory's
/// descriptor (`openat`) are about another file than that, so they are not here.
const FIRST: &[&str] = &[
    "accept",
    "accept4",
    "bind",
    "close",
    "connect",
    "dup",
    "dup2",
    "dup3",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "fadvise64",
    "fallocate",
    "fchdir",
    "fchmod",
    "fchown",
    "fcntl",
    "fcntl64",
    "fdatasync",
    "fgetxattr",
    "flistxattr",
    "flock",
    "fremovexattr",
    "fsetxattr",
    "fstat",
    "fstat64",
    "fstatfs",
    "fsync",
    "ftruncate",
    "ftruncate64",
    "getdents",
    "getdents64",
    "getpeername",
    "getsockname",
    "getsockopt",
    "io_uring_register",
    "ioctl",
    "listen",
    "lseek",
    "readahead",
    "setsockopt",
    "shutdown",
    "sync_file_range",
    "syncfs",
];
