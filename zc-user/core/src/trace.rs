//! [`Trace`]: the raw record of a run, the same from every backend.
//!
//! Nothing here is derived: threads are not summed to processes, and times are not averaged. A
//! field that a backend cannot know is `None`, never 0.

mod callers;
mod extent;
mod failed_paths;
mod file;
mod loss;
mod open_ends;
mod other_calls;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::SystemTime,
};

use derive_more::{AddAssign, Deref, DerefMut};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    counts::{add_counts, add_times, merge_known},
    durable::Syncs,
    histogram::Histogram,
    left_open::LeftOpen,
    marked_spans::MarkedSpan,
    slow_calls::SlowCalls,
    syscalls::{Call, CallEffect, Selection},
    text::{file_name, process_name},
    touched::Touched,
    units::sum_all,
};

pub use callers::{CallerSums, Frame, SampleSum, SampledStack, StackEnd, StackId, TimedCall};
pub use extent::{Attached, Span};
pub use failed_paths::{FailedPath, FailedPaths, GivenPath};
pub use file::{
    Content, DELETED_SUFFIX, Ends, File, FileId, FileIdentity, FileKind, Input, OpenBefore,
    OpenFlags, SummedContent,
};
pub use loss::Loss;
pub use open_ends::{EndInode, OpenEnd};
pub use other_calls::OtherCalls;

pub use crate::{
    counts::{CallSums, Counts, Times},
    ended::EndedSums,
};
pub use zc_ebpf::Fault;

/// Name of the backend strace in [`Trace::backend`].
pub const STRACE: &str = "strace";

/// How the note begins that says why strace counted although eBPF was to be tried first.
pub const STRACE_FALLBACK: &str = "backend strace, since eBPF cannot run here";

/// The raw record of one run. By default nothing is known of it.
#[derive(Debug, Clone, Default)]
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
    /// From the command's successful exec to its end; with
    /// [`Until::AllEnd`](crate::options::Until::AllEnd) to the end of the trace.
    pub wall_ns: Option<u64>,
    /// The part of that in which the command exits: from its call of `exit_group`. `None`: it made
    /// none, or that is unknown.
    pub exit_ns: Option<u64>,
    /// How the command ended; `None` while it runs, or if the record does not say.
    pub exit: Option<Exit>,
    /// Which part of a run this is; `None`: all of it.
    pub span: Option<Span>,
    /// What the trace attached to; `None`: a command was launched.
    pub attached: Option<Attached>,
    /// How numbers were lost or merged, and how often. If no entry is above 0, the numbers are
    /// exact.
    pub losses: BTreeMap<Loss, u64>,
    /// What the record lacks without being wrong, each a sentence for the user.
    pub notes: Vec<String>,
    /// Which calls were counted; `None` for a record from elsewhere.
    pub counted: Option<Selection>,
    /// The files that counted calls used, each at most once. Rows name them by their index.
    pub files: Vec<File>,
    /// The pipes and sockets that were open before the launch, so that the command may have
    /// inherited them. Others may also use them, and they may have held bytes before. `None`:
    /// unknown.
    pub inherited: Option<BTreeSet<OpenBefore>>,
    /// Who had the other ends of pipes and Unix sockets open on which calls waited for a while. Read
    /// before the trace ended or, if a signal ended the command, before that signal.
    pub open_ends: Vec<OpenEnd>,
    /// The calls that were not selected, so that they have no rows. `None`: they were not counted.
    pub other_calls: Option<BTreeMap<Call, OtherCalls>>,
    /// The calls that take a path and failed, and if it was asked for, those that succeeded.
    /// `None`: they were not looked at.
    pub failed_paths: Option<FailedPaths>,
    /// The spans that threads marked, by name (strace only).
    pub marked_spans: Vec<MarkedSpan>,
    /// Which files were synced in order; `None`: it was not asked for.
    pub syncs: Option<Syncs>,
    /// Which descriptors the command left open; `None`: it was not asked for.
    pub left_open: Option<LeftOpen>,
    /// Which paths and addresses were touched; `None`: it was not asked for.
    pub touched: Option<Touched>,
    /// The calls that took longer than a limit; `None`: it was not asked for.
    pub slow_calls: Option<SlowCalls>,
    /// How many bytes each call moved, of those that did not fail. A call that is missing there had no
    /// room. `None`: it was not asked for.
    pub sizes: Option<BTreeMap<Call, Histogram>>,
    /// The stacks of the calls whose callers were sampled, each once. `None`: no callers were
    /// sampled.
    pub stacks: Option<Vec<SampledStack>>,
    /// Whether the backend sees the memory that calls use, so that [`Input::Buffer`] and
    /// [`Input::Mapping`] are known.
    pub sees_memory: bool,
    /// The processes, in the order in which they were created, except those in
    /// [`merged`](Self::merged).
    pub processes: Vec<Process>,
    /// Processes that had ended and of which only sums were kept.
    pub merged: Vec<SummedProcesses>,
    /// What the analysis found in the processes of which only sums were kept.
    pub ended: EndedSums,
}

impl Trace {
    /// Calls that were counted without their files ([`Loss::CallsWithoutFiles`]).
    pub fn calls_without_files(&self) -> u64 {
        let losses = &self.losses;
        losses.get(&Loss::CallsWithoutFiles).copied().unwrap_or(0)
    }

    /// All processes; those that were merged as one for each sum.
    pub fn all_processes(&self) -> impl Iterator<Item = &Process> + Clone {
        self.processes
            .iter()
            .chain(self.merged.iter().map(|merged| &merged.sums))
    }

    /// All processes; those that were merged as one for each sum.
    pub fn all_processes_mut(&mut self) -> impl Iterator<Item = &mut Process> {
        self.processes
            .iter_mut()
            .chain(self.merged.iter_mut().map(|merged| &mut merged.sums))
    }
}

/// How many programs processes ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, AddAssign)]
pub struct ProgramCounts {
    /// How many; each time counts.
    pub programs: u64,
    /// How many of them had run other programs before.
    pub continued: u64,
    /// How many of them have a known program.
    pub executed: u64,
    /// How many threads they had.
    pub threads: u64,
}

/// Processes of which only sums were kept.
#[derive(Debug, Clone, Default)]
pub struct SummedProcesses {
    /// How many these are.
    pub counts: ProgramCounts,
    /// A process with their sums, and one thread with those of all threads. It has the ids of the
    /// first of them.
    pub sums: Process,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this status.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
}

/// How many names of a process's earlier programs are kept.
pub const EARLIER_PROGRAMS: usize = 4;

/// What a process did while it ran one program. An exec begins another one.
#[derive(Debug, Clone, Default)]
pub struct Process {
    /// Names of the programs that the process ran before, the last one last; at most
    /// [`EARLIER_PROGRAMS`]. Empty: it began with this one.
    pub earlier: Vec<String>,
    /// Process id, as the tracer sees it.
    pub pid: u32,
    /// Process id of its creator; `None` if unknown.
    pub ppid: Option<u32>,
    /// Name of its first thread, as last seen.
    pub comm: Option<String>,
    /// Path of the program that it executed last, as given to `execve`.
    pub exe: Option<String>,
    /// Its command line after the last exec.
    pub command: Option<Vec<String>>,
    /// What its program was built with; `None` if unknown.
    pub toolchain: Option<Toolchain>,
    /// Whether it had ended.
    pub state: State,
    /// Counters of the whole process, including threads that ended.
    pub counters: Option<Counters>,
    /// Its threads, in the order in which they were created.
    pub threads: Vec<Thread>,
}

impl Process {
    /// Its name: that of its first thread, or else of its program.
    pub fn name(&self) -> Option<&str> {
        process_name(
            self.comm.as_deref(),
            self.exe.as_deref(),
            self.command.as_deref(),
        )
    }

    /// It alone.
    pub fn program_counts(&self) -> ProgramCounts {
        ProgramCounts {
            programs: 1,
            continued: u64::from(!self.earlier.is_empty()),
            executed: u64::from(self.exe.is_some()),
            threads: u64::try_from(self.threads.len()).unwrap_or(u64::MAX),
        }
    }

    /// The calls of all its threads.
    pub fn rows(&self) -> impl Iterator<Item = &Row> + Clone {
        self.threads.iter().flat_map(|thread| &thread.rows)
    }

    /// The names of the last programs of the process, of which this one is the last.
    pub fn programs_up_to(&self) -> Vec<String> {
        let name = self.comm.as_deref().or(self.exe.as_deref());
        let name = name.map(file_name).unwrap_or_default();
        programs_up_to(&self.earlier, name)
    }
}

/// The names of the last programs of a process that ran the `earlier` ones, and then the one with this
/// name.
pub fn programs_up_to(earlier: &[String], name: &str) -> Vec<String> {
    let skipped = (earlier.len() + 1).saturating_sub(EARLIER_PROGRAMS);
    let names = earlier.iter().map(String::as_str).chain([name]);
    names.skip(skipped).map(str::to_owned).collect()
}

/// What a program was built with, which tells its standard library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    /// The language.
    pub language: Language,
    /// The version of the compiler, as `1.95.0`.
    pub version: String,
}

/// A language whose standard library chooses how to copy bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Rust.
    Rust,
    /// Go.
    Go,
}

/// Whether a process had ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It had ended.
    #[default]
    Exited,
    /// It was alive, and is counted up to then.
    Running,
}

/// One thread of a process.
#[derive(Debug, Clone, Default)]
pub struct Thread {
    /// Thread id, as the tracer sees it.
    pub tid: u32,
    /// Its name, as last seen.
    pub comm: Option<String>,
    /// The thread's own counters.
    pub counters: Option<Counters>,
    /// Its calls: a row for each call and the files involved.
    pub rows: Vec<Row>,
    /// What io_uring did for it, in whichever kernel thread: a row for each operation and the file
    /// involved. They are named as by [`Call::ring_operation`] and have no times.
    pub ring_rows: Vec<Row>,
    /// Its calls that were not selected; `None`: they were not counted.
    pub other_calls: Option<OtherCalls>,
    /// Bytes that calls wrote from other files than their [`Row::ends`] name, since their buffers
    /// held bytes of several files.
    pub parts: Vec<Part>,
    /// How often memory that a read had filled was forgotten, by the file that was read: what was
    /// written from there counts as the program's own memory. `None`: of several files.
    pub forgotten: BTreeMap<Option<FileId>, u64>,
    /// Calls that wrote to each file, perhaps from a mapping of another one: that is unknown, because
    /// other threads were changing mappings.
    pub unseen_mappings: BTreeMap<FileId, u64>,
    /// When it began to be followed: `CLOCK_MONOTONIC`. `None`: unknown.
    pub started_ns: Option<u64>,
    /// When it ended. `None`: it still ran, or unknown.
    pub ended_ns: Option<u64>,
    /// The calls whose callers were sampled, in their order; empty unless that was asked for.
    pub timed_calls: Vec<TimedCall>,
    /// The call that it was in when it ended, or when the trace did. `None`: it was in none, or that is
    /// unknown.
    pub last_call: Option<LastCall>,
    /// The fault for which the kernel sent the signal that killed it. `None`: there was none, or that is
    /// unknown.
    pub fault: Option<Fault>,
    /// The call that it had entered last when that happened. `None`: unknown.
    pub call_before_fault: Option<Call>,
}

/// A call that did not return before the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastCall {
    /// The call.
    pub call: Call,
    /// How long it had lasted, ns. `None`: unknown.
    pub lasted_ns: Option<u64>,
}

impl Thread {
    /// Its calls and what io_uring did for it.
    pub fn all_rows(&self) -> impl Iterator<Item = &Row> + Clone {
        self.rows.iter().chain(&self.ring_rows)
    }
}

/// Bytes that a thread's calls wrote from one file to another, in calls whose buffers held bytes of
/// several files.
///
/// The calls and all their bytes are counted in the [`Row`] of one of these files. The bytes of this
/// part are in its [`Counts::bytes`], but not in its [`Row::sourced`].
#[derive(Debug, Clone, PartialEq, Eq, Deref)]
pub struct Part {
    /// The call.
    pub call: Call,
    /// Where these bytes came from.
    pub from: Input,
    /// Where they went.
    pub to: FileId,
    /// How many, and what was compared of them.
    #[deref]
    pub sourced: SourcedBytes,
    /// Calls that wrote some of them.
    pub calls: u64,
}

impl Part {
    /// Adds the figures of a part of the same call and files.
    pub fn add_part(&mut self, more: &Self) {
        self.sourced += more.sourced;
        self.calls += more.calls;
    }
}

/// Bytes that calls moved from one source, and what was compared of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourcedBytes {
    /// How many.
    pub bytes: u64,
    /// The words of them that were compared in memory.
    pub words: Words,
    /// How many of them may have been written there before, since they were read.
    pub repeated_bytes: u64,
}

impl std::ops::AddAssign for SourcedBytes {
    fn add_assign(&mut self, more: Self) {
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.words += more.words;
        self.repeated_bytes = self.repeated_bytes.saturating_add(more.repeated_bytes);
    }
}

/// Words of memory that a read had filled, and that were compared when it was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, AddAssign)]
pub struct Words {
    /// How many.
    pub compared: u64,
    /// How many of them differ from what was read.
    pub changed: u64,
}

/// The kernel's own counters of a task or process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// CPU time in user mode.
    pub user_ns: u64,
    /// CPU time in the kernel.
    pub system_ns: u64,
    /// How long it was ready to run and waited for a CPU; `None`: the kernel does not measure it.
    pub run_delay_ns: Option<u64>,
    /// Context switches because the task waited.
    pub voluntary_switches: u64,
    /// Context switches because its time slice ended, or a more urgent task was ready.
    pub involuntary_switches: u64,
    /// Page faults served without I/O.
    pub minor_faults: u64,
    /// Page faults that waited for I/O.
    pub major_faults: u64,
}

impl Counters {
    /// The sum over no tasks.
    pub const ZERO: Self = Self {
        user_ns: 0,
        system_ns: 0,
        run_delay_ns: Some(0),
        voluntary_switches: 0,
        involuntary_switches: 0,
        minor_faults: 0,
        major_faults: 0,
    };
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, more: Self) {
        self.user_ns += more.user_ns;
        self.system_ns += more.system_ns;
        let delays = self.run_delay_ns.zip(more.run_delay_ns);
        self.run_delay_ns = delays.map(|(sum, more)| sum + more);
        self.voluntary_switches += more.voluntary_switches;
        self.involuntary_switches += more.involuntary_switches;
        self.minor_faults += more.minor_faults;
        self.major_faults += more.major_faults;
    }
}

/// How many of the first bytes of a row are kept at most.
pub const FIRST_BYTES: usize = 8;

/// What a thread did with one call and the same files.
#[derive(Debug, Clone, Deref, DerefMut)]
pub struct Row {
    /// The call.
    pub call: Call,
    /// The files involved.
    pub ends: Ends,
    /// Position of the first of these calls in the order of the trace. Only the order of these
    /// numbers has a meaning. `None`: unknown.
    pub order: Option<u64>,
    /// Its figures, with errors by positive errno, including the kernel-internal ones from 512 on. The
    /// times are those of the calls that were timed: not those that the trace found under way, and those
    /// that seccomp answered.
    #[deref]
    #[deref_mut]
    pub counts: Counts<u32>,
    /// Those of the [`bytes`](Counts::bytes) that come from [`input`](Ends::input): all of them if the
    /// call names it.
    pub sourced: SourcedBytes,
    /// The first bytes that the first of these calls moved, at most [`FIRST_BYTES`]; empty if they are
    /// unknown.
    pub first_bytes: Vec<u8>,
    /// How often a call that returns a number of bytes returned 0: mostly at the end of a file.
    pub zero_calls: u64,
    /// How often it moved something, but less than it asked for.
    pub short_calls: u64,
    /// The fewest and the most bytes that one of the calls moved, of those that moved some. `None`:
    /// none did, or that is unknown.
    pub least_and_most_bytes: Option<[u64; 2]>,
    /// The times of single calls. `None`: none was timed.
    pub times: Option<Times>,
    /// Who made the calls that were sampled.
    pub callers: CallerSums,
}

/// The fewest and the most bytes that one call of two sets moved. Each argument has these two figures
/// for one set.
pub(crate) fn least_and_most_of(
    [least, most]: [u64; 2],
    [other_least, other_most]: [u64; 2],
) -> [u64; 2] {
    [least.min(other_least), most.max(other_most)]
}

impl Row {
    /// Whether these calls submitted operations to the kernel. If the backend does not see the
    /// operations, no row has their bytes.
    pub fn is_unseen_submission(&self) -> bool {
        self.call.spec().effect == CallEffect::Submits && self.calls > self.errors
    }

    /// The files that it names.
    pub fn files(&self) -> impl Iterator<Item = FileId> + use<> {
        self.ends
            .input
            .map(Input::file)
            .into_iter()
            .chain(self.ends.output)
    }

    /// Adds the figures of a row of the same call and files.
    pub fn add_row(&mut self, more: &Self) {
        if self.first_bytes.is_empty() || more.order < self.order {
            self.first_bytes.clone_from(&more.first_bytes);
        }
        self.order = self.order.into_iter().chain(more.order).min();
        self.sourced += more.sourced;
        self.zero_calls += more.zero_calls;
        self.short_calls += more.short_calls;
        add_counts(&mut self.callers, &more.callers);
        self.least_and_most_bytes = merge_known(
            [self, more].map(|row| row.bytes.unwrap_or(1)),
            [self.least_and_most_bytes, more.least_and_most_bytes],
            |one, other| Some(least_and_most_of(one, other)),
        );
        let timed_ns = match [&self.times, &more.times] {
            [Some(_), None] => Some(self.total_ns),
            [None, Some(_)] => Some(more.total_ns),
            _ => None,
        };
        self.counts += &more.counts;
        self.counts.total_ns = timed_ns.unwrap_or(self.counts.total_ns);
        add_times(&mut self.times, more.times.as_ref());
    }

    /// Notes the time of one call. `None`: it was not timed.
    pub fn note_time(&mut self, ns: Option<u64>) {
        match (&mut self.times, ns) {
            (Some(times), Some(ns)) => {
                times.record_ns(ns);
                self.counts.total_ns = sum_all([self.counts.total_ns, Some(ns)]);
            }
            (None, ns) => {
                self.times = ns.map(Times::of_call);
                self.counts.total_ns = ns;
            }
            (Some(_), None) => {}
        }
    }

    /// Notes the number of bytes that one call moved.
    pub fn note_size(&mut self, bytes: u64) {
        if bytes > 0 {
            let known = self.least_and_most_bytes.unwrap_or([bytes; 2]);
            self.least_and_most_bytes = Some(least_and_most_of(known, [bytes; 2]));
        }
    }

    /// The row of a call that has not happened.
    pub fn new(call: Call, ends: Ends) -> Self {
        Self {
            counts: Counts::none_of(&call.spec()),
            call,
            ends,
            order: None,
            sourced: SourcedBytes::default(),
            first_bytes: Vec::new(),
            zero_calls: 0,
            short_calls: 0,
            least_and_most_bytes: None,
            times: None,
            callers: CallerSums::new(),
        }
    }

    /// The same if nothing says how many bytes the calls move and how long they last.
    pub fn unmeasured(call: Call, ends: Ends) -> Self {
        Self {
            counts: Counts::default(),
            ..Self::new(call, ends)
        }
    }
}
