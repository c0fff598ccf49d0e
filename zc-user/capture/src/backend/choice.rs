//! Which backend runs a command.

use super::{Backend as _, Choice, RunError, RunOptions, ebpf::Ebpf, strace::Strace};
use crate::{privileges, toolchain, trace::Trace};

/// Runs the command under the backend of choice, and looks at what its programs were built with. If that is strace only for want of
/// another, the trace has a note that says why.
pub fn run(choice: Choice, options: &RunOptions) -> Result<Trace, RunError> {
    run_backend(choice, options).map(complete)
}

fn run_backend(choice: Choice, options: &RunOptions) -> Result<Trace, RunError> {
    match choice {
        Choice::Ebpf => Ebpf.run(options),
        Choice::Strace => Strace.run(options),
        Choice::Auto => match Ebpf.run(options) {
            // It says so before it launches anything.
            Err(RunError::Ebpf(why)) => {
                let mut trace = Strace.run(options).map_err(|error| error.after(why.to_string()))?;
                trace.notes.insert(0, format!("backend strace, since eBPF cannot run here: {why}"));
                Ok(trace)
            }
            result => result,
        },
    }
}

/// Adds what no backend knows: what the programs were built with, and what they were kept from.
pub(super) fn complete(mut trace: Trace) -> Trace {
    toolchain::recognise(&mut trace);
    trace.notes.extend(privileges::restrained_note(&trace));
    trace
}
