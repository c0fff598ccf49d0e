//! Derives a [`Report`] from a [`Trace`]: sums rows to calls, threads to processes and processes to totals. A sum is unknown if one of
//! its parts is.

use std::{
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{
    ContextSwitches, Counted, Exit, PageFaults, Process, Report, SCHEMA, SortKey, State, Syscall, Thread, Tool, Totals, Usage,
    conservation, files,
};
use crate::{
    errno,
    syscall::Call,
    trace::{self, Counters, Loss, Row, Times, Trace},
    transfer::{self, EndTable, InProcess},
    words::words,
};

words! {
    /// How far the figures are broken down.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Detail {
        /// Sums for each process.
        Process = "process",
        /// Sums for each process and each of its threads.
        Thread = "thread",
        /// Only the sums over all processes; the list of processes stays empty.
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
        let without_files = (Loss::CallsWithoutFiles, trace.calls_without_files);
        let losses =
            || trace.losses.iter().map(|(loss, count)| (*loss, *count)).chain([without_files]).filter(|(_, count)| *count > 0);
        let analysis = transfer::analyse(trace);
        let processes = match options.detail {
            Detail::Total => Vec::new(),
            Detail::Process | Detail::Thread => {
                let ends = EndTable::new(trace);
                let processes = trace.processes.iter().zip(analysis.processes);
                processes.map(|(process, moved)| fold_process(process, moved, &ends, *options)).collect()
            }
        };
        let report = Self {
            schema: SCHEMA,
            tool: Tool::zctrace(),
            command: trace.command.clone(),
            backend: trace.backend.to_owned(),
            kernel: trace.kernel.clone(),
            arch: trace.arch.clone(),
            started_at: trace.started_at.and_then(rfc3339),
            wall_ns: trace.wall_ns,
            exit: exit(trace.exit),
            exact: !losses().any(|(loss, _)| loss.touches_counts()),
            transfers_exact: analysis.is_exact,
            losses: losses().map(|(loss, count)| (loss.name().to_owned(), count)).collect(),
            notes: notes(trace),
            processes,
            transfers: analysis.across,
            calls_without_files: trace.calls_without_files,
            directory: trace.directory.clone(),
            counted: trace.counted.as_ref().map(Counted::of),
            files: match options.files {
                Files::Omitted => Vec::new(),
                Files::Listed => files::totals(trace),
            },
            totals: totals(&trace.processes, options.sort),
        };
        if cfg!(any(debug_assertions, test)) {
            let broken = conservation::violations(&report);
            assert!(broken.is_empty(), "the sums of this report do not add up:\n{}", broken.join("\n"));
        }
        report
    }
}

/// The notes of the backend, and why transfers are incomplete, if they are.
fn notes(trace: &Trace) -> Vec<String> {
    let without_files = (trace.calls_without_files > 0).then(|| {
        format!(
            "There was no room for the files of {} calls: transfers and files are lower bounds; raise --max-files and --max-rows.",
            trace.calls_without_files
        )
    });
    let rows = || trace.processes.iter().flat_map(rows);
    let has_aio = rows().any(|row| row.call.name == "io_submit" && row.calls > row.errors);
    let unknown = has_aio
        .then(|| "the bytes that Linux AIO moved are unknown: only io_submit is counted, and it does not tell them".to_owned());
    trace.notes.iter().cloned().chain(without_files).chain(unknown).collect()
}

fn totals(processes: &[trace::Process], sort: SortKey) -> Totals {
    Totals {
        processes: count(processes.len()),
        threads: processes.iter().map(|process| count(process.threads.len())).sum(),
        syscalls: fold_rows(processes.iter().flat_map(rows), sort),
        usage: sum_usage(&processes.iter().map(|process| usage(process.counters))),
    }
}

fn fold_process(process: &trace::Process, moved: InProcess, ends: &EndTable<'_>, options: Options) -> Process {
    let by_thread = match options.detail {
        Detail::Thread => process.threads.iter().map(|thread| fold_thread(thread, options.sort)).collect(),
        Detail::Process | Detail::Total => Vec::new(),
    };
    Process {
        pid: process.pid,
        ppid: process.ppid,
        comm: process.comm.clone(),
        exe: process.exe.clone(),
        command: process.command.clone(),
        state: match process.state {
            trace::State::Exited => State::Exited,
            trace::State::Running => State::Running,
        },
        threads: count(process.threads.len()),
        usage: usage(process.counters),
        syscalls: fold_rows(rows(process), options.sort),
        io_uring: fold_rows(process.threads.iter().flat_map(|thread| &thread.ring_rows), options.sort),
        transfers: moved.transfers,
        sources: moved.sources,
        destinations: moved.destinations,
        unattributed: moved.unattributed,
        file_calls: match options.file_calls {
            Files::Omitted => None,
            Files::Listed => Some(files::calls_by_file(process, ends, options.sort)),
        },
        by_thread,
    }
}

fn fold_thread(thread: &trace::Thread, sort: SortKey) -> Thread {
    Thread {
        tid: thread.tid,
        comm: thread.comm.clone(),
        usage: usage(thread.counters),
        syscalls: fold_rows(thread.rows.iter(), sort),
    }
}

fn rows(process: &trace::Process) -> impl Iterator<Item = &Row> {
    process.threads.iter().flat_map(|thread| &thread.rows)
}

/// Sums rows to one entry for each call. Rows are also told apart by thread and files.
pub(super) fn fold_rows<'a>(rows: impl Iterator<Item = &'a Row>, sort: SortKey) -> Vec<Syscall> {
    let mut sums: BTreeMap<&Call, Sums> = BTreeMap::new();
    for row in rows.filter(|row| row.calls > 0 || row.unfinished > 0) {
        sums.entry(&row.call).or_default().add(row);
    }
    let mut syscalls: Vec<Syscall> = sums.into_iter().map(|(call, sums)| sums.finish(call)).collect();
    sort.sort(&mut syscalls);
    syscalls
}

fn usage(counters: Option<Counters>) -> Usage {
    Usage {
        user_ns: counters.map(|counters| counters.user_ns),
        system_ns: counters.map(|counters| counters.system_ns),
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

/// `None` if any addend is unknown, or if there are none.
fn sum_usage(all: &(impl Iterator<Item = Usage> + Clone)) -> Usage {
    let sum = |figure: fn(Usage) -> Option<u64>| all.clone().map(figure).reduce(|a, b| a?.checked_add(b?)).flatten();
    Usage {
        user_ns: sum(|usage| usage.user_ns),
        system_ns: sum(|usage| usage.system_ns),
        context_switches: ContextSwitches {
            voluntary: sum(|usage| usage.context_switches.voluntary),
            involuntary: sum(|usage| usage.context_switches.involuntary),
        },
        page_faults: PageFaults { minor: sum(|usage| usage.page_faults.minor), major: sum(|usage| usage.page_faults.major) },
    }
}

fn exit(exit: Option<trace::Exit>) -> Exit {
    match exit {
        Some(trace::Exit::Code(code)) => Exit { code: Some(code), signal: None },
        Some(trace::Exit::Signal(signal)) => Exit { code: None, signal: Some(signal) },
        None => Exit::default(),
    }
}

/// In UTC. `None` for a time that RFC 3339 cannot express.
fn rfc3339(time: SystemTime) -> Option<String> {
    let since_epoch = time::Duration::try_from(time.duration_since(UNIX_EPOCH).ok()?).ok()?;
    OffsetDateTime::UNIX_EPOCH.checked_add(since_epoch)?.format(&Rfc3339).ok()
}

/// A length as a number of the report.
fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// The sums of one call over any number of rows.
#[derive(Debug, Default)]
struct Sums {
    calls: u64,
    errors: u64,
    errnos: BTreeMap<u32, u64>,
    unfinished: u64,
    bytes: Sum<u64>,
    requested_bytes: Sum<u64>,
    times: Sum<Times>,
}

impl Sums {
    /// Adds a row of the same call.
    fn add(&mut self, row: &Row) {
        self.calls += row.calls;
        self.errors += row.errors;
        for (&errno, count) in &row.errnos {
            *self.errnos.entry(errno).or_default() += count;
        }
        self.unfinished += row.unfinished;
        let returned = row.calls > 0;
        // Programs ask `copy_file_range` for nearly 2^63 bytes at a time, so that their sum may overflow.
        let add_numbers = |sum: &mut u64, number: &u64| sum.checked_add(*number).map(|total| *sum = total);
        self.bytes.add(row.bytes.as_ref(), returned, add_numbers);
        self.requested_bytes.add(row.requested_bytes.as_ref(), returned, add_numbers);
        self.times.add(row.times.as_ref(), returned, add_times);
    }

    /// The entry of the report.
    fn finish(self, call: &Call) -> Syscall {
        // A call that was counted without its entry has no time. Mean and percentiles are those of the timed calls.
        let times = self.times.known().filter(|times| times.histogram.count() > 0);
        let times = times.as_ref();
        let total_ns = times.map(|times| times.total_ns).filter(|&ns| ns != u64::MAX);
        let percentile = |percent| {
            let times = times?;
            // The middle of a bucket may lie outside of the range that was measured.
            Some(times.histogram.percentile(percent)?.clamp(times.min_ns, times.max_ns.max(times.min_ns)))
        };
        Syscall {
            name: call.name.clone().into_owned(),
            abi: call.abi.name().to_owned(),
            calls: self.calls,
            errors: self.errors,
            errnos: self.errnos.into_iter().map(|(errno, count)| (errno::name(errno), count)).collect(),
            unfinished: self.unfinished,
            bytes: self.bytes.known(),
            requested_bytes: self.requested_bytes.known(),
            total_ns,
            min_ns: times.map(|times| times.min_ns),
            max_ns: times.map(|times| times.max_ns),
            mean_ns: times.zip(total_ns).map(|(times, total_ns)| total_ns / times.histogram.count()),
            p50_ns: percentile(50),
            p90_ns: percentile(90),
            p99_ns: percentile(99),
        }
    }
}

/// A sum of values of which some may be unknown.
#[derive(Debug, Default)]
enum Sum<T> {
    /// Nothing was added.
    #[default]
    Empty,
    Known(T),
    /// An unknown value was added, or the sum overflowed.
    Unknown,
}

impl<T: Clone> Sum<T> {
    /// Adds a value. An unknown one (`None`) makes the sum unknown only if a call `returned`: no call is known to have moved nothing.
    fn add(&mut self, figure: Option<&T>, returned: bool, add: fn(&mut T, &T) -> Option<()>) {
        match (&mut *self, figure) {
            (Self::Unknown, _) => {}
            (Self::Empty, Some(figure)) => *self = Self::Known(figure.clone()),
            (Self::Known(sum), Some(figure)) => {
                if add(sum, figure).is_none() {
                    *self = Self::Unknown;
                }
            }
            (_, None) if returned => *self = Self::Unknown,
            (_, None) => {}
        }
    }

    fn known(self) -> Option<T> {
        match self {
            Self::Known(sum) => Some(sum),
            Self::Empty | Self::Unknown => None,
        }
    }
}

fn add_times(sum: &mut Times, times: &Times) -> Option<()> {
    if times.histogram.count() == 0 {
        return Some(());
    }
    if times.total_ns == u64::MAX {
        return None;
    }
    if sum.histogram.count() == 0 {
        *sum = times.clone();
        return Some(());
    }
    sum.total_ns = sum.total_ns.checked_add(times.total_ns)?;
    sum.min_ns = sum.min_ns.min(times.min_ns);
    sum.max_ns = sum.max_ns.max(times.max_ns);
    sum.histogram.merge(&times.histogram);
    Some(())
}

#[cfg(test)]
mod tests;
