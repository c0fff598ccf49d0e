//! [`Report`]: the versioned model that is written as JSON and read by every renderer. It is derived from a
//! [`Trace`](crate::trace::Trace) without I/O.

mod balance;
mod before_signal;
mod call_at_end;
mod callers;
mod display;
pub(crate) mod error_meanings;
mod failed_paths;
mod failures;
mod fatal_fault;
mod fold;
mod idle_calls;
mod limit;
mod live;
mod model;
mod notes;
mod on_paths;
mod query;
mod read;
#[cfg(any(test, feature = "samples"))]
pub mod sample;
mod sizes;
mod sort;
mod sums;
mod time_on_files;
mod unsynced;

pub use balance::violations;
pub use before_signal::BeforeSignal;
pub use call_at_end::{CallAtEnd, EndHolder};
pub use callers::{Callers, Frame, Site, Stack, StackSamples};
pub(crate) use callers::{
    EITHER_COPY, functions_named, how_to_settle, is_of_c_library, is_recognised, is_telling,
    library_in, mark_in, may_hide_functions, split_implementation, without_generics,
    without_pointers,
};
pub use failed_paths::{FailedPath, PathBase};
pub use failures::{FailedGroup, FailureClass, Failures, Place, is_used_at_start};
pub use fatal_fault::FatalFault;
pub use fold::{Detail, Files, Options};
pub use idle_calls::IdleCalls;
pub use live::LiveReport;
pub(crate) use model::trust_bound;
pub use model::{
    Activity, Bucket, ContextSwitches, Exit, FileCalls, FileTotals, Loading, OtherSyscall,
    PageFaults, Process, Program, Report, SCHEMA, Syscall, Thread, Tool, Totals, Usage,
    json_schema,
};
pub use on_paths::{ChosenPath, ChosenPaths};
pub use query::{Processes, QueryError, SyscallName};
pub use read::ReadError;
pub(crate) use sizes::percentile_range;
pub use sizes::{SizeBucket, Sizes};
pub use sort::SortKey;
pub use time_on_files::TimeOnFile;

pub use crate::ends::{End, Inode};
pub use crate::trace::{OtherCalls, Span, State};
pub use crate::transfer::{
    Api, Attempt, BufferTotals, Certainty, DestinationTotals, Edge, Evidence, Hop, Merged,
    MergedProcesses, Reason, SourceTotals, Transfer,
};
