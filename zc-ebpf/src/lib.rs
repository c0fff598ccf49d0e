//! The contract between zctrace's eBPF programs and user space: keys and rows of maps, events, loss counters, names.
//!
//! Both sides compile this one file, so a layout cannot differ between them.
//! All types are `#[repr(C)]`, free of padding, and valid for every bit pattern.
#![no_std]
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]

mod call;
mod events;
mod file;
pub mod histogram;
mod kernel_fields;
pub mod pairing;
mod row;
mod task;

pub use call::*;
pub use events::{ARGS_BYTES, COMM_BYTES, Counters, EXE_BYTES, Ended, EventHeader, Exec, event_kind};
pub use file::{
    CHANGED, Ends, FILESYSTEM_BYTES, FileKey, FileNumber, FileSeen, HELD, KnownFile, MAPPED, NAME_BYTES, NAMES_BYTES, NO_ROOM,
    STREAM_FILES, UNSAMPLED, path_end, stream_slot, told,
};
pub use histogram::{BUCKETS, bucket_of};
pub use kernel_fields::{ABSENT, KernelFields};
pub use pairing::{memory::Memory, order::Sequence, stream::Stream};
pub use row::{ErrnoKey, Part, Row, RowKey};
pub use task::{Arguments, Descriptor, Interrupted, Mapping, Outcome, Task, hook, phase};

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

    /// Attached to nothing: user space has it run (`BPF_PROG_TEST_RUN`) in the thread that is to come into scope or to leave it, with one
    /// of [`scope`](crate::scope)'s constants as its first argument.
    pub const SCOPE: &str = "scope";

    /// `(program, tracepoints)`: those that see what `io_uring` does. Each is attached to the first of its tracepoints that the kernel
    /// has: one was renamed in 6.3.
    pub const RING: [(&str, &[&str]); 4] = [
        ("ring_complete", &["io_uring_complete"]),
        ("ring_create", &["io_uring_create"]),
        ("ring_overflow", &["io_uring_cqe_overflow"]),
        ("ring_submit", &["io_uring_submit_req", "io_uring_submit_sqe"]),
    ];
}

/// What a thread that runs [`programs::SCOPE`] wants.
pub mod scope {
    /// To come into scope: it is the root of the trace. The call by which it says so is not counted.
    pub const ENTER: u64 = 0;
    /// Not to be counted any more; what it has created stays in scope.
    pub const PAUSE: u64 = 1;
    /// To leave, after a pause: its counters are final.
    pub const LEAVE: u64 = 2;
}

/// Names of the maps and globals, as user space finds them in the object file.
pub mod maps {
    /// Hash, address of a `task_struct` -> [`Task`](crate::Task): the tasks that are followed now.
    pub const TASKS: &str = "TASKS";
    /// Hash, [`RowKey`](crate::RowKey) without files -> [`Row`](crate::Row): the calls that are in no row of [`FILE_ROWS`]. Every call that
    /// was counted has its row here, if only an empty one, so that there is room for it when there is none for its files.
    pub const ROWS: &str = "ROWS";
    /// Hash, [`RowKey`](crate::RowKey) with files -> [`Row`](crate::Row).
    pub const FILE_ROWS: &str = "FILE_ROWS";
    /// Hash, [`RowKey`](crate::RowKey) -> [`Part`](crate::Part): what calls wrote from other files than that of their row.
    pub const PARTS: &str = "PARTS";
    /// Hash, [`ErrnoKey`](crate::ErrnoKey) without files -> number of calls that failed so; the errnos of [`ROWS`].
    pub const ERRNOS: &str = "ERRNOS";
    /// Hash, [`ErrnoKey`](crate::ErrnoKey) with files -> number of calls that failed so; the errnos of [`FILE_ROWS`].
    pub const FILE_ERRNOS: &str = "FILE_ERRNOS";
    /// Hash, [`FileKey`](crate::FileKey) -> [`KnownFile`](crate::KnownFile).
    pub const FILES: &str = "FILES";
    /// Ring buffer of events, each of which begins with an [`EventHeader`](crate::EventHeader) or is a
    /// [`FileSeen`](crate::FileSeen).
    pub const EVENTS: &str = "EVENTS";
    /// Hash, [`Task::space`](crate::Task::space) -> [`Memory`](crate::Memory): the address spaces that reads have filled.
    pub const MEMORIES: &str = "MEMORIES";
    /// Array, [`stream_slot`](crate::stream_slot) -> [`Stream`](crate::Stream).
    pub const STREAMS: &str = "STREAMS";
    /// Array, call slot -> [`CallSpec`](crate::CallSpec).
    pub const SPECS: &str = "SPECS";
    /// Array of one [`Control`](crate::Control).
    pub const CONTROL: &str = "CONTROL";
    /// Per-CPU array, [`Loss`](crate::Loss) -> count.
    pub const LOSSES: &str = "LOSSES";
    /// Array of one u32, the kernel side's only global that can be written: 1 as soon as nothing more counts.
    pub const IS_OVER: &str = ".bss";
    /// Read-only global of type [`KernelFields`](crate::KernelFields).
    pub const FIELDS: &str = "FIELDS";
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
    /// Thread id of the tracer's thread that launches the command: what its other threads fork is not ours.
    pub tracer_tid: u32,
    /// What the next task is that this thread creates, as one of [`armed`]'s constants. Set by user space, cleared by the kernel side.
    pub armed: u32,
    /// How deep the tracer's PID namespace is nested; found when the root is forked.
    pub pidns_level: u32,
    /// Most files that get a number.
    pub max_files: u32,
    /// Unused; keeps the layout free of padding.
    pub reserved: u32,
    /// The last [`Task::serial`] given out; 64 bits wide for the sake of the atomic instruction.
    pub last_serial: u64,
    /// The last [`FileNumber`] given out.
    pub last_file: u64,
    /// The last [`Task::space`] given out.
    pub last_space: u64,
}

/// What the next task is that the tracer's launching thread creates.
pub mod armed {
    /// Nobody to follow.
    pub const OFF: u32 = 0;
    /// The root of the trace.
    pub const ROOT: u32 = 1;
    /// One that shows which programs run: [`phase::REHEARSING`](crate::phase::REHEARSING).
    pub const REHEARSAL: u32 = 2;
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
    /// A call returned whose entry was not seen, since seccomp answered it: counted, without time. What is lost is its time alone.
    UntimedCall = 4,
    /// An operation of `io_uring` that was asked not to tell of its success.
    SilentOperation = 5,
    /// A completion of an operation of `io_uring` for which the queue had no room: the kernel does not tell of which.
    OverflowedOperation = 6,
    /// What a call wrote from a further file was not counted: the map of parts was full. The call itself is counted.
    UncountedPart = 7,
    /// A selected call of a thread that is not in scope, in the process of one that came into scope by itself.
    OtherThread = 8,
}

/// Number of [`Loss`] variants.
pub const LOSSES: u32 = 9;

/// Name of the tracer's own thread beside one that is in scope by itself: what it does is not counted as another thread's work.
pub const WATCHER_COMM: [u8; COMM_BYTES] = *b"zctrace-watches\0";

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
    pod!(CallSpec, Task, RowKey, Row, Part, ErrnoKey, FileKey, KnownFile, Control, KernelFields, Stream);
}

const _: () = {
    use pairing::memory::{RANGES, Range, SAMPLES, SOURCES};
    assert!(size_of::<CallSpec>() == 16);
    assert!(size_of::<Interrupted>() == 2 * 4 + 2 * 8);
    assert!(size_of::<Ends>() == 8);
    assert!(size_of::<Sequence>() == 32);
    assert!(size_of::<Range>() == 7 * 8 + 6 * 4 + 2 * 4 * SAMPLES);
    assert!(size_of::<Memory>() == 2 * 8 + 8 * 4 + SOURCES * 8 + RANGES * size_of::<Range>());
    // With its key and the kernel's own head, an element of a hash should stay within a page.
    assert!(size_of::<Memory>() <= 4096 - 64);
    assert!(size_of::<Mapping>() == 2 * 8 + 2 * 4);
    assert!(
        size_of::<Task>()
            == 16 * 4
                + 2 * 8
                + size_of::<Interrupted>()
                + size_of::<Ends>()
                + size_of::<Arguments>()
                + size_of::<Outcome>()
                + size_of::<CallSpec>()
                + size_of::<Sequence>()
                + size_of::<Mapping>()
                + 2 * size_of::<Descriptor>()
    );
    assert!(size_of::<Stream>() == 5 * 8);
    assert!(size_of::<RowKey>() == 16);
    assert!(size_of::<Row>() == 17 * 8 + 4 * BUCKETS);
    assert!(size_of::<Part>() == 3 * 8);
    assert!(size_of::<ErrnoKey>() == 20);
    assert!(size_of::<FileKey>() == 24);
    assert!(size_of::<KnownFile>() == 8);
    assert!(size_of::<FileSeen>() == 2 * 4 + 2 * 8 + 5 * 4 + 6 * 2 + 8 + 2 * 16 + 2 * FILESYSTEM_BYTES + NAMES_BYTES);
    assert!(size_of::<Control>() == 2 * 8 + 6 * 4 + 3 * 8);
    assert!(size_of::<EventHeader>() == 6 * 4 + 8 + COMM_BYTES);
    assert!(size_of::<Counters>() == 7 * 8);
    assert!(size_of::<Exec>() == size_of::<EventHeader>() + 8 + size_of::<Counters>() + EXE_BYTES + ARGS_BYTES);
    assert!(size_of::<Ended>() == size_of::<EventHeader>() + size_of::<Counters>());
};
