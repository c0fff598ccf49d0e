//! The report as CSV (RFC 4180): a line for each call of each process, times in nanoseconds, sizes
//! in bytes. Unknown figures are empty. Control characters of names are escaped. Operations of io_uring, which are not system calls, are
//! named `io_uring:read`. With `--by thread` there is a line for each call of each thread; with
//! `--by total`, for each call of all processes together.

use super::text;
use crate::report::{Process, Report, Syscall, Thread};

/// The process or thread that made the calls.
#[derive(Clone, Copy, Default)]
struct Caller<'a> {
    pid: Option<u32>,
    tid: Option<u32>,
    comm: Option<&'a str>,
}

/// A call and who made it.
struct CsvRow<'a> {
    caller: Caller<'a>,
    call: &'a Syscall,
    exact: bool,
}

/// The title of a column, and its cells.
type CsvColumn = (&'static str, fn(&CsvRow<'_>) -> String);

/// The columns.
const COLUMNS: [CsvColumn; 19] = [
    ("pid", |row| figure(row.caller.pid)),
    ("tid", |row| figure(row.caller.tid)),
    ("comm", |row| name(row.caller.comm.unwrap_or_default())),
    ("syscall", |row| name(&row.call.name)),
    ("abi", |row| name(&row.call.abi)),
    ("calls", |row| row.call.calls.to_string()),
    ("errors", |row| row.call.errors.to_string()),
    ("errnos", |row| name(&errnos(row.call))),
    ("unfinished", |row| row.call.unfinished.to_string()),
    ("bytes", |row| figure(row.call.bytes)),
    ("requested_bytes", |row| figure(row.call.requested_bytes)),
    ("total_ns", |row| figure(row.call.total_ns)),
    ("min_ns", |row| figure(row.call.min_ns)),
    ("mean_ns", |row| figure(row.call.mean_ns)),
    ("p50_ns", |row| figure(row.call.p50_ns)),
    ("p90_ns", |row| figure(row.call.p90_ns)),
    ("p99_ns", |row| figure(row.call.p99_ns)),
    ("max_ns", |row| figure(row.call.max_ns)),
    ("exact", |row| row.exact.to_string()),
];

/// A name, which a program or a saved report has chosen. Without the apostrophe, a spreadsheet would
/// run some as formulas.
fn name(name: &str) -> String {
    let guard = if name.starts_with(['=', '+', '-', '@']) {
        "'"
    } else {
        ""
    };
    format!("{guard}{}", text::escape(name))
}

/// A figure; nothing for an unknown one.
fn figure(figure: Option<impl ToString>) -> String {
    figure.map_or_else(String::new, |figure| figure.to_string())
}

/// `EAGAIN=5 EBADF=3`.
fn errnos(call: &Syscall) -> String {
    let errnos = call.errnos.iter();
    let errnos = errnos.map(|(name, count)| format!("{name}={count}"));
    errnos.collect::<Vec<_>>().join(" ")
}

/// The whole file.
pub(super) fn render(report: &Report) -> String {
    let mut writer = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(Vec::new());
    let exact = report.exact;
    let rows = rows(report).into_iter();
    let cells = rows.map(|(caller, call)| {
        let row = CsvRow {
            caller,
            call,
            exact,
        };
        COLUMNS.map(|(_, cell)| cell(&row))
    });
    let titles = COLUMNS.map(|(title, _)| title.to_owned());
    for line in std::iter::once(titles).chain(cells) {
        writer.write_record(line).expect("memory takes it");
    }
    let bytes = writer.into_inner().expect("memory takes it");
    String::from_utf8(bytes).expect("made of text")
}

/// Every call of every process; of a report without its processes, those of the total.
fn rows(report: &Report) -> Vec<(Caller<'_>, &Syscall)> {
    if report.processes.is_empty() {
        let nobody = Caller::default();
        return report
            .totals
            .syscalls
            .iter()
            .map(|call| (nobody, call))
            .collect();
    }
    report.processes.iter().flat_map(rows_of_process).collect()
}

/// The calls of a process, or those of its threads: never both, so that a column can be summed.
/// Operations of io_uring are not known by thread.
fn rows_of_process(process: &Process) -> Vec<(Caller<'_>, &Syscall)> {
    let caller = Caller {
        pid: Some(process.pid),
        tid: None,
        comm: process.comm.as_deref(),
    };
    let of_thread = |thread: &Thread| Caller {
        tid: Some(thread.tid),
        ..caller
    };
    let mut rows = Vec::new();
    for thread in &process.by_thread {
        rows.extend(thread.syscalls.iter().map(|call| (of_thread(thread), call)));
    }
    if process.by_thread.is_empty() {
        rows.extend(process.syscalls.iter().map(|call| (caller, call)));
    }
    rows.extend(process.io_uring.iter().map(|call| (caller, call)));
    rows
}
