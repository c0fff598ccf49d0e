//! The types of a report, as JSON has them.

mod calls;

use std::{collections::BTreeMap, ops::Not};

use derive_more::{Deref, DerefMut};
use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde::{Deserialize, Serialize};

use super::{
    before_signal::BeforeSignal, call_at_end::CallAtEnd, callers::Stack, failed_paths::FailedPath,
    fatal_fault::FatalFault, idle_calls::IdleCalls, time_on_files::TimeOnFile,
};
use crate::{
    counts::{CallSums, Counts},
    durable::Syncs,
    left_open::LeftOpen,
    marked_spans::MarkedSpan,
    slow_calls::SlowCalls,
    syscalls::Selection,
    text::process_name,
    touched::Touched,
    trace::{Attached, OtherCalls, STRACE_FALLBACK, Span, State},
    transfer::{DestinationTotals, MergedProcesses, SourceTotals, Transfer},
};

pub use calls::{Bucket, FileCalls, FileTotals, Loading, OtherSyscall, Syscall};

/// The version of the JSON. Within a version no field changes its meaning.
pub const SCHEMA: u32 = 1;

/// The report of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// The version of this format.
    pub schema: u32,
    /// The tool that wrote this.
    pub tool: Tool,
    /// The launched command. Empty: none, or unknown.
    pub command: Vec<String>,
    /// The values of `--label NAME=VALUE`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Where the command was launched, and relative paths start. `None`: unknown, or nothing was
    /// launched.
    pub directory: Option<String>,
    /// `ebpf` or `strace`.
    pub backend: String,
    /// Kernel release, as in `uname -r`. `None`: unknown.
    pub kernel: Option<String>,
    /// Machine architecture, as in `uname -m`. `None`: unknown.
    pub arch: Option<String>,
    /// When the launch or attach began, RFC 3339 in UTC. `None`: as in a log without dates.
    pub started_at: Option<String>,
    /// The whole time. `None`: the end was not seen, or a log has no times.
    pub wall_ns: Option<u64>,
    /// The part of `wall_ns` after `exit_group`. `None`: unknown, or no such call.
    #[serde(default)]
    pub exit_ns: Option<u64>,
    /// How the command ended.
    pub exit: Exit,
    /// The failed call that came with the fatal signal. Left out: none is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_signal: Option<BeforeSignal>,
    /// The faults for which the kernel killed processes. Left out: none, or unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fatal_faults: Vec<FatalFault>,
    /// With `--interval` or `--control`: the covered part of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<Span>,
    /// What was attached to. Left out: a command was launched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached: Option<Attached>,
    /// The spans that threads marked, by name (strace only).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marked_spans: Vec<MarkedSpan>,
    /// With `--syncs`: the changed files, and whether they were synced in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub syncs: Option<Syncs>,
    /// With `--paths`: the touched paths and addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub touched: Option<Touched>,
    /// With `--fds`: the descriptors left open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_open: Option<LeftOpen>,
    /// With `--slower-than`: the calls that took longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_calls: Option<SlowCalls>,
    /// Whether every count is exact. If not, counts are lower bounds; `losses` says why.
    pub exact: bool,
    /// Whether zctrace saw the memory of reads and writes. If not, bytes in no transfer may have
    /// any source.
    pub sees_memory: bool,
    /// Whether it is from a log. Then `exact` means as far as the log shows.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub from_log: bool,
    /// How often each loss happened, without zeros.
    pub losses: BTreeMap<String, u64>,
    /// What the report lacks without being wrong, in sentences.
    pub notes: Vec<String>,
    /// An entry for each program of each process, in order of creation. Without `--all` or `--by
    /// process`, at most 500: the launched one and those with the most CPU time. Empty with `--by
    /// total`.
    pub processes: Vec<Process>,
    /// The processes by program, most CPU time first. Empty for a single process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Program>,
    /// All transfers, most bytes first. A reflink counts the length of its source.
    pub transfers: Vec<Transfer>,
    /// Calls counted without their files. Above 0, transfers and files are lower bounds.
    pub calls_without_files: u64,
    /// The calls that have rows: one without a row was not made. `None`: as in a log.
    pub counted: Option<Selection>,
    /// The paths of `-P`. Then the report has only the calls on them, in `totals`, and their
    /// transfers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// With `--callers`: each sampled stack once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stacks: Option<Vec<Stack>>,
    /// Sums over ended processes, whose calls are in `programs` and `totals`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<MergedProcesses>,
    /// With `--files`: every file, most bytes first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileTotals>,
    /// Sums over all processes.
    pub totals: Totals,
}

impl Report {
    /// How far its counts can be trusted: `exact`, `exact for the paths that match`, `complete as far as
    /// the log shows` or `lower bound`.
    pub fn bound(&self) -> &'static str {
        let mut notes = self.notes.iter();
        let has_unmatched = notes.any(|note| note.starts_with(UNMATCHED_PATH));
        if self.exact && !self.from_log && has_unmatched {
            "exact for the paths that match"
        } else {
            trust_bound(self.exact, self.from_log)
        }
    }

    /// What processes read, those included of which only sums were kept.
    pub fn all_sources(&self) -> impl Iterator<Item = &SourceTotals> {
        let merged = self.merged.iter().flat_map(|merged| &merged.sources);
        merged.chain(self.processes.iter().flat_map(|process| &process.sources))
    }

    /// The same of what they wrote.
    pub fn all_destinations(&self) -> impl Iterator<Item = &DestinationTotals> {
        let merged = self.merged.iter().flat_map(|merged| &merged.destinations);
        merged.chain(
            self.processes
                .iter()
                .flat_map(|process| &process.destinations),
        )
    }

    /// Why strace counted where eBPF was to be tried first: a sentence. `None`: it did not.
    pub fn fallback_reason(&self) -> Option<String> {
        let mut notes = self.notes.iter();
        notes
            .find(|note| note.starts_with(STRACE_FALLBACK))
            .cloned()
    }
}

/// How the note about a chosen path begins that nothing has.
pub(super) const UNMATCHED_PATH: &str = "nothing in this run has the path";

/// How far the counts of a report can be trusted.
pub(crate) const fn trust_bound(exact: bool, from_log: bool) -> &'static str {
    match (exact, from_log) {
        (true, false) => "exact",
        (true, true) => "complete as far as the log shows",
        (false, _) => "lower bound",
    }
}

/// Which tool wrote a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl Tool {
    /// This one.
    pub(crate) fn this_version() -> Self {
        // All packages of the workspace have the same version.
        Self {
            name: "zctrace".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// How the command ended. Both are `None` for a closure, while it runs, if the end is unknown, and
/// if nothing was launched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exit {
    /// Its exit status.
    pub code: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
}

/// A process while it ran one program. An exec begins another entry with the same `pid`.
#[derive(Debug, Clone, PartialEq, Deref, DerefMut, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Process id, as zctrace sees it; 0: unknown.
    pub pid: u32,
    /// Names of its at most 4 earlier programs, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_programs: Vec<String>,
    /// Its creator's process id. `None`: as for the process that strace launched.
    pub ppid: Option<u32>,
    /// The last name of its first thread. `None`: unknown.
    pub comm: Option<String>,
    /// Path of its program, as given to `execve`. `None`: it made no exec.
    pub exe: Option<String>,
    /// Its command line, cut at 1024 bytes. `None`: it made no exec, or strace cut it.
    pub command: Option<Vec<String>>,
    /// `exited` or `running`.
    pub state: State,
    /// Threads in all.
    pub threads: u64,
    /// What it did.
    #[deref]
    #[deref_mut]
    #[serde(flatten)]
    pub activity: Activity,
    /// The calls that its threads were in at the end, the longest first. Left out: none, or
    /// unknown, as under strace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls_at_end: Vec<CallAtEnd>,
    /// The transfers within it: indices, from 0, into [`Report::transfers`].
    pub transfers: Vec<usize>,
    /// Every file that it read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceTotals>,
    /// Every file that it wrote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<DestinationTotals>,
    /// Its calls by file, with `--file-calls`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_calls: Option<Vec<FileCalls>>,
    /// Its calls by thread, with `--by thread`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_thread: Vec<Thread>,
}

impl Process {
    /// Its name; if that is unknown, the file name of its program.
    pub fn name(&self) -> Option<&str> {
        process_name(
            self.comm.as_deref(),
            self.exe.as_deref(),
            self.command.as_deref(),
        )
    }

    /// Its name after those of the programs that it ran before: `sh then cp`. `None`: its name is
    /// unknown.
    pub fn name_after_others(&self) -> Option<String> {
        let name = self.name()?;
        let earlier = self.earlier_programs.iter().filter(|name| !name.is_empty());
        let names: Vec<&str> = earlier.map(String::as_str).chain([name]).collect();
        Some(names.join(" then "))
    }
}

/// All processes of the same name.
#[derive(Debug, Clone, PartialEq, Deref, DerefMut, Serialize, Deserialize, JsonSchema)]
pub struct Program {
    /// Their name, or else the file name of their program.
    pub name: Option<String>,
    /// How often it ran: once for each `execve`, and for each fork of it.
    pub runs: u64,
    /// How often it was executed. Other `runs` began as forks, or before the trace.
    #[serde(default)]
    pub execs: u64,
    /// Their threads.
    pub threads: u64,
    /// What they did.
    #[deref]
    #[deref_mut]
    #[serde(flatten)]
    pub activity: Activity,
}

/// One thread's share.
#[derive(Debug, Clone, PartialEq, Deref, DerefMut, Serialize, Deserialize, JsonSchema)]
pub struct Thread {
    /// Thread id.
    pub tid: u32,
    /// Its name. `None`: unknown.
    pub comm: Option<String>,
    /// What it did.
    #[deref]
    #[deref_mut]
    #[serde(flatten)]
    pub activity: Activity,
}

/// What a process, a program or a thread did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Activity {
    /// CPU time, switches and faults; `None` if those of one process are unknown.
    #[serde(flatten)]
    pub usage: Usage,
    /// The calls.
    pub syscalls: Vec<Syscall>,
    /// The calls without rows. `None`: not counted (strace).
    pub other_calls: Option<OtherCalls>,
    /// What io_uring did, by operation (`io_uring:read`), without times. No thread has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub io_uring: Vec<Syscall>,
}

impl Activity {
    /// The figures of all calls, with and without rows.
    pub fn sum_calls(&self) -> CallSums {
        let others = self.other_calls.map(|others| others.sums);
        let with_rows = self.syscalls.iter().map(|call| call.sums);
        with_rows.chain(others).sum()
    }
}

/// CPU time, context switches and page faults. `None`: unknown for a task; strace knows none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// CPU time in user mode.
    pub user_ns: Option<u64>,
    /// CPU time in the kernel.
    pub system_ns: Option<u64>,
    /// How long threads waited for a CPU. `None`: also if the kernel does not measure it
    /// (`CONFIG_SCHED_INFO`).
    #[serde(default)]
    pub run_delay_ns: Option<u64>,
    /// Context switches.
    pub context_switches: ContextSwitches,
    /// Page faults.
    pub page_faults: PageFaults,
}

impl Usage {
    /// CPU time in user mode and in the kernel.
    pub fn cpu_ns(&self) -> Option<u64> {
        self.user_ns?.checked_add(self.system_ns?)
    }
}

/// Context switches by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextSwitches {
    /// The task waited.
    pub voluntary: Option<u64>,
    /// The time slice ended, or another task was more urgent.
    pub involuntary: Option<u64>,
}

/// Page faults by cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageFaults {
    /// Served without I/O.
    pub minor: Option<u64>,
    /// Waited for I/O.
    pub major: Option<u64>,
}

/// Sums over all processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Processes in all.
    pub processes: u64,
    /// Programs that they ran: the entries of [`Report::processes`] if all are listed.
    pub programs: u64,
    /// Their threads.
    pub threads: u64,
    /// Processes that were alive when the trace ended.
    #[serde(default)]
    pub running: u64,
    /// The calls of all processes.
    pub syscalls: Vec<Syscall>,
    /// The calls without rows, most time first. `None`: not counted (strace).
    pub other_syscalls: Option<Vec<OtherSyscall>>,
    /// The calls that read or map shared libraries. `None`: `read`, `pread64` or `mmap` was not
    /// counted with its files.
    pub loading: Option<Loading>,
    /// The failed calls that take a path, by call, error and path, the latest first. `None`:
    /// `--no-files`.
    pub failed_paths: Option<Vec<FailedPath>>,
    /// Most of the failed calls that take no path, by call, error and file, the most frequent
    /// first; and those of `getsockopt` that told the error of a socket.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_without_path: Vec<FailedPath>,
    /// The successful calls that take a path, by call and path, the latest first. `None`: no
    /// expectation of `check` needed them.
    pub succeeded_paths: Option<Vec<FailedPath>>,
    /// Whether `failed_paths` and `succeeded_paths` are complete. If not, their counts are lower
    /// bounds.
    pub failed_paths_complete: bool,
    /// The calls of which more than half did nothing in the same way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle_calls: Vec<IdleCalls>,
    /// The calls with more than half of their time on one file, or on pipes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub time_on_files: Vec<TimeOnFile>,
    /// CPU time, switches and faults; `None` if those of one process are unknown.
    #[serde(flatten)]
    pub usage: Usage,
}

impl Totals {
    /// All calls that were counted: the rows, and those of [`rows_of_others`](Self::rows_of_others).
    pub fn all_calls(&self) -> impl Iterator<Item = Syscall> {
        let with_rows = self.syscalls.iter().cloned();
        with_rows.chain(self.rows_of_others())
    }

    /// The calls that have no rows, as rows that know their sums alone, and their errnos if the lists of
    /// failed calls have all of them.
    pub fn rows_of_others(&self) -> impl Iterator<Item = Syscall> {
        let mut errnos: BTreeMap<(&str, &str), BTreeMap<String, u64>> = BTreeMap::new();
        let failed = self.failed_paths.iter().flatten();
        for one in failed.chain(&self.failed_without_path) {
            let of_call = errnos.entry((&one.syscall, &one.abi)).or_default();
            *of_call.entry(one.errno.clone()).or_default() += one.calls;
        }
        let others = self.other_syscalls.iter().flatten();
        others.map(move |call| Syscall {
            name: call.name.clone(),
            abi: call.abi.clone(),
            counts: Counts {
                sums: call.sums.sums,
                errnos: errnos
                    .remove(&(call.name.as_str(), call.abi.as_str()))
                    .filter(|errnos| errnos.values().sum::<u64>() == call.sums.errors)
                    .unwrap_or_default(),
                ..Counts::default()
            },
            mean_ns: call.sums.mean_ns(),
            max_ns: call.sums.max_ns,
            ..Syscall::default()
        })
    }
}

/// The JSON Schema (draft 2020-12) of a report as this version writes it. It lets fields pass that
/// it does not know: new ones may come.
pub fn json_schema() -> Schema {
    let mut schema = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<Report>();
    schema.insert(
        "title".to_owned(),
        format!("zctrace report, schema {SCHEMA}").into(),
    );
    schema
}

#[cfg(test)]
mod schema_tests;
