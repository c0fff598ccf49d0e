//! The state of a task that is followed.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::{
    CallId, CallSpec, Fault, FileNumber, NumberedEnds, Origin, OtherCallSums, TABLE_SLOTS, zeroed,
};

/// A task that is followed. Only the task itself writes this, and before it is followed its creator,
/// or the walk that finds it.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct Task {
    /// Number of the task, unique within a trace. (A tid is not: the kernel reuses it.) A task that
    /// executes a program gets another one, since its calls are those of another program then.
    pub serial: u32,
    /// [`serial`](Self::serial) of the first task of its process that ran this program.
    pub program: u32,
    /// Thread id in the PID namespace of the tracer.
    pub tid: u32,
    /// Process id (thread group id) in the PID namespace of the tracer.
    pub pid: u32,
    /// One of [`phase`]'s constants.
    pub phase: u32,
    /// The call that was entered last, if it has a row.
    pub call: CallId,
    /// When the call that was entered last was entered: `CLOCK_MONOTONIC`, ns.
    pub entered_ns: u64,
    /// When the task began to exit: `CLOCK_MONOTONIC`, ns. 0 before.
    pub exited_ns: u64,
    /// Whether the task is in a call: one of [`state`]'s constants.
    pub state: u32,
    /// 1: the call that was entered last is counted in a row. 0: it is one of the
    /// [`other_calls`](Self::other_calls).
    pub has_row: u32,
    /// The files that the call names which was entered last.
    pub ends: NumberedEnds,
    /// The kernel's count of changes to its mappings, as it was at its last write. 0: unknown.
    pub mapping_changes: u32,
    /// The arguments of the call that was entered last.
    pub arguments: Arguments,
    /// The outcome of the call that returned last.
    pub outcome: CallReturn,
    /// What to do with the call that was entered last.
    pub spec: CallSpec,
    /// The mapping that it wrote from last.
    pub mapping: Mapping,
    /// The descriptor that it read from last.
    pub last_input: Descriptor,
    /// The descriptor that it wrote to last.
    pub last_output: Descriptor,
    /// 1: it has an `io_uring`, whose operations may change descriptors at any time.
    pub has_ring: u32,
    /// Number of its address space, unique within a trace. It chooses the entry in
    /// [`maps::MEMORIES`](crate::maps::MEMORIES).
    pub space: u32,
    /// The range of [`Memory`](crate::Memory) that its last read filled.
    pub last_range: u32,
    /// Which programs ran for it, as bits of [`hook`]: a root for which `sys_enter` or `sys_exit`
    /// never ran was not counted.
    pub hooks: u32,
    /// The slot in [`maps::SPECS`](crate::maps::SPECS) of the call that was entered last.
    pub slot: u32,
    /// 1: other tasks may have the same table of descriptors, because this one shares it with its
    /// creator, or with a task that it created.
    pub shares_files: u32,
    /// 1: other tasks may have the same address space, because this one shares it with its creator,
    /// or with a task that it created.
    pub shares_space: u32,
    /// 1: it has a row in [`maps::BUSY_ROWS`](crate::maps::BUSY_ROWS), or had one.
    pub has_busy_rows: u32,
    /// Its calls without rows.
    pub other_calls: OtherCallSums,
    /// The fault that kills it.
    pub fault: Fault,
}

/// Room for a task that is followed.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct TaskSlot {
    /// 1: there is a task, or will be in a moment.
    pub is_taken: u64,
    /// The address of its `task_struct`. 0: there is none yet.
    pub address: u64,
    /// The same, once its calls may find the task here without the hash. 0: not yet.
    pub home_address: u64,
    /// Stands for its kernel stack: by this, `sys_enter` and `sys_exit` see whether the task is
    /// followed.
    pub page: u64,
    /// The task.
    pub task: Task,
}

impl Task {
    /// Whether a call is under way, or was interrupted and has not returned yet.
    #[inline(always)]
    pub const fn is_in_call(&self) -> bool {
        self.state >= state::UNDER_WAY
    }

    /// 1: the call that was entered last came through the 32-bit entry, so its words have 4 bytes.
    /// Else 0.
    #[inline(always)]
    pub const fn compat(&self) -> u32 {
        (self.slot >= TABLE_SLOTS) as u32
    }

    /// Forgets which files its descriptors stand for, because that may change now.
    #[inline(always)]
    pub const fn forget_descriptors(&mut self) {
        self.last_input = Descriptor::NONE;
        self.last_output = Descriptor::NONE;
    }
}

/// The arguments of a call, by their index from 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes)]
pub struct Arguments {
    /// The values in the registers. The last two are always 0, so that every index of three bits is
    /// valid.
    pub values: [u64; 8],
}

impl Arguments {
    /// The argument with this index.
    #[inline(always)]
    pub const fn get(&self, index: u8) -> u64 {
        self.values[(index & 7) as usize]
    }
}

/// The outcome of a call.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes)]
pub struct CallReturn {
    /// The result.
    pub result: i64,
    /// Time from entry to exit, or [`UNTIMED`](Self::UNTIMED).
    pub duration_ns: u64,
    /// The size asked for; 0 if it could not be read.
    pub requested_bytes: u64,
    /// The address of the vector of its buffers. 0: there is a single buffer.
    pub vector: u64,
    /// How many elements that vector has.
    pub elements: u64,
    /// Where the bytes came from that it wrote: the most of them.
    pub origin: Origin,
    /// The errno in the result; 0 if the call did not fail.
    pub errno: u32,
    /// 1: the size asked for could not be read.
    pub request_unknown: u8,
    /// 1: its entry was not seen, because seccomp or a tracer answered it.
    pub is_unseen: u8,
    /// 1: the result is the number of bytes that were moved.
    pub returns_bytes: u16,
    /// The files of its row: those that the call names, or that of its origin. None if there was no
    /// room for a row with them.
    pub ends: NumberedEnds,
    /// The call.
    pub call: CallId,
    /// How many calls its row has, with this one. 0: it is not counted in a row.
    pub row_calls: u64,
    /// The first bytes that it moved, for a new row.
    pub first_word: u64,
    /// How many these are. 0: they are not known.
    pub first_bytes: u64,
}

impl CallReturn {
    /// The [`duration_ns`](Self::duration_ns) of a call whose time is unknown.
    pub const UNTIMED: u64 = u64::MAX;
    /// The [`result`](Self::result) of a call that never returns, because its task exits. No call
    /// returns this.
    pub const NEVER: i64 = i64::MIN;
}

/// The descriptor that the task used last, and its file. The file need not be looked up again as
/// long as
///
/// - no other thread has the same table of descriptors, since it could change it;
/// - the task has no `io_uring`, whose operations open and close files, too;
/// - the task makes no call that may change the table. So this is forgotten at every call, counted
///   or not, except those that [`only_used`](crate::fds::only_used) descriptors, and after a call
///   whose entry was not seen.
///
/// One way to change a descriptor remains unnoticed: a seccomp supervisor that is asked about a
/// `read` can replace the file behind it (`SECCOMP_ADDFD_FLAG_SETFD`).
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct Descriptor {
    /// The descriptor.
    pub fd: u32,
    /// Its file. 0: nothing is remembered.
    pub file: FileNumber,
}

impl Descriptor {
    /// Nothing is remembered.
    pub const NONE: Self = zeroed();
}

/// A mapping in a task's memory, as it was when it was looked up.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct Mapping {
    /// Where it begins.
    pub start: u64,
    /// Where it ends. 0: no mapping was looked up.
    pub end: u64,
    /// The kernel's count of changes to the task's mappings at that time. As long as it stays the
    /// same, this mapping is valid.
    pub changes: u32,
    /// The file. 0: bytes that are written from there come from no file.
    /// [`NO_ROOM`](crate::NO_ROOM): the mapping is unknown, because another thread was changing
    /// mappings.
    pub file: FileNumber,
}

impl Mapping {
    /// No mapping was looked up.
    pub const NONE: Self = zeroed();
}

/// The phases of a followed task's life.
pub mod phase {
    /// The tracer's child before its first successful exec: followed, not counted.
    pub const ARMED: u32 = 0;
    /// In scope.
    pub const ACTIVE: u32 = 1;
}

/// What [`Task::hooks`](crate::Task::hooks) says, each a bit.
pub mod hook {
    /// `sys_enter` ran for it while it was not [`ACTIVE`](crate::phase::ACTIVE).
    pub const SYS_ENTER: u32 = 1 << 0;
    /// `sys_exit` ran for it while it was not [`ACTIVE`](crate::phase::ACTIVE).
    pub const SYS_EXIT: u32 = 1 << 1;
    /// It made an `io_uring`.
    pub const RING_CREATE: u32 = 1 << 2;
}

/// What [`Task::state`](crate::Task::state) says, in the order of its constants: the task is in a
/// call from [`UNDER_WAY`](state::UNDER_WAY) on.
pub mod state {
    /// The task is in no call. If one returns, its entry was not seen.
    pub const IDLE: u32 = 0;
    /// A new task returns from `clone`, which is no call of its own.
    pub const NEW: u32 = 1;
    /// The task ran before it was followed, and has done nothing since. If a call returns next, it
    /// was under way then.
    pub const FOUND: u32 = 2;
    /// A call is under way.
    pub const UNDER_WAY: u32 = 3;
    /// A call is under way whose entry was not seen. It returns now.
    pub const UNSEEN: u32 = 4;
    /// A signal ended the call, so that the kernel left it with one of its `ERESTART...` results.
    /// The caller never sees that result. If the task goes on, with the restarted call or in its
    /// signal handler, the call has returned, with what [`Task::outcome`](crate::Task::outcome)
    /// says. If the task dies, the call never returned. The next thing that the task does shows
    /// which it is.
    pub const INTERRUPTED: u32 = 5;
}
