//! Calls that move data, which are counted by default. `mmap` and similar calls take a length, but
//! do not return a byte count.

use super::specs;
use crate::{
    syscalls::spec::{
        CallEffect::{FillsMemory, Submits},
        Fds::{ClonesRange, Copies, Maps, On, Pipe, Reads, Writes},
        FilledMemory::Any,
        Requested::{Iovec, Message, Size},
        Returned::Bytes,
        Spec,
        Touching::{Address, Sent},
        array,
    },
    touched::TouchAction::SentTo,
};

pub(super) const CALLS: &[Spec] = specs! {
    "read" [Data Desc] fds: Reads(0), requested: Size(2), returned: Bytes;
    "pread64" [Data Desc] fds: Reads(0), requested: Size(2), returned: Bytes;
    "readv" [Data Desc] fds: Reads(0), requested: Iovec { base: 1, count: 2 }, returned: Bytes;
    "preadv" [Data Desc] fds: Reads(0), requested: Iovec { base: 1, count: 2 }, returned: Bytes;
    "preadv2" [Data Desc] fds: Reads(0), requested: Iovec { base: 1, count: 2 }, returned: Bytes;
    "write" [Data Desc] fds: Writes(0), requested: Size(2), returned: Bytes;
    "pwrite64" [Data Desc] fds: Writes(0), requested: Size(2), returned: Bytes;
    "writev" [Data Desc] fds: Writes(0), requested: Iovec { base: 1, count: 2 }, returned: Bytes;
    "pwritev" [Data Desc] fds: Writes(0), requested: Iovec { base: 1, count: 2 }, returned: Bytes;
    "pwritev2" [Data Desc] fds: Writes(0), requested: Iovec { base: 1, count: 2 }, returned: Bytes;
    "sendfile" [Data Desc] fds: Copies { from: 1, to: 0 }, requested: Size(3), returned: Bytes;
    // With 64-bit offsets in 32-bit tables.
    "sendfile64" [Data Desc] fds: Copies { from: 1, to: 0 }, requested: Size(3), returned: Bytes;
    "splice" [Data Desc] fds: Copies { from: 0, to: 2 }, requested: Size(4), returned: Bytes;
    "tee" [Data Desc] fds: Copies { from: 0, to: 1 }, requested: Size(2), returned: Bytes;
    "vmsplice" [Data Desc] fds: Pipe(0), requested: Iovec { base: 1, count: 2 }, returned: Bytes;
    "copy_file_range" [Data Desc] fds: Copies { from: 0, to: 2 }, requested: Size(4),
        returned: Bytes;
    "sendto" [Data Network] fds: Writes(0), requested: Size(2), returned: Bytes,
        message_flags: Some(3), socketcall: Some(11), touches: Some(Address(SentTo, 4));
    "sendmsg" [Data Network] fds: Writes(0), requested: Message(1), returned: Bytes,
        message_flags: Some(2), socketcall: Some(16), touches: Some(Sent);
    "sendmmsg" [Data Network] fds: Writes(0), socketcall: Some(20), touches: Some(Sent);
    "recvfrom" [Data Network] fds: Reads(0), requested: Size(2), returned: Bytes,
        message_flags: Some(3), socketcall: Some(12);
    "recvmsg" [Data Network] fds: Reads(0), requested: Message(1), returned: Bytes,
        message_flags: Some(2), socketcall: Some(17);
    "recvmmsg" [Data Network] fds: Reads(0), socketcall: Some(19);
    "recvmmsg_time64" [Data Network] fds: Reads(0);
    "send" [Data Network] fds: Writes(0), requested: Size(2), returned: Bytes,
        message_flags: Some(3), socketcall: Some(9), replacement: Some("sendto");
    "recv" [Data Network] fds: Reads(0), requested: Size(2), returned: Bytes,
        message_flags: Some(3), socketcall: Some(10), replacement: Some("recvfrom");
    // With an offset in pages, in 32-bit tables.
    "mmap2" [Data Desc Memory] fds: Maps(4), requested: Size(1), filled: array(0, 1, 1),
        replacement: Some("mmap");
    "mmap" [Data Desc Memory] fds: Maps(4), requested: Size(1), filled: array(0, 1, 1),
        is_in_memory_if_32_bit: true;
    "munmap" [Data Memory] requested: Size(1), is_without_file: true, filled: array(0, 1, 1);
    "msync" [Data Memory] requested: Size(1);
    "ioctl(FICLONE)" [Data] fds: Copies { from: 2, to: 0 };
    "ioctl(FICLONERANGE)" [Data] fds: ClonesRange { to: 0, request: 2 };
    "process_vm_readv" [Data] requested: Iovec { base: 1, count: 2 }, returned: Bytes, filled: Any,
        effect: FillsMemory;
    "process_vm_writev" [Data] requested: Iovec { base: 1, count: 2 }, returned: Bytes, filled: Any;
    "io_submit" [Data] filled: Any, effect: Submits;
    "io_uring_enter" [Data Desc] fds: On(0), effect: Submits;
};
