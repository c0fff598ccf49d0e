//! How lines are joined, tasks are tracked, and calls are counted and get their files: a made-up
//! log for each rule.

use std::time::Duration;

use super::{
    Collector, GoldenCase, Log, check_golden, read_log, read_logs, read_text, rows, summary,
};
use crate::{
    backend::{Listed, Recorded, Until},
    report::{Files, Options, Report},
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
        let read = read_logs(
            vec![log],
            &Selection::All,
            Listed::All,
            Recorded::default(),
            &mut |_| {},
        );
        read.map_or_else(|error| error.to_string(), |_| "is read".to_owned())
    });
}

#[test]
fn a_log_may_come_in_any_encoding() {
    let log = "10 read(3, \"\", 1) = 0\n10 exit_group(3) = ?\n";
    let plain = summary(&read_text(log), &[]);
    let [little, big]: [fn(u16) -> [u8; 2]; 2] = [u16::to_le_bytes, u16::to_be_bytes];
    let marked = format!("\u{feff}{log}");
    let encode =
        |bytes: fn(u16) -> [u8; 2]| -> Vec<u8> { marked.encode_utf16().flat_map(bytes).collect() };
    for text in [encode(little), encode(big), marked.clone().into_bytes()] {
        assert_eq!(summary(&read_text(text), &[]), plain);
    }
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
fn processes_that_are_over_are_summed_up_if_there_are_many() {
    let mut log = "2 execve(\"/bin/x\", [\"x\"], 0) = 0\n".to_owned();
    for pid in 3..36_003 {
        // Some show their end.
        let end = ["", "+++ exited with 0 +++"][pid % 2];
        let lines = format!(
            "2 fork() = {pid}\n{pid} execve(\"/bin/y\", [\"y\"], 0) = 0\n{pid} read(3</a>, \"abc\", 9) = 3\n{pid} exit_group(0) = ?\n{pid} {end}\n"
        );
        log.push_str(&lines);
    }
    let read = |listed| {
        let reader = log.as_bytes();
        let logs = vec![Log { reader, tid: None }];
        read_logs(
            logs,
            &Selection::All,
            listed,
            Recorded::default(),
            &mut |_| {},
        )
        .expect("memory can be read")
    };
    let summed = read(Listed::Busiest {
        most: 500,
        files: Files::Omitted,
    });
    assert!(summed.processes.len() < 30_000);
    let merged = &summed.merged[0];
    assert_eq!((summed.merged.len(), merged.sums.name()), (1, Some("y")));
    let totals = |trace: &Trace| {
        let report = Report::from_trace(trace, &Options::default());
        format!("{:?}", report.totals)
    };
    assert_eq!(totals(&summed), totals(&read(Listed::All)));
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
