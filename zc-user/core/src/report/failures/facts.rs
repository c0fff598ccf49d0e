//! What is known of a failed call by itself.

use crate::{
    report::failed_paths::{FailedPath, is_asking},
    text::is_library,
};

/// The error of a path that is not there.
pub(super) const MISSING: &str = "ENOENT";
/// The error of a path below a file, and of a file where a directory was asked for.
const BELOW_FILE: &str = "ENOTDIR";

/// Calls that open a file.
const OPENING: [&str; 3] = ["open", "openat", "openat2"];

/// Whether the call only asks: whether a path is there or is a directory, whether a file has an `ioctl`,
/// or whether there is room.
pub(super) fn is_question(one: &FailedPath) -> bool {
    let syscall = one.syscall.as_str();
    match one.errno.as_str() {
        MISSING => is_asking(syscall),
        BELOW_FILE => is_asking(syscall) || OPENING.contains(&syscall),
        "EEXIST" => matches!(syscall, "mkdir" | "mkdirat"),
        "EINVAL" => syscall == "ioctl",
        "ENOMEM" => syscall == "mmap",
        _ => false,
    }
}

/// Whether the call did not find a hidden file to open, or one in a hidden directory, as configurations
/// and caches of users are.
pub(super) fn is_hidden(one: &FailedPath) -> bool {
    let mut parts = one.path.iter().flat_map(|path| path.split('/'));
    let is_hidden = parts.any(|part| part.starts_with('.') && !matches!(part, "." | ".."));
    is_hidden && one.errno == MISSING && OPENING.contains(&one.syscall.as_str())
}

/// Whether programs use this path when they start: libraries, and parts of locales.
pub fn is_used_at_start(path: &str) -> bool {
    is_library(path) || is_rare(path)
}

/// Whether programs look for this path when they start, though most machines do not have it: parts
/// of the C library's locales and character sets, its services and cache of names, and parts of
/// libselinux.
pub(super) fn is_rare(path: &str) -> bool {
    const PARTS: [&str; 8] = [
        "/share/locale",
        "/lib/locale/",
        "/gconv/gconv-modules",
        "/charset.alias",
        "/etc/ld.so.preload",
        "/nscd/socket",
        "/libnss_",
        "/selinux",
    ];
    PARTS.iter().any(|part| path.contains(part))
}

/// Whether the error is an answer: that there is no terminal, no child, no more to read, no such
/// attribute or time, that a path is no symbolic link, that a file is no directory or cannot be polled or
/// moved in, that something would be replaced, that a descriptor is closed or no connection, that the
/// kernel does not know an option, or that a limit stays. Rust asks by a null pointer whether there is
/// `statx`, others whether there is `seccomp`.
pub(super) fn is_answer(failed: &FailedPath) -> bool {
    let path = failed.path.as_deref();
    match (failed.errno.as_str(), failed.syscall.as_str()) {
        ("ENOTTY" | "ECHILD" | "ENODATA" | "ESPIPE" | "ETIME" | "ECANCELED", _)
        | ("EINVAL", "readlink" | "readlinkat" | "prctl" | "rt_sigaction" | "pkey_alloc")
        | ("EEXIST", "renameat2" | "epoll_ctl")
        | ("EPERM", "epoll_ctl" | "prlimit64")
        | ("ENOENT", "epoll_ctl")
        | ("EBADF", "close" | "fcntl" | "fstat")
        | ("ENOTSOCK" | "ENOTCONN", "getpeername" | "getsockname" | "getsockopt")
        | ("ENXIO", "lseek")
        | ("ETIMEDOUT", "futex") => true,
        ("ENOTDIR", _) => failed.path_found,
        ("EFAULT", "statx" | "seccomp") => path.is_none(),
        ("EBADF", "newfstatat") => path == Some(""),
        ("ENXIO", _) => path == Some("/dev/tty"),
        ("EIO", "read") => path == Some("/dev/ptmx"),
        _ => false,
    }
}
