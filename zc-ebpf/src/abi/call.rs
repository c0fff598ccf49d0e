//! How a system call is identified, and what the programs do with it.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::zeroed;

/// Which system call: its number in the low 16 bits, and the flags [`VARIANT_SHIFT`], [`RING`],
/// [`X32`] and [`COMPAT`].
pub type CallId = u32;
/// In [`CallId`]: the call came through the 32-bit entry and has that table's number.
pub const COMPAT: CallId = 1 << 31;
/// In [`CallId`]: the call came through the x32 ABI (64-bit entry, 32-bit pointers).
pub const X32: CallId = 1 << 30;
/// In [`CallId`]: an operation of `io_uring`, not a call. The number is its opcode, or
/// [`UNKNOWN_OPERATION`].
pub const RING: CallId = 1 << 29;
/// Stands for an opcode that the kernel does not report.
pub const UNKNOWN_OPERATION: u32 = 0xffff;
/// Stands for an operation that the kernel refused as invalid before it looked at its files. If the
/// kernel does not know an opcode, it stores 0 instead, the opcode of a nop (`io_init_req` in its
/// `io_uring/io_uring.c`), so the original is lost.
pub const INVALID_OPERATION: u32 = 0xfffe;
/// In the [`CallId`] of a key of a map, never elsewhere: the entry was made in an odd epoch, see
/// [`maps::EPOCH`](crate::maps::EPOCH).
pub const ODD_EPOCH: CallId = 1 << 28;
/// In the [`CallId`] of a key of a row, never elsewhere: the row is of bytes that calls wrote from a
/// file other than the input of their own row, because their buffers held bytes of several files.
pub const PART: CallId = 1 << 27;
/// In [`CallId`]: the position of the variant of a multiplexed call (see [`FICLONE_VARIANT`]).
pub const VARIANT_SHIFT: u32 = 16;
/// Bits of the variant, after shifting.
pub const VARIANT_MASK: CallId = 0xff;
/// Variant of `ioctl`: `FICLONE`.
pub const FICLONE_VARIANT: CallId = 1;
/// Variant of `ioctl`: `FICLONERANGE`.
pub const FICLONERANGE_VARIANT: CallId = 2;
/// Variants of `socketcall`, the 32-bit call that multiplexes the socket calls: this, or'ed with
/// its first argument.
pub const SOCKET_VARIANTS: CallId = 0x20;
/// The first arguments that `socketcall` knows are below this.
pub const SOCKET_CALLS: u32 = 32;
/// Bits of the number in [`CallId`].
pub const NUMBER_MASK: CallId = 0xffff;
/// The number in a [`CallId`] that stands for all numbers from here on, which no table has.
/// Negative numbers are among them, because they are read as unsigned.
pub const FIRST_BEYOND: u32 = 0xffff;
/// In a [`CallId`] of 32-bit ARM: the numbers from here on stand for that architecture's private
/// calls (from `__ARM_NR_BASE`, `0x0f0000`, in the kernel's arch/arm/include/uapi/asm/unistd.h),
/// whose own numbers are too large for a table.
pub const ARM_PRIVATE: u32 = 0x3f0;
/// How many private calls of 32-bit ARM are distinguished.
pub const ARM_PRIVATE_CALLS: u32 = 8;

/// Slots of a table of calls in [`maps::SPECS`](crate::maps::SPECS). All larger numbers share
/// the last slot.
pub const TABLE_SLOTS: u32 = 1024;
/// Number of opcodes of `io_uring`: all that fit into the kernel's field.
pub const OPCODES: u32 = 256;
/// Slots of [`maps::SPECS`](crate::maps::SPECS): the native table, the 32-bit table, the
/// operations of `io_uring`, and the variants of `socketcall`.
pub const SPEC_SLOTS: u32 = 2 * TABLE_SLOTS + OPCODES + SOCKET_CALLS;

/// The slot in [`maps::SPECS`](crate::maps::SPECS) of a call with this number.
#[inline(always)]
pub const fn spec_slot(number: u32, compat: bool) -> u32 {
    let number = if number < TABLE_SLOTS {
        number
    } else {
        TABLE_SLOTS - 1
    };
    if compat { TABLE_SLOTS + number } else { number }
}

/// The slot in [`maps::SPECS`](crate::maps::SPECS) of an operation of `io_uring` with this
/// opcode.
#[inline(always)]
pub const fn operation_slot(opcode: u8) -> u32 {
    2 * TABLE_SLOTS + opcode as u32
}

/// The slot in [`maps::SPECS`](crate::maps::SPECS) of a `socketcall` with this first
/// argument. All unknown arguments share the slot of 0, which is unknown, too.
#[inline(always)]
pub const fn socket_slot(argument: u32) -> u32 {
    2 * TABLE_SLOTS + OPCODES + if argument < SOCKET_CALLS { argument } else { 0 }
}

/// Whether this is one of the kernel-internal errors of a call that a signal interrupted:
/// `ERESTARTSYS`, `ERESTARTNOINTR`, `ERESTARTNOHAND` and `ERESTART_RESTARTBLOCK` of its
/// include/linux/errno.h. No program sees them.
#[inline(always)]
pub const fn is_restart(errno: u32) -> bool {
    matches!(errno, 512..=514 | 516)
}

/// `EINTR` of the kernel's include/uapi/asm-generic/errno-base.h: a signal interrupted the call.
pub const EINTR: u32 = 4;

/// Whether the error only says that the call may be made again (`EAGAIN`, `EINTR`, or a restart). Where
/// a task is to be created, `EAGAIN` says that there are too many.
#[inline(always)]
pub const fn may_be_repeated(errno: u32, creates_task: bool) -> bool {
    errno == EINTR || errno == 11 && !creates_task || is_restart(errno)
}

/// The most bytes that a call moves, however many it asks for: `MAX_RW_COUNT` of the kernel's
/// include/linux/fs.h, with pages of 4 KiB.
pub const MAX_BYTES: u64 = 0x7fff_f000;

/// The errno in the result of a call, as a positive number; 0 if the call did not fail.
#[inline(always)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an errno is a small positive number"
)]
pub const fn errno_of(result: i64) -> u32 {
    /// The highest errno a call can return, of the kernel's include/linux/err.h.
    const MAX_ERRNO: i64 = 4095;
    if -MAX_ERRNO <= result && result < 0 {
        -result as u32
    } else {
        0
    }
}

/// What the programs do with a call. Aligned, so that two loads copy it.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, Immutable, IntoBytes)]
pub struct CallSpec {
    /// One of [`selected`]'s constants.
    pub selected: u8,
    /// How the size asked for is found: one of [`requested`]'s constants.
    pub requested: u8,
    /// Index of the argument that [`requested`](Self::requested) refers to.
    pub argument: u8,
    /// 1: a positive result is a number of bytes.
    pub returns_bytes: u8,
    /// Index of the argument that counts the elements of an I/O vector.
    pub count_argument: u8,
    /// Which arguments name files: one of [`fds`]'s constants.
    pub fds: u8,
    /// Index of the first argument that [`fds`](Self::fds) refers to.
    pub first: u8,
    /// Index of the second argument that [`fds`](Self::fds) refers to.
    pub second: u8,
    /// Which memory of the caller the kernel writes, apart from bytes that a call reads from a
    /// file: one of the constants in [`overwrites`], or the index of the pointer, from 1.
    pub overwrites: u8,
    /// Index, from 1, of the argument with the number of elements in that memory. 0: there is one
    /// element.
    pub overwrites_count: u8,
    /// Size of such an element, bytes.
    pub overwrites_bytes: u16,
    /// Index, from 1, of the argument with the `MSG_...` flags; 0: there are none.
    pub message_flags: u8,
    /// Index, from 1, of the argument that points to a path; 0: there is none.
    pub path: u8,
    /// Index, from 1, of the argument with the descriptor of the directory in which a relative path
    /// starts; 0: there is none.
    pub directory: u8,
    /// What else it does: bits of [`traits`].
    pub traits: u8,
}

impl CallSpec {
    /// A call that the programs ignore.
    pub const NONE: Self = zeroed();
}

/// What a call does, or how it is given its path.
pub mod traits {
    /// If it succeeds, the memory of its caller is gone, so its path cannot be read any more
    /// (`execve`).
    pub const REPLACES_MEMORY: u8 = 1;
    /// It creates a task.
    pub const CREATES_TASK: u8 = 2;
    /// It looks up two paths (`rename`). The second one is in the argument after the first, or after
    /// that with the descriptor of its own directory.
    pub const HAS_TWO_PATHS: u8 = 4;
    /// The argument points to the address of a socket, and the next one is the length of that. The
    /// address of a Unix socket is a path.
    pub const HAS_ADDRESS: u8 = 8;
    /// What looks like its result is a register of the code that a signal interrupted, so it never
    /// fails (`rt_sigreturn`).
    pub const RESTORES_REGISTERS: u8 = 16;
    /// It waits, and returns 0 if its time limit passes (`poll`).
    pub const RETURNS_0_IF_TIMED_OUT: u8 = 32;
    /// It waits, and fails with `ETIMEDOUT` if its time limit passes (`futex`).
    pub const FAILS_IF_TIMED_OUT: u8 = 64;
    /// It may tell the pending error of a socket (`getsockopt`).
    pub const READS_SOCKET_ERROR: u8 = 128;
}

/// Which memory of its caller the kernel writes in a call.
pub mod overwrites {
    /// None that a read could have filled.
    pub const NONE: u8 = 0;
    /// Unknown, so possibly all of it.
    pub const ALL: u8 = u8::MAX;
    /// The [`ABOVE_BYTES`] above the address in the first argument: `brk` removes them.
    pub const ABOVE: u8 = u8::MAX - 1;
    /// What its first two arguments say, if the advice in the third one discards it: `madvise`.
    pub const DISCARDED: u8 = u8::MAX - 2;
    /// None before it returns: then `mremap` has moved the mapping of its first two arguments.
    pub const MOVED: u8 = u8::MAX - 3;
    /// The advices that discard memory, up to [`LAST_ADVICE`], as bits: `MADV_DONTNEED`, `MADV_FREE`,
    /// `MADV_REMOVE` and `MADV_DONTNEED_LOCKED` of the kernel's include/uapi/asm-generic/mman-common.h.
    pub const DISCARDING_ADVICES: u64 = 1 << 4 | 1 << 8 | 1 << 9 | 1 << 24;
    /// `MADV_COLLAPSE`. Those beyond it discard memory, or are not known.
    pub const LAST_ADVICE: u64 = 25;
    /// More than a heap ever shrinks by, and less than the distance between the heap and the
    /// mappings.
    pub const ABOVE_BYTES: u64 = 1 << 30;
}

/// Whether a call is counted.
pub mod selected {
    /// Never.
    pub const NEVER: u8 = 0;
    /// Always.
    pub const ALWAYS: u8 = 1;
    /// Only if it is a variant (see [`FICLONE_VARIANT`](crate::FICLONE_VARIANT)).
    pub const VARIANTS: u8 = 2;
}

/// How the size that a call asks for is found.
pub mod requested {
    /// The call asks for no size that could be compared with its result.
    pub const NONE: u8 = 0;
    /// The argument is the size.
    pub const SIZE: u8 = 1;
    /// The argument points to an array of `struct iovec`.
    pub const IOVEC: u8 = 2;
    /// The argument points to a `struct msghdr`.
    pub const MSGHDR: u8 = 3;
    /// The call is `ioctl`: the argument is the command, which selects a variant of the call.
    pub const IOCTL: u8 = 4;
    /// The call is `socketcall`: its first argument selects a variant, which has a spec of its own.
    pub const SOCKETCALL: u8 = 5;
    /// The size is in memory that the programs do not read.
    pub const UNKNOWN: u8 = 6;
}

/// Which arguments of a call name files, and in which direction bytes go. "First" and "second" are
/// [`CallSpec::first`](crate::CallSpec::first) and [`CallSpec::second`](crate::CallSpec::second).
pub mod fds {
    /// None.
    pub const NONE: u8 = 0;
    /// Bytes come from the file of the first.
    pub const READS: u8 = 1;
    /// Bytes go to the file of the first.
    pub const WRITES: u8 = 2;
    /// Bytes come from the file of the first and go to that of the second.
    pub const COPIES: u8 = 3;
    /// The first is a pipe: bytes go into it if it is open for writing, else they come out of it.
    pub const PIPE: u8 = 4;
    /// The call acts on the file of the first, and moves no bytes.
    pub const ON: u8 = 5;
    /// The call is `ioctl`: it acts on the file of the first. If it is a variant, bytes go there
    /// from the file that its request names.
    pub const IOCTL: u8 = 6;
    /// The call maps the file of the first: for writing if the mapping is shared and writable.
    pub const MAPS: u8 = 7;

    /// Whether a call with such arguments leaves every open descriptor of the caller as it is. It
    /// may add new ones (`recvmsg`).
    #[inline(always)]
    pub const fn only_used(fds: u8) -> bool {
        matches!(fds, READS | WRITES | COPIES | PIPE)
    }
}

/// What the programs record of each call, as bits. User space chooses before it loads them, so that
/// the verifier removes the code of all else.
pub mod recorded {
    /// Rows: what was called how often, with which result and how many bytes.
    pub const ROWS: u32 = 1 << 0;
    /// When calls were made, and how long they took.
    pub const TIMES: u32 = 1 << 1;
    /// How these times are distributed.
    pub const HISTOGRAMS: u32 = 1 << 2;
    /// The calls that have no rows.
    pub const OTHER_CALLS: u32 = 1 << 3;
    /// Which files calls are about.
    pub const FILES: u32 = 1 << 4;
    /// Which bytes of a write came from which read.
    pub const PAIRING: u32 = 1 << 5;
    /// The paths of calls that succeed, beside those of calls that fail. It needs [`FILES`].
    pub const PATHS: u32 = 1 << 6;
    /// Who made calls: samples of stacks, at the calls 1, 2, 4, 8, ... of a row. It needs
    /// [`FILES`].
    pub const CALLERS: u32 = 1 << 7;
    /// Together with [`CALLERS`]: every call is sampled.
    pub const ALL_CALLERS: u32 = 1 << 8;
    /// Together with [`CALLERS`]: user space keeps when each sampled call was made and what it
    /// returned. The programs send it in any case.
    pub const CALLER_TIMES: u32 = 1 << 9;
    /// Each call that took longer than [`SLOWER_THAN_NS`](crate::globals::SLOWER_THAN_NS). It needs
    /// [`TIMES`].
    pub const SLOW_CALLS: u32 = 1 << 10;
    /// How many bytes each call moved.
    pub const SIZES: u32 = 1 << 11;
    /// Which descriptors a process has open when it begins a program and when it exits. It needs
    /// [`FILES`].
    pub const DESCRIPTORS: u32 = 1 << 12;
    /// What a plain run records: none of [`PATHS`], [`CALLERS`] and what comes after it.
    pub const ALL: u32 = ROWS | TIMES | HISTOGRAMS | OTHER_CALLS | FILES | PAIRING;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_negative_results_are_errors() {
        for (result, errno) in [(-1, 1), (-2, 2), (-4095, 4095)] {
            assert_eq!(errno_of(result), errno);
        }
        for result in [0, 1, -4096, -4097, i64::MIN, i64::MIN + 1, i64::MAX] {
            assert_eq!(errno_of(result), 0, "{result}");
        }
    }
}
