//! Which memory of its caller the kernel writes in calls that read no file, or takes away.
//!
//! What a read had put there is gone then, and a write from there is no copy of it. Only what is large enough to lie in somebody's
//! buffer is listed; what a call tells in a word or two is not. What no line tells, the sample of the bytes does.

use zc_ebpf::{CallSpec, fills};

/// Memory that a call fills. Arguments count from 0.
struct Fill {
    name: &'static str,
    /// Index of the pointer.
    pointer: u8,
    size: Size,
}

/// How many bytes there are.
#[derive(Clone, Copy)]
enum Size {
    /// So many.
    Bytes(u16),
    /// As many elements as the argument says, of so many bytes each.
    Elements(u8, u16),
}

/// A call after which nothing is known of its caller's memory: what it fills stands in structures that are not looked at.
const UNKNOWN: &[&str] = &["io_getevents", "io_pgetevents", "io_submit", "process_vm_readv", "shmat", "shmdt"];

const fn of(name: &'static str, pointer: u8, size: Size) -> Fill {
    Fill { name, pointer, size }
}

/// Source: the manual page of each call, section 2, and the sizes of the structures on 64-bit machines in the kernel's include/uapi.
const TABLE: &[Fill] = {
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

/// What the kernel side does with the call of this name, with the memory that it fills.
pub(super) fn with(name: &str, spec: CallSpec) -> CallSpec {
    if UNKNOWN.contains(&name) {
        return CallSpec { fills: fills::ALL, ..spec };
    }
    if name == "brk" {
        return CallSpec { fills: fills::ABOVE, ..spec };
    }
    let Some(fill) = TABLE.iter().find(|fill| fill.name == name) else { return spec };
    let (fills_count, fills_bytes) = match fill.size {
        Size::Bytes(bytes) => (0, bytes),
        Size::Elements(argument, bytes) => (argument + 1, bytes),
    };
    CallSpec { fills: fill.pointer + 1, fills_count, fills_bytes, ..spec }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syscall::{Abi, Returned, Spec};

    #[test]
    fn every_line_names_a_call_of_some_table() {
        for name in TABLE.iter().map(|fill| fill.name).chain(UNKNOWN.iter().copied()) {
            let known = (0..zc_ebpf::TABLE_SLOTS).any(|number| Abi::ALL.iter().any(|abi| abi.call_name(number) == Some(name)));
            assert!(known, "{name}");
        }
    }

    #[test]
    fn no_call_that_reads_a_file_is_listed() {
        // The kernel side knows itself what these fill.
        for fill in TABLE {
            assert_ne!(Spec::of(fill.name).returned, Returned::Bytes, "{}", fill.name);
        }
    }

    #[test]
    fn a_line_becomes_indices_from_one() {
        let spec = with("getrandom", CallSpec::default());
        assert_eq!((spec.fills, spec.fills_count, spec.fills_bytes), (1, 2, 1));
        let spec = with("fstat", CallSpec::default());
        assert_eq!((spec.fills, spec.fills_count, spec.fills_bytes), (2, 0, 144));
        assert_eq!(with("process_vm_readv", CallSpec::default()).fills, fills::ALL);
        assert_eq!(with("brk", CallSpec::default()).fills, fills::ABOVE);
        assert_eq!(with("read", CallSpec::default()), CallSpec::default());
    }
}
