//! Events that the kernel side sends to user space as they happen. Only rare things are events.

use zerocopy::{FromBytes, Immutable, IntoBytes};

#[cfg(doc)]
use crate::Task;
use crate::{CallId, FileNumber, NumberedEnds, OtherCallSums};

/// A task's own counters in the kernel, at one moment.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, Immutable, IntoBytes)]
pub struct TaskCounters {
    /// `task_struct.utime`, ns. Most kernels sample it at the timer tick.
    pub user_ns: u64,
    /// `task_struct.stime`, ns. Sampled as well.
    pub system_ns: u64,
    /// `task_struct.se.sum_exec_runtime`, ns. Exact.
    pub runtime_ns: u64,
    /// `task_struct.sched_info.run_delay`, ns. 0 on a kernel without it.
    pub run_delay_ns: u64,
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

/// The beginning of every event but [`FileSeen`](crate::FileSeen).
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct EventHeader {
    /// One of [`event_kind`]'s constants.
    pub kind: u32,
    /// [`Task::serial`].
    pub serial: u32,
    /// [`Task::program`].
    pub program: u32,
    /// [`Task::tid`].
    pub tid: u32,
    /// [`Task::pid`].
    pub pid: u32,
    /// Depends on the kind. Started, found: the parent's pid. Exec: how many bytes of [`Exec::args`] are
    /// filled. Ended: [`Task::hooks`]. Else 0.
    pub extra: u32,
    /// When it happened: `CLOCK_MONOTONIC`, ns.
    pub time_ns: u64,
    /// The task's name.
    pub comm: [u8; COMM_BYTES],
}

/// Kinds of events.
pub mod event_kind {
    /// A task was created: only the header.
    pub const STARTED: u32 = 1;
    /// A process executed a program: [`Exec`](crate::Exec).
    pub const EXEC: u32 = 2;
    /// A task ran for the last time: [`Ended`](crate::Ended).
    pub const ENDED: u32 = 3;
    /// A file was seen: [`FileSeen`](crate::FileSeen), which has no header.
    pub const FILE: u32 = 4;
    /// A thread of the tracer entered the scope by itself: [`Ended`](crate::Ended), with the
    /// counters at that time.
    pub const ENTERED: u32 = 5;
    /// A task that already ran is followed from now on: [`Ended`](crate::Ended), with the counters
    /// at that time.
    pub const FOUND: u32 = 6;
    /// A call returned that took longer than the limit: [`SlowCallEvent`](crate::SlowCallEvent).
    pub const SLOW_CALL: u32 = 7;
    /// A descriptor that a process has open: [`HeldDescriptor`](crate::HeldDescriptor).
    pub const DESCRIPTOR: u32 = 8;
}

/// A process executed a program.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct Exec {
    /// Who and when.
    pub header: EventHeader,
    /// Length of the whole command line. If it is more than [`ARGS_BYTES`], `args` has only its
    /// beginning.
    pub args_length: u64,
    /// The task's counters now: all that it used before is not the new program's.
    pub counters: TaskCounters,
    /// The program that is replaced.
    pub replaced: Replaced,
    /// Path of the program as it was passed to `execve`, NUL-terminated.
    pub exe: [u8; EXE_BYTES],
    /// The arguments, each NUL-terminated.
    pub args: [u8; ARGS_BYTES],
}

/// A program of a process that ends because the process executes another one.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct Replaced {
    /// Its [`Task::serial`]. 0: there is none, since the trace begins with the new program.
    pub serial: u32,
    /// Its [`Task::program`].
    pub program: u32,
    /// Its [`Task::tid`]. The thread has the id of its process from now on.
    pub tid: u32,
    /// Its [`Task::hooks`].
    pub hooks: u32,
    /// Its [`Task::other_calls`], final.
    pub other_calls: OtherCallSums,
}

/// The fault for which the kernel sends the signal that kills a task. All zeros: there was none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, Immutable, IntoBytes)]
pub struct Fault {
    /// `si_addr`: where the task accessed memory; for `SIGILL` and `SIGFPE`, where the instruction is.
    pub address: u64,
    /// The signal.
    pub signal: u32,
    /// `si_code`: what kind of fault.
    pub code: u32,
}

impl Fault {
    /// The signals of faults with an address, each as a bit: `SIGILL`, `SIGBUS`, `SIGFPE` and `SIGSEGV`.
    pub const SIGNALS: u64 = 1 << 4 | 1 << 7 | 1 << 8 | 1 << 11;
    /// `si_code` of a fault is above 0 and below this, which is `SI_KERNEL` of the kernel's
    /// include/uapi/asm-generic/siginfo.h: the kernel does not say where.
    pub const CODES_END: u32 = 0x80;
}

/// A task ran for the last time, or left the scope.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct Ended {
    /// Who. `time_ns` is when it ran for the last time, or left the scope.
    pub header: EventHeader,
    /// When it began to exit: `CLOCK_MONOTONIC`, ns. 0: that was not seen.
    pub exited_ns: u64,
    /// [`Task::slot`]: the call that it was in when it began to exit, if `entered_ns` is not 0.
    pub slot: u32,
    /// 0.
    pub reserved: u32,
    /// When it entered that call: `CLOCK_MONOTONIC`, ns. 0: it was in none, or times are not
    /// recorded.
    pub entered_ns: u64,
    /// The task's counters, final.
    pub counters: TaskCounters,
    /// [`Task::other_calls`], final.
    pub other_calls: OtherCallSums,
    /// [`Task::fault`].
    pub fault: Fault,
}

/// A descriptor that a process had open when it executed the first program of the trace, or when its
/// last thread exited.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct HeldDescriptor {
    /// Who and when. `extra` is 1 if the process exits, else 0.
    pub header: EventHeader,
    /// The address of its `struct file`.
    pub address: u64,
    /// The descriptor. [`NO_DESCRIPTOR`]: all have been sent.
    pub fd: u32,
    /// The number of its file. 0: unknown.
    pub file: FileNumber,
}

/// In [`HeldDescriptor::fd`].
pub const NO_DESCRIPTOR: u32 = u32::MAX;

/// A call that returned and took longer than the limit.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct SlowCallEvent {
    /// Who. `time_ns` is when the call was entered.
    pub header: EventHeader,
    /// The result.
    pub result: i64,
    /// How long it took.
    pub duration_ns: u64,
    /// The call.
    pub call: CallId,
    /// The errno in the result; 0 if the call did not fail.
    pub errno: u32,
    /// The files that it names.
    pub ends: NumberedEnds,
    /// 0.
    pub reserved: u32,
}
