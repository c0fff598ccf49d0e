//! What a report does not know is inconclusive, unless what it knows is enough.

use std::collections::BTreeMap;

use super::{report_of, scene};
use crate::{
    expect::{Expectation, Verdict},
    report::{
        Counted, Detail, Options, Report,
        sample::{
            self,
            files::{Scene, read},
        },
    },
    trace::Loss,
};

fn verdict(report: &Report, text: &str) -> Verdict {
    let expectation: Expectation = text.parse().unwrap_or_else(|error| panic!("{error}"));
    expectation.evaluate(report).unwrap_or_else(|error| panic!("{error}")).verdict
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
        ["inconclusive: read.calls == 19", "  read.calls is at least 19 (the report is a lower bound: uncounted_calls: 7)"]
    );
}

#[test]
fn percentiles_are_known_as_well_as_their_histogram_knows_them() {
    let mut scene = Scene::new();
    let file = scene.regular("in");
    let durations: Vec<u64> = (0..100).map(|n| 100_000 + n).collect();
    scene.process("cat", vec![read("read", file, 0, 1000).took(&durations), read("pread64", file, 0, 10).took(&[100_050])]);
    let report = report_of(&scene.trace);
    let p50 = report.totals.syscalls.iter().find(|row| row.name == "read").and_then(|row| row.p50_ns).expect("was timed");
    assert_verdicts(
        &report,
        &[
            (&format!("read.p50 == {p50}ns"), Inconclusive),
            ("read.p50 <= 100050ns", Inconclusive),
            ("read.p50 >= 100000ns", Holds),
            ("read.p99 <= 100099ns", Holds),
            ("read.p99 > 200us", Fails),
            // There is but one.
            ("pread64.p99 == 100050ns", Holds),
        ],
    );
}

#[test]
fn what_a_backend_cannot_know_is_inconclusive() {
    let mut trace = scene();
    for process in &mut trace.processes {
        process.counters = None;
    }
    let report = report_of(&trace);
    for text in ["faults.major == 0", "switches.voluntary >= 0", "time.user < 1s", "write.p99 < 1s", "not faults.major == 0"] {
        assert_eq!(verdict(&report, text), Inconclusive, "{text}");
    }
    assert_verdicts(&report, &[("mmap.bytes == 0", Inconclusive), ("mmap.bytes >= 0", Holds), ("read.calls == 19", Holds)]);
}

#[test]
fn calls_whose_files_are_not_known_make_files_inconclusive() {
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
    assert_verdicts(&plain, &[("read[kind=pipe].calls == 0", Inconclusive), ("read.calls == 19", Holds)]);
    let totals = Report::from_trace(&scene(), &Options { detail: Detail::Total, ..Options::default() });
    assert_verdicts(
        &totals,
        &[
            ("read.calls == 19", Holds),
            ("read[process=\"copier\"].calls == 0", Inconclusive),
            ("transfer(* -> tcp).count == 0", Inconclusive),
            ("read[kind=pipe].calls == 0", Inconclusive),
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
    assert_verdicts(&report, &[("syscalls[file=\"in\"].calls == 0", Holds), ("%memory[kind=pipe].calls == 0", Holds)]);
    // One that failed named a file, too.
    let rows = &mut trace.processes[0].threads[0].rows;
    rows.push(sample::row("unlinkat").failed(libc::ENOENT, 1));
    let report = report_of(&trace);
    assert_verdicts(
        &report,
        &[
            ("syscalls[file=\"in\"].calls == 0", Inconclusive),
            ("syscalls[file=\"log\"].calls >= 17", Holds),
            ("read[file=\"in\"].calls == 0", Holds),
            ("syscalls[process=\"copier\", file=\"in\"].calls == 0", Holds),
        ],
    );
}

#[test]
fn a_log_without_files_says_nothing_of_them() {
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
fn an_older_report_does_not_say_what_it_counted() {
    let mut report = report_of(&scene());
    report.counted = None;
    assert_verdicts(&report, &[("splice.calls == 0", Inconclusive), ("read.calls == 19", Holds), ("syscalls.calls < 5", Fails)]);
    report.counted = Some(Counted::All);
    assert_verdicts(&report, &[("splice.calls == 0", Holds), ("fsync.calls == 0", Holds)]);
}

#[test]
fn errors_without_their_errno_may_be_any() {
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
