//! Operations of `io_uring`, by opcode. Their file is number 0; number 1 is the second file of one
//! that has two. The sizes that they ask for are not known.
//!
//! Source: `enum io_uring_op` of the kernel's `include/uapi/linux/io_uring.h`, and `io_issue_defs`
//! of its `io_uring/opdef.c` for those that need a file; the results are those of the system calls
//! of the same name, see `io_uring_enter(2)`.

use super::specs;
use crate::syscalls::spec::{
    Fds::{Copies, On, Reads, Writes},
    Returned::Bytes,
    Spec,
};

pub(crate) const OPERATIONS: &[Spec] = specs! {
    "nop";
    "readv" fds: Reads(0), returned: Bytes;
    "writev" fds: Writes(0), returned: Bytes;
    "fsync" fds: On(0);
    "read_fixed" fds: Reads(0), returned: Bytes;
    "write_fixed" fds: Writes(0), returned: Bytes;
    "poll_add" fds: On(0);
    "poll_remove";
    "sync_file_range" fds: On(0);
    "sendmsg" fds: Writes(0), returned: Bytes;
    "recvmsg" fds: Reads(0), returned: Bytes;
    "timeout";
    "timeout_remove";
    "accept" fds: On(0);
    "async_cancel";
    "link_timeout";
    "connect" fds: On(0);
    "fallocate" fds: On(0);
    "openat";
    "close";
    "files_update";
    "statx";
    "read" fds: Reads(0), returned: Bytes;
    "write" fds: Writes(0), returned: Bytes;
    "fadvise" fds: On(0);
    "madvise";
    "send" fds: Writes(0), returned: Bytes;
    "recv" fds: Reads(0), returned: Bytes;
    "openat2";
    "epoll_ctl";
    "splice" fds: Copies { from: 1, to: 0 }, returned: Bytes;
    "provide_buffers";
    "remove_buffers";
    "tee" fds: Copies { from: 1, to: 0 }, returned: Bytes;
    "shutdown" fds: On(0);
    "renameat";
    "unlinkat";
    "mkdirat";
    "symlinkat";
    "linkat";
    "msg_ring" fds: On(0);
    "fsetxattr" fds: On(0);
    "setxattr";
    "fgetxattr" fds: On(0);
    "getxattr";
    "socket";
    "uring_cmd" fds: On(0);
    "send_zc" fds: Writes(0), returned: Bytes;
    "sendmsg_zc" fds: Writes(0), returned: Bytes;
    "read_multishot" fds: Reads(0), returned: Bytes;
    "waitid";
    "futex_wait";
    "futex_wake";
    "futex_waitv";
    "fixed_fd_install" fds: On(0);
    "ftruncate" fds: On(0);
    "bind" fds: On(0);
    "listen" fds: On(0);
    "recv_zc" fds: Reads(0), returned: Bytes;
    "epoll_wait" fds: On(0);
    "readv_fixed" fds: Reads(0), returned: Bytes;
    "writev_fixed" fds: Writes(0), returned: Bytes;
    "pipe";
};
