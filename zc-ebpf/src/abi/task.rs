//! A task that is followed.

use crate::{CallId, CallSpec, Ends, FileNumber, Sequence};

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
    /// The call that is under way, or [`NO_CALL`](crate::NO_CALL).
    pub call: CallId,
    /// When the call under way was entered: `CLOCK_MONOTONIC`, ns.
    pub entered_ns: u64,
    /// When the task began to exit: `CLOCK_MONOTONIC`, ns; 0 before.
    pub exited_ns: u64,
    /// 1 while a `sys_exit` without its entry is what the kernel is expected to show (a new task returning from `clone`).
    pub exit_without_entry_expected: u32,
    /// A call that a signal ended, or [`NO_CALL`](crate::NO_CALL): see [`Interrupted`].
    pub interrupted: CallId,
    /// What is known of that call.
    pub interruption: Interrupted,
    /// The files of the call that was entered last.
    pub ends: Ends,
    /// The arguments of the call that was entered last.
    pub arguments: Arguments,
    /// What the call that returned last came to.
    pub outcome: Outcome,
    /// What to do with the call that was entered last.
    pub spec: CallSpec,
    /// What it has read and not yet written, by the order of its calls.
    pub sequence: Sequence,
    /// The mapping that it wrote from last.
    pub mapping: Mapping,
    /// The descriptor that it read from last.
    pub last_input: Descriptor,
    /// The descriptor that it wrote to last.
    pub last_output: Descriptor,
    /// 1: it has an `io_uring`, whose operations change descriptors at any time.
    pub has_ring: u32,
    /// Number of its address space, unique within a trace: the key of [`maps::MEMORIES`](crate::maps::MEMORIES).
    pub space: u32,
    /// 1: the address space began with this task or its exec, so it ends with its process.
    pub owns_space: u32,
    /// The range of [`Memory`](crate::Memory) that its last read filled.
    pub last_range: u32,
    /// [`Memory::generation`](crate::Memory::generation) when it read last: [`sequence`](Self::sequence) holds as long as it is the same.
    pub generation: u32,
    /// 1: the call that was entered last came through the 32-bit entry, where words have 4 bytes.
    pub compat: u32,
    /// Which programs ran for it while it was not [`ACTIVE`](phase::ACTIVE), as bits of [`hook`]: what a rehearsal is for.
    pub hooks: u32,
    /// Unused; keeps the layout free of padding.
    pub reserved: u32,
}

impl Task {
    /// What its descriptors stand for may be something else from now on.
    #[inline(always)]
    pub const fn forget_descriptors(&mut self) {
        self.last_input = Descriptor::NONE;
        self.last_output = Descriptor::NONE;
    }
}

/// The arguments of a call, by their index from 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Arguments {
    /// As the registers had them; the last two are 0, so that any index of three bits is one.
    pub values: [u64; 8],
}

impl Arguments {
    /// One of them.
    #[inline(always)]
    pub const fn get(&self, index: u8) -> u64 {
        self.values[(index & 7) as usize]
    }
}

/// What a call came to.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// The result.
    pub result: i64,
    /// Time from entry to exit, or [`UNTIMED`](Self::UNTIMED).
    pub duration_ns: u64,
    /// The size asked for.
    pub requested_bytes: u64,
    /// See [`Row::paired_bytes`](crate::Row::paired_bytes).
    pub paired_bytes: u64,
    /// 1: the size asked for cannot be read.
    pub request_unknown: u32,
    /// 1: the result is a number of bytes that were moved.
    pub returns_bytes: u32,
    /// See [`Row::checked_calls`](crate::Row::checked_calls).
    pub checked_calls: u32,
    /// The call.
    pub call: CallId,
}

impl Outcome {
    /// In [`duration_ns`](Self::duration_ns): unknown.
    pub const UNTIMED: u64 = u64::MAX;
}

/// A descriptor that the task used last, and what it stands for. That need not be looked up again so long as
///
/// - the table of descriptors is the task's alone: else another thread may change it,
/// - the task has no `io_uring`: its operations open and close, too,
/// - the task makes no call that may change it: this is given up at every call, counted or not, but those that
///   [`only_used`](crate::fds::only_used) descriptors; and after a call whose entry was not seen.
///
/// What is left is a supervisor that puts a file over a descriptor while the kernel asks it about a `read` (seccomp's
/// `SECCOMP_ADDFD_FLAG_SETFD`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    /// The descriptor.
    pub fd: u32,
    /// Its file; 0: nothing is remembered.
    pub file: FileNumber,
}

impl Descriptor {
    /// Nothing is remembered.
    pub const NONE: Self = Self { fd: 0, file: 0 };
}

/// A mapping of a task's memory, as it was found once.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    /// Where it begins.
    pub start: u64,
    /// Where it ends; 0: none was looked for.
    pub end: u64,
    /// The kernel's count of changes of the task's mappings, when it was looked up: as long as that is the same, so is this.
    pub changes: u32,
    /// The file, marked with [`MAPPED`](crate::MAPPED); 0: what is written from there comes from no file.
    pub file: FileNumber,
}

impl Mapping {
    /// None was looked for.
    pub const NONE: Self = Self { start: 0, end: 0, changes: 0, file: 0 };
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
    /// A task of the tracer's own that shows which programs run: followed, never counted.
    pub const REHEARSING: u32 = 2;
}

/// The programs that a rehearsal shows to run, each a bit. That `sched_switch` runs, the event of the task's end shows.
pub mod hook {
    /// `sched_process_fork`
    pub const FORK: u32 = 1 << 0;
    /// `sched_process_exec`
    pub const EXEC: u32 = 1 << 1;
    /// `sched_process_exit`
    pub const EXIT: u32 = 1 << 2;
    /// `sched_switch`
    pub const SWITCH: u32 = 1 << 3;
    /// `sys_enter`
    pub const SYS_ENTER: u32 = 1 << 4;
    /// `sys_exit`
    pub const SYS_EXIT: u32 = 1 << 5;
    /// `ring_create`
    pub const RING_CREATE: u32 = 1 << 6;
    /// `ring_submit`
    pub const RING_SUBMIT: u32 = 1 << 7;
    /// `ring_complete`
    pub const RING_COMPLETE: u32 = 1 << 8;
    /// One that no rehearsal shows.
    pub const OTHER: u32 = 0;
}
