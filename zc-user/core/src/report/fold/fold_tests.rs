use std::time::Duration;

use proptest::{collection::vec, option, prelude::*};

use super::*;
use crate::report::{
    Syscall,
    sample::{
        self,
        files::{Scene, scene},
        row,
    },
};
use crate::trace::{Attached, CallSums};

/// The report on a trace, sorted by name so that the order depends on nothing else.
fn sorted_report(trace: &Trace) -> Report {
    report_with(trace, Detail::Thread)
}

fn report_with(trace: &Trace, detail: Detail) -> Report {
    let options = Options {
        detail,
        sort: SortKey::Name,
        ..Options::default()
    };
    Report::from_trace(trace, &options)
}

/// Name, ABI, calls and bytes.
fn call_lines(syscalls: &[Syscall]) -> Vec<(&str, &str, u64, Option<u64>)> {
    syscalls
        .iter()
        .map(|one| (one.name.as_str(), one.abi.as_str(), one.calls, one.bytes))
        .collect()
}

#[test]
fn threads_are_summed_to_their_process_call_by_call() {
    let trace = sample::of_threads(vec![
        vec![
            row("read").bytes(10).took(&[100]),
            row("read").bytes(20).took(&[300]),
            // One that never happened.
            row("mmap"),
            row("read"),
        ],
        vec![
            row("read").bytes(30).took(&[200]),
            row("read").i386().bytes(7).called(2),
            row("write").unfinished(1),
        ],
    ]);
    let of_threads = sorted_report(&trace);
    let process = &of_threads.processes[0];
    let expected = [
        ("read", "i386", 2, Some(7)),
        ("read", "x86_64", 3, Some(60)),
        ("write", "x86_64", 0, None),
    ];
    assert_eq!(call_lines(&process.syscalls), expected);
    assert_eq!(call_lines(&of_threads.totals.syscalls), expected);
    assert_eq!(process.threads, 2);
    let first = call_lines(&process.by_thread[0].syscalls);
    assert_eq!(first, [("read", "x86_64", 2, Some(30))]);
    let by_process = report_with(&trace, Detail::Process);
    assert!(by_process.processes[0].by_thread.is_empty());
}

#[test]
fn usage_is_unknown_if_that_of_one_process_is() {
    let mut trace = sample::make(3);
    let known = sorted_report(&trace).totals.usage;
    assert!(known.user_ns.is_some() && known.page_faults.major.is_some());
    trace.processes[1].counters = None;
    assert_eq!(sorted_report(&trace).totals.usage, Usage::default());
}

#[test]
fn the_detail_total_lists_no_process_and_has_the_same_sums_and_transfers() {
    let scene = scene("one: sendfile in->out 1 100; two: sendfile in->out 1 100");
    let (total, whole) = (
        report_with(&scene.trace, Detail::Total),
        sorted_report(&scene.trace),
    );
    assert_eq!(
        (total.processes, total.totals, total.transfers.len()),
        (Vec::new(), whole.totals, 2)
    );
    assert_eq!(total.transfers, whole.transfers);
}

#[test]
fn processes_of_the_same_name_are_summed_as_a_program() {
    let mut trace = sample::make(9);
    for executed in trace.processes.iter_mut().skip(1) {
        executed.exe = Some("/bin/any".into());
    }
    let several = sorted_report(&trace);
    let programs = several.programs.iter();
    let found: Vec<_> = programs
        .map(|one| (one.name.as_deref(), one.runs, one.execs, one.threads))
        .collect();
    let expected = [
        (Some("cc1"), 6, 6, 6),
        (Some("true"), 2, 2, 2),
        (Some("make"), 1, 0, 1),
    ];
    assert_eq!(found, expected);
    // The programs of processes that were found are known, too.
    trace.attached = Some(Attached::default());
    let attached = sorted_report(&trace).programs;
    assert!(attached.iter().all(|one| one.execs == 0));
    let calls = |calls: &[Syscall]| calls.iter().map(|call| call.calls).sum::<u64>();
    let cpu = |usage: &Usage| usage.cpu_ns().expect("known");
    for program in &several.programs {
        let of_it = several
            .processes
            .iter()
            .filter(|one| one.name() == program.name.as_deref());
        let sums = of_it.map(|one| (calls(&one.syscalls), cpu(&one.usage)));
        let sums = sums.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        assert_eq!((calls(&program.syscalls), cpu(&program.usage)), sums);
        let has_percentile = |call: &Syscall| call.p99_ns.is_some();
        assert!(
            program.syscalls.iter().all(has_percentile),
            "of all processes"
        );
    }
    let single = sorted_report(&sample::copier());
    assert_eq!(single.programs, [], "one process is its own sum");
}

#[test]
fn times_are_rfc_3339_in_utc() {
    let time = UNIX_EPOCH + Duration::from_millis(1_733_000_000_250);
    assert_eq!(rfc3339(time).as_deref(), Some("2024-11-30T20:53:20.25Z"));
    assert_eq!(rfc3339(UNIX_EPOCH - Duration::from_secs(1)), None);
}

#[test]
fn a_report_is_read_back_from_json_unchanged() {
    for trace in [
        sample::copier(),
        sample::make(5),
        sample::from_strace(),
        sample::nothing(),
    ] {
        let report = sorted_report(&trace);
        let json = serde_json::to_string(&report).expect("serialises");
        assert_eq!(Report::from_json(&json).expect("is read"), report);
    }
}

/// Rows of which some figures are unknown.
fn any_row() -> impl Strategy<Value = Row> {
    let names = prop::sample::select(vec!["read", "write", "mmap", "splice"]);
    let times = option::of([0_u64..1 << 20, 0..1 << 30, 0..99]);
    let bytes = option::of(0_u64..1 << 40);
    (names, times, bytes, 0..5_u64, 0..2_u64, any::<bool>()).prop_map(
        |(name, times, bytes, calls, unfinished, is_32_bit)| {
            let mut row = row(name).called(calls).unfinished(unfinished);
            if let Some(times) = times {
                row = row.took(&times);
            }
            row.bytes = bytes.filter(|_| row.calls > 0);
            if is_32_bit { row.i386() } else { row }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    #[test]
    fn the_totals_are_those_of_one_process_with_all_rows_in_any_order(
        processes in vec(vec(vec(any_row(), 0..6), 1..4), 1..5),
    ) {
        let mut rows: Vec<Row> = processes.iter().flatten().flatten().cloned().collect();
        rows.reverse();
        let single = sorted_report(&sample::of_threads(vec![rows]));
        let mut scene = Scene::new();
        for threads in processes {
            scene.threads("program", threads);
        }
        let whole = sorted_report(&scene.trace);
        prop_assert_eq!(&whole.totals.syscalls, &single.totals.syscalls);
        prop_assert_eq!(whole.totals.processes, length_as_u64(whole.processes.len()));
        let mut of_process = single.totals.syscalls;
        for call in &mut of_process {
            call.histogram.clear();
        }
        prop_assert_eq!(&single.processes[0].syscalls, &of_process);
    }
}

#[test]
fn calls_without_rows_are_summed_by_process_and_sorted_by_time() {
    let mut trace = sample::of_threads(vec![vec![row("read").called(1)], vec![]]);
    let shown = |trace: &Trace| {
        let report = sorted_report(trace);
        (
            report.totals.other_syscalls,
            report.processes[0].other_calls,
        )
    };
    assert_eq!(shown(&trace), (None, None));
    let sums = |calls, total_ns| {
        OtherCalls::new(CallSums {
            calls,
            total_ns,
            ..CallSums::NONE
        })
    };
    let by_call = [("openat", sums(2, Some(5))), ("futex", sums(1, Some(9)))];
    trace.other_calls = Some(
        by_call
            .map(|(name, sums)| (Call::native(name), sums))
            .into(),
    );
    trace.processes[0].threads[0].other_calls = Some(sums(2, Some(5)));
    assert_eq!(shown(&trace).1, None, "those of one thread are unknown");
    trace.processes[0].threads[1].other_calls = Some(sums(1, Some(9)));
    let (others, of_process) = shown(&trace);
    let names = others.iter().flatten().map(|call| call.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["futex", "openat"]);
    assert_eq!(of_process, Some(sums(3, Some(14))));
}
