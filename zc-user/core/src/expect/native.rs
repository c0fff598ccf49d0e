//! What a call is called on this machine, if somebody has another name for it: that of the 32-bit table, or of the C library.

use crate::syscall::{self, Abi};

/// Whether the machine's own table has a call of this name. The other names that are known are of 32-bit programs alone: of those that
/// people check, such a call is never made, and its 0 would say nothing.
pub(super) fn is_native(name: &str) -> bool {
    let call = name.split('(').next().unwrap_or_default();
    Abi::is_native(call)
}

/// The call of this machine that is meant by another name.
pub(super) fn meant_by(name: &str) -> Option<&'static str> {
    let stripped = ["_time64", "64", "32"].into_iter().filter_map(|suffix| name.strip_suffix(suffix)).map(str::to_owned);
    let spelled = [format!("{name}64"), format!("rt_{name}")];
    let native = |candidate: &str| syscall::known_names().find(|known| *known == candidate && is_native(known));
    let mut candidates = renamed(name).map(str::to_owned).into_iter().chain(stripped).chain(spelled);
    candidates.find_map(|candidate| native(&candidate).or_else(|| renamed(&candidate).and_then(native)))
}

/// The 64-bit call that takes the place of this one.
fn renamed(name: &str) -> Option<&'static str> {
    RENAMED.iter().chain(REPLACED).find(|(other, _)| *other == name).map(|(_, native)| *native)
}

/// Calls that arm64 never had, and those by which its C libraries do what they did. Source: the kernel's
/// include/uapi/asm-generic/unistd.h, which leaves out what a newer call can do.
const REPLACED: &[(&str, &str)] = if cfg!(target_arch = "aarch64") {
    &[
        ("access", "faccessat"),
        ("alarm", "setitimer"),
        ("chmod", "fchmodat"),
        ("chown", "fchownat"),
        ("creat", "openat"),
        ("dup2", "dup3"),
        ("epoll_create", "epoll_create1"),
        ("epoll_wait", "epoll_pwait"),
        ("eventfd", "eventfd2"),
        ("fork", "clone"),
        ("getdents", "getdents64"),
        ("getpgrp", "getpgid"),
        ("inotify_init", "inotify_init1"),
        ("lchown", "fchownat"),
        ("link", "linkat"),
        ("lstat", "newfstatat"),
        ("mkdir", "mkdirat"),
        ("mknod", "mknodat"),
        ("open", "openat"),
        ("pause", "ppoll"),
        ("pipe", "pipe2"),
        ("poll", "ppoll"),
        ("readlink", "readlinkat"),
        ("rename", "renameat"),
        ("rmdir", "unlinkat"),
        ("select", "pselect6"),
        ("signalfd", "signalfd4"),
        ("stat", "newfstatat"),
        ("symlink", "symlinkat"),
        ("time", "clock_gettime"),
        ("unlink", "unlinkat"),
        ("utime", "utimensat"),
        ("utimes", "utimensat"),
        ("vfork", "clone"),
    ]
} else {
    &[]
};

/// Names that no rule leads to the machine's own.
const RENAMED: [(&str, &str); 11] = [
    ("_llseek", "lseek"),
    ("_newselect", "select"),
    ("fadvise64_64", "fadvise64"),
    ("fstatat", "newfstatat"),
    ("fstatat64", "newfstatat"),
    ("mmap2", "mmap"),
    ("oldstat", "stat"),
    ("recv", "recvfrom"),
    ("send", "sendto"),
    ("umount", "umount2"),
    ("waitpid", "wait4"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_of_another_table_has_its_name_here() {
        let meant = ["sendfile64", "stat64", "mmap2", "recvmmsg_time64", "chown32", "_llseek", "sigaction", "send"].map(meant_by);
        let (stat, chown) = if cfg!(target_arch = "aarch64") { ("newfstatat", "fchownat") } else { ("stat", "chown") };
        let native = ["sendfile", stat, "mmap", "recvmmsg", chown, "lseek", "rt_sigaction", "sendto"];
        assert_eq!(meant, native.map(Some));
        assert_eq!(["pread", "pwrite", "fstatat"].map(meant_by), ["pread64", "pwrite64", "newfstatat"].map(Some));
        assert_eq!(meant_by("socketcall"), None);
    }

    #[test]
    fn what_this_machine_has_is_native() {
        assert!(["read", "pread64", "getdents64", "ioctl(FICLONE)"].into_iter().all(is_native));
        assert!(!["sendfile64", "mmap2", "socketcall", "pread"].into_iter().any(is_native));
        assert!(RENAMED.iter().all(|(other, native)| !is_native(other) && (is_native(native) || renamed(native).is_some())));
        assert!(REPLACED.iter().all(|(other, native)| !is_native(other) && is_native(native)));
    }
}
