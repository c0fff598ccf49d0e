//! Derives a [`Report`] from a [`Trace`]: sums rows to calls, threads to processes and processes to
//! totals. A sum is unknown if one of its parts is.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{
    balance::violations,
    before_signal::BeforeSignal,
    call_at_end::CallAtEnd,
    failed_paths::FailedPath,
    fatal_fault::FatalFault,
    idle_calls::IdleCalls,
    model::{
        Activity, ContextSwitches, Exit, Loading, OtherSyscall, PageFaults, Process, Program,
        Report, SCHEMA, Thread, Tool, Totals, Usage,
    },
    notes::report_notes,
    sizes::sizes_by_call,
    sort::SortKey,
    sums::{self, fold_rows, fold_totals},
    time_on_files::TimeOnFile,
    unsynced::syncs_with_functions,
};
use crate::{
    ends::EndTable,
    syscalls::Call,
    text::is_library,
    trace::{self, Counters, Loss, OtherCalls, ProgramCounts, Row, State, Trace},
    transfer::{self, Analysis, InProcess},
    units::sum_all,
    words::words,
};

words! {
    /// How far the figures are broken down.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    pub enum Detail {
        /// Sums for each process.
        Process = "process",
        /// Sums for each process and each of its threads.
        Thread = "thread",
        /// Sums for all processes of the same name.
        Program = "program",
        /// Only sums over all processes, and transfers, without a list of processes.
        Total = "total",
    }
}

/// Which parts of a trace go into a report, and in which order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// How far the figures are broken down.
    pub detail: Detail,
    /// The order of the calls.
    pub sort: SortKey,
    /// Whether every file is listed.
    pub files: Files,
    /// Whether the calls of each process are listed file by file.
    pub file_calls: Files,
}

/// Whether a report lists what was done file by file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Files {
    /// It does not.
    #[default]
    Omitted,
    /// It does.
    Listed,
}

impl Report {
    /// Derives the report from a trace.
    ///
    /// # Panics
    ///
    /// In debug builds, if the sums of its transfers do not add up: that is a bug of the analysis.
    pub fn from_trace(trace: &Trace, options: &Options) -> Self {
        Self::from_analysis(trace, transfer::analyse_trace(trace), *options)
    }

    /// The same with what was found in the trace before.
    pub(super) fn from_analysis(trace: &Trace, analysis: Analysis, options: Options) -> Self {
        let is_exact = is_exact(trace);
        let fold = Fold {
            trace,
            ends: EndTable::new(trace),
            options,
        };
        let mut processes = Vec::new();
        if options.detail != Detail::Total {
            let found = analysis.processes.into_iter();
            let found = found.zip(analysis.transfers_of_processes);
            let each = trace.processes.iter().zip(found);
            processes.extend(each.map(|(process, found)| fold.fold_process(process, found)));
        }
        let losses = nonzero_losses(&trace.losses).chain(nonzero_losses(&analysis.unknown_origins));
        let losses = losses.map(|(loss, count)| (loss.name().to_owned(), count));
        let slow_calls = trace.slow_calls.clone();
        let report = Self {
            schema: SCHEMA,
            stacks: trace.stacks.clone(),
            tool: Tool::this_version(),
            command: trace.command.clone(),
            labels: BTreeMap::new(),
            backend: trace.backend.to_owned(),
            kernel: trace.kernel.clone(),
            arch: trace.arch.clone(),
            started_at: trace.started_at.and_then(rfc3339),
            wall_ns: trace.wall_ns,
            exit_ns: trace.exit_ns,
            exit: exit(trace.exit),
            before_signal: BeforeSignal::of_trace(trace, &fold.ends),
            fatal_faults: FatalFault::all_of(trace),
            span: trace.span.clone(),
            attached: trace.attached.clone(),
            marked_spans: trace.marked_spans.clone(),
            syncs: syncs_with_functions(trace),
            touched: trace.touched.clone(),
            left_open: (trace.left_open.clone())
                .map(|left| left.in_directory(trace.directory.as_deref())),
            slow_calls: slow_calls.map(|calls| fold.ends.relative_to_directory(calls)),
            exact: is_exact,
            // A record from elsewhere does not know the kernel.
            from_log: trace.kernel.is_none(),
            sees_memory: transfer::sees_memory(trace),
            losses: losses.collect(),
            notes: report_notes(trace, analysis.lacks_chains),
            programs: if processes.is_empty() {
                Vec::new()
            } else {
                fold.fold_programs()
            },
            processes,
            transfers: analysis.transfers,
            merged: trace.ended.merged_processes(),
            calls_without_files: trace.calls_without_files(),
            directory: trace.directory.clone(),
            counted: trace.counted.clone(),
            paths: Vec::new(),
            files: match options.files {
                Files::Omitted => Vec::new(),
                Files::Listed => sums::file_totals(trace),
            },
            totals: fold.sum_totals(is_exact),
        };
        if cfg!(any(debug_assertions, test)) {
            let broken = violations(&report);
            assert!(
                broken.is_empty(),
                "the sums of this report do not add up:\n{}",
                broken.join("\n")
            );
        }
        report
    }
}

/// The losses that happened, and how often.
fn nonzero_losses(losses: &BTreeMap<Loss, u64>) -> impl Iterator<Item = (Loss, u64)> {
    let losses = losses.iter().map(|(loss, count)| (*loss, *count));
    losses.filter(|(_, count)| *count > 0)
}

/// Whether every count of a trace is exact.
pub(super) fn is_exact(trace: &Trace) -> bool {
    !nonzero_losses(&trace.losses).any(|(loss, _)| loss.touches_counts())
}

/// Processes while they ran one program, and sums over those that ended; each with how many it stands
/// for.
fn all_programs(trace: &Trace) -> impl Iterator<Item = (ProgramCounts, &trace::Process)> {
    let each = trace.processes.iter();
    let each = each.map(|process| (process.program_counts(), process));
    let merged = trace.merged.iter();
    each.chain(merged.map(|merged| (merged.counts, &merged.sums)))
}

/// How many they are.
fn count_programs(trace: &Trace) -> ProgramCounts {
    let mut sum = ProgramCounts::default();
    for (counts, _) in all_programs(trace) {
        sum += counts;
    }
    sum
}

/// Sums the rows of a trace as options say.
struct Fold<'t> {
    trace: &'t Trace,
    ends: EndTable<'t>,
    options: Options,
}

impl<'t> Fold<'t> {
    /// What these threads did, which have these counters.
    fn fold_activity<'a>(
        &self,
        counters: Option<Counters>,
        threads: impl IntoIterator<Item = &'a trace::Thread, IntoIter: Clone>,
    ) -> Activity {
        let (sort, stacks) = (self.options.sort, self.trace.stacks.as_deref());
        let threads = threads.into_iter();
        let rows = threads.clone().flat_map(|thread| &thread.rows);
        let ring_rows = threads.clone().flat_map(|thread| &thread.ring_rows);
        Activity {
            usage: usage(counters),
            syscalls: fold_rows(rows, sort, stacks),
            other_calls: sum_other_calls(threads),
            io_uring: fold_rows(ring_rows, sort, None),
        }
    }

    /// `found` is what the analysis found in the process, and the places of its transfers.
    fn fold_process(
        &self,
        process: &'t trace::Process,
        (found, transfers): (InProcess, Vec<usize>),
    ) -> Process {
        let mut by_thread = Vec::new();
        if self.options.detail == Detail::Thread {
            by_thread.extend(
                process
                    .threads
                    .iter()
                    .map(|thread| self.fold_thread(thread)),
            );
        }
        Process {
            pid: process.pid,
            earlier_programs: process.earlier.clone(),
            ppid: process.ppid,
            comm: process.comm.clone(),
            exe: process.exe.clone(),
            command: process.command.clone(),
            state: process.state,
            threads: length_as_u64(process.threads.len()),
            activity: self.fold_activity(process.counters, &process.threads),
            calls_at_end: CallAtEnd::all_of(process, self.trace, &self.ends),
            transfers,
            sources: found.sources,
            destinations: found.destinations,
            file_calls: match self.options.file_calls {
                Files::Omitted => None,
                Files::Listed => Some(sums::calls_by_file(process, &self.ends, self.options.sort)),
            },
            by_thread,
        }
    }

    fn fold_thread(&self, thread: &trace::Thread) -> Thread {
        Thread {
            tid: thread.tid,
            comm: thread.comm.clone(),
            activity: Activity {
                io_uring: Vec::new(),
                ..self.fold_activity(thread.counters, [thread])
            },
        }
    }

    /// The processes by the program that they ran, if there are several.
    fn fold_programs(&self) -> Vec<Program> {
        if count_programs(self.trace).programs < 2 {
            return Vec::new();
        }
        let mut by_name: BTreeMap<Option<&str>, (ProgramCounts, Vec<_>)> = BTreeMap::new();
        for (counts, process) in all_programs(self.trace) {
            let (sum, processes) = by_name.entry(process.name()).or_default();
            *sum += counts;
            processes.push(process);
        }
        let mut programs = Vec::new();
        for (name, (counts, processes)) in by_name {
            programs.push(Program {
                name: name.map(str::to_owned),
                runs: counts.programs,
                // The program of a process that was found running is known, too.
                execs: match self.trace.attached {
                    Some(_) => counts.continued,
                    None => counts.executed,
                },
                threads: counts.threads,
                activity: self.fold_activity(
                    sum_counters(processes.iter().copied()),
                    processes.iter().flat_map(|process| &process.threads),
                ),
            });
        }
        programs.sort_by_cached_key(|program| {
            let calls: u64 = program.syscalls.iter().map(|call| call.calls).sum();
            Reverse((program.usage.cpu_ns(), calls))
        });
        programs
    }

    fn sum_totals(&self, is_exact: bool) -> Totals {
        let trace = self.trace;
        let failed = trace.failed_paths.as_ref();
        let rows = trace.all_processes().flat_map(trace::Process::rows);
        let mut syscalls = fold_totals(rows, self.options.sort, trace.stacks.as_deref());
        let mut sizes = sizes_by_call(trace);
        for call in &mut syscalls {
            call.sizes = sizes.remove(&(call.name.as_str(), call.abi.as_str()));
        }
        let processes = trace.processes.iter();
        let running = processes.filter(|process| process.state == State::Running);
        let counts = count_programs(trace);
        Totals {
            processes: counts.programs - counts.continued,
            programs: counts.programs,
            threads: counts.threads - counts.continued,
            running: length_as_u64(running.count()),
            syscalls,
            other_syscalls: trace.other_calls.as_ref().map(other_syscalls),
            loading: find_loading(trace),
            failed_paths: FailedPath::all_of(trace),
            failed_without_path: FailedPath::all_without_path(trace),
            succeeded_paths: FailedPath::all_that_succeeded(trace),
            failed_paths_complete: is_exact && failed.is_some_and(trace::FailedPaths::are_complete),
            idle_calls: IdleCalls::all_of(trace, &self.ends),
            time_on_files: TimeOnFile::all_of(trace, &self.ends),
            usage: usage(sum_counters(trace.all_processes())),
        }
    }
}

/// The calls without rows, the one with the most time first.
fn other_syscalls(by_call: &BTreeMap<Call, OtherCalls>) -> Vec<OtherSyscall> {
    let mut syscalls = Vec::new();
    for (call, sums) in by_call {
        syscalls.push(OtherSyscall {
            name: call.name.to_string(),
            abi: call.abi.name().to_owned(),
            sums: *sums,
        });
    }
    syscalls.sort_by_key(|call| Reverse((call.sums.total_ns, call.sums.calls)));
    syscalls
}

/// `None` if those of one thread were not counted.
fn sum_other_calls<'a>(threads: impl IntoIterator<Item = &'a trace::Thread>) -> Option<OtherCalls> {
    let mut sum = OtherCalls::NONE;
    for thread in threads {
        sum += thread.other_calls?;
    }
    Some(sum)
}

/// `None` if the files of calls are unknown, or if not all calls that read or map files have rows.
fn find_loading(trace: &Trace) -> Option<Loading> {
    const CALLS: [&str; 3] = ["read", "pread64", "mmap"];
    let selection = trace.counted.as_ref()?;
    if trace.files.is_empty()
        || trace.calls_without_files() > 0
        || !CALLS.iter().all(|name| selection.contains(name))
    {
        return None;
    }
    let mut loading = Loading {
        calls: 0,
        total_ns: Some(0),
    };
    for row in trace.all_processes().flat_map(trace::Process::rows) {
        if CALLS.contains(&row.call.name.as_ref()) && reads_library(row, trace) == Some(true) {
            loading.calls += row.calls;
            loading.total_ns = sum_all([loading.total_ns, row.total_ns]);
        }
    }
    Some(loading)
}

/// Whether a row's bytes come from a library; `None`: that is not known, or from no file.
fn reads_library(row: &Row, trace: &Trace) -> Option<bool> {
    let file = row.ends.input?.file().in_files(&trace.files)?;
    file.path.as_deref().map(is_library)
}

fn usage(counters: Option<Counters>) -> Usage {
    let Some(counters) = counters else {
        return Usage::default();
    };
    Usage {
        user_ns: Some(counters.user_ns),
        system_ns: Some(counters.system_ns),
        run_delay_ns: counters.run_delay_ns,
        context_switches: ContextSwitches {
            voluntary: Some(counters.voluntary_switches),
            involuntary: Some(counters.involuntary_switches),
        },
        page_faults: PageFaults {
            minor: Some(counters.minor_faults),
            major: Some(counters.major_faults),
        },
    }
}

/// `None` if those of one process are unknown, or if there is none.
fn sum_counters<'a>(mut processes: impl Iterator<Item = &'a trace::Process>) -> Option<Counters> {
    let mut sum = processes.next()?.counters?;
    for process in processes {
        sum += process.counters?;
    }
    Some(sum)
}

fn exit(exit: Option<trace::Exit>) -> Exit {
    let (code, signal) = match exit {
        Some(trace::Exit::Code(code)) => (Some(code), None),
        Some(trace::Exit::Signal(signal)) => (None, Some(signal)),
        None => (None, None),
    };
    Exit { code, signal }
}

/// In UTC. `None` for a time that RFC 3339 cannot express.
fn rfc3339(time: SystemTime) -> Option<String> {
    let since_epoch = time::Duration::try_from(time.duration_since(UNIX_EPOCH).ok()?).ok()?;
    OffsetDateTime::UNIX_EPOCH
        .checked_add(since_epoch)?
        .format(&Rfc3339)
        .ok()
}

/// A length as a number of the report.
fn length_as_u64(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod fold_tests;
