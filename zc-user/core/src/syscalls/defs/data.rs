//! Calls that move data, which are counted by default. `mmap` and similar calls take a length, but
//! do not return a byte count.

use super::specs;
use crate::syscalls::spec::{
    CallEffect::{FillsMemory, Submits},
    Spec,
};

pub(super) const CALLS: &[Spec] = specs! {
    "read" [Data Desc] reads(0) size(2) bytes;
    "pread64" [Data Desc] reads(0) size(2) bytes;
    "readv" [Data Desc] reads(0) vector(1, 2) bytes;
    "preadv" [Data Desc] reads(0) vector(1, 2) bytes;
    "preadv2" [Data Desc] reads(0) vector(1, 2) bytes;
    "write" [Data Desc] writes(0) size(2) bytes;
    "pwrite64" [Data Desc] writes(0) size(2) bytes;
    "writev" [Data Desc] writes(0) vector(1, 2) bytes;
    "pwritev" [Data Desc] writes(0) vector(1, 2) bytes;
    "pwritev2" [Data Desc] writes(0) vector(1, 2) bytes;
    "sendfile" [Data Desc] copies(1, 0) size(3) bytes;
    // With 64-bit offsets in 32-bit tables.
    "sendfile64" [Data Desc] copies(1, 0) size(3) bytes;
    "splice" [Data Desc] copies(0, 2) size(4) bytes;
    "tee" [Data Desc] copies(0, 1) size(2) bytes;
    "vmsplice" [Data Desc] pipe(0) vector(1, 2) bytes;
    "copy_file_range" [Data Desc] copies(0, 2) size(4) bytes;
    "sendto" [Data Network] writes(0) size(2) bytes flags(3) socketcall(11);
    "sendmsg" [Data Network] writes(0) message(1) bytes flags(2) socketcall(16);
    "sendmmsg" [Data Network] writes(0) socketcall(20);
    "recvfrom" [Data Network] reads(0) size(2) bytes flags(3) socketcall(12);
    "recvmsg" [Data Network] reads(0) message(1) bytes flags(2) socketcall(17);
    "recvmmsg" [Data Network] reads(0) socketcall(19);
    "recvmmsg_time64" [Data Network] reads(0);
    "send" [Data Network] writes(0) size(2) bytes flags(3) socketcall(9) replaced_by("sendto");
    "recv" [Data Network] reads(0) size(2) bytes flags(3) socketcall(10) replaced_by("recvfrom");
    // With an offset in pages, in 32-bit tables.
    "mmap2" [Data Desc Memory] on(4) size(1) fills_array(0, 1, 1) replaced_by("mmap");
    "mmap" [Data Desc Memory] on(4) size(1) fills_array(0, 1, 1) in_memory_if_32_bit;
    "munmap" [Data Memory] size(1) no_file fills_array(0, 1, 1);
    "msync" [Data Memory] size(1);
    "ioctl(FICLONE)" [Data] copies(2, 0);
    "ioctl(FICLONERANGE)" [Data] clones_range(0, 2);
    "process_vm_readv" [Data] vector(1, 2) bytes fills_any effect(FillsMemory);
    "process_vm_writev" [Data] vector(1, 2) bytes;
    "io_submit" [Data] fills_any effect(Submits);
    "io_uring_enter" [Data Desc] on(0) effect(Submits);
};
