//! Sums up a span by what the rows of the view stand for.

use std::{borrow::Cow, collections::BTreeMap};

use super::figures::{LiveFigures, SpanFigures};
use crate::{
    render::{end_label, escape},
    report::{Api, FileTotals, LiveReport, Transfer},
    trace::{self, State, Trace},
    units::sum_all,
};

/// What is shown for a program or a thread without a name.
const NO_NAME: &str = "(unknown)";

/// What the rows of the view stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grouping {
    /// All processes of the same name.
    Program,
    /// A process while it runs one program.
    Process,
    /// A thread.
    Thread,
    /// A file, a pipe or a connection; those without a name are one row for each kind.
    File,
    /// The bytes that went from one end to another by one interface.
    Transfer,
}

impl Grouping {
    /// All of them, in the order of [`SpanRows::groups`].
    pub const ALL: [Self; 5] = [
        Self::Program,
        Self::Process,
        Self::Thread,
        Self::File,
        Self::Transfer,
    ];

    /// The name of its rows.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Program => "programs",
            Self::Process => "processes",
            Self::Thread => "threads",
            Self::File => "files",
            Self::Transfer => "transfers",
        }
    }

    /// Whether its rows come to an end, and are in every span until then.
    pub const fn has_end(self) -> bool {
        matches!(self, Self::Process | Self::Thread)
    }

    /// Whether its rows are sorted by their bytes at first, and not by their calls.
    pub const fn has_bytes_first(self) -> bool {
        matches!(self, Self::File | Self::Transfer)
    }

    /// Whether the times of single calls are known, for percentiles.
    pub const fn has_percentiles(self) -> bool {
        !matches!(self, Self::File | Self::Transfer)
    }
}

/// Identifies a row from span to span.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LiveKey {
    /// What is shown: what has the same name is one row.
    pub name: String,
    /// When it began, if another one may have the same name later: `CLOCK_MONOTONIC`, in ns.
    pub started_ns: Option<u64>,
}

impl LiveKey {
    /// The key of a row that never comes to an end.
    pub fn named(name: String) -> Self {
        let started_ns = None;
        Self { name, started_ns }
    }
}

/// What a row did in a span.
#[derive(Debug, Clone, Default)]
pub struct SpanRow {
    /// Its figures.
    pub figures: SpanFigures,
    /// The same by call.
    pub calls: BTreeMap<Cow<'static, str>, SpanFigures>,
    /// The bytes of its transfers, by the interface that moved them.
    pub moved: BTreeMap<Api, u64>,
    /// Whether it ended.
    pub has_ended: bool,
}

impl SpanRow {
    fn from_thread(thread: &trace::Thread) -> Self {
        let mut this = Self {
            has_ended: thread.ended_ns.is_some(),
            ..Self::default()
        };
        for row in thread.rows.iter().filter(|row| row.calls > 0) {
            this.figures.add_row(row);
            this.calls(row.call.name.clone()).add_row(row);
        }
        // Operations are not calls and have no times, but they move bytes.
        for row in thread.ring_rows.iter().filter(|row| row.calls > 0) {
            let bytes = row.bytes;
            this.figures.sums += LiveFigures {
                bytes,
                ..LiveFigures::NONE
            };
            this.calls(row.call.name.clone()).add_row(row);
        }
        if let Some(others) = thread.other_calls.filter(|others| others.calls > 0) {
            let others = SpanFigures::summed(others.sums.into());
            this.figures.merge(&others);
            this.calls("other calls").merge(&others);
        }
        this
    }

    fn calls(&mut self, name: impl Into<Cow<'static, str>>) -> &mut SpanFigures {
        self.calls.entry(name.into()).or_default()
    }

    /// Adds what another row did.
    fn merge(&mut self, more: &Self) {
        self.figures.merge(&more.figures);
        for (name, figures) in &more.calls {
            self.calls(name.clone()).merge(figures);
        }
        for (&api, &bytes) in &more.moved {
            self.add_moved(api, bytes);
        }
    }

    fn add_moved(&mut self, api: Api, bytes: u64) {
        let sum = self.moved.entry(api).or_default();
        *sum = sum.saturating_add(bytes);
    }
}

/// Everything that happened in a span.
#[derive(Debug, Default)]
pub struct SpanRows {
    /// The rows, in the order of [`Grouping::ALL`].
    pub groups: [BTreeMap<LiveKey, SpanRow>; Grouping::ALL.len()],
    /// The sum over all processes.
    pub whole: SpanFigures,
    /// How many processes had not ended.
    pub running: usize,
    /// Whether every count is exact.
    pub is_exact: bool,
}

impl SpanRows {
    /// Sums up the trace of a span.
    pub fn new(trace: &Trace) -> Self {
        let report = LiveReport::from_trace(trace);
        let is_running = |process: &&trace::Process| process.state == State::Running;
        let mut this = Self {
            running: trace.processes.iter().filter(is_running).count(),
            is_exact: report.is_exact,
            ..Self::default()
        };
        let processes = trace.processes.iter();
        for (process, places) in processes.zip(&report.transfers_of_processes) {
            let transfers = places.iter().map(|&place| &report.transfers[place]);
            this.add_process(process, transfers);
        }
        for merged in &trace.merged {
            this.add_merged(&merged.sums);
        }
        for file in &report.files {
            this.add_file(file);
        }
        for transfer in &report.transfers {
            this.add_transfer(transfer);
        }
        this
    }

    fn row(&mut self, grouping: Grouping, key: LiveKey) -> &mut SpanRow {
        self.groups[grouping as usize].entry(key).or_default()
    }

    fn add_process<'a>(
        &mut self,
        process: &trace::Process,
        transfers: impl Iterator<Item = &'a Transfer>,
    ) {
        let name = escape(process.name().unwrap_or(NO_NAME));
        let mut whole = SpanRow::default();
        for thread in &process.threads {
            let row = SpanRow::from_thread(thread);
            whole.merge(&row);
            let thread_name = thread.comm.as_deref().map_or(name.clone(), escape);
            let key = LiveKey {
                name: format!("{thread_name} ({})", thread.tid),
                started_ns: thread.started_ns,
            };
            let of_thread = self.row(Grouping::Thread, key);
            of_thread.merge(&row);
            // It may have a part for each program that its process ran.
            of_thread.has_ended = row.has_ended;
        }
        for transfer in transfers {
            whole.add_moved(transfer.api, transfer.bytes.unwrap_or(0));
        }
        whole.has_ended = process.state == State::Exited;
        self.whole.merge(&whole.figures);
        self.row(Grouping::Program, LiveKey::named(name.clone()))
            .merge(&whole);
        let key = LiveKey {
            name: format!("{name} ({})", process.pid),
            started_ns: process.threads.first().and_then(|first| first.started_ns),
        };
        let row = self.row(Grouping::Process, key);
        row.merge(&whole);
        row.has_ended = whole.has_ended;
    }

    /// Adds processes that ended within the span, of which only sums were kept.
    fn add_merged(&mut self, sums: &trace::Process) {
        let mut row = SpanRow::default();
        for thread in &sums.threads {
            row.merge(&SpanRow::from_thread(thread));
        }
        let program = escape(sums.name().unwrap_or(NO_NAME));
        let several = LiveKey::named(format!("{program} (several)"));
        self.whole.merge(&row.figures);
        self.row(Grouping::Program, LiveKey::named(program))
            .merge(&row);
        self.row(Grouping::Thread, several.clone()).merge(&row);
        self.row(Grouping::Process, several).merge(&row);
    }

    fn add_file(&mut self, file: &FileTotals) {
        let row = self.row(Grouping::File, LiveKey::named(end_label(&file.file)));
        row.figures.sums += LiveFigures {
            calls: Some(file.reads + file.writes + file.other_calls + file.errors),
            errors: Some(file.errors),
            bytes: bytes_of_file(file),
            total_ns: file.total_ns,
        };
        for (name, calls, bytes) in [
            ("reads", file.reads, file.bytes_read),
            ("writes", file.writes, file.bytes_written),
            ("other calls", file.other_calls, Some(0)),
            ("failed calls", file.errors, Some(0)),
        ] {
            if calls > 0 {
                row.calls(name).sums += LiveFigures {
                    calls: Some(calls),
                    errors: None,
                    bytes,
                    total_ns: None,
                };
            }
        }
    }

    fn add_transfer(&mut self, transfer: &Transfer) {
        let ends = [&transfer.from, &transfer.to].map(end_label);
        // Every byte that went through a process is in a transfer within that process.
        if !transfer.crosses_processes() {
            for (index, end) in ends.iter().enumerate() {
                if index == 0 || ends[0] != ends[1] {
                    self.row(Grouping::File, LiveKey::named(end.clone()))
                        .add_moved(transfer.api, transfer.bytes.unwrap_or(0));
                }
            }
        }
        if !transfer.part_of.is_empty() {
            return;
        }
        let [from, to] = ends;
        let name = format!("{}: {from} -> {to}", transfer.api.name());
        let row = self.row(Grouping::Transfer, LiveKey::named(name));
        let failed = transfer.errors.values().chain(transfer.retries.values());
        row.figures.sums += LiveFigures {
            calls: transfer.calls,
            errors: Some(failed.sum()),
            bytes: transfer.bytes,
            total_ns: transfer.total_ns,
        };
        row.add_moved(transfer.api, transfer.bytes.unwrap_or(0));
        for (call, &calls) in &transfer.calls_by_syscall {
            row.calls(call.clone()).sums += LiveFigures {
                calls: Some(calls),
                errors: None,
                bytes: None,
                total_ns: None,
            };
        }
    }
}

/// The bytes that calls moved, of those kinds of calls that were counted.
fn bytes_of_file(file: &FileTotals) -> Option<u64> {
    let sides = [
        file.counted_reads().map(|_| file.bytes_read),
        file.counted_writes().map(|_| file.bytes_written),
    ];
    let counted = sides.into_iter().flatten();
    counted.reduce(|sum, bytes| sum_all([sum, bytes])).flatten()
}
