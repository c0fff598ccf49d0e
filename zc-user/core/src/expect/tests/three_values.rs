//! An expectation is inconclusive if the report does not know enough, or if it rests on inferred
//! transfers.

use std::collections::BTreeMap;

use super::{assert_verdicts, assert_verdicts_with, report_of, scene};
use crate::{
    expect::{Expectation, Inferred},
    report::{
        Counted, Detail, Options, Report,
        sample::{
            self,
            files::{Scene, copy, read, write, written_after, written_changed, written_held},
        },
    },
    trace::{FileId, Loss, Row},
};

#[test]
fn a_lower_bound_can_be_enough() {
    let mut trace = scene();
    trace.losses = BTreeMap::from([(Loss::UncountedCalls, 7)]);
    let report = report_of(&trace);
    assert_verdicts(
        &report,
        r#"
            holds         read.calls >= 19
            inconclusive  read.calls >= 20
            fails         read.calls == 0
            inconclusive  read.calls == 19   (read.calls is at least 19 (the report is a lower bound: uncounted_calls: 7)
            inconclusive  splice.calls == 0
            fails         read.calls <= 18
            inconclusive  read.avg_size >= 1KiB
            fails         sendfile.max < 1ms
            inconclusive  sendfile.max < 1s
            holds         sendfile.min < 1s
            inconclusive  sendfile.p99 < 1s
            inconclusive  splice.p99 < 1s
            fails         faults.major == 0
            inconclusive  faults.major <= 2
            inconclusive  transfer(* -> unix).api == sendfile
            fails         transfer(* -> unix).api == splice
            inconclusive  transfer(* -> tcp).count == 0
            inconclusive  transfer(* -> tcp).bytes > 0
            holds         transfer(* -> unix).bytes >= 1MiB
            inconclusive  read[process="cp"].calls == 0
            holds         exit.code == 3
            fails         exit.code == 0
            holds         exit.code == 3 or read.calls == 19
            inconclusive  exit.code == 3 and read.calls == 19
            inconclusive  not read.calls == 19
        "#,
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
    let middle = format!("inconclusive read.p50 == {p50}ns");
    assert_verdicts(&report, &middle);
    // There is only one call of pread64.
    assert_verdicts(
        &report,
        r"
            inconclusive  read.p50 <= 100050ns
            holds         read.p50 >= 100000ns
            holds         read.p99 <= 100099ns
            fails         read.p99 > 200us
            holds         pread64.p99 == 100050ns
        ",
    );
}

#[test]
fn figures_that_a_backend_cannot_know_are_inconclusive() {
    let mut trace = scene();
    for process in &mut trace.processes {
        process.counters = None;
    }
    let report = report_of(&trace);
    assert_verdicts(
        &report,
        r"
            inconclusive  faults.major == 0
            inconclusive  switches.voluntary >= 0
            inconclusive  time.user < 1s
            inconclusive  write.p99 < 1s
            inconclusive  not faults.major == 0
            inconclusive  mmap.bytes == 0
            holds         mmap.bytes >= 0
            holds         read.calls == 19
        ",
    );
}

#[test]
fn calls_without_files_make_selections_by_file_inconclusive() {
    let mut trace = scene();
    trace.calls_without_files = 3;
    let report = report_of(&trace);
    assert_verdicts(
        &report,
        r#"
            inconclusive  read[file="in.dat"].calls == 0
            holds         read[file="log"].calls >= 17
            holds         read.calls == 19
            inconclusive  transfer(* -> tcp).count == 0
        "#,
    );
    assert_verdicts(
        &Report::from_trace(&scene(), &Options::default()),
        r"
            inconclusive  read[kind=pipe].calls == 0
            holds         read.calls == 19
        ",
    );
    let options = Options {
        detail: Detail::Total,
        ..Options::default()
    };
    assert_verdicts(
        &Report::from_trace(&scene(), &options),
        r#"
            holds         read.calls == 19
            inconclusive  read[process="copier"].calls == 0
            inconclusive  transfer(* -> tcp).count == 0
            holds         transfer(* -> unix).bytes >= 1MiB
            fails         transfer(* -> unix).api == splice
            inconclusive  read[kind=pipe].calls == 0
        "#,
    );
}

#[test]
fn what_is_said_of_processes_is_a_lower_bound_if_some_are_not_listed() {
    let mut report = report_of(&sample::make(50));
    report.limit_processes(4);
    assert_verdicts(
        &report,
        r#"
            holds         processes.count == 50
            holds         processes[process="cc1"].count >= 1
            inconclusive  processes[process="cc1"].count < 40
            inconclusive  read[process="cp"].calls == 0
            inconclusive  read[kind=pipe].calls == 0
            inconclusive  transfer(* -> tcp).count == 0
        "#,
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
        r#"
            holds         syscalls[file="in"].calls == 0
            holds         %memory[kind=pipe].calls == 0
        "#,
    );
    // A failed call named a file, too.
    let rows = &mut trace.processes[0].threads[0].rows;
    rows.push(sample::row("unlinkat").failed(libc::ENOENT, 1));
    let report = report_of(&trace);
    assert_verdicts(
        &report,
        r#"
            inconclusive  syscalls[file="in"].calls == 0
            holds         syscalls[file="log"].calls >= 17
            holds         read[file="in"].calls == 0
            holds         syscalls[process="copier", file="in"].calls == 0
        "#,
    );
}

#[test]
fn a_log_without_files_makes_figures_by_file_inconclusive() {
    let report = report_of(&sample::from_strace());
    assert_verdicts(
        &report,
        r#"
            holds         read.calls == 4
            inconclusive  splice.calls == 0
            holds         write.calls == 1
            inconclusive  read[file="in"].calls == 0
            inconclusive  transfer(* -> *).count == 0
            inconclusive  exit.code == 0
            inconclusive  exit.signal == none
            inconclusive  time.wall < 1s
            inconclusive  read[process="cp"].calls == 0
        "#,
    );
}

#[test]
fn an_older_report_that_does_not_say_what_it_counted_is_inconclusive_about_0() {
    let mut report = report_of(&scene());
    report.counted = None;
    assert_verdicts(
        &report,
        r"
            inconclusive  splice.calls == 0
            holds         read.calls == 19
            fails         syscalls.calls < 5
        ",
    );
    report.counted = Some(Counted::All);
    assert_verdicts(
        &report,
        r"
            holds         splice.calls == 0
            holds         fsync.calls == 0
        ",
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
        r"
            holds         sendfile.errors == 2
            inconclusive  sendfile.errors.EAGAIN == 0
            holds         sendfile.errors.EAGAIN <= 2
            holds         read.errors.EAGAIN == 0
        ",
    );
}

/// A report of one process with these calls on `in` and `out`.
fn report_of_rows(rows: impl Fn(FileId, FileId) -> Vec<Row>) -> Report {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.regular("out"));
    scene.process("copier", rows(from, to));
    report_of(&scene.trace)
}

#[test]
fn an_inferred_transfer_is_inconclusive_unless_it_is_accepted() {
    let report = report_of_rows(|from, to| {
        vec![
            read("read", from, 16, 65536),
            written_after("write", from, to, 16, 65536, 65536),
        ]
    });
    let cases = r#"
        holds  transfer("in" -> "out").bytes == 64KiB
        holds  transfer("in" -> "out").bytes >= 1KiB
        holds  transfer("in" -> "out").count == 1
        holds  transfer("in" -> "out").count >= 1
        holds  transfer("in" -> "out").api == read+write
        holds  transfer("in" -> "out").calls == 32
        holds  transfer("in" -> "out").avg_size == 4KiB
        holds  transfer("in" -> "out").attempts == 0
        holds  transfer("in" -> "out").user_memory == 128KiB
    "#;
    assert_verdicts_with(&report, Inferred::Accept, cases);
    let unsure = cases.replace("holds ", "inconclusive ");
    assert_verdicts_with(&report, Inferred::Inconclusive, &unsure);
    assert_verdicts_with(
        &report,
        Inferred::Inconclusive,
        r"
            holds         transfer(pipe -> pipe).count == 0
        ",
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
    let cases = r"
        holds         transfer(* -> *).bytes >= 64KiB
        inconclusive  transfer(* -> *).bytes >= 65KiB
        holds         transfer(* -> *).bytes <= 128KiB
        fails         transfer(* -> *).bytes > 128KiB
        fails         transfer(* -> *).bytes == 0
        holds         transfer(* -> *).count >= 1
        fails         transfer(* -> *).api == sendfile
    ";
    assert_verdicts_with(&report, Inferred::Inconclusive, cases);
}

#[test]
fn that_there_is_no_transfer_is_sure_unless_memory_of_the_source_was_changed() {
    let exact = report_of_rows(|from, to| vec![copy("sendfile", from, to, 1, 65536)]);
    let cases = r"
        holds         transfer(pipe -> *).count == 0
        holds         transfer(* -> *).count == 1
        holds         transfer(* -> *).bytes == 64KiB
        holds         transfer(* -> *).api == sendfile
    ";
    assert_verdicts_with(&exact, Inferred::Inconclusive, cases);
    let with_own_memory = report_of_rows(|from, to| {
        vec![
            read("read", from, 1, 10),
            copy("sendfile", from, to, 1, 65536),
            write("write", to, 1, 100),
        ]
    });
    assert_verdicts_with(&with_own_memory, Inferred::Inconclusive, cases);
    let with_more = report_of_rows(|from, to| {
        vec![
            read("read", from, 1, 100),
            copy("sendfile", from, to, 1, 65536),
            written_changed("write", from, to, 1, 100, 100),
        ]
    });
    let cases = r"
        holds         transfer(pipe -> *).count == 0
        holds         transfer(* -> pipe).count == 0
        inconclusive  transfer(* -> *).count == 1
        inconclusive  transfer(* -> *).bytes == 64KiB
        holds         transfer(* -> *).bytes <= 65KiB
        holds         transfer(* -> *).bytes >= 64KiB
        inconclusive  transfer(* -> *).api == sendfile
        fails         transfer(* -> *).api == splice
        holds         transfer(* -> *).attempts.EXDEV == 0
    ";
    assert_verdicts_with(&with_more, Inferred::Inconclusive, cases);
    assert_verdicts_with(
        &with_more,
        Inferred::Accept,
        r"
            holds         transfer(* -> *).api == sendfile
            holds         transfer(pipe -> *).count == 0
        ",
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
    let cases = r"
        holds         transfer(* -> *).bytes == 64KiB
        holds         transfer(* -> *).count == 1
        holds         transfer(regular -> regular).bytes == 64KiB
        holds         transfer(* -> pipe).bytes == 64KiB
        holds         transfer(pipe -> *).bytes == 64KiB
    ";
    assert_verdicts_with(&joined, Inferred::Inconclusive, cases);
    // With two sources, nobody knows whose bytes were taken on.
    let other = scene.regular("other");
    for (bytes, verdict) in [(100, "inconclusive"), (65536, "inconclusive")] {
        let mut scene = scene.clone();
        scene.trace.processes[0].threads[0]
            .rows
            .push(copy("sendfile", other, pipe, 1, bytes));
        let apart = report_of(&scene.trace);
        let none = format!("{verdict} transfer(regular -> regular).count == 0");
        assert_verdicts_with(&apart, Inferred::Inconclusive, &none);
    }
}
