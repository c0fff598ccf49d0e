//! The report as CSV (RFC 4180): a line for each call of each process, times in nanoseconds, sizes
//! in bytes. Unknown figures are empty. Operations of io_uring, which are not system calls, are
//! named `io_uring:read`. With `--by thread` there is a line for each call of each thread; with
//! `--by total`, for each call of all processes together.

use crate::report::{Process, Report, Syscall, Thread};

/// The columns.
const TITLES: [&str; 19] = [
    "pid",
    "tid",
    "comm",
    "syscall",
    "abi",
    "calls",
    "errors",
    "errnos",
    "unfinished",
    "bytes",
    "requested_bytes",
    "total_ns",
    "min_ns",
    "mean_ns",
    "p50_ns",
    "p90_ns",
    "p99_ns",
    "max_ns",
    "exact",
];

/// The process or thread that made the calls.
#[derive(Clone, Copy, Default)]
struct Caller<'a> {
    pid: Option<u32>,
    tid: Option<u32>,
    comm: Option<&'a str>,
}

/// The whole file.
pub(super) fn render(report: &Report) -> String {
    let mut writer = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(Vec::new());
    let cells = rows(report)
        .into_iter()
        .map(|(caller, call)| cells(caller, call, report.exact));
    let titles = TITLES.map(str::to_owned);
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

fn cells(caller: Caller<'_>, call: &Syscall, exact: bool) -> [String; TITLES.len()] {
    let id = |id: Option<u32>| id.map_or_else(String::new, |id| id.to_string());
    let figure = |figure: Option<u64>| figure.map_or_else(String::new, |figure| figure.to_string());
    let errnos: Vec<String> = call
        .errnos
        .iter()
        .map(|(name, count)| format!("{name}={count}"))
        .collect();
    [
        id(caller.pid),
        id(caller.tid),
        caller.comm.unwrap_or_default().to_owned(),
        call.name.clone(),
        call.abi.clone(),
        call.calls.to_string(),
        call.errors.to_string(),
        errnos.join(" "),
        call.unfinished.to_string(),
        figure(call.bytes),
        figure(call.requested_bytes),
        figure(call.total_ns),
        figure(call.min_ns),
        figure(call.mean_ns),
        figure(call.p50_ns),
        figure(call.p90_ns),
        figure(call.p99_ns),
        figure(call.max_ns),
        exact.to_string(),
    ]
}
