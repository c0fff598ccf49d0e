//! Calls that take or return a descriptor and move no data.

use super::specs;
use crate::{
    syscalls::spec::{
        CallEffect::{CreatesMemfd, Duplicates},
        Fds::On,
        Spec,
        TimeLimit::Returns0,
        Touching::{self, File},
        Variants::Command,
        array, structure,
    },
    touched::TouchAction::{Changed, Read, Written},
};

pub(super) const CALLS: &[Spec] = specs! {
    "bpf" [Desc] touches: Some(Touching::PINNED);
    "cachestat" [Desc];
    "close" [Desc] fds: On(0);
    "close_range" [Desc];
    "dup" [Desc] fds: On(0), effect: Duplicates;
    "dup2" [Desc] fds: On(0), effect: Duplicates, replacement: Some("dup3");
    "dup3" [Desc] fds: On(0), effect: Duplicates;
    "epoll_create" [Desc] replacement: Some("epoll_create1");
    "epoll_create1" [Desc];
    "epoll_ctl" [Desc] fds: On(0);
    "epoll_pwait" [Desc] fds: On(0), filled: array(1, 2, 16), time_limit: Returns0, waits: true;
    "epoll_pwait2" [Desc] fds: On(0), filled: array(1, 2, 16), time_limit: Returns0, waits: true;
    "epoll_wait" [Desc] fds: On(0), filled: array(1, 2, 16), replacement: Some("epoll_pwait"),
        time_limit: Returns0, waits: true;
    "eventfd" [Desc] replacement: Some("eventfd2");
    "eventfd2" [Desc];
    "fadvise64" [Desc] fds: On(0);
    "fadvise64_64" [Desc] replacement: Some("fadvise64");
    "fallocate" [Desc] fds: On(0), touches: Some(File(Written, 0));
    "fanotify_init" [Desc];
    "fchdir" [Desc] fds: On(0), changes_directory: true;
    "fchmod" [Desc] fds: On(0), touches: Some(File(Changed, 0));
    "fchown" [Desc] fds: On(0), touches: Some(File(Changed, 0));
    "fchown32" [Desc] touches: Some(File(Changed, 0));
    "fcntl" [Desc] fds: On(0), filled: structure(2, 32);
    "fcntl64" [Desc] fds: On(0);
    "fdatasync" [Desc] fds: On(0);
    "fgetxattr" [Desc] fds: On(0), filled: array(2, 3, 1);
    "finit_module" [Desc];
    "flistxattr" [Desc] fds: On(0), filled: array(1, 2, 1);
    "flock" [Desc] fds: On(0);
    "fremovexattr" [Desc] fds: On(0), touches: Some(File(Changed, 0));
    "fsconfig" [Desc];
    "fsetxattr" [Desc] fds: On(0), touches: Some(File(Changed, 0));
    "fsmount" [Desc] touches: Some(Touching::OTHER_ROOT);
    "fsopen" [Desc];
    "fstat" [Desc] fds: On(0), filled: structure(1, 144);
    "fstat64" [Desc] fds: On(0), filled: structure(1, 144);
    "fstatfs" [Desc] fds: On(0), filled: structure(1, 120);
    "fstatfs64" [Desc];
    "fsync" [Desc] fds: On(0);
    "ftruncate" [Desc] fds: On(0), touches: Some(File(Written, 0));
    "ftruncate64" [Desc] fds: On(0), touches: Some(File(Written, 0));
    "getdents" [Desc] fds: On(0), filled: array(1, 2, 1), replacement: Some("getdents64"),
        touches: Some(File(Read, 0));
    "getdents64" [Desc] fds: On(0), filled: array(1, 2, 1), touches: Some(File(Read, 0));
    "inotify_init" [Desc] replacement: Some("inotify_init1");
    "inotify_init1" [Desc];
    "inotify_rm_watch" [Desc];
    "io_uring_register" [Desc] fds: On(0);
    "io_uring_setup" [Desc] touches: Some(Touching::ASYNCHRONOUS);
    "ioctl" [Desc] fds: On(0), filled: structure(2, 64), variants: Command,
        touches: Some(File(Written, 0));
    "kexec_file_load" [Desc];
    "landlock_add_rule" [Desc];
    "landlock_create_ruleset" [Desc];
    "landlock_restrict_self" [Desc];
    "_llseek" [Desc] replacement: Some("lseek");
    "lseek" [Desc] fds: On(0);
    "memfd_create" [Desc] effect: CreatesMemfd;
    "memfd_secret" [Desc];
    "_newselect" [Desc] replacement: Some("select"), time_limit: Returns0;
    "open_by_handle_at" [Desc] open_flags: Some(2), touches: Some(Touching::OpenedByHandle);
    "perf_event_open" [Desc];
    "pidfd_getfd" [Desc];
    "pipe" [Desc] replacement: Some("pipe2");
    "pipe2" [Desc];
    "poll" [Desc] filled: array(0, 1, 8), replacement: Some("ppoll"), time_limit: Returns0, waits: true;
    "ppoll" [Desc] filled: array(0, 1, 8), time_limit: Returns0, waits: true;
    "ppoll_time64" [Desc] time_limit: Returns0;
    "pselect6" [Desc] filled: structure(1, 128), time_limit: Returns0, waits: true;
    "pselect6_time64" [Desc] time_limit: Returns0;
    "quotactl_fd" [Desc];
    "readahead" [Desc] fds: On(0);
    "select" [Desc] filled: structure(1, 128), replacement: Some("pselect6"), time_limit: Returns0, waits: true;
    "setns" [Desc] changes_directory: true, touches: Some(Touching::OTHER_ROOT);
    "sync_file_range" [Desc] fds: On(0);
    "syncfs" [Desc] fds: On(0);
    "timerfd_create" [Desc];
    "timerfd_gettime" [Desc];
    "timerfd_gettime64" [Desc];
    "timerfd_settime" [Desc];
    "timerfd_settime64" [Desc];
    "userfaultfd" [Desc];
};
