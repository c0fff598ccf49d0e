//! Which argument of a call is a path.

use super::covers;

/// Index of the argument with the path that the call of this name looks up; `None`: it takes none.
pub fn path_argument(name: &str) -> Option<u8> {
    PATHS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, index)| *index)
}

/// Index of the argument with the descriptor of the directory in which a relative path starts;
/// `None`: it is the working directory.
pub fn directory_argument(name: &str) -> Option<u8> {
    /// Calls with another argument before their path.
    const OTHERS: [&str; 4] = ["inotify_add_watch", "mount", "quotactl", "symlink"];
    path_argument(name)
        .filter(|_| !OTHERS.contains(&name))?
        .checked_sub(1)
}

/// The calls that may change the directory in which relative paths start.
pub const CHANGING_DIRECTORY: [&str; 5] = ["chdir", "chroot", "fchdir", "pivot_root", "setns"];

/// The calls that take a path.
pub fn path_calls() -> impl Iterator<Item = &'static str> {
    PATHS.iter().map(|(name, _)| *name)
}

/// Whether the call of this name, or one of the calls that it stands for, takes a path.
pub(crate) fn takes_path(name: &str) -> bool {
    path_calls().any(|known| covers(name, |name| name == known))
}

/// Every call that takes a path, with the index of that argument from 0. Of two paths, as of
/// `rename`, it is the first that the kernel looks up; the target of a symbolic link is not looked
/// up. Source: the manual page of each, and the kernel's `SYSCALL_DEFINE` of those without one.
/// `fanotify_mark` is not here, because its path is another argument in 32-bit programs.
const PATHS: &[(&str, u8)] = &[
    ("access", 0),
    ("acct", 0),
    ("chdir", 0),
    ("chmod", 0),
    ("chown", 0),
    ("chown32", 0),
    ("chroot", 0),
    ("creat", 0),
    ("execve", 0),
    ("execveat", 1),
    ("faccessat", 1),
    ("faccessat2", 1),
    ("fchmodat", 1),
    ("fchmodat2", 1),
    ("fchownat", 1),
    ("file_getattr", 1),
    ("file_setattr", 1),
    ("fspick", 1),
    ("fstatat64", 1),
    ("futimesat", 1),
    ("getxattr", 0),
    ("getxattrat", 1),
    ("inotify_add_watch", 1),
    ("lchown", 0),
    ("lchown32", 0),
    ("lgetxattr", 0),
    ("link", 0),
    ("linkat", 1),
    ("listxattr", 0),
    ("listxattrat", 1),
    ("llistxattr", 0),
    ("lremovexattr", 0),
    ("lsetxattr", 0),
    ("lstat", 0),
    ("lstat64", 0),
    ("mkdir", 0),
    ("mkdirat", 1),
    ("mknod", 0),
    ("mknodat", 1),
    // The device need not be a path.
    ("mount", 1),
    ("mount_setattr", 1),
    ("move_mount", 1),
    ("name_to_handle_at", 1),
    ("newfstatat", 1),
    ("oldlstat", 0),
    ("oldstat", 0),
    ("open", 0),
    ("open_tree", 1),
    ("open_tree_attr", 1),
    ("openat", 1),
    ("openat2", 1),
    ("pivot_root", 0),
    ("quotactl", 1),
    ("readlink", 0),
    ("readlinkat", 1),
    ("removexattr", 0),
    ("removexattrat", 1),
    ("rename", 0),
    ("renameat", 1),
    ("renameat2", 1),
    ("rmdir", 0),
    ("setxattr", 0),
    ("setxattrat", 1),
    ("stat", 0),
    ("stat64", 0),
    ("statfs", 0),
    ("statfs64", 0),
    ("statx", 1),
    ("swapoff", 0),
    ("swapon", 0),
    ("symlink", 1),
    ("symlinkat", 2),
    ("truncate", 0),
    ("truncate64", 0),
    ("umount", 0),
    ("umount2", 0),
    ("unlink", 0),
    ("unlinkat", 1),
    ("uselib", 0),
    ("utime", 0),
    ("utimensat", 1),
    ("utimensat_time64", 1),
    ("utimes", 0),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::syscall::calls_of_class;

    #[test]
    fn the_calls_of_the_class_file_take_paths() {
        let class: BTreeSet<_> = calls_of_class("file")
            .expect("a class")
            .into_iter()
            .collect();
        let paths: BTreeSet<_> = path_calls().collect();
        let others: Vec<_> = class.symmetric_difference(&paths).copied().collect();
        assert_eq!(others, ["fanotify_mark", "getcwd"]);
        assert_eq!(paths.len(), path_calls().count(), "each once");
    }

    #[test]
    fn calls_relative_to_a_directory_have_their_path_behind_it() {
        assert_eq!(
            ["open", "openat", "symlinkat", "read"].map(path_argument),
            [Some(0), Some(1), Some(2), None]
        );
        assert!(takes_path("openat") && !takes_path("read"));
        let directories = [
            "open",
            "openat",
            "symlinkat",
            "symlink",
            "mount",
            "renameat2",
        ]
        .map(directory_argument);
        assert_eq!(directories, [None, Some(0), Some(1), None, None, Some(0)]);
    }
}
