//! The eBPF backend: programs in the kernel count, and this side launches the command, waits for it
//! and reads the counts.

mod bpf_call;
pub mod btf;
#[cfg_attr(not(feature = "callers"), path = "no_callers.rs")]
mod callers;
pub mod closure;
mod counts;
mod drain;
mod ended;
mod epochs;
mod events;
mod file_table;
mod forgetting;
pub(crate) mod hooks;
mod idle_threads;
pub(crate) mod kernel;
mod live_tasks;
mod loader;
mod map_sizes;
pub(crate) mod object;
mod process_sums;
mod programs_log;
mod ring_memory;
mod run;
mod seen;
mod span;
mod table;
mod task_table;
mod totals;
mod tracer;
pub(crate) mod unavailable;

use crate::trace::Trace;

use super::{RunError, RunOptions, block_on};

pub use idle_threads::{TracingThread, own_thread};
pub use kernel::BTF_PATH_VARIABLE;
pub use object::{LoadSettings, ObjectOrigin};
pub use tracer::KernelTracer;
pub use unavailable::{EbpfUnavailable, TooOld};

/// The eBPF object that is embedded in this program, as ELF; empty if this program was built with
/// the feature `without-ebpf`.
pub fn embedded_object() -> &'static [u8] {
    object::OBJECT
}

/// Where that object comes from; `None` if there is none.
pub fn object_origin() -> Option<ObjectOrigin> {
    ObjectOrigin::EMBEDDED
}

/// The name of this backend in reports.
const NAME: &str = "ebpf";

/// Runs the command to its end, or attaches until the trace is over, and returns its trace.
pub(super) fn run(options: &RunOptions, tracer: &mut KernelTracer) -> Result<Trace, RunError> {
    match &options.attach {
        Some(targets) => block_on(run::attach::run(NAME, options, targets, tracer)),
        // In this thread: the kernel side takes the next fork of this process for the command.
        None => block_on(run::run(NAME, options, tracer)),
    }
}
