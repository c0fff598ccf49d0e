//! The report as CSV (RFC 4180): a line for each call of each process, times in nanoseconds, sizes
//! in bytes. Unknown figures are empty. Operations of io_uring, which are not system calls, are
//! named `io_uring:read`. With `--by thread` there is a line for each call of each thread; with
//! `--by total`, for each call of all processes together.

use serde::Serialize;

use crate::report::{Process, Report, Syscall, Thread};

/// A line. The fields are the columns.
#[derive(Debug, Default, Serialize)]
struct Line<'a> {
    pid: Option<u32>,
    tid: Option<u32>,
    comm: Option<&'a str>,
    syscall: &'a str,
    abi: &'a str,
    calls: u64,
    errors: u64,
    errnos: String,
    unfinished: u64,
    bytes: Option<u64>,
    requested_bytes: Option<u64>,
    total_ns: Option<u64>,
    min_ns: Option<u64>,
    mean_ns: Option<u64>,
    p50_ns: Option<u64>,
    p90_ns: Option<u64>,
    p99_ns: Option<u64>,
    max_ns: Option<u64>,
    exact: bool,
}

/// The process or thread that made the calls.
#[derive(Debug, Clone, Copy, Default)]
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
    let mut lines: Vec<Line> = rows(report)
        .into_iter()
        .map(|(caller, syscall)| Line::of(caller, syscall, report.exact))
        .collect();
    let is_empty = lines.is_empty();
    if is_empty {
        // The writer writes the header with the first line, so there must be one.
        lines.push(Line::default());
    }
    for line in lines {
        writer
            .serialize(line)
            .expect("a line is flat, and memory takes it");
    }
    let bytes = writer.into_inner().expect("memory takes it");
    let text = String::from_utf8(bytes).expect("made of text");
    if is_empty {
        text.split_inclusive('\n').take(1).collect()
    } else {
        text
    }
}

fn rows(report: &Report) -> Vec<(Caller<'_>, &Syscall)> {
    if report.processes.is_empty() {
        return report
            .totals
            .syscalls
            .iter()
            .map(|syscall| (Caller::default(), syscall))
            .collect();
    }
    report.processes.iter().flat_map(of_process).collect()
}

/// The calls of a process, or those of its threads: never both, so that a column can be summed.
/// Operations of io_uring are not known by thread.
fn of_process(process: &Process) -> Vec<(Caller<'_>, &Syscall)> {
    let caller = Caller {
        pid: Some(process.pid),
        tid: None,
        comm: process.comm.as_deref(),
    };
    let of_thread = |thread: &Thread| Caller {
        tid: Some(thread.tid),
        ..caller
    };
    let of_threads = process.by_thread.iter().flat_map(|thread| {
        thread
            .syscalls
            .iter()
            .map(move |syscall| (of_thread(thread), syscall))
    });
    let own = if process.by_thread.is_empty() {
        process.syscalls.as_slice()
    } else {
        &[]
    };
    of_threads
        .chain(
            own.iter()
                .chain(&process.io_uring)
                .map(|syscall| (caller, syscall)),
        )
        .collect()
}

impl<'a> Line<'a> {
    fn of(caller: Caller<'a>, syscall: &'a Syscall, exact: bool) -> Self {
        let errnos: Vec<String> = syscall
            .errnos
            .iter()
            .map(|(name, count)| format!("{name}={count}"))
            .collect();
        Self {
            pid: caller.pid,
            tid: caller.tid,
            comm: caller.comm,
            syscall: &syscall.name,
            abi: &syscall.abi,
            calls: syscall.calls,
            errors: syscall.errors,
            errnos: errnos.join(" "),
            unfinished: syscall.unfinished,
            bytes: syscall.bytes,
            requested_bytes: syscall.requested_bytes,
            total_ns: syscall.total_ns,
            min_ns: syscall.min_ns,
            mean_ns: syscall.mean_ns,
            p50_ns: syscall.p50_ns,
            p90_ns: syscall.p90_ns,
            p99_ns: syscall.p99_ns,
            max_ns: syscall.max_ns,
            exact,
        }
    }
}
