//! The name that a call has on this machine, for names of 32-bit tables and of the C library.

use super::{Abi, known_names};

/// The call of this machine that another name stands for.
pub(crate) fn meant_by(name: &str) -> Option<&'static str> {
    let stripped = ["_time64", "64", "32"].into_iter().filter_map(|suffix| name.strip_suffix(suffix)).map(str::to_owned);
    let spelled = [format!("{name}64"), format!("rt_{name}")];
    let native = |candidate: &str| known_names().find(|known| *known == candidate && Abi::is_native(known));
    let mut candidates = renamed(name).map(str::to_owned).into_iter().chain(stripped).chain(spelled);
    candidates.find_map(|candidate| native(&candidate).or_else(|| renamed(&candidate).and_then(native)))
}

/// The call that replaces this one on 64-bit machines.
fn renamed(name: &str) -> Option<&'static str> {
    RENAMED.iter().chain(REPLACED).find(|(other, _)| *other == name).map(|(_, native)| *native)
}

/// Calls that arm64 never had, and those that its C libraries use instead. Source: the kernel's include/uapi/asm-generic/unistd.h, which
/// leaves out calls that a newer one replaces.
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

/// Names that cannot be derived by a rule.
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

    fn is_native(call: &str) -> bool {
        Abi::is_native(call)
    }

    #[test]
    fn a_name_of_another_table_is_translated() {
        let meant = ["sendfile64", "stat64", "mmap2", "recvmmsg_time64", "chown32", "_llseek", "sigaction", "send"].map(meant_by);
        let (stat, chown) = if cfg!(target_arch = "aarch64") { ("newfstatat", "fchownat") } else { ("stat", "chown") };
        let native = ["sendfile", stat, "mmap", "recvmmsg", chown, "lseek", "rt_sigaction", "sendto"];
        assert_eq!(meant, native.map(Some));
        assert_eq!(["pread", "pwrite", "fstatat"].map(meant_by), ["pread64", "pwrite64", "newfstatat"].map(Some));
        assert_eq!(meant_by("socketcall"), None);
    }

    #[test]
    fn a_call_of_this_machines_table_is_native() {
        assert!(["read", "pread64", "getdents64", "ioctl(FICLONE)"].into_iter().all(is_native));
        assert!(!["sendfile64", "mmap2", "socketcall", "pread"].into_iter().any(is_native));
        assert!(RENAMED.iter().all(|(other, native)| !is_native(other) && (is_native(native) || renamed(native).is_some())));
        assert!(REPLACED.iter().all(|(other, native)| !is_native(other) && is_native(native)));
    }
}
