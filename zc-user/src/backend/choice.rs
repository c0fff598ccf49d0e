//! Which backend runs a command.

use super::{Backend as _, RunError, RunOptions, ebpf::Ebpf, strace::Strace};
use crate::{privileges, toolchain, trace::Trace};

/// What the user says of the backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Choice {
    /// eBPF where it can run, else strace.
    #[default]
    Auto,
    /// Programs in the kernel: exact, fast, with switches, faults and CPU time; needs privileges.
    Ebpf,
    /// The program strace: slower, without the process's own counters; needs no privileges.
    Strace,
}

impl Choice {
    /// Runs the command under the backend of choice, and looks at what its programs were built with. If that is strace only for want of another, the trace has a note that says why.
    pub fn run(self, options: &RunOptions) -> Result<Trace, RunError> {
        self.run_backend(options).map(complete)
    }

    fn run_backend(self, options: &RunOptions) -> Result<Trace, RunError> {
        match self {
            Self::Ebpf => Ebpf.run(options),
            Self::Strace => Strace.run(options),
            Self::Auto => match Ebpf.run(options) {
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
}

/// Adds what no backend knows: what the programs were built with, and what they were kept from.
pub(super) fn complete(mut trace: Trace) -> Trace {
    toolchain::recognise(&mut trace);
    trace.notes.extend(privileges::restrained_note(&trace));
    trace
}
