//! The contract between zctrace's eBPF programs and user space: keys and rows of maps, events, loss counters, names.
//!
//! Both sides compile this one file, so a layout cannot differ between them.
//! All types are `#[repr(C)]`, free of padding, and valid for every bit pattern.
#![no_std]

mod events;
pub mod histogram;
mod kernel_fields;
mod unwritten;

pub use events::{ARGS_BYTES, COMM_BYTES, Counters, EXE_BYTES, Ended, EventHeader, Exec, event_kind};
pub use histogram::{BUCKETS, bucket_of};
pub use kernel_fields::{ABSENT, KernelFields};
pub use unwritten::Unwritten;

/// Names of the programs, as user space finds them in the object file, with the tracepoint that each is attached to.
pub mod programs {
    /// `(program, tracepoint)`, in the order in which user space attaches them: a task is followed before it is counted.
    pub const ALL: [(&str, &str); 6] = [
        ("sched_switch", "sched_switch"),
        ("sched_process_exit", "sched_process_exit"),
        ("sched_process_exec", "sched_process_exec"),
        ("sched_process_fork", "sched_process_fork"),
        ("sys_exit", "sys_exit"),
        ("sys_enter", "sys_enter"),
    ];
}

/// Names of the maps and globals, as user space finds them in the object file.
pub mod maps {
    /// Hash, address of a `task_struct` -> [`Task`](crate::Task): the tasks that are followed now.
    pub const TASKS: &str = "TASKS";
    /// Hash, [`RowKey`](crate::RowKey) -> [`Row`](crate::Row): the counts.
    pub const ROWS: &str = "ROWS";
    /// Hash, [`ErrnoKey`](crate::ErrnoKey) -> number of calls that failed so.
    pub const ERRNOS: &str = "ERRNOS";
    /// Ring buffer of events, each of which begins with an [`EventHeader`](crate::EventHeader).
    pub const EVENTS: &str = "EVENTS";
    /// Array, call slot -> [`CallSpec`](crate::CallSpec).
    pub const SPECS: &str = "SPECS";
    /// Array of one [`Control`](crate::Control).
    pub const CONTROL: &str = "CONTROL";
    /// Per-CPU array, [`Loss`](crate::Loss) -> count.
    pub const LOSSES: &str = "LOSSES";
    /// Read-only global of type [`KernelFields`](crate::KernelFields).
    pub const FIELDS: &str = "FIELDS";
}

/// Which system call: its number in the low 16 bits, and the flags [`VARIANT_SHIFT`], [`X32`] and [`COMPAT`].
pub type CallId = u32;
/// In [`CallId`]: the call came through the 32-bit entry and has that table's number.
pub const COMPAT: CallId = 1 << 31;
/// In [`CallId`]: the call came through the x32 ABI (64-bit entry, 32-bit pointers).
pub const X32: CallId = 1 << 30;
/// In [`CallId`]: where the variant of a multiplexed call stands (see [`FICLONE_VARIANT`]).
pub const VARIANT_SHIFT: u32 = 16;
/// Bits of the variant, after shifting.
pub const VARIANT_MASK: CallId = 0xff;
/// Variant of `ioctl`: `FICLONE`.
pub const FICLONE_VARIANT: CallId = 1;
/// Variant of `ioctl`: `FICLONERANGE`.
pub const FICLONERANGE_VARIANT: CallId = 2;
/// Bits of the number in [`CallId`].
pub const NUMBER_MASK: CallId = 0xffff;
/// No call is under way.
pub const NO_CALL: CallId = u32::MAX;

/// Slots a table of calls has in [`maps::SPECS`]; numbers from here on share the last slot.
pub const TABLE_SLOTS: u32 = 1024;
/// Slots of [`maps::SPECS`]: the native table, then the 32-bit one.
pub const SPEC_SLOTS: u32 = 2 * TABLE_SLOTS;

/// The slot in [`maps::SPECS`] of a call with this number.
#[inline(always)]
pub const fn spec_slot(number: u32, compat: bool) -> u32 {
    let number = if number < TABLE_SLOTS { number } else { TABLE_SLOTS - 1 };
    if compat { TABLE_SLOTS + number } else { number }
}

/// What the programs do with a call of this number.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallSpec {
    /// One of [`selected`]'s constants.
    pub selected: u8,
    /// How the size asked for is found: one of [`requested`]'s constants.
    pub requested: u8,
    /// Index of the argument that [`requested`](Self::requested) speaks of.
    pub argument: u8,
    /// 1: a positive result is a number of bytes.
    pub returns_bytes: u8,
    /// Index of the argument that counts the elements of an I/O vector.
    pub count_argument: u8,
    /// Unused; keeps the layout free of padding.
    pub reserved: [u8; 3],
}

/// Whether a call is counted.
pub mod selected {
    /// Not looked at.
    pub const NEVER: u8 = 0;
    /// Every one.
    pub const ALWAYS: u8 = 1;
    /// Only those that are a variant (see [`FICLONE_VARIANT`](crate::FICLONE_VARIANT)).
    pub const VARIANTS: u8 = 2;
}

/// How the size that a call asks for is found.
pub mod requested {
    /// The call names no size that is comparable to its result.
    pub const NONE: u8 = 0;
    /// The argument is the size.
    pub const SIZE: u8 = 1;
    /// The argument points to an array of `struct iovec`.
    pub const IOVEC: u8 = 2;
    /// The argument points to a `struct msghdr`.
    pub const MSGHDR: u8 = 3;
    /// The call is `ioctl`: the argument is the command, which makes a variant of the call.
    pub const IOCTL: u8 = 4;
}

/// A task that is followed. Written by the task itself, and by its creator before it can run.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// Number of the task, unique within a trace (unlike a tid, which the kernel uses again).
    pub serial: u32,
    /// [`serial`](Self::serial) of the first task of this process.
    pub process: u32,
    /// Thread id in the PID namespace of the tracer.
    pub tid: u32,
    /// Process id (thread group id) in the PID namespace of the tracer.
    pub pid: u32,
    /// One of [`phase`]'s constants.
    pub phase: u32,
    /// The call that is under way, or [`NO_CALL`].
    pub call: CallId,
    /// When the call under way was entered: `CLOCK_MONOTONIC`, ns.
    pub entered_ns: u64,
    /// When the task began to exit: `CLOCK_MONOTONIC`, ns; 0 before.
    pub exited_ns: u64,
    /// 1 while a `sys_exit` without its entry is what the kernel is expected to show (a new task returning from `clone`).
    pub exit_without_entry_expected: u32,
    /// A call that a signal ended, or [`NO_CALL`]: see [`Interrupted`].
    pub interrupted: CallId,
    /// What is known of that call.
    pub interruption: Interrupted,
}

/// A call that the kernel left with one of its `ERESTART...` results, because a signal came.
///
/// The caller never sees that result: either it calls again (restarted, or after its signal handler), or it dies.
/// In the first case the call returned, in the second it never did; the next thing the task does tells.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Interrupted {
    /// The result, negated.
    pub errno: u32,
    /// 1: the size asked for could not be read.
    pub request_unknown: u32,
    /// The size asked for.
    pub requested_bytes: u64,
    /// Time from entry to exit.
    pub duration_ns: u64,
}

/// Where a followed task is in its life.
pub mod phase {
    /// The tracer's child before its first successful exec: followed, not counted.
    pub const ARMED: u32 = 0;
    /// In scope.
    pub const ACTIVE: u32 = 1;
}

/// One row per thread, call and the files involved: one writer, so no atomics.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowKey {
    /// [`Task::serial`] of the caller.
    pub task: u32,
    /// The call.
    pub call: CallId,
    /// The file that bytes came from; 0: not identified.
    pub input: u32,
    /// The file that bytes went to; 0: not identified.
    pub output: u32,
}

/// The sums of a [`RowKey`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Calls that returned, the failed ones among them.
    pub calls: u64,
    /// Of these, with a negative result.
    pub errors: u64,
    /// Sum of the positive results, where the result is a number of bytes.
    pub bytes: u64,
    /// Sum of the sizes asked for.
    pub requested_bytes: u64,
    /// Calls whose size asked for is missing in the sum: a bad pointer, or the sum would overflow.
    pub requested_unknown: u64,
    /// Calls that never returned.
    pub unfinished: u64,
    /// Sum of the times from entry to exit, ns.
    pub total_ns: u64,
    /// Shortest time, ns; `u64::MAX` without any.
    pub min_ns: u64,
    /// Longest time, ns.
    pub max_ns: u64,
    /// Calls by time: see [`histogram`].
    pub histogram: [u32; BUCKETS],
}

impl Row {
    /// The row before its first call.
    pub const EMPTY: Self = Self {
        calls: 0,
        errors: 0,
        bytes: 0,
        requested_bytes: 0,
        requested_unknown: 0,
        unfinished: 0,
        total_ns: 0,
        min_ns: u64::MAX,
        max_ns: 0,
        histogram: [0; BUCKETS],
    };
}

/// Failed calls of a thread, by errno.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrnoKey {
    /// [`Task::serial`] of the caller.
    pub task: u32,
    /// The call.
    pub call: CallId,
    /// The errno, positive (also the kernel-internal ones from 512 on).
    pub errno: u32,
    /// Unused; keeps the layout free of padding.
    pub reserved: u32,
}

/// What user space tells the programs, and they each other. One writer at a time.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Control {
    /// Device of the tracer's PID namespace (`stat` of `/proc/self/ns/pid`).
    pub pidns_device: u64,
    /// Inode of the tracer's PID namespace.
    pub pidns_inode: u64,
    /// Process id of the tracer in that namespace.
    pub tracer_pid: u32,
    /// 1: the next process that the tracer forks is the root of the trace. Set by user space, cleared by the kernel side.
    pub armed: u32,
    /// How deep the tracer's PID namespace is nested; found when the root is forked.
    pub pidns_level: u32,
    /// Unused; keeps the layout free of padding.
    pub reserved: u32,
    /// The last [`Task::serial`] given out; 64 bits wide for the sake of the atomic instruction.
    pub last_serial: u64,
}

/// Ways in which the programs lose or merge a number. The discriminant is the index in [`maps::LOSSES`].
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// A new task was not followed: the map of tasks was full.
    UnfollowedTask = 0,
    /// A call was not counted: the map of rows was full.
    UncountedCall = 1,
    /// A failed call was counted without its errno: the map of errnos was full.
    UncountedErrno = 2,
    /// An event did not fit into the ring buffer.
    LostEvent = 3,
    /// A call returned whose entry was not seen: counted, without time.
    ExitWithoutEntry = 4,
}

/// Number of [`Loss`] variants.
pub const LOSSES: u32 = 5;

/// Plain old data, for aya's maps.
#[cfg(feature = "user")]
mod pod {
    macro_rules! pod {
        ($($type:ident),+) => {
            $(
                // SAFETY: `repr(C)`, only integers and arrays of them, no padding (asserted below), valid for all bit patterns.
                unsafe impl aya::Pod for crate::$type {}
            )+
        };
    }
    pod!(CallSpec, Task, RowKey, Row, ErrnoKey, Control, KernelFields);
}

const _: () = {
    assert!(size_of::<CallSpec>() == 8);
    assert!(size_of::<Interrupted>() == 2 * 4 + 2 * 8);
    assert!(size_of::<Task>() == 6 * 4 + 2 * 8 + 2 * 4 + size_of::<Interrupted>());
    assert!(size_of::<RowKey>() == 16);
    assert!(size_of::<Row>() == 9 * 8 + 4 * BUCKETS);
    assert!(size_of::<ErrnoKey>() == 16);
    assert!(size_of::<Control>() == 2 * 8 + 4 * 4 + 8);
    assert!(size_of::<EventHeader>() == 6 * 4 + 8 + COMM_BYTES);
    assert!(size_of::<Counters>() == 7 * 8);
    assert!(size_of::<Exec>() == size_of::<EventHeader>() + 8 + size_of::<Counters>() + EXE_BYTES + ARGS_BYTES);
    assert!(size_of::<Ended>() == size_of::<EventHeader>() + size_of::<Counters>());
};
