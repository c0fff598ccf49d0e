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
mod process;
mod row;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::SystemTime,
};

use crate::{
    durable::Syncs,
    histogram::Histogram,
    left_open::LeftOpen,
    marked_spans::MarkedSpan,
    slow_calls::SlowCalls,
    syscalls::{Call, Selection},
    touched::Touched,
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
pub use process::{
    Counters, EARLIER_PROGRAMS, Exit, Language, LastCall, Process, ProgramCounts, State,
    SummedProcesses, Thread, Toolchain, programs_up_to,
};
pub(crate) use row::least_and_most_of;
pub use row::{FIRST_BYTES, Part, Row, SourcedBytes, Words};

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
