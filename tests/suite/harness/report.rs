//! What a report says about a run: its processes, the rows of their calls, their transfers.

use std::{collections::BTreeMap, env::consts::ARCH};

use serde::Deserialize;
use serde_json::Value;
use zc_tests::{Figure, Figures};
use zctrace::report::{End, Process, Report, Syscall, Thread, Transfer};

use super::Finished;

/// A traced run: the report, and what the program printed.
pub struct Run {
    /// The report.
    pub report: Report,
    /// How the program ended, and its output.
    pub finished: Finished,
}

/// What a workload prints about itself: one line of JSON.
#[derive(Debug, Deserialize)]
pub struct Stated {
    /// Its deliberate calls.
    pub calls: Figures,
    /// The thread that made these calls and no others.
    pub thread: Option<String>,
    /// The process that made these calls and no others.
    pub pid: Option<u32>,
    /// Other facts.
    #[serde(flatten)]
    pub facts: Value,
}

impl Run {
    /// What the workload stated.
    #[track_caller]
    pub fn stated(&self) -> Stated {
        let text = self.finished.successful();
        serde_json::from_str(text)
            .unwrap_or_else(|error| panic!("not what a workload states: {error}: {text}"))
    }

    /// Makes sure that the report claims to be exact.
    #[track_caller]
    pub fn assert_exact(&self) {
        // Calls without their files are still counted, and so are those from forgotten buffers.
        let harmless = [
            "calls_without_files",
            "forgotten_buffers",
            "unknown_origins",
            "unseen_mappings",
        ];
        let losses = &self.report.losses;
        let is_lossless = losses.keys().all(|loss| harmless.contains(&loss.as_str()));
        assert!(
            self.report.exact && is_lossless,
            "it should be exact: {losses:?}"
        );
    }

    /// Makes sure that the report has a note with these words.
    #[track_caller]
    pub fn assert_noted(&self, words: &str) {
        let notes = &self.report.notes;
        let is_noted = notes.iter().any(|note| note.contains(words));
        assert!(is_noted, "no {words:?} in {notes:?}");
    }

    /// The rows of the only thread with this name.
    #[track_caller]
    pub fn thread(&self, name: &str) -> ReportRows<'_> {
        let mut threads: Vec<&Thread> = self.threads().collect();
        let known: Vec<_> = threads.iter().map(|thread| thread.comm.clone()).collect();
        threads.retain(|thread| thread.comm.as_deref() == Some(name));
        assert_eq!(threads.len(), 1, "threads called {name}, of {known:?}");
        ReportRows::new(format!("thread {name}"), &threads[0].syscalls)
    }

    /// The rows of the thread that the workload names: it makes only the calls that the workload
    /// states.
    #[track_caller]
    pub fn own_thread(&self) -> ReportRows<'_> {
        let name = self.stated().thread.expect("the workload names its thread");
        self.thread(&name)
    }

    /// The rows of the process that the workload names: it makes only the calls that the workload
    /// states.
    #[track_caller]
    pub fn own_process(&self) -> ReportRows<'_> {
        ReportRows::of_process(
            self.process(self.stated().pid.expect("the workload names its process")),
        )
    }

    /// All threads, if the report has them.
    pub fn threads(&self) -> impl Iterator<Item = &Thread> {
        let processes = self.report.processes.iter();
        processes.flat_map(|process| &process.by_thread)
    }

    /// The only process with this id, in its last program.
    #[track_caller]
    pub fn process(&self, pid: u32) -> &Process {
        self.only_process(|process| process.pid == pid)
    }

    /// The only process with this name in its last program.
    #[track_caller]
    pub fn process_named(&self, comm: &str) -> &Process {
        self.only_process(|process| process.comm.as_deref() == Some(comm))
    }

    #[track_caller]
    fn only_process(&self, is_wanted: impl Fn(&Process) -> bool) -> &Process {
        let mut processes = last_programs(&self.report);
        let names = processes.iter().map(|one| (one.pid, one.comm.clone()));
        let names: Vec<_> = names.collect();
        processes.retain(|process| is_wanted(process));
        assert_eq!(processes.len(), 1, "processes, of {names:?}");
        processes[0]
    }

    /// The launched process.
    pub fn root(&self) -> &Process {
        self.report.processes.first().expect("there is a process")
    }

    /// The launched process's descendants, each in its last program.
    pub fn descendants(&self) -> Vec<&Process> {
        let mut processes = last_programs(&self.report);
        processes.retain(|process| process.pid != self.root().pid);
        processes
    }

    /// The sums over all processes.
    pub fn totals(&self) -> ReportRows<'_> {
        ReportRows::new("all processes", &self.report.totals.syscalls)
    }
}

/// The processes, each in its last program.
pub fn last_programs(report: &Report) -> Vec<&Process> {
    let processes = &report.processes;
    let is_last = |(index, process): &(usize, &Process)| {
        let mut later = processes[index + 1..].iter();
        later.all(|later| later.pid != process.pid || later.earlier_programs.is_empty())
    };
    let last = processes.iter().enumerate().filter(is_last);
    last.map(|(_, process)| process).collect()
}

/// The rows of a process, a thread, or the totals.
pub struct ReportRows<'a> {
    whose: String,
    rows: &'a [Syscall],
}

/// The values of figures by their names, such as `write.bytes`; `None` if it is unknown.
type Values = BTreeMap<String, Option<u64>>;

impl<'a> ReportRows<'a> {
    pub fn new(whose: impl Into<String>, rows: &'a [Syscall]) -> Self {
        let whose = whose.into();
        Self { whose, rows }
    }

    /// A process's rows.
    pub fn of_process(process: &'a Process) -> Self {
        let (name, pid) = (process.comm.as_deref().unwrap_or("nameless"), process.pid);
        Self::new(format!("process {name} ({pid})"), &process.syscalls)
    }

    /// The row of a call through the machine's own ABI; all zero if there is none.
    pub fn row(&self, name: &str) -> Figure {
        self.figures().remove(name).unwrap_or_default()
    }

    /// All rows by name. A call through another ABI is named `write@i386`.
    pub fn figures(&self) -> Figures {
        let rows = self.rows.iter();
        let figures: Figures = rows.map(|row| (name_with_abi(row), figure(row))).collect();
        let (rows, whose) = (self.rows.len(), &self.whose);
        assert_eq!(figures.len(), rows, "{whose}: no call has two rows");
        figures
    }

    /// Makes sure that there are exactly these rows, with these figures.
    #[track_caller]
    pub fn assert_equal(&self, expected: &Figures) {
        assert_eq!(values(&self.figures()), values(expected), "{}", self.whose);
    }

    /// Makes sure that these rows are there, with these figures. Other rows are ignored.
    #[track_caller]
    pub fn assert_contain(&self, expected: &Figures) {
        let mut found = self.figures();
        found.retain(|name, _| expected.contains_key(name));
        assert_eq!(values(&found), values(expected), "{}", self.whose);
    }

    /// Makes sure that no figure is larger than expected.
    #[track_caller]
    pub fn assert_at_most(&self, expected: &Figures) {
        let (mut excesses, expected) = (values(&self.figures()), values(expected));
        excesses.retain(|name, found| {
            let most = expected.get(name).copied().unwrap_or(Some(0));
            found.zip(most).is_some_and(|(found, most)| found > most)
        });
        let whose = &self.whose;
        assert!(excesses.is_empty(), "{whose}: {excesses:?} > {expected:?}");
    }
}

fn name_with_abi(row: &Syscall) -> String {
    if row.abi == ARCH {
        row.name.clone()
    } else {
        format!("{}@{}", row.name, row.abi)
    }
}

/// The figures of a row, without its times.
fn figure(row: &Syscall) -> Figure {
    Figure {
        calls: row.calls,
        errors: row.errors,
        errnos: row.errnos.clone(),
        unfinished: row.unfinished,
        bytes: row.bytes,
        requested_bytes: row.requested_bytes,
    }
}

fn values(figures: &Figures) -> Values {
    let mut values = Values::new();
    for (name, figure) in figures {
        let errnos = figure.errnos.iter().filter(|(_, calls)| **calls > 0);
        let errnos = errnos.map(|(errno, calls)| (errno.as_str(), Some(*calls)));
        let others = [
            ("calls", Some(figure.calls)),
            ("errors", Some(figure.errors)),
            ("unfinished", Some(figure.unfinished)),
            ("bytes", figure.bytes),
            ("requested_bytes", figure.requested_bytes),
        ];
        let all = others.into_iter().chain(errnos);
        values.extend(all.map(|(value, number)| (format!("{name}.{value}"), number)));
    }
    values
}

/// Finds transfers by the names of their ends.
pub trait Transfers {
    /// The only transfer within a process between these ends. An end is the last part of a path, or
    /// a kind (`tcp`, `pipe`).
    fn transfer(&self, from: &str, to: &str) -> &Transfer;

    /// The only transfer that crosses processes between these ends.
    fn crossing(&self, from: &str, to: &str) -> &Transfer;
}

impl Transfers for Report {
    #[track_caller]
    fn transfer(&self, from: &str, to: &str) -> &Transfer {
        only(self, false, from, to)
    }

    #[track_caller]
    fn crossing(&self, from: &str, to: &str) -> &Transfer {
        only(self, true, from, to)
    }
}

#[track_caller]
fn only<'a>(report: &'a Report, is_crossing: bool, from: &str, to: &str) -> &'a Transfer {
    let mut all: Vec<&Transfer> = report.transfers.iter().collect();
    all.retain(|transfer| transfer.crosses_processes() == is_crossing);
    let is_it = |transfer: &&&Transfer| is(&transfer.from, from) && is(&transfer.to, to);
    let found: Vec<_> = all.iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "transfers {from} -> {to}, of {all:#?}");
    found[0]
}

/// Whether an end has this file name or kind.
fn is(end: &End, wanted: &str) -> bool {
    let name = end.path.as_deref().and_then(|path| path.rsplit('/').next());
    end.kind.as_deref() == Some(wanted) || name == Some(wanted)
}
