//! An expectation is inconclusive if the report does not know enough, or if it rests on inferred
//! transfers.

use std::collections::BTreeMap;

use super::{report_of, scene};
use crate::{
    expect::{Expectation, Inferred, Verdict},
    report::{
        Counted, Detail, Files, Options, Report,
        sample::{
            self,
            files::{Scene, copy, read, write, written_after, written_changed, written_held},
        },
    },
    trace::{FileId, Loss, Row},
};

fn verdict(report: &Report, text: &str) -> Verdict {
    let expectation: Expectation = text.parse().unwrap_or_else(|error| panic!("{error}"));
    expectation
        .evaluate(report)
        .unwrap_or_else(|error| panic!("{error}"))
        .verdict
}

#[track_caller]
fn assert_verdicts(report: &Report, cases: &[(&str, Verdict)]) {
    for &(text, expected) in cases {
        assert_eq!(verdict(report, text), expected, "{text}");
    }
}

use Verdict::{Fails, Holds, Inconclusive};

#[test]
fn a_lower_bound_can_be_enough() {
    let mut trace = scene();
    trace.losses = BTreeMap::from([(Loss::UncountedCalls, 7)]);
    let report = report_of(&trace);
    assert_verdicts(
        &report,
        &[
            ("read.calls >= 19", Holds),
            ("read.calls >= 20", Inconclusive),
            ("read.calls == 0", Fails),
            ("read.calls == 19", Inconclusive),
            ("splice.calls == 0", Inconclusive),
            ("read.calls <= 18", Fails),
            ("read.avg_size >= 1KiB", Inconclusive),
            ("sendfile.max < 1ms", Fails),
            ("sendfile.max < 1s", Inconclusive),
            ("sendfile.min < 1s", Holds),
            ("sendfile.p99 < 1s", Inconclusive),
            ("splice.p99 < 1s", Inconclusive),
            ("faults.major == 0", Fails),
            ("faults.major <= 2", Inconclusive),
            ("transfer(* -> unix).api == sendfile", Inconclusive),
            ("transfer(* -> unix).api == splice", Fails),
            ("transfer(* -> tcp).count == 0", Inconclusive),
            ("transfer(* -> tcp).bytes > 0", Inconclusive),
            ("transfer(* -> unix).bytes >= 1MiB", Holds),
            ("read[process=\"cp\"].calls == 0", Inconclusive),
            ("exit.code == 3", Holds),
            ("exit.code == 0", Fails),
            ("exit.code == 3 or read.calls == 19", Holds),
            ("exit.code == 3 and read.calls == 19", Inconclusive),
            ("not read.calls == 19", Inconclusive),
        ],
    );
    let error = report.expect("read.calls == 19").expect_err("not known");
    assert_eq!(
        error.to_string().lines().take(2).collect::<Vec<_>>(),
        [
            "inconclusive: read.calls == 19",
            "  read.calls is at least 19 (the report is a lower bound: uncounted_calls: 7)"
        ]
    );
}

#[test]
fn percentiles_are_known_to_the_precision_of_the_histogram() {
    let mut scene = Scene::new();
    let file = scene.regular("in");
    let durations: Vec<u64> = (0..100).map(|n| 100_000 + n).collect();
    scene.process(
        "cat",
        vec![
            read("read", file, 0, 1000).took(&durations),
            read("pread64", file, 0, 10).took(&[100_050]),
        ],
    );
    let report = report_of(&scene.trace);
    let p50 = report
        .totals
        .syscalls
        .iter()
        .find(|row| row.name == "read")
        .and_then(|row| row.p50_ns)
        .expect("was timed");
    assert_verdicts(
        &report,
        &[
            (&format!("read.p50 == {p50}ns"), Inconclusive),
            ("read.p50 <= 100050ns", Inconclusive),
            ("read.p50 >= 100000ns", Holds),
            ("read.p99 <= 100099ns", Holds),
            ("read.p99 > 200us", Fails),
            // There is only one call.
            ("pread64.p99 == 100050ns", Holds),
        ],
    );
}

#[test]
fn figures_that_a_backend_cannot_know_are_inconclusive() {
    let mut trace = scene();
    for process in &mut trace.processes {
        process.counters = None;
    }
    let report = report_of(&trace);
    for text in [
        "faults.major == 0",
        "switches.voluntary >= 0",
        "time.user < 1s",
        "write.p99 < 1s",
        "not faults.major == 0",
    ] {
        assert_eq!(verdict(&report, text), Inconclusive, "{text}");
    }
    assert_verdicts(
        &report,
        &[
            ("mmap.bytes == 0", Inconclusive),
            ("mmap.bytes >= 0", Holds),
            ("read.calls == 19", Holds),
        ],
    );
}

#[test]
fn calls_without_files_make_selections_by_file_inconclusive() {
    let mut trace = scene();
    trace.calls_without_files = 3;
    let report = report_of(&trace);
    assert_verdicts(
        &report,
        &[
            ("read[file=\"in.dat\"].calls == 0", Inconclusive),
            ("read[file=\"log\"].calls >= 17", Holds),
            ("read.calls == 19", Holds),
            ("transfer(* -> tcp).count == 0", Inconclusive),
        ],
    );
    let plain = Report::from_trace(&scene(), &Options::default());
    assert_verdicts(
        &plain,
        &[
            ("read[kind=pipe].calls == 0", Inconclusive),
            ("read.calls == 19", Holds),
        ],
    );
    let totals = Report::from_trace(
        &scene(),
        &Options {
            detail: Detail::Total,
            ..Options::default()
        },
    );
    assert_verdicts(
        &totals,
        &[
            ("read.calls == 19", Holds),
            ("read[process=\"copier\"].calls == 0", Inconclusive),
            ("transfer(* -> tcp).count == 0", Inconclusive),
            ("transfer(* -> unix).bytes >= 1MiB", Holds),
            ("transfer(* -> unix).api == splice", Fails),
            ("read[kind=pipe].calls == 0", Inconclusive),
        ],
    );
}

#[test]
fn what_is_said_of_processes_is_a_lower_bound_if_some_are_not_listed() {
    let options = Options {
        file_calls: Files::Listed,
        ..Options::default()
    };
    let mut report = Report::from_trace(&sample::make(50), &options);
    report.limit_processes(4);
    assert_verdicts(
        &report,
        &[
            ("processes.count == 50", Holds),
            ("processes[process=\"cc1\"].count >= 1", Holds),
            ("processes[process=\"cc1\"].count < 40", Inconclusive),
            ("read[process=\"cp\"].calls == 0", Inconclusive),
            ("read[kind=pipe].calls == 0", Inconclusive),
            ("transfer(* -> tcp).count == 0", Inconclusive),
        ],
    );
}

#[test]
fn a_call_that_takes_a_path_may_be_about_any_file() {
    let mut trace = scene();
    trace.counted = Some("%data,%file,%memory".parse().expect("a selection"));
    let rows = &mut trace.processes[0].threads[0].rows;
    rows.push(sample::row("munmap").called(1));
    let report = report_of(&trace);
    assert_verdicts(
        &report,
        &[
            ("syscalls[file=\"in\"].calls == 0", Holds),
            ("%memory[kind=pipe].calls == 0", Holds),
        ],
    );
    // A failed call named a file, too.
    let rows = &mut trace.processes[0].threads[0].rows;
    rows.push(sample::row("unlinkat").failed(libc::ENOENT, 1));
    let report = report_of(&trace);
    assert_verdicts(
        &report,
        &[
            ("syscalls[file=\"in\"].calls == 0", Inconclusive),
            ("syscalls[file=\"log\"].calls >= 17", Holds),
            ("read[file=\"in\"].calls == 0", Holds),
            (
                "syscalls[process=\"copier\", file=\"in\"].calls == 0",
                Holds,
            ),
        ],
    );
}

#[test]
fn a_log_without_files_makes_figures_by_file_inconclusive() {
    let report = report_of(&sample::from_strace());
    assert_verdicts(
        &report,
        &[
            ("read.calls == 4", Holds),
            ("splice.calls == 0", Inconclusive),
            ("write.calls == 1", Holds),
            ("read[file=\"in\"].calls == 0", Inconclusive),
            ("transfer(* -> *).count == 0", Inconclusive),
            ("exit.code == 0", Inconclusive),
            ("exit.signal == none", Inconclusive),
            ("time.wall < 1s", Inconclusive),
            ("read[process=\"cp\"].calls == 0", Inconclusive),
        ],
    );
}

#[test]
fn an_older_report_that_does_not_say_what_it_counted_is_inconclusive_about_0() {
    let mut report = report_of(&scene());
    report.counted = None;
    assert_verdicts(
        &report,
        &[
            ("splice.calls == 0", Inconclusive),
            ("read.calls == 19", Holds),
            ("syscalls.calls < 5", Fails),
        ],
    );
    report.counted = Some(Counted::All);
    assert_verdicts(
        &report,
        &[("splice.calls == 0", Holds), ("fsync.calls == 0", Holds)],
    );
}

#[test]
fn errors_without_an_errno_may_have_any() {
    let mut report = report_of(&scene());
    for row in &mut report.totals.syscalls {
        row.errnos.clear();
    }
    assert_verdicts(
        &report,
        &[
            ("sendfile.errors == 2", Holds),
            ("sendfile.errors.EAGAIN == 0", Inconclusive),
            ("sendfile.errors.EAGAIN <= 2", Holds),
            ("read.errors.EAGAIN == 0", Holds),
        ],
    );
}

/// A report of one process with these calls on `in` and `out`.
fn report_of_rows(rows: impl Fn(FileId, FileId) -> Vec<Row>) -> Report {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.regular("out"));
    scene.process("copier", rows(from, to));
    report_of(&scene.trace)
}

#[track_caller]
fn assert_verdicts_with(report: &Report, inferred: Inferred, cases: &[(&str, Verdict)]) {
    for &(text, expected) in cases {
        let expectation: Expectation = text.parse().expect("an expectation");
        let outcome = expectation
            .evaluate_with(report, inferred)
            .expect("was counted");
        assert_eq!(outcome.verdict, expected, "{outcome}");
    }
}

#[test]
fn an_inferred_transfer_is_inconclusive_unless_it_is_accepted() {
    let report = report_of_rows(|from, to| {
        vec![
            read("read", from, 16, 65536),
            written_after("write", from, to, 16, 65536, 65536),
        ]
    });
    let cases = [
        "transfer(in -> out).bytes == 64KiB",
        "transfer(in -> out).bytes >= 1KiB",
        "transfer(in -> out).count == 1",
        "transfer(in -> out).count >= 1",
        "transfer(in -> out).api == read+write",
        "transfer(in -> out).calls == 32",
        "transfer(in -> out).avg_size == 4KiB",
        "transfer(in -> out).attempts == 0",
        "transfer(in -> out).user_memory == 128KiB",
    ];
    let cases = cases.map(|text| {
        text.replace("in ->", "\"in\" ->")
            .replace("-> out", "-> \"out\"")
    });
    for text in &cases {
        assert_verdicts_with(&report, Inferred::Inconclusive, &[(text, Inconclusive)]);
        assert_verdicts_with(&report, Inferred::Accept, &[(text, Holds)]);
    }
    assert_verdicts_with(
        &report,
        Inferred::Inconclusive,
        &[("transfer(pipe -> pipe).count == 0", Holds)],
    );
    let expectation: Expectation = "transfer(* -> *).bytes == 64KiB"
        .parse()
        .expect("an expectation");
    let outcome = expectation.evaluate(&report).expect("was counted");
    assert_eq!(
        outcome.to_string(),
        "inconclusive: transfer(* -> *).bytes == 64KiB\n  \
         transfer(* -> *).bytes is unknown (inferred, not observed; inferred = \"accept\" accepts it)\n    \
         in (regular, ext4) -> out (regular, ext4): probably 64.0 KiB, read + write, 16 calls of 4 KiB"
    );
}

#[test]
fn what_was_observed_counts_beside_an_inferred_transfer() {
    let report = report_of_rows(|from, to| {
        vec![
            read("read", from, 32, 131_072),
            written_held("write", from, to, 16, 65536, 65536),
            written_after("write", from, to, 16, 65536, 65536),
        ]
    });
    let cases = [
        ("transfer(* -> *).bytes >= 64KiB", Holds),
        ("transfer(* -> *).bytes >= 65KiB", Inconclusive),
        ("transfer(* -> *).bytes <= 128KiB", Holds),
        ("transfer(* -> *).bytes > 128KiB", Fails),
        ("transfer(* -> *).bytes == 0", Fails),
        ("transfer(* -> *).count >= 1", Holds),
        ("transfer(* -> *).api == sendfile", Fails),
    ];
    assert_verdicts_with(&report, Inferred::Inconclusive, &cases);
}

#[test]
fn that_there_is_no_transfer_is_sure_unless_memory_of_the_source_was_changed() {
    let exact = report_of_rows(|from, to| vec![copy("sendfile", from, to, 1, 65536)]);
    let cases = [
        ("transfer(pipe -> *).count == 0", Holds),
        ("transfer(* -> *).count == 1", Holds),
        ("transfer(* -> *).bytes == 64KiB", Holds),
        ("transfer(* -> *).api == sendfile", Holds),
    ];
    assert_verdicts_with(&exact, Inferred::Inconclusive, &cases);
    let with_own_memory = report_of_rows(|from, to| {
        vec![
            read("read", from, 1, 10),
            copy("sendfile", from, to, 1, 65536),
            write("write", to, 1, 100),
        ]
    });
    assert_verdicts_with(&with_own_memory, Inferred::Inconclusive, &cases);
    let with_more = report_of_rows(|from, to| {
        vec![
            read("read", from, 1, 100),
            copy("sendfile", from, to, 1, 65536),
            written_changed("write", from, to, 1, 100, 100),
        ]
    });
    let cases = [
        ("transfer(pipe -> *).count == 0", Holds),
        ("transfer(* -> pipe).count == 0", Holds),
        ("transfer(* -> *).count == 1", Inconclusive),
        ("transfer(* -> *).bytes == 64KiB", Inconclusive),
        ("transfer(* -> *).bytes <= 65KiB", Holds),
        ("transfer(* -> *).bytes >= 64KiB", Holds),
        ("transfer(* -> *).api == sendfile", Inconclusive),
        ("transfer(* -> *).api == splice", Fails),
        ("transfer(* -> *).attempts.EXDEV == 0", Holds),
    ];
    assert_verdicts_with(&with_more, Inferred::Inconclusive, &cases);
    assert_verdicts_with(
        &with_more,
        Inferred::Accept,
        &[
            ("transfer(* -> *).api == sendfile", Holds),
            ("transfer(pipe -> *).count == 0", Holds),
        ],
    );
}

/// No byte is counted twice, and bytes from a pipe come from the process that wrote into it.
#[test]
fn a_transfer_through_several_processes_counts_once() {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    scene.process("cat", vec![copy("splice", from, pipe, 1, 65536)]);
    scene.process("dd", vec![copy("splice", pipe, to, 1, 65536)]);
    let joined = report_of(&scene.trace);
    let cases = [
        ("transfer(* -> *).bytes == 64KiB", Holds),
        ("transfer(* -> *).count == 1", Holds),
        ("transfer(regular -> regular).bytes == 64KiB", Holds),
        ("transfer(* -> pipe).bytes == 64KiB", Holds),
        ("transfer(pipe -> *).bytes == 64KiB", Holds),
    ];
    assert_verdicts_with(&joined, Inferred::Inconclusive, &cases);
    // With two sources, nobody knows whose bytes were taken on.
    let other = scene.regular("other");
    for (bytes, is_none) in [(100, Inconclusive), (65536, Inconclusive)] {
        let mut scene = Scene {
            trace: scene.trace.clone(),
        };
        scene.trace.processes[0].threads[0]
            .rows
            .push(copy("sendfile", other, pipe, 1, bytes));
        let apart = report_of(&scene.trace);
        assert_verdicts_with(
            &apart,
            Inferred::Inconclusive,
            &[("transfer(regular -> regular).count == 0", is_none)],
        );
    }
}
