//! Calls that take a path.

use super::specs;
use crate::{
    syscalls::spec::{
        CallEffect::{Executes, Opens},
        PathForm::Two,
        Spec,
        Touching::{self, Path, TwoPaths},
        array, path, path_at, structure,
    },
    touched::TouchAction::{Changed, Created, Executed, LookedUp, Removed, Renamed, Written},
};

pub(super) const CALLS: &[Spec] = specs! {
    "access" [File] path: Some(path(0)), replacement: Some("faccessat");
    "acct" [File] path: Some(path(0)), touches: Some(Path(Written));
    "chdir" [File] path: Some(path(0)), changes_directory: true;
    "chmod" [File] path: Some(path(0)), replacement: Some("fchmodat"), touches: Some(Path(Changed));
    "chown" [File] path: Some(path(0)), replacement: Some("fchownat"), touches: Some(Path(Changed));
    "chown32" [File] path: Some(path(0)), touches: Some(Path(Changed));
    "chroot" [File] path: Some(path(0)), changes_directory: true,
        touches: Some(Touching::OTHER_ROOT);
    "creat" [File] path: Some(path(0)), effect: Opens, replacement: Some("openat");
    "execve" [File Process] path: Some(path(0)), effect: Executes;
    "execveat" [File Process] path: Some(path_at(1)), effect: Executes, at_flags: Some(4);
    "faccessat" [File] path: Some(path_at(1));
    "faccessat2" [File] path: Some(path_at(1)), at_flags: Some(3);
    "fanotify_mark" [File];
    "fchmodat" [File] path: Some(path_at(1)), touches: Some(Path(Changed));
    "fchmodat2" [File] path: Some(path_at(1)), at_flags: Some(3), touches: Some(Path(Changed));
    "fchownat" [File] path: Some(path_at(1)), at_flags: Some(4), touches: Some(Path(Changed));
    "file_getattr" [File] path: Some(path_at(1)), at_flags: Some(4);
    "file_setattr" [File] path: Some(path_at(1)), at_flags: Some(4), touches: Some(Path(Changed));
    "fspick" [File] path: Some(path_at(1));
    "fstatat64" [File] path: Some(path_at(1)), replacement: Some("newfstatat"), at_flags: Some(3);
    "futimesat" [File] path: Some(path_at(1)), touches: Some(Path(Changed));
    "getcwd" [File] filled: array(0, 1, 1);
    "getxattr" [File] path: Some(path(0)), filled: array(2, 3, 1);
    "getxattrat" [File] path: Some(path_at(1));
    "inotify_add_watch" [File] path: Some(path(1));
    "lchown" [File] path: Some(path(0)), replacement: Some("fchownat"),
        touches: Some(Path(Changed));
    "lchown32" [File] path: Some(path(0)), touches: Some(Path(Changed));
    "lgetxattr" [File] path: Some(path(0)), filled: array(2, 3, 1);
    "link" [File] path: Some(path(0)), path_form: Two, replacement: Some("linkat"),
        touches: Some(TwoPaths(LookedUp, Created));
    "linkat" [File] path: Some(path_at(1)), path_form: Two,
        at_flags: Some(4), touches: Some(TwoPaths(LookedUp, Created));
    "listxattr" [File] path: Some(path(0)), filled: array(1, 2, 1);
    "listxattrat" [File] path: Some(path_at(1));
    "llistxattr" [File] path: Some(path(0)), filled: array(1, 2, 1);
    "lremovexattr" [File] path: Some(path(0)), touches: Some(Path(Changed));
    "lsetxattr" [File] path: Some(path(0)), touches: Some(Path(Changed));
    "lstat" [File] path: Some(path(0)), filled: structure(1, 144), replacement: Some("newfstatat");
    "lstat64" [File] path: Some(path(0)), filled: structure(1, 144);
    "mkdir" [File] path: Some(path(0)), replacement: Some("mkdirat"), touches: Some(Path(Created));
    "mkdirat" [File] path: Some(path_at(1)), touches: Some(Path(Created));
    "mknod" [File] path: Some(path(0)), replacement: Some("mknodat"), touches: Some(Path(Created));
    "mknodat" [File] path: Some(path_at(1)), touches: Some(Path(Created));
    "mount" [File] path: Some(path(1)), touches: Some(Touching::OTHER_ROOT);
    "mount_setattr" [File] path: Some(path_at(1));
    "move_mount" [File] path: Some(path_at(1)), path_form: Two, touches: Some(Touching::OTHER_ROOT);
    "name_to_handle_at" [File] path: Some(path_at(1)), filled: structure(2, 136), at_flags: Some(4);
    "newfstatat" [File] path: Some(path_at(1)), filled: structure(2, 144), at_flags: Some(3);
    "oldlstat" [File] path: Some(path(0));
    "oldstat" [File] path: Some(path(0)), replacement: Some("stat");
    "open" [File] path: Some(path(0)), effect: Opens, replacement: Some("openat"),
        open_flags: Some(1);
    "open_tree" [File] path: Some(path_at(1)),
        at_flags: Some(2), touches: Some(Touching::OTHER_ROOT);
    "open_tree_attr" [File] path: Some(path_at(1));
    "openat" [File] path: Some(path_at(1)), effect: Opens, open_flags: Some(2);
    "openat2" [File] path: Some(path_at(1)), effect: Opens, open_flags: Some(2);
    "pivot_root" [File] path: Some(path(0)), path_form: Two, changes_directory: true,
        touches: Some(Touching::OTHER_ROOT);
    "quotactl" [File] path: Some(path(1));
    "readlink" [File] path: Some(path(0)), filled: array(1, 2, 1), replacement: Some("readlinkat");
    "readlinkat" [File] path: Some(path_at(1)), filled: array(2, 3, 1);
    "removexattr" [File] path: Some(path(0)), touches: Some(Path(Changed));
    "removexattrat" [File] path: Some(path_at(1)), at_flags: Some(2), touches: Some(Path(Changed));
    "rename" [File] path: Some(path(0)), path_form: Two, replacement: Some("renameat"),
        touches: Some(TwoPaths(Renamed, Renamed));
    "renameat" [File] path: Some(path_at(1)), path_form: Two,
        touches: Some(TwoPaths(Renamed, Renamed));
    "renameat2" [File] path: Some(path_at(1)), path_form: Two,
        touches: Some(TwoPaths(Renamed, Renamed));
    "rmdir" [File] path: Some(path(0)), replacement: Some("unlinkat"), touches: Some(Path(Removed));
    "setxattr" [File] path: Some(path(0)), touches: Some(Path(Changed));
    "setxattrat" [File] path: Some(path_at(1)), at_flags: Some(2), touches: Some(Path(Changed));
    "stat" [File] path: Some(path(0)), filled: structure(1, 144), replacement: Some("newfstatat");
    "stat64" [File] path: Some(path(0)), filled: structure(1, 144);
    "statfs" [File] path: Some(path(0)), filled: structure(1, 120);
    "statfs64" [File] path: Some(path(0));
    "statx" [File] path: Some(path_at(1)), filled: structure(4, 256), at_flags: Some(2);
    "swapoff" [File] path: Some(path(0));
    "swapon" [File] path: Some(path(0)), touches: Some(Path(Written));
    "symlink" [File] path: Some(path(1)), replacement: Some("symlinkat"),
        touches: Some(Path(Created));
    "symlinkat" [File] path: Some(path_at(2)), touches: Some(Path(Created));
    "truncate" [File] path: Some(path(0)), touches: Some(Path(Written));
    "truncate64" [File] path: Some(path(0)), touches: Some(Path(Written));
    "umount" [File] path: Some(path(0)), replacement: Some("umount2"),
        touches: Some(Touching::OTHER_ROOT);
    "umount2" [File] path: Some(path(0)), touches: Some(Touching::OTHER_ROOT);
    "unlink" [File] path: Some(path(0)), replacement: Some("unlinkat"),
        touches: Some(Path(Removed));
    "unlinkat" [File] path: Some(path_at(1)), at_flags: Some(2), touches: Some(Path(Removed));
    "uselib" [File] path: Some(path(0)), touches: Some(Path(Executed));
    "utime" [File] path: Some(path(0)), replacement: Some("utimensat"),
        touches: Some(Path(Changed));
    "utimensat" [File] path: Some(path_at(1)), at_flags: Some(3), touches: Some(Path(Changed));
    "utimensat_time64" [File] path: Some(path_at(1)),
        at_flags: Some(3), touches: Some(Path(Changed));
    "utimes" [File] path: Some(path(0)), replacement: Some("utimensat"),
        touches: Some(Path(Changed));
};
