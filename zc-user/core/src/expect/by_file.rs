//! Which calls can be chosen by file: a trace knows the files behind descriptors, not those that a path names.

use super::ast::Subject;
use crate::syscall::{self, Fds, Spec};

/// Whether calls of this name say by a descriptor which file they are about.
pub(super) fn names_descriptor(call: &str) -> bool {
    Spec::of(call).fds != Fds::None
}

/// Whether calls of this name may be about a file that no descriptor names: by a path, a mapping, a set of descriptors.
pub(super) fn may_name_file_otherwise(call: &str) -> bool {
    !names_descriptor(call) && !FILELESS.contains(&call)
}

/// Why a subject cannot be chosen from by file; `None` if it can.
pub(super) fn why_not(subject: &Subject) -> Option<String> {
    let has_descriptors = match subject {
        Subject::AllCalls => true,
        Subject::Call(name) => names_descriptor(name),
        Subject::Class(class) => syscall::calls_of_class(class).unwrap_or_default().into_iter().any(names_descriptor),
        _ => return Some(format!("{subject} cannot be chosen by file; only calls can")),
    };
    let why =
        || format!("{subject} cannot be chosen by file: only of calls on a descriptor, like read or fstat, is the file known");
    (!has_descriptors).then(why)
}

/// Calls that are about no file, whatever their arguments are. Source: the manual page of each. What is not here and names no
/// descriptor may be about any file.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_no_file_is_a_call_and_has_no_descriptor() {
        for name in FILELESS {
            assert!(syscall::is_in_some_table(name), "{name}");
            assert!(!names_descriptor(name), "{name}");
        }
    }

    #[test]
    fn a_path_may_name_any_file() {
        assert!(["openat", "unlinkat", "statx", "utimensat", "msync", "poll"].into_iter().all(may_name_file_otherwise));
        assert!(!["read", "mmap", "munmap", "getpid"].into_iter().any(may_name_file_otherwise));
    }
}
