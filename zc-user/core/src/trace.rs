//! [`Trace`]: the raw record of a run, the same from every backend.
//!
//! Nothing here is derived: threads are not folded to processes, times are not averaged.
//! A field that a backend cannot know is `None`, never 0.

mod file;

use std::{collections::BTreeMap, time::SystemTime};

pub use file::{Ends, File, FileId, FileIdentity, FileKind, Input, Stream, Streams};

use crate::{
    histogram::Histogram,
    syscall::{Call, Requested, Returned, Selection},
};

/// Name of the backend strace, as [`Trace::backend`] has it.
pub const STRACE: &str = "strace";

/// The raw record of one run.
#[derive(Debug, Clone)]
pub struct Trace {
    /// Name of the backend that made the record.
    pub backend: &'static str,
    /// Kernel release (`uname -r`); `None` for a record from elsewhere.
    pub kernel: Option<String>,
    /// Machine architecture (`uname -m`); `None` for a record from elsewhere.
    pub arch: Option<String>,
    /// The command as it was launched; empty if unknown.
    pub command: Vec<String>,
    /// Working directory that the command was launched in; `None` for a record from elsewhere.
    pub directory: Option<String>,
    /// When the command was launched.
    pub started_at: Option<SystemTime>,
    /// From the command's successful exec to its end; with [`Until::AllEnd`](crate::options::Until::AllEnd) to the end of the trace.
    pub wall_ns: Option<u64>,
    /// How the command ended; `None` while it runs, or if the record does not say.
    pub exit: Option<Exit>,
    /// Ways in which a number was lost or merged, with how often. Without any entry above 0 the numbers are exact.
    pub losses: BTreeMap<Loss, u64>,
    /// What the record lacks without being wrong, each a sentence for the user.
    pub notes: Vec<String>,
    /// Which calls were counted; `None` for a record from elsewhere.
    pub counted: Option<Selection>,
    /// The files that counted calls used, at most once each; rows name them by their position.
    pub files: Vec<File>,
    /// Counted calls on files that stand in rows without their files, for want of room. The counts are exact all the same.
    pub calls_without_files: u64,
    /// Whether the backend sees the memory that calls name: [`Input::Held`] and [`Input::Mapped`] are known.
    pub sees_memory: bool,
    /// The processes, in the order in which they were created.
    pub processes: Vec<Process>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this status.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
}

/// A way to lose or merge a number. [`Loss::name`] is what the report calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Loss {
    /// A new task could not be followed; its calls are missing.
    UnfollowedTasks,
    /// Calls that were not counted for want of room.
    UncountedCalls,
    /// Failed calls that were counted without their errno.
    UncountedErrnos,
    /// Messages from the kernel that did not fit into the buffer: names, starts and ends of processes are missing.
    LostEvents,
    /// Calls whose entry was not seen: counted, without time.
    ExitsWithoutEntry,
    /// Runs of a probe that the kernel skipped.
    MissedProbes,
    /// Tasks whose end was not seen: their switches, faults and CPU time are missing.
    UnseenEnds,
    /// Lines of a log that were not understood.
    UnparsedLines,
    /// Operations of `io_uring` that were asked not to tell of their success: what they moved is missing.
    SilentOperations,
    /// Completions of `io_uring` that overflowed its queue: which operations they are of is not known.
    OverflowedOperations,
    /// The tracer ended before the command did, or its log is cut off; what came after is missing.
    TracerEnded,
    /// Signs that a log leaves out calls that were made.
    UnshownCalls,
    /// Calls that other threads of a traced closure's process made meanwhile: they may be its work.
    OtherThreads,
    /// The figures were read while the command ran.
    ReadWhileRunning,
    /// Calls that were counted without their files, for want of room: their bytes are in no transfer. The counts are exact all the same.
    CallsWithoutFiles,
}

impl Loss {
    /// All of them, in the order in which reports show them.
    pub const ALL: [Self; 15] = [
        Self::UnfollowedTasks,
        Self::UncountedCalls,
        Self::UncountedErrnos,
        Self::LostEvents,
        Self::ExitsWithoutEntry,
        Self::MissedProbes,
        Self::UnseenEnds,
        Self::UnparsedLines,
        Self::SilentOperations,
        Self::OverflowedOperations,
        Self::TracerEnded,
        Self::UnshownCalls,
        Self::OtherThreads,
        Self::ReadWhileRunning,
        Self::CallsWithoutFiles,
    ];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnfollowedTasks => "unfollowed_tasks",
            Self::UncountedCalls => "uncounted_calls",
            Self::UncountedErrnos => "uncounted_errnos",
            Self::LostEvents => "lost_events",
            Self::ExitsWithoutEntry => "exits_without_entry",
            Self::MissedProbes => "missed_probes",
            Self::UnseenEnds => "unseen_ends",
            Self::UnparsedLines => "unparsed_lines",
            Self::SilentOperations => "silent_operations",
            Self::OverflowedOperations => "overflowed_operations",
            Self::TracerEnded => "tracer_ended",
            Self::UnshownCalls => "unshown_calls",
            Self::OtherThreads => "other_threads",
            Self::ReadWhileRunning => "read_while_running",
            Self::CallsWithoutFiles => "calls_without_files",
        }
    }

    /// Whether bytes may have gone where no row tells of, or rows may lack their files: then transfers are not all known. What else is
    /// lost are times, names of errors, and counters of tasks.
    pub const fn touches_transfers(self) -> bool {
        match self {
            Self::UncountedErrnos | Self::UnseenEnds => false,
            Self::UnfollowedTasks
            | Self::UncountedCalls
            | Self::LostEvents
            | Self::ExitsWithoutEntry
            | Self::MissedProbes
            | Self::UnparsedLines
            | Self::SilentOperations
            | Self::OverflowedOperations
            | Self::TracerEnded
            | Self::UnshownCalls
            | Self::OtherThreads
            | Self::ReadWhileRunning
            | Self::CallsWithoutFiles => true,
        }
    }

    /// Whether counts are lower bounds by it: all but that calls stand without their files.
    pub const fn touches_counts(self) -> bool {
        !matches!(self, Self::CallsWithoutFiles)
    }

    /// What there are so many of, and (in parentheses) what it means for the numbers and what helps: it follows "lower bound: ".
    pub fn explain(self, count: u64) -> String {
        let (what, remedy) = match self {
            Self::UnfollowedTasks => ("tasks not followed", "their calls are missing; raise --max-tasks"),
            Self::UncountedCalls => ("calls not counted", "the table of rows was full; raise --max-rows"),
            Self::UncountedErrnos => ("errors counted without their errno", "the table of errnos was full; raise --max-rows"),
            Self::LostEvents => ("messages from the kernel lost", "names and ends of processes are missing; raise --max-tasks"),
            Self::ExitsWithoutEntry => {
                ("calls without a visible entry", "they began before the record, say; counted without time")
            }
            Self::MissedProbes => ("runs of a probe skipped by the kernel", "up to as many calls are missing"),
            Self::UnseenEnds => ("ends of tasks not seen", "their switches, faults and CPU time are missing"),
            Self::UnparsedLines => ("lines of the log not understood", "see them with -v"),
            Self::SilentOperations => ("operations of io_uring that tell of no success", "what they moved is missing"),
            Self::OverflowedOperations => (
                "completions of io_uring that overflowed its queue",
                "they are missing among their operations; give the ring a larger one",
            ),
            Self::OtherThreads => (
                "calls that other threads of this process made meanwhile",
                "they are not counted, and may be work of the closure: start its threads within it, or trace it in a process of its own",
            ),
            Self::ReadWhileRunning => (
                "figures read while the command ran",
                "a report so far: a call that returned meanwhile may be in some of its figures only",
            ),
            Self::TracerEnded => {
                ("tracer ended before the command", "all that came after is missing; was the tracer killed, or the log cut off?")
            }
            Self::UnshownCalls => (
                "signs that the log leaves calls out",
                "no exec at its beginning, or a process that ends without exit_group: record it from the start, without -z, -Z, -P and \
                 -e trace",
            ),
            Self::CallsWithoutFiles => {
                ("calls without their files", "their bytes are in no transfer; raise --max-files and --max-rows")
            }
        };
        format!("{what}: {count} ({remedy})")
    }
}

/// One process of the trace.
#[derive(Debug, Clone, Default)]
pub struct Process {
    /// Process id, as the tracer sees it.
    pub pid: u32,
    /// Process id of its creator; `None` if unknown.
    pub ppid: Option<u32>,
    /// Name of its first thread, the last one seen.
    pub comm: Option<String>,
    /// Path of the program that it executed last, as given to `execve`.
    pub exe: Option<String>,
    /// Its command line after the last exec.
    pub command: Option<Vec<String>>,
    /// What its program was built with; `None` if unknown.
    pub toolchain: Option<Toolchain>,
    /// Whether it had ended.
    pub state: State,
    /// Counters of the whole process, threads that ended included.
    pub counters: Option<Counters>,
    /// Its threads, in the order in which they were created.
    pub threads: Vec<Thread>,
}

/// What a program was built with: which standard library it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    /// The language.
    pub language: Language,
    /// The version of the compiler, as `1.95.0`.
    pub version: String,
}

/// A language whose standard library chooses how bytes are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Rust.
    Rust,
    /// Go.
    Go,
}

/// Whether a process had ended when the trace did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum State {
    /// It had ended.
    #[default]
    Exited,
    /// It was alive: counted up to then.
    Running,
}

/// One thread of a process.
#[derive(Debug, Clone, Default)]
pub struct Thread {
    /// Thread id, as the tracer sees it.
    pub tid: u32,
    /// Its name, the last one seen.
    pub comm: Option<String>,
    /// The thread's own counters.
    pub counters: Option<Counters>,
    /// Its calls: a row for each call and the files involved.
    pub rows: Vec<Row>,
    /// What io_uring did for it, whoever in the kernel did it: a row for each operation and the file involved. These are no
    /// system calls, and have no times; an operation is named as in [`Call::ring_operation`].
    pub ring_rows: Vec<Row>,
    /// What calls wrote from other files than [`Row::ends`] names, for calls whose buffers hold bytes of several files.
    pub parts: Vec<Part>,
}

/// Bytes that a thread's calls wrote from one file to another, in calls that wrote from several files at once.
///
/// The calls and all their bytes are counted in the [`Row`] whose input is the file that most of the bytes came from; these bytes are
/// part of [`Row::bytes`] there, and not of its [`Row::paired_bytes`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The call.
    pub call: Call,
    /// Where these bytes came from: [`Input::Held`], [`Input::Changed`] or [`Input::Unsampled`].
    pub from: Input,
    /// Where they went.
    pub to: FileId,
    /// How many.
    pub bytes: u64,
    /// Calls that wrote some of them.
    pub calls: u64,
    /// Of these, the calls whose bytes of this file were sampled and compared.
    pub checked_calls: u64,
}

/// The kernel's own counters of a task or process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// CPU time in user mode.
    pub user_ns: u64,
    /// CPU time in the kernel.
    pub system_ns: u64,
    /// Context switches because the task waited.
    pub voluntary_switches: u64,
    /// Context switches because its time was up or another was more urgent.
    pub involuntary_switches: u64,
    /// Page faults served without I/O.
    pub minor_faults: u64,
    /// Page faults that waited for I/O.
    pub major_faults: u64,
}

/// What a thread did with one call and the same files.
#[derive(Debug, Clone)]
pub struct Row {
    /// The call.
    pub call: Call,
    /// The files involved.
    pub ends: Ends,
    /// Where the first of these calls stands among all first calls of the trace: rows compare by it, the number means nothing else.
    /// `None`: unknown.
    pub order: Option<u64>,
    /// Where the last of them stands in the same order. `None`: unknown.
    pub last_order: Option<u64>,
    /// Where the return of the first of them that moved bytes stands in the same order. `None`: unknown, or none did.
    pub moved_order: Option<u64>,
    /// The first of the bytes that the first of these calls moved; none, if the backend does not see them.
    pub head: Head,
    /// How often it returned.
    pub calls: u64,
    /// How often it failed, by errno (positive; the kernel-internal ones from 512 on included).
    pub errnos: BTreeMap<u32, u64>,
    /// How often it failed; more than the sum of [`errnos`](Self::errnos) only if errnos were lost.
    pub errors: u64,
    /// How often it never returned.
    pub unfinished: u64,
    /// Sum of what it returned as moved.
    pub bytes: Option<u64>,
    /// Sum of what it asked for.
    pub requested_bytes: Option<u64>,
    /// Of [`bytes`](Self::bytes), those that [`input`](Ends::input) covers, unless the call names it.
    pub paired_bytes: u64,
    /// Calls whose bytes were sampled and compared with what had been read: see [`Input::Held`].
    pub checked_calls: u64,
    /// How often it returned 0 where the result is a number of bytes: at the end of a file, most of the time.
    pub zero_calls: u64,
    /// How often it moved something, but less than it asked for.
    pub short_calls: u64,
    /// Its times.
    pub times: Option<Times>,
}

impl Row {
    /// Whether these calls had the kernel move bytes in a way that no row tells of, unless the backend sees the operations themselves.
    pub fn is_unseen_submission(&self) -> bool {
        matches!(self.call.name.as_ref(), "io_submit" | "io_uring_enter") && self.calls > self.errors
    }

    /// The row of a call that has not happened.
    pub fn new(call: Call, ends: Ends) -> Self {
        let spec = call.spec();
        Self {
            call,
            ends,
            order: None,
            last_order: None,
            moved_order: None,
            head: Head::default(),
            calls: 0,
            errnos: BTreeMap::new(),
            errors: 0,
            unfinished: 0,
            bytes: (spec.returned == Returned::Bytes).then_some(0),
            requested_bytes: (spec.requested != Requested::Nowhere).then_some(0),
            paired_bytes: 0,
            checked_calls: 0,
            zero_calls: 0,
            short_calls: 0,
            times: None,
        }
    }
}

/// The first bytes that a call moved, as far as a backend shows them: at most [`Head::MOST_BYTES`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Head {
    bytes: [u8; Self::MOST_BYTES],
    length: usize,
}

impl Head {
    /// So many tell one text from another most of the time.
    pub const MOST_BYTES: usize = 16;

    /// The first of these.
    pub fn of(bytes: &[u8]) -> Self {
        let mut head = Self { length: bytes.len().min(Self::MOST_BYTES), ..Self::default() };
        head.bytes[..head.length].copy_from_slice(&bytes[..head.length]);
        head
    }

    /// What is left of them after so many bytes.
    #[must_use]
    pub fn after(&self, bytes: u64) -> Self {
        let gone = usize::try_from(bytes).unwrap_or(usize::MAX).min(self.length);
        Self::of(&self.bytes[gone..self.length])
    }

    /// Whether no byte is known.
    pub const fn is_unknown(&self) -> bool {
        self.length == 0
    }

    /// Whether a byte that is known of both differs.
    pub fn differs_from(&self, other: &Self) -> bool {
        let known = self.length.min(other.length);
        self.bytes[..known] != other.bytes[..known]
    }
}

/// Times from entry to exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times {
    /// Sum; `u64::MAX`: it has no room here, and is unknown.
    pub total_ns: u64,
    /// Shortest.
    pub min_ns: u64,
    /// Longest.
    pub max_ns: u64,
    /// Distribution; it counts the calls that were timed.
    pub histogram: Histogram,
}
