//! What the kernel side tells user space as it happens: rare things only.

#[cfg(doc)]
use crate::Task;

/// A task's own counters in the kernel, at one moment.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// `task_struct.utime`, ns: sampled by the timer tick on most kernels.
    pub user_ns: u64,
    /// `task_struct.stime`, ns: likewise.
    pub system_ns: u64,
    /// `task_struct.se.sum_exec_runtime`, ns: exact.
    pub runtime_ns: u64,
    /// `task_struct.nvcsw`.
    pub voluntary_switches: u64,
    /// `task_struct.nivcsw`.
    pub involuntary_switches: u64,
    /// `task_struct.min_flt`.
    pub minor_faults: u64,
    /// `task_struct.maj_flt`.
    pub major_faults: u64,
}

/// Bytes of a task's name, with its NUL.
pub const COMM_BYTES: usize = 16;
/// Longest path of an executable that an event carries, with its NUL.
pub const EXE_BYTES: usize = 256;
/// Most bytes of a command line that an event carries.
pub const ARGS_BYTES: usize = 1024;

/// What every event begins with.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EventHeader {
    /// One of [`event_kind`]'s constants.
    pub kind: u32,
    /// [`Task::serial`].
    pub serial: u32,
    /// [`Task::process`].
    pub process: u32,
    /// [`Task::tid`].
    pub tid: u32,
    /// [`Task::pid`].
    pub pid: u32,
    /// Kind-specific: the parent's pid (started), how many bytes of [`Exec::args`] are filled (exec), [`Task::hooks`] (ended), 0.
    pub extra: u32,
    /// When: `CLOCK_MONOTONIC`, ns.
    pub time_ns: u64,
    /// The task's name.
    pub comm: [u8; COMM_BYTES],
}

/// Kinds of events.
pub mod event_kind {
    /// A task was created: the header alone.
    pub const STARTED: u32 = 1;
    /// A process replaced its program: [`Exec`](crate::Exec).
    pub const EXEC: u32 = 2;
    /// A task ran for the last time: [`Ended`](crate::Ended).
    pub const ENDED: u32 = 3;
    /// A file was seen: [`FileSeen`](crate::FileSeen), which has no header.
    pub const FILE: u32 = 4;
    /// A thread of the tracer came into scope by itself: [`Ended`](crate::Ended), with the counters that it begins with.
    pub const ENTERED: u32 = 5;
}

/// A process replaced its program.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Exec {
    /// Who and when.
    pub header: EventHeader,
    /// Length of the command line in the process; more than [`ARGS_BYTES`]: `args` is its beginning.
    pub args_length: u64,
    /// The task's counters now: what came before does not belong to the root's new program.
    pub counters: Counters,
    /// Path of the program as given to `execve`, NUL-terminated.
    pub exe: [u8; EXE_BYTES],
    /// The arguments, each NUL-terminated.
    pub args: [u8; ARGS_BYTES],
}

/// A task ran for the last time, at least in scope.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Who; `time_ns` is when it began to exit, or left.
    pub header: EventHeader,
    /// The task's counters, final.
    pub counters: Counters,
}
