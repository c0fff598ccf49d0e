//! The contract between zctrace's eBPF programs and user space: keys and values of the maps,
//! events, losses, names.
//!
//! Both sides compile this library, so they cannot disagree about a layout.
//! All types are `#[repr(C)]`, have no padding, and are valid for every bit pattern, which the
//! traits of zerocopy check.
#![no_std]
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]

mod abi;
pub mod argument;
pub mod opaque;
pub mod repeat;

/// What a written byte came from: the part that is pure, and tested on the host.
pub mod origin {
    pub mod memory;
    #[cfg(test)]
    mod origin_tests;
    pub mod range;
}

use zerocopy::{FromBytes, Immutable, IntoBytes};

pub use abi::*;
pub use origin::memory::Memory;

/// The factor of the hashes: 2^64 divided by the golden ratio, as an odd number.
pub const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The programs in the object file.
pub mod programs {
    /// A program, and what user space attaches it to.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Hooked {
        /// The name of the program.
        pub name: &'static str,
        /// It is attached to the first of these tracepoints that the kernel has.
        pub tracepoints: &'static [&'static str],
        /// The name of its replacement, and where that is attached, for kernels that may preempt
        /// programs. If such a kernel preempts a task in the middle of a program, it skips that
        /// program for all other tasks of the CPU until the task runs again.
        pub not_preempted: Option<(&'static str, HookSite)>,
    }

    /// Where a program is attached.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum HookSite {
        /// A tracepoint.
        Tracepoint(&'static str),
        /// The perf event of a tracepoint. The kernel disables preemption, fills in a record, and
        /// then runs the programs.
        Event {
            /// The directory in `/sys/kernel/tracing/events`.
            category: &'static str,
            /// The directory within the category.
            name: &'static str,
        },
    }

    /// Those that follow tasks and count calls, in the order in which user space attaches them.
    pub const ALL: [Hooked; 7] = [
        hooked("sched_switch", &["sched_switch"]),
        hooked("process_exit", &["sched_process_exit"]).or_event("exit_event", "sched"),
        hooked("signal_delivered", &["signal_deliver"]),
        hooked("process_exec", &["sched_process_exec"]).or_event("exec_event", "sched"),
        hooked("process_fork", &["sched_process_fork"])
            .or_at("task_woken", HookSite::Tracepoint("sched_wakeup_new")),
        hooked("sys_exit", &["sys_exit"]).or_event("sys_exit_event", "raw_syscalls"),
        hooked("sys_enter", &["sys_enter"]).or_event("sys_enter_event", "raw_syscalls"),
    ];

    /// Those for `io_uring`. Linux 6.3 renamed a tracepoint.
    pub const RING: [Hooked; 4] = [
        hooked("ring_complete", &["io_uring_complete"]).or_event("ring_complete_event", "io_uring"),
        hooked("ring_create", &["io_uring_create"]).or_event("ring_create_event", "io_uring"),
        hooked("ring_overflow", &["io_uring_cqe_overflow"])
            .or_event("ring_overflow_event", "io_uring"),
        hooked(
            "ring_submit",
            &["io_uring_submit_req", "io_uring_submit_sqe"],
        )
        .or_event("ring_submit_event", "io_uring"),
    ];

    /// Those that see changes and syncs of files. They are only in the object for `--syncs`.
    pub const SYNCS: [Hooked; 2] = [
        hooked("sync_exit", &["sys_exit"]).or_event("sync_exit_event", "raw_syscalls"),
        hooked("sync_enter", &["sys_enter"]).or_event("sync_enter_event", "raw_syscalls"),
    ];

    /// Those that see what calls touch. They are only in the object for `--paths`, and are attached
    /// after those of [`ALL`], which tell them what a task is.
    pub const TOUCHES: [Hooked; 3] = [
        hooked("touch_exit", &["sys_exit"]).or_event("touch_exit_event", "raw_syscalls"),
        hooked("touch_enter", &["sys_enter"]).or_event("touch_enter_event", "raw_syscalls"),
        hooked("touch_exec", &["sched_process_exec"]).or_event("touch_exec_event", "sched"),
    ];

    /// Not attached to anything: a thread runs it with `BPF_PROG_TEST_RUN` to come into scope or to
    /// leave it. Its first argument is one of the constants in [`scope`](crate::scope).
    pub const SCOPE: &str = "scope";

    /// Those that see which threads a closure may have handed work to. They are attached for traces
    /// of closures only. The kernel never preempts them: it holds a lock of the woken task, or of
    /// its run queue.
    pub const WAKES: [Hooked; 2] = [
        hooked("thread_woken", &["sched_waking"]),
        hooked("thread_created", &["sched_wakeup_new"]),
    ];

    /// A BPF iterator over all tasks: each time that its file is read to the end is a walk. It is
    /// loaded only to attach to running processes.
    pub const WALK: &str = "walk";

    /// Sees which tasks enter a cgroup. It is loaded only to attach to a cgroup. If the kernel skips
    /// it, the next walk finds the task.
    pub const CGROUP: Hooked = hooked("cgroup_entered", &["cgroup_attach_task"]);

    const fn hooked(name: &'static str, tracepoints: &'static [&'static str]) -> Hooked {
        Hooked {
            name,
            tracepoints,
            not_preempted: None,
        }
    }

    impl Hooked {
        const fn or_at(self, name: &'static str, site: HookSite) -> Self {
            Self {
                not_preempted: Some((name, site)),
                ..self
            }
        }

        /// The replacement is attached to the perf event of the first tracepoint.
        const fn or_event(self, name: &'static str, category: &'static str) -> Self {
            let event = HookSite::Event {
                category,
                name: self.tracepoints[0],
            };
            self.or_at(name, event)
        }
    }
}

/// The first argument of [`programs::SCOPE`]: what the calling thread asks for.
pub mod scope {
    /// Enter the scope as the root of the trace. The `bpf` call that asks for this is not counted.
    pub const ENTER: u64 = 0;
    /// Stop counting this thread. The tasks that it created stay in scope.
    pub const PAUSE: u64 = 1;
    /// Leave the scope, after [`PAUSE`]: the counters are final.
    pub const LEAVE: u64 = 2;
}

/// Names of the maps in the object file.
pub mod maps {
    /// Array of [`TaskSlot`](crate::TaskSlot): the tasks that are followed now.
    pub const TASKS: &str = "TASKS";
    /// Hash, address of a `task_struct` -> index in [`TASKS`].
    pub const TASK_SLOTS: &str = "TASK_SLOTS";
    /// Hash, [`RowKey`](crate::RowKey) -> [`Row`](crate::Row): the first rows of an epoch. Those
    /// for which there is no room here are in [`ROWS`] and [`FILE_ROWS`].
    pub const NEAR_ROWS: &str = "NEAR_ROWS";
    /// Hash, [`RowKey`](crate::RowKey) without files -> [`Row`](crate::Row): the calls that have no
    /// row in [`FILE_ROWS`].
    pub const ROWS: &str = "ROWS";
    /// Hash, [`RowKey`](crate::RowKey) with files -> [`Row`](crate::Row).
    pub const FILE_ROWS: &str = "FILE_ROWS";
    /// Hash, [`RowKey`](crate::RowKey) -> [`BusyRow`](crate::BusyRow): further calls of rows that
    /// have many, unless these are in [`NEAR_BUSY_ROWS`].
    pub const BUSY_ROWS: &str = "BUSY_ROWS";
    /// Array, [`RowKey::near_place`](crate::RowKey::near_place) ->
    /// [`NearBusyRow`](crate::NearBusyRow): the first busy row of each place. Programs find it
    /// without a helper.
    pub const NEAR_BUSY_ROWS: &str = "NEAR_BUSY_ROWS";
    /// Per-CPU array, [`spec_slot`](crate::spec_slot) /
    /// [`OTHER_CALLS_IN_BLOCK`](crate::OTHER_CALLS_IN_BLOCK) ->
    /// [`OtherCallsBlock`](crate::OtherCallsBlock): the calls that have no rows.
    pub const OTHER_CALLS: &str = "OTHER_CALLS";
    /// Hash, [`PathKey`](crate::PathKey) -> [`PathSums`](crate::PathSums).
    pub const FAILED_PATHS: &str = "FAILED_PATHS";
    /// Hash, [`SizeKey`](crate::SizeKey) -> number of calls.
    pub const SIZES: &str = "SIZES";
    /// Hash, [`FileKey`](crate::FileKey) -> [`KnownFile`](crate::KnownFile).
    pub const FILES: &str = "FILES";
    /// Ring buffer of events. Each is a [`FileSeen`](crate::FileSeen) or begins with an
    /// [`EventHeader`](crate::EventHeader).
    pub const EVENTS: &str = "EVENTS";
    /// Ring buffer of what is known of callers. Each message begins with a
    /// [`SampleHeader`](crate::SampleHeader).
    pub const SAMPLES: &str = "SAMPLES";
    /// Array of [`SharedMemory`](crate::SharedMemory): the address spaces that reads have filled.
    pub const MEMORIES: &str = "MEMORIES";
    /// Hash, address of a `task_struct` -> an unused value: the threads outside the scope that may work
    /// for the thread that entered the scope by itself.
    pub const WOKEN: &str = "WOKEN";
    /// Hash, process id in the tracer's PID namespace -> an unused value: the processes that a walk
    /// looks for.
    pub const TARGETS: &str = "TARGETS";
    /// Hash, address of the `task_struct` of a leader -> what those of its threads that were found have
    /// in common. It is emptied before tasks are looked for.
    pub const THREAD_GROUPS: &str = "THREAD_GROUPS";
    /// Array of one [`Control`](crate::Control).
    pub const CONTROL: &str = "CONTROL";
    /// Per-CPU array, [`KernelLoss`](crate::KernelLoss) -> count.
    pub const LOSSES: &str = "LOSSES";
    /// Array of one u32: 1 once the trace is over and nothing more is counted.
    pub const IS_OVER: &str = ".bss";
    /// Array of one [`Epoch`](crate::Epoch), which goes into the keys of [`NEAR_ROWS`], [`ROWS`],
    /// [`FILE_ROWS`] and [`BUSY_ROWS`].
    ///
    /// So user space can take entries out of these maps while tasks count: it changes the epoch and
    /// waits until every program has ended that ran meanwhile. From then on nobody writes to the
    /// entries of the epoch before, whichever task they belong to.
    pub const EPOCH: &str = ".data.epoch";
    /// Array of one u32: 1 as soon as a row was made in [`ROWS`], [`FILE_ROWS`] or [`BUSY_ROWS`]. To
    /// walk over these takes half a millisecond, and most commands use none of them.
    pub const HAS_FAR_ROWS: &str = ".data.far";
    /// Array of one [`FileRoom`](crate::FileRoom).
    ///
    /// Its generation goes into the keys of [`FILES`]. So user space can take entries out while
    /// programs use others: it copies those that it keeps to the next generation, begins that, and
    /// waits until every program has ended that ran meanwhile. From then on nobody has a reference
    /// to an entry of the generation before, and they can all be removed. To remove a single entry
    /// would not do: the kernel may give its memory to another file at once, while a program on
    /// another CPU reads the number.
    pub const FILE_ROOM: &str = ".data.files";
    /// Array of one array, call slot -> [`CallSpec`](crate::CallSpec): what to do with each call. It
    /// is set before a run begins.
    pub const SPECS: &str = ".data.specs";
    /// Ring buffer of what changes and syncs files: see [`sync_event`](crate::sync_event). This map
    /// and the next ones are only in the object for `--syncs`.
    pub const SYNC_EVENTS: &str = "SYNC_EVENTS";
    /// Hash, [`FileKey`](crate::FileKey) -> [`SyncFile`](crate::SyncFile).
    pub const SYNC_FILES: &str = "SYNC_FILES";
    /// Hash, address of a `task_struct` -> [`SyncTask`](crate::SyncTask).
    pub const SYNC_TASKS: &str = "SYNC_TASKS";
    /// Array of one [`SyncState`](crate::SyncState).
    pub const SYNC_STATE: &str = ".data.syncs";
    /// Array of one array, call slot -> [`SyncSpec`](crate::SyncSpec).
    pub const SYNC_SPECS: &str = ".data.kinds";
    /// Ring buffer of what calls touch: see [`touch_event`](crate::touch_event). This map and the
    /// next ones are only in the object for `--paths`.
    pub const TOUCH_EVENTS: &str = "TOUCH_EVENTS";
    /// Hash, [`TouchKey`](crate::TouchKey) -> [`TouchCounts`](crate::TouchCounts). If it is full,
    /// each further call has a message.
    pub const TOUCH_CALLS: &str = "TOUCH_CALLS";
    /// Array of one [`TouchState`](crate::TouchState).
    pub const TOUCH_STATE: &str = ".data.touches";
    /// Array of one array, call slot -> [`TouchSpec`](crate::TouchSpec).
    pub const TOUCH_SPECS: &str = ".data.touching";
    /// Array of one u32. 1: every event wakes user space. 0: events wake it when many of them wait,
    /// because there is nothing that it would do at each.
    pub const IS_AWAITED: &str = ".data.awaited";
}

/// Names of the globals that user space fills in before it loads the programs. They do not change
/// afterwards.
pub mod globals {
    /// Of type [`KernelFields`](crate::KernelFields).
    pub const FIELDS: &str = "FIELDS";
    /// Of type u32: the last index of [`TASKS`](crate::maps::TASKS), one less than a power of two.
    pub const LAST_SLOT: &str = "LAST_SLOT";
    /// Of type u32: 1 if [`NEAR_ROWS`](crate::maps::NEAR_ROWS) and
    /// [`NEAR_BUSY_ROWS`](crate::maps::NEAR_BUSY_ROWS) are used, 0 if not.
    pub const USES_NEAR_ROWS: &str = "USES_NEAR_ROWS";
    /// Of type u32: bits of [`recorded`](crate::recorded).
    pub const RECORDED: &str = "RECORDED";
    /// Of type u32: 1 if tasks are followed that already run, 0 if not.
    pub const ATTACHES: &str = "ATTACHES";
    /// Of type u64: calls that took longer are reported, if
    /// [`recorded::SLOW_CALLS`](crate::recorded::SLOW_CALLS) is set.
    pub const SLOWER_THAN_NS: &str = "SLOWER_THAN_NS";
}

/// In [`Control::cgroup`]: every task is looked for.
pub const EVERY_CGROUP: u64 = u64::MAX;

/// What user space tells the programs, and what the programs share with each other. One writer at a
/// time, except for the atomic counters.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes)]
pub struct Control {
    /// Device of the tracer's PID namespace (`stat` of `/proc/self/ns/pid`).
    pub pidns_device: u64,
    /// Inode of the tracer's PID namespace.
    pub pidns_inode: u64,
    /// Process id of the tracer in that namespace.
    pub tracer_pid: u32,
    /// Thread id of the tracer's thread that launches the command. Tasks that the tracer's other
    /// threads fork are not traced.
    pub tracer_tid: u32,
    /// What the next task is that this thread creates: one of the constants in [`armed`]. User
    /// space sets it, the kernel side clears it.
    pub armed: u32,
    /// How deep the tracer's PID namespace is nested. Found when the root is forked.
    pub pidns_level: u32,
    /// How many files can have a number at once, see [`FileRoom`].
    pub max_files: u32,
    /// How many calls may be sampled for their callers.
    pub max_samples: u32,
    /// The last [`Task::serial`] given out. It has 64 bits because the atomic instruction needs
    /// them.
    pub last_serial: u64,
    /// The last [`FileNumber`] given out.
    pub last_file: u64,
    /// The last [`Task::space`] given out.
    pub last_space: u64,
    /// How many calls were to be sampled so far.
    pub samples: u64,
    /// The inode number of the cgroup whose tasks a walk looks for, or [`EVERY_CGROUP`]. 0: it looks
    /// for those of [`maps::TARGETS`] and their descendants.
    pub cgroup: u64,
    /// How many tasks walks have found and followed so far, or could not follow because the ring
    /// buffer was full.
    pub found: u64,
}

/// What the threads of a process have in common that were found.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes)]
pub struct ThreadGroup {
    /// [`Task::program`].
    pub program: u32,
    /// [`Task::space`].
    pub space: u32,
}

/// What the next task is that the tracer's launching thread creates.
pub mod armed {
    /// A task that is not followed.
    pub const OFF: u32 = 0;
    /// The root of the trace.
    pub const ROOT: u32 = 1;
}

/// The ways in which the programs can lose or merge a number. The discriminant is the index in
/// [`maps::LOSSES`].
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelLoss {
    /// A new task was not followed: there was no room for it.
    UnfollowedTask = 0,
    /// A call was not counted: the map of rows was full.
    UncountedCall = 1,
    /// An event did not fit into the ring buffer.
    LostEvent = 2,
    /// A call returned whose entry was not seen, because seccomp answered it. It is counted; only
    /// its time is lost.
    UntimedCall = 3,
    /// An operation of `io_uring` was told not to report its success.
    SilentOperation = 4,
    /// The completion queue of an `io_uring` had no room. The kernel does not say which operation
    /// completed.
    OverflowedOperation = 5,
    /// The bytes that a call wrote from a second or later file were not counted: the map of rows
    /// was full. The call itself is counted.
    UncountedPart = 6,
    /// A thread outside the scope made a selected call, and may work for the thread of its process that
    /// entered the scope by itself: a task in scope woke it, directly or through other threads. This
    /// also counts such threads that could not be remembered.
    OtherThread = 7,
    /// A call is missing in the map of calls by path: the map was full. The call itself is counted.
    UncountedPath = 8,
    /// The caller of a call was not sampled: the ring buffer was full, or as many calls had been
    /// sampled as the trace may have.
    UnsampledCaller = 9,
    /// A mapping of code could not be reported: the ring buffer was full. Stacks with code from
    /// there end early.
    UnknownCode = 10,
    /// Where bytes came from is not known: a call could not look into what is known of its memory,
    /// because others used it for too long or there was no room for that, or a buffer was forgotten
    /// to make room for another one. No count is lost.
    UnknownOrigin = 11,
    /// A thread made a selected call, and would be an [`OtherThread`](Self::OtherThread) if it had been
    /// woken. This is a loss only if a thread may have taken work without being woken.
    UnrelatedCall = 12,
    /// A call returned that was under way when its task was found. Only its time is lost.
    UnderWayAtAttach = 13,
    /// A slow call could not be reported: the ring buffer was too full. The call itself is counted.
    UnreportedSlowCall = 14,
}

/// Number of [`KernelLoss`] variants.
pub const LOSSES: u32 = 15;

/// What is known of an address space, and its lock: the threads of an address space read and write
/// on several CPUs at once.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct SharedMemory {
    /// How many tasks its address space has. 0: the place is free.
    pub tasks: u64,
    /// [`Task::space`] of that address space.
    pub space: u64,
    /// 1: locked.
    pub lock: u64,
    /// 1: something was written into this memory by a program that could not get the lock, so
    /// nothing that is known is certain.
    pub is_stale: u64,
    /// What is known. Only the holder of the lock may use it.
    pub memory: Memory,
}

/// How many address spaces have room in [`maps::MEMORIES`]: a power of two.
pub const MEMORIES: u32 = 1024;

/// Name of the tracer's own threads in the process of a thread that entered the scope by itself. They
/// do not work for closures.
pub const WATCHER_COMM: [u8; COMM_BYTES] = *b"zctrace-watches\0";

/// Implements aya's marker trait for plain old data, which values of maps need.
#[cfg(feature = "user")]
mod pod {
    macro_rules! pod {
        ($($type:ident),+) => {
            $(
                // SAFETY: valid for all bit patterns and without padding, as the compiler checks:
                // it has zerocopy's `FromBytes` and `IntoBytes`.
                unsafe impl aya::Pod for crate::$type {}
            )+
        };
    }
    pod!(
        BusyRow,
        NearBusyRow,
        CallSpec,
        TaskSlot,
        OtherCallsBlock,
        RowKey,
        Row,
        Epoch,
        PathKey,
        PathSums,
        SizeKey,
        FileKey,
        FileRoom,
        KnownFile,
        SyncFile,
        SyncSpec,
        SyncState,
        SyncTask,
        TouchCounts,
        TouchKey,
        TouchSpec,
        TouchState,
        SharedMemory,
        ThreadGroup,
        Control,
        KernelFields
    );
}

const _: () = {
    // Of hash maps with larger elements, with their key and its header, the kernel keeps fewer
    // ready.
    assert!(size_of::<Row>() + size_of::<RowKey>() + 48 <= 256);
    // The kernel's limit for an entry that each CPU has (`PCPU_MIN_UNIT_SIZE`).
    assert!(size_of::<OtherCallsBlock>() <= 32 << 10);
    // A stack has no alignment, so there is no padding before it.
    assert!(
        size_of::<StackSample<MAX_CHUNKS>>() == size_of::<SampledCall>() + MAX_CHUNKS * CHUNK_BYTES
    );
};
