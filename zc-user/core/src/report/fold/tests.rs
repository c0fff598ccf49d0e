use std::time::Duration;

use crate::{
    report::{
        Syscall,
        sample::{
            self,
            files::{Scene, read, write},
            row,
        },
    },
    syscalls::Selection,
    trace::Loss,
};

use super::*;

/// The report on a trace, sorted by name so that the order depends on nothing else.
fn report(trace: &Trace) -> Report {
    Report::from_trace(
        trace,
        &Options {
            detail: Detail::Thread,
            sort: SortKey::Name,
            ..Options::default()
        },
    )
}

#[test]
fn threads_are_summed_to_their_process_call_by_call() {
    let trace = sample::of_threads(vec![
        vec![
            row("read").bytes(10).took(&[100]),
            row("read").bytes(20).took(&[300]),
        ],
        vec![
            row("read").bytes(30).took(&[200]),
            row("write").bytes(60).took(&[50]),
        ],
    ]);
    let report = report(&trace);
    let process = &report.processes[0];
    let lines: Vec<_> = process
        .syscalls
        .iter()
        .map(|line| (line.name.as_str(), line.calls, line.bytes))
        .collect();
    assert_eq!(lines, [("read", 3, Some(60)), ("write", 1, Some(60))]);
    assert_eq!(process.threads, 2);
    assert_eq!(process.by_thread[0].syscalls[0].calls, 2);
}

#[test]
fn calls_through_the_32_bit_entry_have_their_own_entry() {
    let trace = sample::of_threads(vec![vec![
        row("read").called(1),
        row("read").i386().called(2),
    ]]);
    let lines: Vec<_> = report(&trace)
        .totals
        .syscalls
        .into_iter()
        .map(|line| (line.abi, line.calls))
        .collect();
    assert_eq!(lines, [("i386".to_owned(), 2), ("x86_64".to_owned(), 1)]);
}

#[test]
fn a_call_that_never_happened_has_no_entry() {
    let trace = sample::of_threads(vec![vec![row("read"), row("write").unfinished(1)]]);
    let names: Vec<_> = report(&trace)
        .totals
        .syscalls
        .into_iter()
        .map(|line| line.name)
        .collect();
    assert_eq!(names, ["write"]);
}

#[test]
fn a_row_without_calls_makes_no_sum_unknown() {
    let trace = sample::of_threads(vec![vec![row("read"), row("read").bytes(5).took(&[10])]]);
    assert_eq!(report(&trace).totals.syscalls[0].bytes, Some(5));
}

#[test]
fn usage_is_unknown_if_that_of_one_process_is() {
    let mut trace = sample::make(3);
    let known = report(&trace).totals.usage;
    assert!(known.user_ns.is_some() && known.page_faults.major.is_some());
    trace.processes[1].counters = None;
    assert_eq!(report(&trace).totals.usage, Usage::default());
}

#[test]
fn calls_without_files_are_a_loss_but_counts_are_exact() {
    let mut trace = sample::copier();
    trace.calls_without_files = 7;
    let report = Report::from_trace(&trace, &Options::default());
    assert!(report.exact);
    assert_eq!(
        report.losses,
        BTreeMap::from([("calls_without_files".to_owned(), 7)])
    );
}

#[test]
fn a_loss_above_zero_makes_the_report_a_lower_bound() {
    let mut trace = sample::copier();
    trace.losses = BTreeMap::from([(Loss::UncountedCalls, 0), (Loss::LostEvents, 0)]);
    let exact = report(&trace);
    assert!(exact.exact && exact.losses.is_empty());
    trace.losses.insert(Loss::UncountedCalls, 12);
    let bound = report(&trace);
    assert!(!bound.exact);
    assert_eq!(
        bound.losses,
        BTreeMap::from([("uncounted_calls".to_owned(), 12)])
    );
}

#[test]
fn the_detail_total_lists_no_process_and_has_the_same_sums() {
    let trace = sample::make(3);
    let total = Report::from_trace(
        &trace,
        &Options {
            detail: Detail::Total,
            sort: SortKey::Name,
            ..Options::default()
        },
    );
    assert_eq!(
        (total.processes, total.totals),
        (Vec::new(), report(&trace).totals)
    );
}

#[test]
fn the_detail_total_has_all_transfers() {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    for name in ["one", "two"] {
        scene.process(
            name,
            vec![sample::files::copy("sendfile", from, to, 1, 100)],
        );
    }
    let total = Report::from_trace(
        &scene.trace,
        &Options {
            detail: Detail::Total,
            ..Options::default()
        },
    );
    assert_eq!(
        (total.transfers.len(), total.transfers),
        (2, report(&scene.trace).transfers)
    );
}

#[test]
fn processes_of_the_same_name_are_summed_as_a_program() {
    let report = report(&sample::make(9));
    let found: Vec<_> = report
        .programs
        .iter()
        .map(|one| {
            (
                one.name.as_deref().unwrap_or("-"),
                one.processes,
                one.threads,
            )
        })
        .collect();
    assert_eq!(found, [("cc1", 6, 6), ("true", 2, 2), ("make", 1, 1)]);
    let calls = |calls: &[Syscall]| calls.iter().map(|call| call.calls).sum::<u64>();
    let of_cc1 = report
        .processes
        .iter()
        .filter(|process| process.name() == Some("cc1"));
    assert_eq!(
        calls(&report.programs[0].syscalls),
        of_cc1.map(|process| calls(&process.syscalls)).sum::<u64>()
    );
    assert!(
        report.programs[0]
            .syscalls
            .iter()
            .all(|call| call.p99_ns.is_some()),
        "percentiles are those of all processes"
    );
    let cpu = |usages: &mut dyn Iterator<Item = Usage>| {
        usages
            .map(|usage| usage.cpu_ns().expect("known"))
            .sum::<u64>()
    };
    assert_eq!(
        cpu(&mut report.programs.iter().map(|one| one.usage)),
        cpu(&mut report.processes.iter().map(|one| one.usage))
    );
    assert_eq!(
        Report::from_trace(&sample::copier(), &Options::default()).programs,
        Vec::new(),
        "one process is its own sum"
    );
}

#[test]
fn threads_are_listed_only_on_request() {
    let by_process = Report::from_trace(&sample::copier(), &Options::default());
    assert!(by_process.processes[0].by_thread.is_empty());
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
        let report = report(&trace);
        let json = serde_json::to_string(&report).expect("serialises");
        assert_eq!(Report::from_json(&json).expect("is read"), report);
    }
}

/// The additive figures by call, which must be the same however rows are grouped.
fn figures<'a>(
    lines: impl Iterator<Item = &'a Syscall>,
) -> BTreeMap<(String, String), [Option<u64>; 6]> {
    let mut sums = BTreeMap::new();
    for line in lines {
        let sum = sums
            .entry((line.name.clone(), line.abi.clone()))
            .or_insert([Some(0); 6]);
        let figures = [
            Some(line.calls),
            Some(line.errors),
            Some(line.unfinished),
            line.bytes,
            line.requested_bytes,
            line.total_ns,
        ];
        for (sum, figure) in sum.iter_mut().zip(figures) {
            // Without a call nothing is unknown.
            let figure = figure.or((line.calls == 0).then_some(0));
            *sum = sum.zip(figure).map(|(sum, figure)| sum + figure);
        }
    }
    sums
}

#[test]
fn processes_add_up_to_the_totals() {
    for seed in 0..50 {
        let report = report(&sample::random(seed));
        let of_processes = figures(
            report
                .processes
                .iter()
                .flat_map(|process| &process.syscalls),
        );
        assert_eq!(
            of_processes,
            figures(report.totals.syscalls.iter()),
            "seed {seed}"
        );
        assert_eq!(report.totals.processes, count(report.processes.len()));
    }
}

#[test]
fn the_order_of_threads_rows_and_processes_does_not_matter() {
    for seed in 0..50 {
        let mut trace = sample::random(seed);
        let totals = report(&trace).totals;
        trace.processes.reverse();
        for process in &mut trace.processes {
            process.threads.reverse();
            for thread in &mut process.threads {
                thread.rows.reverse();
            }
        }
        assert_eq!(report(&trace).totals, totals, "seed {seed}");
    }
}

#[test]
fn calls_without_rows_are_summed_by_process_and_sorted_by_time() {
    let mut trace = sample::of_threads(vec![vec![row("read").called(1)], vec![]]);
    assert_eq!(
        (
            report(&trace).totals.other_syscalls,
            report(&trace).processes[0].other_calls
        ),
        (None, None)
    );
    let sums = |calls, total_ns| OtherCalls {
        calls,
        total_ns,
        ..OtherCalls::NONE
    };
    trace.other_calls = Some(
        [("openat", sums(2, Some(5))), ("futex", sums(1, Some(9)))]
            .map(|(name, sums)| (Call::native(name), sums))
            .into(),
    );
    trace.processes[0].threads[0].other_calls = Some(sums(2, Some(5)));
    assert_eq!(
        report(&trace).processes[0].other_calls,
        None,
        "those of one thread are unknown"
    );
    trace.processes[0].threads[1].other_calls = Some(sums(1, Some(9)));
    let report = report(&trace);
    let names: Vec<&str> = report
        .totals
        .other_syscalls
        .iter()
        .flatten()
        .map(|call| call.name.as_str())
        .collect();
    assert_eq!(names, ["futex", "openat"]);
    let sum = report.processes[0].other_calls.expect("known");
    assert_eq!((sum.calls, sum.total_ns), (3, Some(14)));
}

#[test]
fn calls_on_shared_libraries_load_programs() {
    let mut scene = Scene::new();
    scene.trace.counted = Some(Selection::default());
    let [libc, plugin, notes] =
        ["/lib/libc.so.6", "/opt/x.so", "/home/notes.sorted"].map(|name| scene.regular(name));
    scene.process(
        "x",
        vec![
            read("read", libc, 1, 832),
            read("pread64", plugin, 2, 64),
            read("read", notes, 5, 50),
        ],
    );
    assert_eq!(
        report(&scene.trace)
            .totals
            .loading
            .map(|loading| loading.calls),
        Some(3)
    );
    scene.trace.counted = Some("read".parse().expect("a selection"));
    assert_eq!(
        report(&scene.trace).totals.loading,
        None,
        "mmap was not counted"
    );
}

#[test]
fn a_note_says_that_a_write_was_cut_off() {
    let mut scene = Scene::new();
    let file = scene.regular("log");
    scene.process(
        "killed",
        vec![
            read("read", file, 1, 10),
            row("poll").unfinished(1),
            read("read", file, 0, 0).unfinished(1),
        ],
    );
    assert_eq!(report(&scene.trace).notes, [""; 0]);
    scene.process("killed", vec![write("write", file, 3, 30).unfinished(1)]);
    let notes = report(&scene.trace).notes;
    assert!(
        matches!(notes.as_slice(), [note] if note.starts_with("1 call was cut off while writing")),
        "{notes:?}"
    );
}
