//! Options of a run: backend, end, identity, limits.

use crate::words::words;

words! {
    /// Which backend the user asks for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Choice {
        /// eBPF where it can run, else strace.
        Auto = "auto",
        /// Programs in the kernel: exact, fast, with switches, faults and CPU time; needs privileges.
        Ebpf = "ebpf",
        /// The program strace: slower, without the process's own counters; needs no privileges.
        Strace = "strace",
    }
}

/// When a trace ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// With the launched process.
    RootEnds,
    /// With the last of all descendants.
    AllEnd,
}

/// How much a backend keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Limit for the rows of the trace: threads times calls. The same limit applies again to rows that are told apart by files.
    pub max_rows: u32,
    /// Limit for the files that are told apart.
    pub max_files: u32,
    /// Limit for the tasks that exist at the same time.
    pub max_tasks: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_rows: 131_072, max_files: 65_536, max_tasks: 16_384 }
    }
}

/// The identity that a command runs with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}
