//! What is decided about a run before it begins: by which backend, how far, as whom, within which limits.

use crate::words::words;

words! {
    /// What the user says of the backend.
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

/// How much a backend keeps at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most rows: threads times calls, of the whole trace. As many again where calls are told apart by their files.
    pub max_rows: u32,
    /// Most files that are told apart.
    pub max_files: u32,
    /// Most tasks that live at the same time.
    pub max_tasks: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_rows: 131_072, max_files: 65_536, max_tasks: 16_384 }
    }
}

/// Whose identity a command is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}
