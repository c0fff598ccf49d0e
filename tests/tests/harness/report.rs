//! What a report says about a run: its processes, the rows of their calls, their transfers; and
//! rules that hold for every report.

use std::{collections::BTreeSet, env::consts::ARCH, fmt::Debug};

use serde::Deserialize;
use serde_json::Value;
use zc_tests::{Figure, Figures};
use zctrace::report::{Api, End, Process, Report, Syscall, Thread, Transfer};

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
        let harmless = ["calls_without_files", "forgotten_buffers"];
        let losses = &self.report.losses;
        let is_lossless = losses.keys().all(|loss| harmless.contains(&loss.as_str()));
        assert!(
            self.report.exact && is_lossless,
            "it should be exact: {losses:?}"
        );
    }

    /// The rows of the only thread with this name.
    #[track_caller]
    pub fn thread(&self, name: &str) -> Rows<'_> {
        let known: Vec<_> = self
            .threads()
            .map(|thread| thread.comm.as_deref())
            .collect();
        let threads = self
            .threads()
            .filter(|thread| thread.comm.as_deref() == Some(name));
        let threads: Vec<&Thread> = threads.collect();
        assert_eq!(threads.len(), 1, "threads called {name}, of {known:?}");
        Rows::new(format!("thread {name}"), &threads[0].syscalls)
    }

    /// The rows of the thread that the workload names: it makes only the calls that the workload
    /// states.
    #[track_caller]
    pub fn own_thread(&self) -> Rows<'_> {
        let name = self.stated().thread.expect("the workload names its thread");
        self.thread(&name)
    }

    /// The rows of the process that the workload names: it makes only the calls that the workload
    /// states.
    #[track_caller]
    pub fn own_process(&self) -> Rows<'_> {
        Rows::of_process(self.process(self.stated().pid.expect("the workload names its process")))
    }

    /// All threads, if the report has them.
    pub fn threads(&self) -> impl Iterator<Item = &Thread> {
        let processes = self.report.processes.iter();
        processes.flat_map(|process| &process.by_thread)
    }

    /// The only process with this id, in its last program.
    #[track_caller]
    pub fn process(&self, pid: u32) -> &Process {
        self.only(|process| process.pid == pid, &format!("with id {pid}"))
    }

    /// The only process with this name in its last program.
    #[track_caller]
    pub fn process_named(&self, comm: &str) -> &Process {
        self.only(
            |process| process.comm.as_deref() == Some(comm),
            &format!("called {comm}"),
        )
    }

    #[track_caller]
    fn only(&self, wanted: impl Fn(&Process) -> bool, how: &str) -> &Process {
        let processes = last_programs(&self.report).into_iter();
        let found: Vec<&Process> = processes
            .clone()
            .filter(|process| wanted(process))
            .collect();
        let all: Vec<_> = processes
            .map(|one| (one.pid, one.comm.as_deref()))
            .collect();
        assert_eq!(found.len(), 1, "processes {how}, of {all:?}");
        found[0]
    }

    /// The launched process.
    pub fn root(&self) -> &Process {
        self.report.processes.first().expect("there is a process")
    }

    /// The transfers within the launched process.
    pub fn root_transfers(&self) -> Vec<&Transfer> {
        self.report.transfers_of(self.root()).collect()
    }

    /// The launched process's descendants, each in its last program.
    pub fn descendants(&self) -> Vec<&Process> {
        let mut processes = last_programs(&self.report);
        processes.retain(|process| process.pid != self.root().pid);
        processes
    }

    /// The sums over all processes.
    pub fn totals(&self) -> Rows<'_> {
        Rows::new("all processes", &self.report.totals.syscalls)
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
pub struct Rows<'a> {
    whose: String,
    rows: &'a [Syscall],
}

impl<'a> Rows<'a> {
    pub fn new(whose: impl Into<String>, rows: &'a [Syscall]) -> Self {
        Self {
            whose: whose.into(),
            rows,
        }
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
        let named = |row: &Syscall| {
            if row.abi == ARCH {
                row.name.clone()
            } else {
                format!("{}@{}", row.name, row.abi)
            }
        };
        let rows = self.rows.iter();
        let figures: Figures = rows.map(|row| (named(row), figure(row))).collect();
        let whose = &self.whose;
        assert_eq!(
            figures.len(),
            self.rows.len(),
            "{whose}: no call has two rows"
        );
        figures
    }

    /// Makes sure that there are exactly these rows, with these figures.
    #[track_caller]
    pub fn assert_equal(&self, expected: &Figures) {
        self.assert_none(&self.differences(expected));
    }

    #[track_caller]
    fn assert_none(&self, wrong: &[String]) {
        assert!(
            wrong.is_empty(),
            "{}:\n  {}",
            self.whose,
            wrong.join("\n  ")
        );
    }

    /// Makes sure that these rows are there, with these figures. Other rows are ignored.
    #[track_caller]
    pub fn assert_contain(&self, expected: &Figures) {
        let differences = (expected.iter())
            .flat_map(|(name, expected)| compare(name, expected, &self.row(name), not_equal));
        self.assert_none(&differences.collect::<Vec<_>>());
    }

    /// Makes sure that no figure is larger than expected.
    #[track_caller]
    pub fn assert_at_most(&self, expected: &Figures) {
        let none = Figure {
            bytes: Some(0),
            requested_bytes: Some(0),
            ..Figure::default()
        };
        let mut excesses = Vec::new();
        for (name, found) in &self.figures() {
            let expected = expected.get(name).unwrap_or(&none);
            excesses.extend(compare(name, expected, found, more));
        }
        self.assert_none(&excesses);
    }

    /// The differences, one on each line.
    pub fn differences(&self, expected: &Figures) -> Vec<String> {
        let found = self.figures();
        let names: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
        let difference = |name: &String| match (expected.get(name), found.get(name)) {
            (Some(expected), Some(found)) => compare(name, expected, found, not_equal),
            (Some(expected), None) => vec![format!("{name}: missing; expected {expected:?}")],
            (None, found) => vec![format!("{name}: not expected; found {found:?}")],
        };
        names.into_iter().flat_map(difference).collect()
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

/// One of the values of a figure.
type OneValue = fn(&Figure) -> Option<u64>;

/// Whether a found figure is wrong, given the expected one and the found one.
type IsWrong = fn(Option<u64>, Option<u64>) -> bool;

fn not_equal(expected: Option<u64>, found: Option<u64>) -> bool {
    expected != found
}

fn more(expected: Option<u64>, found: Option<u64>) -> bool {
    found
        .zip(expected)
        .is_some_and(|(found, expected)| found > expected)
}

fn compare(name: &str, expected: &Figure, found: &Figure, is_wrong: IsWrong) -> Vec<String> {
    let wrong = |figure: &str, expected: &dyn Debug, found: &dyn Debug| {
        format!("{name}.{figure}: expected {expected:?}, found {found:?}")
    };
    let mut lines = Vec::new();
    let figures: [(&str, OneValue); 5] = [
        ("calls", |figure| Some(figure.calls)),
        ("errors", |figure| Some(figure.errors)),
        ("unfinished", |figure| Some(figure.unfinished)),
        ("bytes", |figure| figure.bytes),
        ("requested_bytes", |figure| figure.requested_bytes),
    ];
    for (figure, value) in figures {
        let (expected, found) = (value(expected), value(found));
        if is_wrong(expected, found) {
            lines.push(wrong(figure, &expected, &found));
        }
    }
    let errnos: BTreeSet<&String> = expected.errnos.keys().chain(found.errnos.keys()).collect();
    let count = |figure: &Figure, errno| Some(figure.errnos.get(errno).copied().unwrap_or(0));
    let differs = |errno| is_wrong(count(expected, errno), count(found, errno));
    if errnos.into_iter().any(differs) {
        lines.push(wrong("errnos", &expected.errnos, &found.errnos));
    }
    lines
}

/// Finds transfers by the names of their ends.
pub trait Transfers {
    /// The only transfer within a process between these ends. An end is the last part of a path, or
    /// a kind (`tcp`, `pipe`).
    fn transfer(&self, from: &str, to: &str) -> &Transfer;

    /// The only transfer that crosses processes between these ends.
    fn crossing(&self, from: &str, to: &str) -> &Transfer;

    /// All interfaces that moved bytes to this end, in any process, each once.
    fn apis_to(&self, to: &str) -> Vec<Api>;
}

impl Transfers for Report {
    #[track_caller]
    fn transfer(&self, from: &str, to: &str) -> &Transfer {
        let all = self
            .transfers
            .iter()
            .filter(|transfer| !transfer.crosses_processes());
        only(&all.collect::<Vec<_>>(), from, to)
    }

    #[track_caller]
    fn crossing(&self, from: &str, to: &str) -> &Transfer {
        let all = self
            .transfers
            .iter()
            .filter(|transfer| transfer.crosses_processes());
        only(&all.collect::<Vec<_>>(), from, to)
    }

    fn apis_to(&self, to: &str) -> Vec<Api> {
        let all = self
            .transfers
            .iter()
            .filter(|transfer| !transfer.crosses_processes());
        let to_it = all.filter(|transfer| is(&transfer.to, to));
        let mut apis: Vec<Api> = to_it.map(|transfer| transfer.api).collect();
        apis.sort_unstable();
        apis.dedup();
        apis
    }
}

#[track_caller]
fn only<'a>(all: &[&'a Transfer], from: &str, to: &str) -> &'a Transfer {
    let is_it = |transfer: &&&Transfer| is(&transfer.from, from) && is(&transfer.to, to);
    let found: Vec<_> = all.iter().filter(is_it).collect();
    let line = |one: &&Transfer| {
        let (from, to) = (name(&one.from), name(&one.to));
        format!("\n  {from} -> {to}: {}", one.verdict)
    };
    let list: String = all.iter().map(line).collect();
    assert_eq!(found.len(), 1, "transfers {from} -> {to}, of{list}");
    found[0]
}

/// Whether an end has this file name or kind.
fn is(end: &End, wanted: &str) -> bool {
    let name = end.path.as_deref().and_then(|path| path.rsplit('/').next());
    end.kind.as_deref() == Some(wanted) || name == Some(wanted)
}

fn name(end: &End) -> String {
    let [kind, path] = [&end.kind, &end.path].map(|text| text.as_deref().unwrap_or("?"));
    format!("{kind} {path}")
}

/// Calls that write bytes from memory.
const WRITING: [&str; 7] = [
    "write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg",
];

/// Panics if the bytes of a process do not add up: no byte is counted in two places, and none is
/// lost.
#[track_caller]
pub fn assert_bytes_add_up(report: &Report) {
    for process in &report.processes {
        each_destination_adds_up(process);
        transfers_bring_what_destinations_got(process, report);
        if report.exact {
            calls_wrote_what_destinations_got(process);
        }
    }
}

#[track_caller]
fn each_destination_adds_up(process: &Process) {
    for to in &process.destinations {
        assert_eq!(
            to.written_calls,
            to.transferred_calls + to.own_memory_calls,
            "{to:?}"
        );
        if let (Some(written), Some(own)) = (to.written_bytes, to.own_memory_bytes) {
            assert_eq!(written, to.transferred_bytes + own, "{to:?}");
            let changed: u64 = to.changed.iter().map(|changed| changed.bytes).sum();
            assert!(changed <= own, "{to:?}");
        }
    }
    for from in &process.sources {
        assert!(
            from.read_bytes
                .is_none_or(|read| from.kept_bytes.is_none_or(|kept| kept <= read)),
            "{from:?}"
        );
    }
}

/// Transfers to a file have no more bytes than were written to it.
#[track_caller]
fn transfers_bring_what_destinations_got(process: &Process, report: &Report) {
    for to in process.destinations.iter().filter(|to| to.file.is_some()) {
        let of_file = report
            .transfers_of(process)
            .filter(|transfer| Some(&transfer.to) == to.file.as_ref());
        let stated: u64 = of_file.filter_map(|transfer| transfer.bytes).sum();
        let is_only_one = process
            .destinations
            .iter()
            .filter(|other| other.file == to.file)
            .count()
            == 1;
        assert!(
            !is_only_one || to.written_bytes.is_none_or(|written| stated <= written),
            "{stated} stated: {to:?}, {process:?}"
        );
    }
}

/// Destinations have at least the bytes that writing calls returned; other calls may add more.
#[track_caller]
fn calls_wrote_what_destinations_got(process: &Process) {
    let calls = process
        .syscalls
        .iter()
        .filter(|call| WRITING.contains(&call.name.as_str()));
    let written: Option<u64> = calls.map(|call| call.bytes).sum();
    let got: Option<u64> = process.destinations.iter().map(|to| to.written_bytes).sum();
    if let (Some(written), Some(got)) = (written, got) {
        assert!(
            written <= got,
            "{written} bytes written, {got} at destinations: {process:?}"
        );
    }
}
