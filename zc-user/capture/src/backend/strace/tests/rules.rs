//! How lines are joined, tasks are tracked, and calls are counted and get their files: a made-up
//! log for each rule.

use std::time::Duration;

use super::{
    Collector, GoldenCase, Log, check_golden, read_log, read_logs, read_text, rows, summary,
};
use crate::{
    backend::{Recorded, Until},
    report::{Options, Report},
    syscalls::Selection,
    trace::{Loss, Trace},
};

#[test]
fn made_up_logs_are_read_as_the_golden_files_say() {
    for file in ["calls", "tasks", "files", "gaps", "public"] {
        check_golden(&format!("rules/{file}.txt"), GoldenCase::Lines, |case| {
            let (trace, unparsed) = read_case(case);
            describe(&trace, &unparsed)
        });
    }
}

#[test]
fn what_is_no_log_is_refused_in_one_sentence() {
    check_golden("rules/refused.txt", GoldenCase::Lines, |case| {
        let log = Log {
            reader: case.as_bytes(),
            tid: None,
        };
        let read = read_logs(vec![log], &Selection::All, Recorded::default(), &mut |_| {});
        read.map_or_else(|error| error.to_string(), |_| "is read".to_owned())
    });
}

/// Reads a log with instructions, lines that begin with `@`; also returns the lines that were not
/// understood.
fn read_case(case: &str) -> (Trace, Vec<String>) {
    let mut selection = Selection::All;
    let mut until = Until::AllEnd;
    let mut logs = vec![(None, String::new())];
    for line in case.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let (_, log) = logs.last_mut().expect("there is one");
        match words.as_slice() {
            ["@", "count", calls] => selection = calls.parse().expect("names of calls"),
            ["@", "until", ..] => until = Until::RootEnds,
            ["@", "log", "of", tid] => {
                logs.push((Some(tid.parse().expect("a thread id")), String::new()));
            }
            ["@", "ends", "here"] => drop(log.pop()),
            _ => {
                log.push_str(line);
                log.push('\n');
            }
        }
    }
    let mut unparsed = Vec::new();
    let mut on_unparsed = |line: &str| unparsed.push(line.to_owned());
    let mut collector = Collector::new(&selection, until, &mut on_unparsed);
    for (tid, log) in logs.iter().filter(|(_, log)| !log.is_empty()) {
        let reader = log.as_bytes();
        read_log(Log { reader, tid: *tid }, &mut collector).expect("memory can be read");
    }
    (collector.finish(), unparsed)
}

/// What is in a trace, without what most made-up logs do not have, and the notes that they get.
fn describe(trace: &Trace, unparsed: &[String]) -> String {
    const COMMON: [&str; 7] = [
        "command []",
        "started ?",
        "wall ?",
        "exit None",
        "  exe ? command None",
        "note a log does not say which calls",
        "note the log has no durations",
    ];
    let is_common = |line: &str| COMMON.iter().any(|common| line.starts_with(common));
    let text = summary(trace, unparsed);
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !is_common(line));
    let mut lines: Vec<&str> = lines
        .map(|line| line.trim_end_matches(" bytes ? requested ?"))
        .collect();
    let order = order(trace);
    lines.extend(order.as_deref());
    lines.join("\n")
}

/// The first calls of all rows in their order, if there are several threads.
fn order(trace: &Trace) -> Option<String> {
    let threads = trace.processes.iter().flat_map(|process| &process.threads);
    let rows = threads
        .clone()
        .flat_map(|thread| thread.rows.iter().map(|row| (thread.tid, row)));
    let mut first: Vec<_> = rows
        .map(|(tid, row)| (row.order, tid, &row.call.name))
        .collect();
    first.sort();
    let words: Vec<String> = first
        .iter()
        .filter(|(order, ..)| order.is_some())
        .map(|(_, tid, name)| format!("{tid} {name}"))
        .collect();
    (threads.count() > 1).then(|| match words.as_slice() {
        [] => "order unknown".to_owned(),
        _ => format!("order {}", words.join(", ")),
    })
}

#[test]
fn the_figures_so_far_have_the_calls_before_an_exec() {
    let log = "10 execve(\"/bin/x\", [\"x\"], 0x7f) = 0\n10 read(3, \"ab\", 10) = 2\n10 execve(\"/bin/z\", [\"z\"], 0x7f) = 0\n10 read(3, \"abcd\", 10) = 4\n";
    let mut ignore = |_: &str| {};
    let mut collector = Collector::new(&Selection::All, Until::AllEnd, &mut ignore);
    let reader = log.as_bytes();
    read_log(Log { reader, tid: None }, &mut collector).expect("memory can be read");
    let progress = collector.tasks().progress(Duration::ZERO);
    let found = (progress.processes, progress.calls, progress.bytes);
    assert_eq!(found, (1, 4, 6));
}

#[test]
fn the_mean_of_times_whose_sum_overflows_is_unknown() {
    let read = "10 read(3, \"\", 1) = 1 <9999999999.0>\n";
    let report = Report::from_trace(&read_text(read.repeat(3)), &Options::default());
    let read = &report.totals.syscalls[0];
    let times = (read.total_ns, read.mean_ns, read.min_ns);
    assert_eq!(times, (None, None, Some(9_999_999_999_000_000_000)));
}

#[test]
fn lines_that_are_too_long_are_a_loss() {
    let long = "[1, ".repeat(1 << 19);
    // Cut where it is too long to be kept, with and without an end; one that is shorter, but not
    // whole; and one without any call.
    for line in [
        format!("10 poll({long}) = 1\n10 getuid() = 0\n"),
        format!("10 poll({long}"),
        format!("10 poll({}", &long[..100_000]),
        format!("{long}\n"),
    ] {
        assert_eq!(read_text(&line).losses[&Loss::UnparsedLines], 1);
    }
}

#[test]
fn line_breaks_may_be_those_of_any_system() {
    let trace =
        read_text("10 getuid() = 0\r\n\n10 exit_group(0) = ?\r\n10 +++ exited with 0 +++\r\n");
    let calls: Vec<&str> = rows(&trace).map(|row| &*row.call.name).collect();
    assert_eq!(calls, ["getuid", "exit_group"]);
    assert!(!trace.losses.contains_key(&Loss::UnparsedLines));
}

#[test]
fn only_the_fault_that_killed_a_thread_is_kept() {
    let fault = "10 --- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0x10} ---\n";
    let killed = "10 +++ killed by SIGSEGV (core dumped) +++\n";
    for (before_end, is_told) in [
        (fault.to_owned(), true),
        (format!("{fault}10 getuid() = 0\n"), false),
        (
            format!(
                "{fault}10 --- SIGSEGV {{si_signo=SIGSEGV, si_code=SI_TKILL, si_pid=10}} ---\n"
            ),
            false,
        ),
        (
            fault.replace("SEGV", "BUS").replace("MAPERR", "ADRERR"),
            false,
        ),
    ] {
        let log = format!("10 getuid() = 0\n{before_end}{killed}");
        let trace = read_text(&log);
        let fault = trace.processes[0].threads[0].fault;
        assert_eq!(fault.is_some(), is_told, "{log}");
    }
}

#[test]
fn an_error_of_a_socket_that_getsockopt_told_is_a_failure() {
    let log = "10 getsockopt(5, SOL_SOCKET, SO_ERROR, [ECONNREFUSED], [4]) = 0
10 getsockopt(5, SOL_SOCKET, SO_ERROR, [0], [4]) = 0
10 getsockopt(5, SOL_SOCKET, SO_RCVBUF, [131072], [4]) = 0
10 getsockopt(5, SOL_SOCKET, SO_ERROR, 0x7f, [4]) = -1 EBADF (Bad file descriptor)
";
    let report = Report::from_trace(&read_text(log), &Options::default());
    let failed = report.totals.failed_without_path.iter();
    let found: Vec<_> = failed.map(|one| (one.errno.as_str(), one.calls)).collect();
    assert_eq!(found, [("EBADF", 1), ("ECONNREFUSED", 1)]);
    let errors: Vec<u64> = report
        .totals
        .syscalls
        .iter()
        .map(|call| call.errors)
        .collect();
    assert_eq!(errors, [1], "the call that told it succeeded");
}
