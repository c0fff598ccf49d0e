//! What an error means of the call that failed with it, where its name does not say that. Each
//! meaning is from the page of the call in section 2 of the Linux manual; those of calls that copy
//! also from Linux 6.12 `fs/read_write.c`, `fs/splice.c`, `fs/remap_range.c` and `fs/overlayfs/file.c`.

/// Stands for the errno of a call that returned 0 although there was something to move, as
/// `copy_file_range` does for files in procfs.
pub(crate) const NOTHING_MOVED: &str = "0 bytes";

/// A meaning.
struct ErrorMeaning {
    errno: &'static str,
    /// The calls; empty: all of them.
    calls: &'static [&'static str],
    /// Whether it is the meaning only for a file that was opened with `O_DIRECT`.
    is_of_direct: bool,
    meaning: &'static str,
}

/// A row of the table: the error, its calls, and the meaning.
const fn of_calls(
    errno: &'static str,
    calls: &'static [&'static str],
    meaning: &'static str,
) -> ErrorMeaning {
    ErrorMeaning {
        errno,
        calls,
        is_of_direct: false,
        meaning,
    }
}

/// Calls that rename or link a file.
const MOVING: &[&str] = &["rename", "renameat", "renameat2", "link", "linkat"];
/// Calls that create a task.
const CREATING: &[&str] = &["fork", "vfork", "clone", "clone3"];
/// Calls that execute a program.
const EXECUTING: &[&str] = &["execve", "execveat"];
const COPY_FILE_RANGE: &[&str] = &["copy_file_range"];
const SENDFILE: &[&str] = &["sendfile", "sendfile64"];
/// Calls that share blocks between files.
const CLONING: &[&str] = &["ioctl(FICLONE)", "ioctl(FICLONERANGE)"];

/// The call that tells the error of a socket.
const OF_SOCKET: &[&str] = &["getsockopt"];
/// What such an error means.
const SOCKET_ERROR: &str = "SO_ERROR: the outcome of a connection, or a later error";

/// All of them. Of several for the same call, the first counts.
const MEANINGS: &[ErrorMeaning] = &[
    ErrorMeaning {
        errno: "EINVAL",
        calls: &[
            "read", "readv", "pread64", "preadv", "preadv2", "write", "writev", "pwrite64",
            "pwritev", "pwritev2",
        ],
        is_of_direct: true,
        meaning: "with O_DIRECT, the address, the size or the offset may be unaligned",
    },
    of_calls(
        "ENOSPC",
        &["inotify_add_watch"],
        "the limit fs.inotify.max_user_watches is reached, or the kernel lacks memory",
    ),
    of_calls(
        "ENOSPC",
        &["epoll_ctl"],
        "the limit fs.epoll.max_user_watches is reached",
    ),
    of_calls(
        "EMFILE",
        &["inotify_init", "inotify_init1"],
        "the limit fs.inotify.max_user_instances or RLIMIT_NOFILE is reached",
    ),
    of_calls(
        "EMFILE",
        &[],
        "the process has as many open descriptors as RLIMIT_NOFILE allows",
    ),
    of_calls(
        "ENFILE",
        &[],
        "the system has as many open files as fs.file-max allows",
    ),
    of_calls(
        "E2BIG",
        EXECUTING,
        "the arguments and the environment are too long, together or one of them",
    ),
    of_calls(
        "ETXTBSY",
        EXECUTING,
        "a process has the program open for writing",
    ),
    of_calls(
        "ETXTBSY",
        &[],
        "the file is in use as a running program, as swap space or by the kernel",
    ),
    of_calls(
        "EXDEV",
        MOVING,
        "the paths are in two mounts or project quotas, or a directory is in a lower layer of an overlay",
    ),
    of_calls(
        "ELOOP",
        &[],
        "too many symbolic links, or one where the call forbids it",
    ),
    of_calls(
        "EPERM",
        &["mmap", "mmap2"],
        "the file may be on a noexec mount, or sealed",
    ),
    of_calls(
        "EAGAIN",
        CREATING,
        "a limit of processes is reached: RLIMIT_NPROC, kernel.threads-max, kernel.pid_max or pids.max of the cgroup",
    ),
    of_calls(
        "ENOSPC",
        CREATING,
        "a limit of nested namespaces is reached",
    ),
    of_calls(
        "EFBIG",
        &[],
        "the file would be longer than RLIMIT_FSIZE or the filesystem allows",
    ),
    of_calls("EDQUOT", &[], "the disk quota of the user is used up"),
    of_calls("EROFS", &[], "the filesystem is mounted read-only"),
    of_calls(
        "EINPROGRESS",
        &["connect"],
        "the call did not wait for the outcome of the connection",
    ),
    of_calls(
        "EXDEV",
        COPY_FILE_RANGE,
        "copy_file_range does not work between these two filesystems, or layers of one overlay",
    ),
    of_calls(
        "EBADF",
        COPY_FILE_RANGE,
        "copy_file_range refuses a destination opened with O_APPEND or without write access",
    ),
    of_calls(
        "EINVAL",
        COPY_FILE_RANGE,
        "copy_file_range works only on regular files, and not on overlapping ranges",
    ),
    of_calls(
        "EOPNOTSUPP",
        COPY_FILE_RANGE,
        "the filesystem does not support copy_file_range",
    ),
    of_calls(
        NOTHING_MOVED,
        COPY_FILE_RANGE,
        "copy_file_range copied nothing: it relies on the file's length, which is 0 in special filesystems such as procfs",
    ),
    of_calls(
        "EINVAL",
        SENDFILE,
        "sendfile needs a source that can be mapped, and a destination opened without O_APPEND",
    ),
    of_calls(
        "EINVAL",
        &["splice"],
        "splice needs a pipe at one end, and at the other a file that supports it and was opened without O_APPEND",
    ),
    of_calls(
        "ENOSYS",
        &["copy_file_range", "sendfile", "sendfile64", "splice"],
        "a sandbox denies the call, or the kernel does not have it",
    ),
    of_calls(
        "EPERM",
        &["copy_file_range", "ioctl(FICLONE)", "ioctl(FICLONERANGE)"],
        "the destination is immutable, or a sandbox denies the call",
    ),
    of_calls("EOPNOTSUPP", CLONING, NO_SHARED_BLOCKS),
    of_calls("ENOTTY", CLONING, NO_SHARED_BLOCKS),
    of_calls(
        "EXDEV",
        CLONING,
        "these two files cannot share blocks: they are on two filesystems, mounts, or layers of one overlay",
    ),
    of_calls(
        "EINVAL",
        CLONING,
        "these two files cannot share blocks: they are not regular files, or the ranges are not aligned to blocks",
    ),
    of_calls("ECONNREFUSED", OF_SOCKET, SOCKET_ERROR),
    of_calls("ETIMEDOUT", OF_SOCKET, SOCKET_ERROR),
    of_calls("EHOSTUNREACH", OF_SOCKET, SOCKET_ERROR),
    of_calls("ENETUNREACH", OF_SOCKET, SOCKET_ERROR),
    of_calls("ECONNRESET", OF_SOCKET, SOCKET_ERROR),
];

const NO_SHARED_BLOCKS: &str = "the filesystem cannot share blocks between files";

/// What the error means of this call. `is_direct`: its file was opened with `O_DIRECT`.
pub(crate) fn error_meaning(errno: &str, call: &str, is_direct: bool) -> Option<&'static str> {
    let is_it = |known: &&ErrorMeaning| {
        let is_of_call = known.calls.is_empty() || known.calls.contains(&call);
        known.errno == errno && is_of_call && (is_direct || !known.is_of_direct)
    };
    MEANINGS.iter().find(is_it).map(|known| known.meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_means_something_else_of_another_call() {
        let watches = error_meaning("ENOSPC", "inotify_add_watch", false);
        assert!(watches.is_some_and(|text| text.contains("max_user_watches")));
        assert_eq!(error_meaning("ENOSPC", "write", false), None);
        assert_ne!(
            error_meaning("ETXTBSY", "execve", false),
            error_meaning("ETXTBSY", "openat", false)
        );
        assert_eq!(error_meaning("EINVAL", "pwritev", false), None);
        assert!(error_meaning("EINVAL", "pwritev", true).is_some());
    }

    #[test]
    fn every_row_is_reached() {
        for known in MEANINGS {
            let call = known.calls.first().unwrap_or(&"openat");
            let found = error_meaning(known.errno, call, known.is_of_direct);
            assert_eq!(found, Some(known.meaning));
        }
    }
}
