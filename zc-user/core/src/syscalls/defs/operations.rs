//! Operations of `io_uring`, by opcode. Their file is number 0; number 1 is the second file of one
//! that has two. The sizes that they ask for are not known.
//!
//! Source: `enum io_uring_op` of the kernel's `include/uapi/linux/io_uring.h`, and `io_issue_defs`
//! of its `io_uring/opdef.c` for those that need a file; the results are those of the system calls
//! of the same name, see `io_uring_enter(2)`.

use super::specs;
use crate::syscalls::Spec;

pub(crate) const OPERATIONS: &[Spec] = specs! {
    "nop";
    "readv" reads(0) bytes;
    "writev" writes(0) bytes;
    "fsync" on(0);
    "read_fixed" reads(0) bytes;
    "write_fixed" writes(0) bytes;
    "poll_add" on(0);
    "poll_remove";
    "sync_file_range" on(0);
    "sendmsg" writes(0) bytes;
    "recvmsg" reads(0) bytes;
    "timeout";
    "timeout_remove";
    "accept" on(0);
    "async_cancel";
    "link_timeout";
    "connect" on(0);
    "fallocate" on(0);
    "openat";
    "close";
    "files_update";
    "statx";
    "read" reads(0) bytes;
    "write" writes(0) bytes;
    "fadvise" on(0);
    "madvise";
    "send" writes(0) bytes;
    "recv" reads(0) bytes;
    "openat2";
    "epoll_ctl";
    "splice" copies(1, 0) bytes;
    "provide_buffers";
    "remove_buffers";
    "tee" copies(1, 0) bytes;
    "shutdown" on(0);
    "renameat";
    "unlinkat";
    "mkdirat";
    "symlinkat";
    "linkat";
    "msg_ring" on(0);
    "fsetxattr" on(0);
    "setxattr";
    "fgetxattr" on(0);
    "getxattr";
    "socket";
    "uring_cmd" on(0);
    "send_zc" writes(0) bytes;
    "sendmsg_zc" writes(0) bytes;
    "read_multishot" reads(0) bytes;
    "waitid";
    "futex_wait";
    "futex_wake";
    "futex_waitv";
    "fixed_fd_install" on(0);
    "ftruncate" on(0);
    "bind" on(0);
    "listen" on(0);
    "recv_zc" reads(0) bytes;
    "epoll_wait" on(0);
    "readv_fixed" reads(0) bytes;
    "writev_fixed" writes(0) bytes;
    "pipe";
};
