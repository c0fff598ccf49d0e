//! Derives a [`Report`] from a [`Trace`]: sums rows to calls, threads to processes and processes to
//! totals. A sum is unknown if one of its parts is. In debug builds the bytes of the report must
//! add up, whatever was traced.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{
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
    ends::{End, EndTable},
    syscalls::Call,
    text::is_library,
    trace::{self, Counters, Input, Loss, OtherCalls, ProgramCounts, Row, State, Trace},
    transfer::{self, Analysis, Api, DestinationTotals, InProcess, Transfer},
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
        Self::from_analysis(trace, transfer::analyse(trace), *options)
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
            processes.extend(each.map(|(process, found)| fold.process(process, found)));
        }
        let report = Self {
            schema: SCHEMA,
            stacks: trace.stacks.clone(),
            tool: Tool::zctrace(),
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
            slow_calls: trace
                .slow_calls
                .clone()
                .map(|calls| fold.ends.relative_to_directory(calls)),
            exact: is_exact,
            // A record from elsewhere does not know the kernel.
            from_log: trace.kernel.is_none(),
            sees_memory: transfer::sees_memory(trace),
            losses: happened(&trace.losses)
                .chain(happened(&analysis.unknown_origins))
                .map(|(loss, count)| (loss.name().to_owned(), count))
                .collect(),
            notes: report_notes(trace, analysis.lacks_chains),
            programs: if processes.is_empty() {
                Vec::new()
            } else {
                fold.programs()
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
            totals: fold.totals(is_exact),
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
fn happened(losses: &BTreeMap<Loss, u64>) -> impl Iterator<Item = (Loss, u64)> {
    let losses = losses.iter().map(|(loss, count)| (*loss, *count));
    losses.filter(|(_, count)| *count > 0)
}

/// Whether every count of a trace is exact.
pub(super) fn is_exact(trace: &Trace) -> bool {
    !happened(&trace.losses).any(|(loss, _)| loss.touches_counts())
}

/// Processes while they ran one program, and sums over those that ended; each with how many it stands
/// for.
fn all(trace: &Trace) -> impl Iterator<Item = (ProgramCounts, &trace::Process)> {
    let each = trace.processes.iter();
    let each = each.map(|process| (process.counts(), process));
    let merged = trace.merged.iter();
    each.chain(merged.map(|merged| (merged.counts, &merged.sums)))
}

/// The sum of these counts.
fn sum_counts(all: impl Iterator<Item = ProgramCounts>) -> ProgramCounts {
    all.fold(ProgramCounts::default(), |mut sum, more| {
        sum += more;
        sum
    })
}

/// Sums the rows of a trace as options say.
struct Fold<'t> {
    trace: &'t Trace,
    ends: EndTable<'t>,
    options: Options,
}

impl<'t> Fold<'t> {
    /// What these threads did, which have these counters.
    fn activity<'a>(
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
    fn process(
        &self,
        process: &'t trace::Process,
        (found, transfers): (InProcess, Vec<usize>),
    ) -> Process {
        let mut by_thread = Vec::new();
        if self.options.detail == Detail::Thread {
            by_thread.extend(process.threads.iter().map(|thread| self.thread(thread)));
        }
        Process {
            pid: process.pid,
            earlier_programs: process.earlier.clone(),
            ppid: process.ppid,
            comm: process.comm.clone(),
            exe: process.exe.clone(),
            command: process.command.clone(),
            state: process.state,
            threads: count(process.threads.len()),
            activity: self.activity(process.counters, &process.threads),
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

    fn thread(&self, thread: &trace::Thread) -> Thread {
        Thread {
            tid: thread.tid,
            comm: thread.comm.clone(),
            activity: Activity {
                io_uring: Vec::new(),
                ..self.activity(thread.counters, [thread])
            },
        }
    }

    /// The processes by the program that they ran, if there are several.
    fn programs(&self) -> Vec<Program> {
        if sum_counts(all(self.trace).map(|(counts, _)| counts)).programs < 2 {
            return Vec::new();
        }
        let mut by_name: BTreeMap<Option<&str>, (ProgramCounts, Vec<_>)> = BTreeMap::new();
        for (counts, process) in all(self.trace) {
            let (sum, processes) = by_name.entry(process.name()).or_default();
            *sum += counts;
            processes.push(process);
        }
        let is_attached = self.trace.attached.is_some();
        let program = |(name, (counts, processes)): (_, (ProgramCounts, Vec<_>))| Program {
            name: Option::map(name, str::to_owned),
            runs: counts.programs,
            // The program of a process that was found running is known, too.
            execs: if is_attached {
                counts.continued
            } else {
                counts.executed
            },
            threads: counts.threads,
            activity: self.activity(
                sum_counters(processes.iter().copied()),
                processes.iter().flat_map(|process| &process.threads),
            ),
        };
        let mut programs: Vec<Program> = by_name.into_iter().map(program).collect();
        let calls = |program: &Program| program.syscalls.iter().map(|call| call.calls).sum::<u64>();
        programs.sort_by_cached_key(|program| Reverse((program.usage.cpu_ns(), calls(program))));
        programs
    }

    fn totals(&self, is_exact: bool) -> Totals {
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
        let counts = sum_counts(all(trace).map(|(counts, _)| counts));
        Totals {
            processes: counts.programs - counts.continued,
            programs: counts.programs,
            threads: counts.threads - counts.continued,
            running: count(running.count()),
            syscalls,
            other_syscalls: trace.other_calls.as_ref().map(other_syscalls),
            loading: loading(trace),
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
    let named = |(call, sums): (&Call, &OtherCalls)| OtherSyscall {
        name: call.name.to_string(),
        abi: call.abi.name().to_owned(),
        sums: *sums,
    };
    let mut syscalls: Vec<OtherSyscall> = by_call.iter().map(named).collect();
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
fn loading(trace: &Trace) -> Option<Loading> {
    const CALLS: [&str; 3] = ["read", "pread64", "mmap"];
    let selection = trace.counted.as_ref()?;
    if trace.files.is_empty()
        || trace.calls_without_files() > 0
        || !CALLS.iter().all(|name| selection.contains(name))
    {
        return None;
    }
    let is_library = |from: Input| {
        let path = from.file().in_files(&trace.files)?.path.as_deref();
        Some(is_library(path?))
    };
    let loads = |row: &&Row| {
        CALLS.contains(&row.call.name.as_ref()) && row.ends.input.and_then(is_library) == Some(true)
    };
    let rows = || {
        trace
            .all_processes()
            .flat_map(trace::Process::rows)
            .filter(loads)
    };
    Some(Loading {
        calls: rows().map(|row| row.calls).sum(),
        total_ns: sum_all(rows().map(|row| row.total_ns)),
    })
}

fn usage(counters: Option<Counters>) -> Usage {
    Usage {
        user_ns: counters.map(|counters| counters.user_ns),
        system_ns: counters.map(|counters| counters.system_ns),
        run_delay_ns: counters.and_then(|counters| counters.run_delay_ns),
        context_switches: ContextSwitches {
            voluntary: counters.map(|counters| counters.voluntary_switches),
            involuntary: counters.map(|counters| counters.involuntary_switches),
        },
        page_faults: PageFaults {
            minor: counters.map(|counters| counters.minor_faults),
            major: counters.map(|counters| counters.major_faults),
        },
    }
}

/// `None` if those of one process are unknown, or if there is none.
fn sum_counters<'a>(processes: impl Iterator<Item = &'a trace::Process>) -> Option<Counters> {
    let counters = processes.map(|process| process.counters);
    counters
        .reduce(|sum, more| {
            let mut sum = sum?;
            sum += more?;
            Some(sum)
        })
        .flatten()
}

fn exit(exit: Option<trace::Exit>) -> Exit {
    match exit {
        Some(trace::Exit::Code(code)) => Exit {
            code: Some(code),
            signal: None,
        },
        Some(trace::Exit::Signal(signal)) => Exit {
            code: None,
            signal: Some(signal),
        },
        None => Exit::default(),
    }
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
fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// The rules that a report violates, each a sentence.
///
/// For each destination, the bytes in transfers and those of the program's own memory add up to the
/// written bytes, and so do the calls. The bytes in transfers are the sum of the transfers to it, so
/// that no written byte has two sources.
pub fn violations(report: &Report) -> Vec<String> {
    let mut violations = Vec::new();
    for process in &report.processes {
        let mut transferred: BTreeMap<Option<&End>, [u64; 2]> = BTreeMap::new();
        for one in &process.destinations {
            violations.extend(unbalanced(one));
            let [stated, _] = transferred.entry(one.file.as_ref()).or_default();
            *stated = stated.saturating_add(one.transferred_bytes);
        }
        for (to, bytes) in report.transfers_of(process).flat_map(arrivals) {
            let [_, summed] = transferred.entry(Some(to)).or_default();
            *summed = summed.saturating_add(bytes);
        }
        if transferred
            .values()
            .any(|[stated, summed]| stated != summed)
        {
            violations.push(format!(
                "bytes in transfers, and the sum of the transfers: {transferred:?}"
            ));
        }
    }
    // The files of merged processes are told apart in another way than the ends of their transfers.
    let merged = report.merged.iter().flat_map(|merged| &merged.destinations);
    violations.extend(merged.clone().filter_map(unbalanced));
    let (chains, steps): (Vec<&Transfer>, Vec<&Transfer>) = report
        .transfers
        .iter()
        .partition(|transfer| transfer.crosses_processes());
    let of_merged = steps.into_iter().filter(|step| step.merged.is_some());
    let summed = of_merged.flat_map(arrivals).map(|(_, bytes)| bytes);
    let stated = merged.map(|one| one.transferred_bytes);
    let [summed, stated] = [
        summed.fold(0, u64::saturating_add),
        stated.fold(0, u64::saturating_add),
    ];
    if summed != stated {
        violations.push(format!(
            "transfers of ended processes add up to {summed}, not to {stated}"
        ));
    }
    for chain in chains {
        if chain.hops.iter().any(|hop| hop.bytes < chain.bytes) {
            violations.push(format!(
                "more bytes arrived than passed through a hop: {chain:?}"
            ));
        }
    }
    violations
}

/// The destination of each step of a transfer, and the bytes that it wrote there. A reflink writes
/// nothing.
fn arrivals(transfer: &Transfer) -> Vec<(&End, u64)> {
    if transfer.api == Api::Reflink || !transfer.is_transfer() {
        return Vec::new();
    }
    if transfer.hops.is_empty() {
        return vec![(&transfer.to, transfer.bytes.unwrap_or(0))];
    }
    let hops = transfer.hops.iter();
    hops.map(|hop| (&hop.to, hop.bytes.unwrap_or(0))).collect()
}

/// What is wrong with the sums of a destination, if anything.
fn unbalanced(one: &DestinationTotals) -> Option<String> {
    let bytes = one
        .own_memory_bytes
        .map(|own| own.saturating_add(one.transferred_bytes));
    let calls = one.transferred_calls + one.own_memory_calls;
    let buffers = one.buffers.iter().map(|buffers| buffers.bytes);
    let is_balanced = bytes == one.written_bytes
        && calls == one.written_calls
        && one
            .own_memory_bytes
            .is_none_or(|own| buffers.fold(0, u64::saturating_add) <= own);
    (!is_balanced).then(|| format!("what was written does not add up: {one:?}"))
}

#[cfg(test)]
mod fold_tests;
