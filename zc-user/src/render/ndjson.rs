//! Reports as JSON with one object a line: each run, its processes, its programs and its calls.
//! Every line has the same keys, so that `DuckDB` and the like read a file of them as one table.
//! `null` means unknown, or that such a line has no such figure.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{head, text};
use crate::{
    counts::CallSums,
    report::{Activity, Process, Program, Report, Syscall, Usage},
};

/// A line.
#[derive(Clone, Default, Serialize)]
struct NdjsonLine<'a> {
    /// `run`, `process`, `program`, `call`; `operation` of `io_uring`, which is no call.
    line: &'static str,
    /// The number of the run, from 1.
    run: usize,
    /// The labels of the run; those that other runs have alone are null.
    labels: Option<BTreeMap<&'a str, Option<&'a str>>>,
    started_at: Option<&'a str>,
    /// With spans: the name of this one, and its part of the run, in ns since that began.
    span: Option<&'a str>,
    since_ns: Option<u64>,
    until_ns: Option<u64>,
    command: String,
    backend: &'a str,
    /// The paths that were chosen with `-P`; null: all calls are counted.
    paths: Option<String>,
    /// Whether the counts of the run are exact; if not, they are lower bounds.
    exact: bool,
    /// The name of the process, program, call or operation.
    name: Option<&'a str>,
    abi: Option<&'a str>,
    pid: Option<u32>,
    /// How many processes the run had; how often the program ran.
    processes: Option<u64>,
    threads: Option<u64>,
    exit_code: Option<i32>,
    exit_signal: Option<i32>,
    /// How many calls returned. Those of the lines `call` add up to those of `run`.
    calls: Option<u64>,
    errors: Option<u64>,
    unfinished: Option<u64>,
    bytes: Option<u64>,
    /// The time in these calls.
    total_ns: Option<u64>,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    max_ns: Option<u64>,
    wall_ns: Option<u64>,
    user_ns: Option<u64>,
    system_ns: Option<u64>,
    voluntary_switches: Option<u64>,
    involuntary_switches: Option<u64>,
    minor_faults: Option<u64>,
    major_faults: Option<u64>,
}

/// The whole file.
pub(super) fn render(reports: &[&Report]) -> String {
    let labels = reports.iter().flat_map(|report| report.labels.keys());
    let labels: BTreeSet<&str> = labels.map(String::as_str).collect();
    let mut text = String::new();
    for (run, report) in (1..).zip(reports) {
        for line in lines(run, report, &labels) {
            text += &serde_json::to_string(&line).expect("every key is a string");
            text.push('\n');
        }
    }
    text
}

fn lines<'a>(run: usize, report: &'a Report, labels: &BTreeSet<&'a str>) -> Vec<NdjsonLine<'a>> {
    let label = |name: &&'a str| (*name, report.labels.get(*name).map(String::as_str));
    let span = report.span.as_ref();
    let common = NdjsonLine {
        run,
        labels: (!labels.is_empty()).then(|| labels.iter().map(label).collect()),
        started_at: report.started_at.as_deref(),
        span: span.and_then(|span| span.name.as_deref()),
        since_ns: span.map(|span| span.since_ns),
        until_ns: span.map(|span| span.until_ns),
        command: head::traced(report),
        backend: &report.backend,
        paths: (!report.paths.is_empty()).then(|| text::command_line(&report.paths)),
        exact: report.exact,
        ..NdjsonLine::default()
    };
    let totals = &report.totals;
    let others = totals.other_syscalls.as_deref().unwrap_or_default();
    let of_rows = totals.syscalls.iter().map(|call| call.sums);
    let of_others = others.iter().map(|call| call.sums.sums);
    let of_run = NdjsonLine {
        line: "run",
        processes: Some(totals.processes),
        threads: Some(totals.threads),
        exit_code: report.exit.code,
        exit_signal: report.exit.signal,
        wall_ns: report.wall_ns,
        ..common.clone()
    };
    let mut lines = vec![
        of_run
            .with_calls(of_rows.chain(of_others).sum())
            .with_usage(&totals.usage),
    ];
    lines.extend(report.processes.iter().map(|one| common.process(one)));
    lines.extend(report.programs.iter().map(|one| common.program(one)));
    if report.programs.is_empty() {
        // There is one process.
        lines.extend(report.processes.iter().map(|one| NdjsonLine {
            line: "program",
            pid: None,
            processes: Some(1),
            ..common.process(one)
        }));
    }
    let calls = totals.syscalls.iter();
    lines.extend(calls.map(|call| common.call("call", call)));
    lines.extend(others.iter().map(|call| NdjsonLine {
        name: Some(&call.name),
        abi: Some(&call.abi),
        ..common.clone().with_calls(call.sums.sums).called("call")
    }));
    let operations = report.processes.iter().flat_map(|one| &one.io_uring);
    lines.extend(operations.map(|one| common.call("operation", one)));
    lines
}

impl<'a> NdjsonLine<'a> {
    fn called(self, line: &'static str) -> Self {
        Self { line, ..self }
    }

    fn process(&self, process: &'a Process) -> Self {
        let line = NdjsonLine {
            name: process.name(),
            pid: Some(process.pid),
            threads: Some(process.threads),
            ..self.clone().called("process")
        };
        line.with_activity(process)
    }

    fn program(&self, program: &'a Program) -> Self {
        let line = NdjsonLine {
            name: program.name.as_deref(),
            processes: Some(program.runs),
            threads: Some(program.threads),
            ..self.clone().called("program")
        };
        line.with_activity(program)
    }

    fn call(&self, line: &'static str, call: &'a Syscall) -> Self {
        NdjsonLine {
            name: Some(&call.name),
            abi: Some(&call.abi),
            bytes: call.bytes,
            p50_ns: call.p50_ns,
            p99_ns: call.p99_ns,
            max_ns: call.max_ns,
            ..self.clone().called(line).with_calls(call.sums)
        }
    }

    fn with_activity(self, activity: &Activity) -> Self {
        self.with_calls(activity.sum_calls())
            .with_usage(&activity.usage)
    }

    /// Adds the sum of the counted calls. Calls of which none returned took no time.
    fn with_calls(self, sum: CallSums) -> Self {
        NdjsonLine {
            calls: Some(sum.calls),
            errors: Some(sum.errors),
            unfinished: Some(sum.unfinished),
            total_ns: sum.total_ns.or((sum.calls == 0).then_some(0)),
            ..self
        }
    }

    fn with_usage(self, usage: &Usage) -> Self {
        NdjsonLine {
            user_ns: usage.user_ns,
            system_ns: usage.system_ns,
            voluntary_switches: usage.context_switches.voluntary,
            involuntary_switches: usage.context_switches.involuntary,
            minor_faults: usage.page_faults.minor,
            major_faults: usage.page_faults.major,
            ..self
        }
    }
}
