//! The report as CSV (RFC 4180): a line for each call of each process, times in nanoseconds, sizes in bytes. What is unknown is empty.
//! What io_uring did is named `io_uring:read`; such are no calls. With calls by thread, a line for each call of each thread; without processes, of all together.

use serde::Serialize;

use crate::report::{Process, Report, Syscall, Thread};

/// A line, with the names of the columns.
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

/// Whose calls they are.
#[derive(Debug, Clone, Copy, Default)]
struct Whose<'a> {
    pid: Option<u32>,
    tid: Option<u32>,
    comm: Option<&'a str>,
}

/// The whole file.
pub(super) fn render(report: &Report) -> String {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    let mut lines: Vec<Line> = rows(report).into_iter().map(|(whose, syscall)| Line::of(whose, syscall, report.exact)).collect();
    let is_empty = lines.is_empty();
    if is_empty {
        // The names of the columns come with the first line.
        lines.push(Line::default());
    }
    for line in lines {
        writer.serialize(line).expect("a line is flat, and memory takes it");
    }
    let bytes = writer.into_inner().expect("memory takes it");
    let text = String::from_utf8(bytes).expect("made of text");
    if is_empty { text.split_inclusive('\n').take(1).collect() } else { text }
}

fn rows(report: &Report) -> Vec<(Whose<'_>, &Syscall)> {
    if report.processes.is_empty() {
        return report.totals.syscalls.iter().map(|syscall| (Whose::default(), syscall)).collect();
    }
    report.processes.iter().flat_map(of_process).collect()
}

/// Its calls, or those of its threads: never both, so that a column adds up. And what io_uring did for it, whichever thread asked.
fn of_process(process: &Process) -> Vec<(Whose<'_>, &Syscall)> {
    let whose = Whose { pid: Some(process.pid), tid: None, comm: process.comm.as_deref() };
    let of_thread = |thread: &Thread| Whose { tid: Some(thread.tid), ..whose };
    let of_threads =
        process.by_thread.iter().flat_map(|thread| thread.syscalls.iter().map(move |syscall| (of_thread(thread), syscall)));
    let own = if process.by_thread.is_empty() { process.syscalls.as_slice() } else { &[] };
    of_threads.chain(own.iter().chain(&process.io_uring).map(|syscall| (whose, syscall))).collect()
}

impl<'a> Line<'a> {
    fn of(whose: Whose<'a>, syscall: &'a Syscall, exact: bool) -> Self {
        let errnos: Vec<String> = syscall.errnos.iter().map(|(name, count)| format!("{name}={count}")).collect();
        Self {
            pid: whose.pid,
            tid: whose.tid,
            comm: whose.comm,
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
