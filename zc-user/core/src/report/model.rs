//! The types of a report, as JSON has them.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde::{Deserialize, Serialize};

use super::{
    callers::{Callers, Stack},
    failed_paths::FailedPath,
    idle_calls::IdleCalls,
};
use crate::{
    histogram::{BUCKETS, Histogram, bucket_range},
    syscalls::{Selection, ring_operation},
    text::process_name,
    trace::{Attached, OtherCalls, Span, State},
    transfer::{DestinationTotals, End, MergedProcesses, SourceTotals, Transfer},
};

/// The version of the JSON. Within a version no field changes its meaning.
pub const SCHEMA: u32 = 1;

/// The report of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Which tool wrote this.
    pub tool: Tool,
    /// The command as it was launched; empty if none was.
    pub command: Vec<String>,
    /// What the user says of this run, by name: the commit that was built, for one (`--label`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Where it was launched: relative paths in the report start there. `None`: unknown.
    pub directory: Option<String>,
    /// Name of the backend.
    pub backend: String,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Machine architecture.
    pub arch: Option<String>,
    /// When the command was launched, RFC 3339.
    pub started_at: Option<String>,
    /// From the command's successful exec to its end; or from the end of the attach to that of the
    /// trace.
    pub wall_ns: Option<u64>,
    /// The part of `wall_ns` in which the launched process exits: from its call of `exit_group` on,
    /// while the kernel gives back its memory. `None`: it made no such call, or that is unknown.
    #[serde(default)]
    pub exit_ns: Option<u64>,
    /// How the command ended; neither if none was launched.
    pub exit: Exit,
    /// Which part of the run this is, with `--interval` or `--control`. Left out: all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<Span>,
    /// What was attached to. Left out: a command was launched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached: Option<Attached>,
    /// Whether every count is exact. If not, counts are lower bounds, and `losses` says why.
    pub exact: bool,
    /// Whether it was seen which memory calls read to and wrote from. If not, what is in no
    /// transfer may come from anywhere.
    pub sees_memory: bool,
    /// How numbers were lost, and how often. Losses that did not happen are left out.
    pub losses: BTreeMap<String, u64>,
    /// What the report lacks without being wrong, each a sentence.
    pub notes: Vec<String>,
    /// The processes, in the order in which they were created; one that executed other programs has
    /// an entry for each.
    pub processes: Vec<Process>,
    /// The same by program, the one with the most CPU time first. Empty for a single process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Program>,
    /// All transfers, those with the most bytes first ([`Transfer::weight`]), as the table shows
    /// them: the first one answers most questions. At equal size those over several processes come
    /// first, then those within a process in the order of the processes.
    pub transfers: Vec<Transfer>,
    /// Counted calls on files for whose files there was no room. If there are any, transfers and
    /// files are lower bounds.
    pub calls_without_files: u64,
    /// Which calls have rows. Such a call without a row was not made. `None`: unknown.
    pub counted: Option<Selection>,
    /// The paths that were chosen, as they were given: only the calls on them and the transfers from
    /// them or to them are in this report, as sums over all processes. Empty: all calls are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The stacks of the calls whose callers were sampled, each once. `None`: no callers were
    /// sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stacks: Option<Vec<Stack>>,
    /// Processes that had ended and of which only sums were kept, if there are any. Their transfers
    /// are sums in `transfers` ([`Transfer::merged`]); their calls are in `programs` and `totals`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<MergedProcesses>,
    /// Every file, those with the most bytes first, if that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileTotals>,
    /// Sums over all processes.
    pub totals: Totals,
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
    pub(crate) fn zctrace() -> Self {
        // All packages of the workspace have the same version.
        Self {
            name: "zctrace".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// How the command ended: one of the two, or neither while it runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exit {
    /// Its exit status.
    pub code: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
}

/// What a process did while it ran one program. An exec begins another one, with the same `pid`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Names of the programs that it ran before, the last one last; at most 4. Empty: it began with
    /// this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_programs: Vec<String>,
    /// Its creator's process id.
    pub ppid: Option<u32>,
    /// Its name.
    pub comm: Option<String>,
    /// Path of its program, as given to `execve`.
    pub exe: Option<String>,
    /// Its command line.
    pub command: Option<Vec<String>>,
    /// `exited` or `running`.
    pub state: State,
    /// How many threads it had over its life.
    pub threads: u64,
    /// Its CPU time, switches and faults.
    #[serde(flatten)]
    pub usage: Usage,
    /// Its calls.
    pub syscalls: Vec<Syscall>,
    /// Its calls that have no rows; `None`: they were not counted.
    pub other_calls: Option<OtherCalls>,
    /// What io_uring did for it, by operation. These are not system calls, and have no times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub io_uring: Vec<Syscall>,
    /// The transfers within it, as indices into [`Report::transfers`]. One over several processes
    /// is in no such list: it has their ids in its `pids`.
    pub transfers: Vec<usize>,
    /// Every file that it read, and how much of that is in no transfer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceTotals>,
    /// Every file that it wrote, and how much of that is in transfers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<DestinationTotals>,
    /// Its calls by file, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_calls: Option<Vec<FileCalls>>,
    /// Its calls by thread, if that was asked for.
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

    /// Its name after those of the programs that it ran before: `sh -> cp`. `None`: its name is
    /// unknown.
    pub fn name_after_others(&self) -> Option<String> {
        let name = self.name()?;
        let earlier = self.earlier_programs.iter().filter(|name| !name.is_empty());
        let names: Vec<&str> = earlier.map(String::as_str).chain([name]).collect();
        Some(names.join(" -> "))
    }
}

/// All processes of the same name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Program {
    /// Their name; if that is unknown, the file name of their program.
    pub name: Option<String>,
    /// How often it ran: each process that was forked while it ran counts, and each time that a
    /// process executed it.
    pub runs: u64,
    /// How many threads they had.
    pub threads: u64,
    /// Their CPU time, switches and faults; `None` if those of one process are unknown.
    #[serde(flatten)]
    pub usage: Usage,
    /// Their calls.
    pub syscalls: Vec<Syscall>,
    /// Their calls that have no rows; `None`: they were not counted.
    pub other_calls: Option<OtherCalls>,
    /// What io_uring did for them, by operation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub io_uring: Vec<Syscall>,
}

/// One thread's share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Thread {
    /// Thread id.
    pub tid: u32,
    /// Its name.
    pub comm: Option<String>,
    /// Its CPU time, switches and faults.
    #[serde(flatten)]
    pub usage: Usage,
    /// Its calls.
    pub syscalls: Vec<Syscall>,
    /// Its calls that have no rows; `None`: they were not counted.
    pub other_calls: Option<OtherCalls>,
}

/// CPU time, context switches and page faults. `None` (`null`): the backend cannot know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// CPU time in user mode.
    pub user_ns: Option<u64>,
    /// CPU time in the kernel.
    pub system_ns: Option<u64>,
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
    /// Its time slice ended, or a more urgent task was ready.
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

/// The sums of one call. `None` (`null`): unknown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Syscall {
    /// Its name.
    pub name: String,
    /// Its ABI: `x86_64`, `i386`, `x32`, `aarch64`, `arm`.
    pub abi: String,
    /// How often it returned.
    pub calls: u64,
    /// How often it failed.
    pub errors: u64,
    /// The errors by errno name.
    pub errnos: BTreeMap<String, u64>,
    /// How often it never returned.
    pub unfinished: u64,
    /// Bytes that it returned as moved.
    pub bytes: Option<u64>,
    /// Bytes that it asked for.
    pub requested_bytes: Option<u64>,
    /// Sum of the times from entry to exit.
    pub total_ns: Option<u64>,
    /// Shortest time.
    pub min_ns: Option<u64>,
    /// Longest time.
    pub max_ns: Option<u64>,
    /// Mean of the timed calls.
    pub mean_ns: Option<u64>,
    /// Median, at most 6.25 % off.
    pub p50_ns: Option<u64>,
    /// 90th percentile, likewise.
    pub p90_ns: Option<u64>,
    /// 99th percentile, likewise.
    pub p99_ns: Option<u64>,
    /// How many of the timed calls took how long, the shortest first; intervals without calls are
    /// left out. Only the totals have it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<Bucket>,
    /// Who made the calls that were sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callers: Option<Callers>,
}

/// An interval of times, and the calls that took so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bucket {
    /// The shortest time in it.
    pub from_ns: u64,
    /// The shortest time above it. `None`: it has no upper end.
    pub below_ns: Option<u64>,
    /// The calls.
    pub calls: u64,
}

impl Bucket {
    /// The intervals of a histogram that are not empty.
    pub(super) fn all_of(histogram: &Histogram) -> Vec<Self> {
        let bucket = |(index, calls)| {
            let (from_ns, width) = bucket_range(index);
            Self {
                from_ns,
                below_ns: (index + 1 < BUCKETS).then_some(from_ns + width),
                calls,
            }
        };
        histogram.buckets().map(bucket).collect()
    }
}

impl Syscall {
    /// The name of the operation of `io_uring`; `None` if it is a system call.
    pub fn as_ring_operation(&self) -> Option<&str> {
        ring_operation(&self.name)
    }
}

/// One of the calls that have no rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OtherSyscall {
    /// Its name.
    pub name: String,
    /// Its ABI, as in [`Syscall::abi`].
    pub abi: String,
    /// Its sums.
    #[serde(flatten)]
    pub sums: OtherCalls,
}

/// The calls that read shared libraries and the loader's cache, or map them into memory. They are
/// among the other figures, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Loading {
    /// How many returned.
    pub calls: u64,
    /// Sum of their times; `None`: unknown.
    pub total_ns: Option<u64>,
}

/// Sums over all processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// How many processes there were.
    pub processes: u64,
    /// How many programs they ran, each counted for each process: so many entries
    /// [`Report::processes`] has, unless some are not listed.
    pub programs: u64,
    /// How many threads they had.
    pub threads: u64,
    /// How many processes had not ended when the trace did.
    #[serde(default)]
    pub running: u64,
    /// The calls of all processes.
    pub syscalls: Vec<Syscall>,
    /// The calls that have no rows, the one with the most time first; `None`: they were not
    /// counted.
    pub other_syscalls: Option<Vec<OtherSyscall>>,
    /// The calls that read or map shared libraries; `None`: unknown.
    pub loading: Option<Loading>,
    /// The calls that take a path and failed, by call, error and path, the one that failed last first.
    /// Calls that a signal interrupted are not among them. `None`: unknown.
    pub failed_paths: Option<Vec<FailedPath>>,
    /// The calls that take no path and failed, by call, error and the path of their file, if it is one
    /// file with a path, the most frequent first. Not among them are `EINTR`, `EAGAIN` but for calls
    /// that create a task, and calls between two files unless the second one is full.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_without_path: Vec<FailedPath>,
    /// The calls that take a path and succeeded, by call and path, the last one first. `None`:
    /// they were not recorded; only `check` records them, for expectations that need them.
    pub succeeded_paths: Option<Vec<FailedPath>>,
    /// Whether `failed_paths`, and `succeeded_paths` if it is known, have every such call, so that
    /// their counts are exact. If not, they are lower bounds.
    pub failed_paths_complete: bool,
    /// Of each call of which more than half did nothing in one way: that way, with the file if it was
    /// one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle_calls: Vec<IdleCalls>,
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

    /// The calls that have no rows, as rows that know their sums alone.
    pub fn rows_of_others(&self) -> impl Iterator<Item = Syscall> {
        let others = self.other_syscalls.iter().flatten();
        others.map(|call| Syscall {
            name: call.name.clone(),
            abi: call.abi.clone(),
            calls: call.sums.calls,
            errors: call.sums.errors,
            unfinished: call.sums.unfinished,
            total_ns: call.sums.total_ns,
            mean_ns: call.sums.mean_ns(),
            ..Syscall::default()
        })
    }
}

/// Everything that was done with one file, for `--files`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileTotals {
    /// The file.
    #[serde(flatten)]
    pub file: End,
    /// Calls that read from it, without those that failed; 0 if no such calls were counted.
    pub reads: u64,
    /// Calls that wrote to it, likewise.
    pub writes: u64,
    /// Calls that move no bytes (`fstat`, `mmap`), without those that failed.
    pub other_calls: u64,
    /// How many of these mapped it: what the program loads from there is not seen.
    #[serde(default)]
    pub maps: u64,
    /// How many of these mapped it shared and writable: what the program stores there is not seen.
    #[serde(default)]
    pub writable_maps: u64,
    /// Bytes that calls returned as read from it; `None`: unknown for some call, or no calls that read
    /// were counted.
    pub bytes_read: Option<u64>,
    /// Bytes that calls returned as written to it; `None`: unknown for some call, or no calls that
    /// write were counted.
    pub bytes_written: Option<u64>,
    /// Calls on it that failed.
    pub errors: u64,
    /// Time in calls on it, ns.
    pub total_ns: Option<u64>,
}

/// The calls of a process on the same files. Without a file: calls that name none, or whose files
/// were not identified.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileCalls {
    /// The file that bytes came from; for calls that move none (`fstat`, `mmap`), the file that
    /// they are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<End>,
    /// The file that bytes went to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<End>,
    /// The calls.
    pub syscalls: Vec<Syscall>,
}

/// The JSON Schema (draft 2020-12) of a report as this version writes it. It lets fields pass that
/// it does not know: new ones may come.
pub fn schema() -> Schema {
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
mod tests;
