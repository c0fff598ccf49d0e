//! The processes and threads of a trace, and what the kernel counted of them.

use std::collections::BTreeMap;

use derive_more::AddAssign;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zc_ebpf::Fault;

use super::{
    callers::TimedCall,
    file::FileId,
    other_calls::OtherCalls,
    row::{Part, Row},
};
use crate::{
    syscalls::Call,
    text::{file_name, process_name},
};

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
