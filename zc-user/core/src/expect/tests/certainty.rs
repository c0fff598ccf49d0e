//! What is inferred proves nothing, unless it is taken for granted.

use super::report_of;
use crate::{
    expect::{Expectation, Inferred, Verdict},
    report::{
        Report,
        sample::files::{Scene, copy, read, write, written_after, written_held},
    },
    trace::{FileId, Row},
};

use Verdict::{Fails, Holds, Inconclusive};

/// A report of one process with these calls on `in` and `out`.
fn report(rows: impl Fn(FileId, FileId) -> Vec<Row>) -> Report {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.regular("out"));
    scene.process("copier", rows(from, to));
    report_of(&scene.trace)
}

#[track_caller]
fn assert_verdicts(report: &Report, inferred: Inferred, cases: &[(&str, Verdict)]) {
    for &(text, expected) in cases {
        let expectation: Expectation = text.parse().expect("an expectation");
        let outcome = expectation.evaluate_with(report, inferred).expect("was counted");
        assert_eq!(outcome.verdict, expected, "{outcome}");
    }
}

#[test]
fn what_is_inferred_is_inconclusive_unless_it_is_accepted() {
    let report = report(|from, to| vec![read("read", from, 16, 65536), written_after("write", from, to, 16, 65536, 65536)]);
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
    let cases = cases.map(|text| text.replace("in ->", "\"in\" ->").replace("-> out", "-> \"out\""));
    for text in &cases {
        assert_verdicts(&report, Inferred::Inconclusive, &[(text, Inconclusive)]);
        assert_verdicts(&report, Inferred::Accept, &[(text, Holds)]);
    }
    assert_verdicts(&report, Inferred::Inconclusive, &[("transfer(pipe -> pipe).count == 0", Holds)]);
    let expectation: Expectation = "transfer(* -> *).bytes == 64KiB".parse().expect("an expectation");
    let outcome = expectation.evaluate(&report).expect("was counted");
    assert_eq!(
        outcome.to_string(),
        "inconclusive: transfer(* -> *).bytes == 64KiB\n  \
         transfer(* -> *).bytes is unknown (inferred, not proven; inferred = \"accept\" takes it for granted)\n    \
         in (regular, ext4) -> out (regular, ext4): at least 64.0 KiB, inferred from the order of calls, read + write, 16 calls of 4 KiB"
    );
}

#[test]
fn what_is_proven_of_it_counts() {
    let report = report(|from, to| {
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
    assert_verdicts(&report, Inferred::Inconclusive, &cases);
}

#[test]
fn no_transfer_is_sure_only_where_every_byte_is_explained() {
    let exact = report(|from, to| vec![copy("sendfile", from, to, 1, 65536)]);
    let cases = [
        ("transfer(pipe -> *).count == 0", Holds),
        ("transfer(* -> *).count == 1", Holds),
        ("transfer(* -> *).bytes == 64KiB", Holds),
        ("transfer(* -> *).api == sendfile", Holds),
    ];
    assert_verdicts(&exact, Inferred::Inconclusive, &cases);
    let with_more =
        report(|from, to| vec![read("read", from, 1, 10), copy("sendfile", from, to, 1, 65536), write("write", to, 1, 100)]);
    let cases = [
        ("transfer(pipe -> *).count == 0", Inconclusive),
        ("transfer(* -> pipe).count == 0", Holds),
        ("transfer(* -> *).count == 1", Inconclusive),
        ("transfer(* -> *).bytes == 64KiB", Inconclusive),
        ("transfer(* -> *).bytes <= 65KiB", Holds),
        ("transfer(* -> *).bytes >= 64KiB", Holds),
        ("transfer(* -> *).api == sendfile", Inconclusive),
        ("transfer(* -> *).api == splice", Fails),
        ("transfer(* -> *).attempts.EXDEV == 0", Holds),
    ];
    assert_verdicts(&with_more, Inferred::Inconclusive, &cases);
    assert_verdicts(
        &with_more,
        Inferred::Accept,
        &[("transfer(* -> *).api == sendfile", Holds), ("transfer(pipe -> *).count == 0", Holds)],
    );
}

/// No byte is counted twice, and bytes out of a pipe are from whoever fed it.
#[test]
fn a_way_over_several_processes_counts_once() {
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
    assert_verdicts(&joined, Inferred::Inconclusive, &cases);
    // Two sources: what came from the first is a lower bound, and may be nothing.
    let other = scene.regular("other");
    for (bytes, is_none) in [(100, Fails), (65536, Inconclusive)] {
        let mut scene = Scene { trace: scene.trace.clone() };
        scene.trace.processes[0].threads[0].rows.push(copy("sendfile", other, pipe, 1, bytes));
        let apart = report_of(&scene.trace);
        assert_verdicts(&apart, Inferred::Inconclusive, &[("transfer(regular -> regular).count == 0", is_none)]);
    }
}
