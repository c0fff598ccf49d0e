//! What the arguments of calls outside of [`TABLE`](super::TABLE) mean: which calls use a file, and
//! which fill memory of their caller.

use zc_ebpf::{CallSpec, fills};

use super::{Fds, Spec};

/// Index of the argument that is the descriptor of the file that the call uses; `None`: it has
/// none.
pub(super) fn descriptor(name: &str) -> Option<u8> {
    ON_FIRST.contains(&name).then_some(0)
}

/// Whether calls of this name identify their file by a descriptor.
pub(crate) fn names_descriptor(call: &str) -> bool {
    Spec::of(call).fds != Fds::None
}

/// Whether calls of this name may use a file that no descriptor identifies, but a path, a mapping
/// or a set of descriptors.
pub(crate) fn may_name_file_by_path(call: &str) -> bool {
    !names_descriptor(call) && !FILELESS.contains(&call)
}

/// Calls that use the open file of their first argument and move no bytes of it. Source: the manual
/// page of each. Calls that resolve a path from a directory's descriptor, such as `openat`, use
/// another file, so they are not here.
const ON_FIRST: &[&str] = &[
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

/// Calls that use no file, whatever their arguments are. Source: the manual page of each. A call
/// that is not here and has no descriptor may use any file.
const FILELESS: &[&str] = &[
    "alarm",
    "arch_prctl",
    "brk",
    "clock_gettime",
    "clock_nanosleep",
    "clone",
    "clone3",
    "exit",
    "exit_group",
    "fork",
    "futex",
    "getegid",
    "geteuid",
    "getgid",
    "getpgid",
    "getpgrp",
    "getpid",
    "getppid",
    "getrandom",
    "getrlimit",
    "getrusage",
    "getsid",
    "gettid",
    "gettimeofday",
    "getuid",
    "kill",
    "madvise",
    "mlock",
    "mprotect",
    "mremap",
    "munlock",
    "munmap",
    "nanosleep",
    "pause",
    "prlimit64",
    "restart_syscall",
    "rseq",
    "rt_sigaction",
    "rt_sigpending",
    "rt_sigprocmask",
    "rt_sigqueueinfo",
    "rt_sigreturn",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "rt_tgsigqueueinfo",
    "sched_getaffinity",
    "sched_setaffinity",
    "sched_yield",
    "set_robust_list",
    "set_tid_address",
    "setitimer",
    "setpgid",
    "setsid",
    "sigaltstack",
    "sysinfo",
    "tgkill",
    "time",
    "tkill",
    "umask",
    "uname",
    "vfork",
    "wait4",
    "waitid",
];

// A call that overwrites memory ends what is known of its bytes: a write from there is not a copy
// of what was read before. Only results that are large enough to lie in a buffer are listed. Where
// a line is missing, the sample of the bytes detects the change.

/// Memory that a call fills. Arguments count from 0.
struct Fill {
    name: &'static str,
    /// Index of the pointer.
    pointer: u8,
    size: Size,
}

/// How many bytes it fills.
#[derive(Clone, Copy)]
enum Size {
    /// This many.
    Bytes(u16),
    /// As many elements as the argument says, of this many bytes each.
    Elements(u8, u16),
}

/// Calls after which nothing is known of the caller's memory, since what they fill is described by
/// structures that zctrace does not read.
const UNKNOWN: &[&str] = &[
    "io_getevents",
    "io_pgetevents",
    "io_submit",
    "process_vm_readv",
    "shmat",
    "shmdt",
];

const fn of(name: &'static str, pointer: u8, size: Size) -> Fill {
    Fill {
        name,
        pointer,
        size,
    }
}

/// Source: the manual page of each call, section 2, and the sizes of the structures on 64-bit
/// machines in the kernel's include/uapi.
const FILLS: &[Fill] = {
    use Size::{Bytes, Elements};
    &[
        of("accept", 1, Bytes(128)),
        of("accept4", 1, Bytes(128)),
        of("adjtimex", 0, Bytes(208)),
        of("capget", 1, Bytes(24)),
        of("clock_adjtime", 1, Bytes(208)),
        of("clock_gettime", 1, Bytes(16)),
        of("epoll_pwait", 1, Elements(2, 16)),
        of("epoll_pwait2", 1, Elements(2, 16)),
        of("epoll_wait", 1, Elements(2, 16)),
        of("fcntl", 2, Bytes(32)),
        of("fgetxattr", 2, Elements(3, 1)),
        of("flistxattr", 1, Elements(2, 1)),
        of("fstat", 1, Bytes(144)),
        of("fstat64", 1, Bytes(144)),
        of("fstatfs", 1, Bytes(120)),
        of("getcwd", 0, Elements(1, 1)),
        of("getdents", 1, Elements(2, 1)),
        of("getdents64", 1, Elements(2, 1)),
        of("getgroups", 1, Elements(0, 4)),
        of("getitimer", 1, Bytes(32)),
        of("getpeername", 1, Bytes(128)),
        of("getrandom", 0, Elements(1, 1)),
        of("getrlimit", 1, Bytes(16)),
        of("getrusage", 1, Bytes(144)),
        of("getsockname", 1, Bytes(128)),
        of("getsockopt", 3, Bytes(256)),
        of("gettimeofday", 0, Bytes(16)),
        of("getxattr", 2, Elements(3, 1)),
        of("ioctl", 2, Bytes(64)),
        of("lgetxattr", 2, Elements(3, 1)),
        of("listxattr", 1, Elements(2, 1)),
        of("llistxattr", 1, Elements(2, 1)),
        of("lstat", 1, Bytes(144)),
        of("lstat64", 1, Bytes(144)),
        of("madvise", 0, Elements(1, 1)),
        of("mmap", 0, Elements(1, 1)),
        of("mmap2", 0, Elements(1, 1)),
        of("mq_timedreceive", 1, Elements(2, 1)),
        of("mremap", 0, Elements(1, 1)),
        of("msgrcv", 1, Elements(2, 1)),
        of("munmap", 0, Elements(1, 1)),
        of("name_to_handle_at", 2, Bytes(136)),
        of("newfstatat", 2, Bytes(144)),
        of("poll", 0, Elements(1, 8)),
        of("ppoll", 0, Elements(1, 8)),
        of("prctl", 1, Bytes(16)),
        of("prlimit64", 3, Bytes(16)),
        of("pselect6", 1, Bytes(128)),
        of("readlink", 1, Elements(2, 1)),
        of("readlinkat", 2, Elements(3, 1)),
        of("remap_file_pages", 0, Elements(1, 1)),
        of("rt_sigaction", 2, Bytes(32)),
        of("rt_sigtimedwait", 1, Bytes(128)),
        of("sched_getaffinity", 2, Elements(1, 1)),
        of("sched_getattr", 1, Elements(2, 1)),
        of("select", 1, Bytes(128)),
        of("setitimer", 2, Bytes(32)),
        of("sigaltstack", 1, Bytes(24)),
        of("stat", 1, Bytes(144)),
        of("stat64", 1, Bytes(144)),
        of("statfs", 1, Bytes(120)),
        of("statx", 4, Bytes(256)),
        of("sysinfo", 0, Bytes(112)),
        of("syslog", 1, Elements(2, 1)),
        of("times", 0, Bytes(32)),
        of("uname", 0, Bytes(390)),
        of("wait4", 3, Bytes(144)),
        of("waitid", 2, Bytes(128)),
    ]
};

/// Adds the memory that the call of this name fills.
pub(super) fn with_filled_memory(name: &str, spec: CallSpec) -> CallSpec {
    if UNKNOWN.contains(&name) {
        return CallSpec {
            fills: fills::ALL,
            ..spec
        };
    }
    if name == "brk" {
        return CallSpec {
            fills: fills::ABOVE,
            ..spec
        };
    }
    let Some(fill) = FILLS.iter().find(|fill| fill.name == name) else {
        return spec;
    };
    let (fills_count, fills_bytes) = match fill.size {
        Size::Bytes(bytes) => (0, bytes),
        Size::Elements(argument, bytes) => (argument + 1, bytes),
    };
    CallSpec {
        fills: fill.pointer + 1,
        fills_count,
        fills_bytes,
        ..spec
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syscall::{Returned, is_in_some_table};

    #[test]
    fn a_call_without_a_file_exists_and_has_no_descriptor() {
        for name in FILELESS {
            assert!(is_in_some_table(name), "{name}");
            assert!(!names_descriptor(name), "{name}");
        }
    }

    #[test]
    fn a_path_may_name_any_file() {
        assert!(
            ["openat", "unlinkat", "statx", "utimensat", "msync", "poll"]
                .into_iter()
                .all(may_name_file_by_path)
        );
        assert!(
            !["read", "mmap", "munmap", "getpid"]
                .into_iter()
                .any(may_name_file_by_path)
        );
    }

    #[test]
    fn every_call_that_fills_memory_is_in_some_table() {
        let others = UNKNOWN.iter().copied();
        for name in FILLS.iter().map(|fill| fill.name).chain(others) {
            assert!(is_in_some_table(name), "{name}");
        }
    }

    #[test]
    fn calls_that_read_a_file_are_not_listed() {
        // The kernel side knows what these fill.
        for fill in FILLS {
            assert_ne!(
                Spec::of(fill.name).returned,
                Returned::Bytes,
                "{}",
                fill.name
            );
        }
    }

    #[test]
    fn the_kernel_side_counts_arguments_from_one() {
        let spec = with_filled_memory("getrandom", CallSpec::default());
        assert_eq!((spec.fills, spec.fills_count, spec.fills_bytes), (1, 2, 1));
        let spec = with_filled_memory("fstat", CallSpec::default());
        assert_eq!(
            (spec.fills, spec.fills_count, spec.fills_bytes),
            (2, 0, 144)
        );
        assert_eq!(
            with_filled_memory("process_vm_readv", CallSpec::default()).fills,
            fills::ALL
        );
        assert_eq!(
            with_filled_memory("brk", CallSpec::default()).fills,
            fills::ABOVE
        );
        assert_eq!(
            with_filled_memory("read", CallSpec::default()),
            CallSpec::default()
        );
    }
}
