//! The eBPF backend: programs in the kernel count, and this side launches the command, waits for it
//! and reads the counts.

pub(crate) mod attach;
mod follow;
pub(crate) mod load;
mod read;
mod run;

use crate::trace::Trace;

use super::{RunError, RunOptions, block_on};

pub use attach::idle_threads::{TracingThread, own_thread};
pub use load::{
    btf,
    kernel::BTF_PATH_VARIABLE,
    object::ObjectOrigin,
    settings::LoadSettings,
    tracer::KernelTracer,
    unavailable::{EbpfUnavailable, TooOld},
};
pub use run::closure;

/// The eBPF object that is embedded in this program, as ELF; empty if this program was built with
/// the feature `without-ebpf`.
pub fn embedded_object() -> &'static [u8] {
    load::object::OBJECT
}

/// The same with the programs for `--syncs` and `--paths`.
pub fn embedded_object_with_paths() -> &'static [u8] {
    load::object::OBJECT_WITH_PATHS
}

/// The same with the programs for `--syncs`.
pub fn embedded_object_with_syncs() -> &'static [u8] {
    load::object::OBJECT_WITH_SYNCS
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
        Some(targets) => block_on(run::attached::run(NAME, options, targets, tracer)),
        // In this thread: the kernel side takes the next fork of this process for the command.
        None => block_on(run::command::run(NAME, options, tracer)),
    }
}
