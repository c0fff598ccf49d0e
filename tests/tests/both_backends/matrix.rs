//! Every workload under both backends: calls, errors by errno, bytes, requested bytes, unfinished calls.

use std::fs;

use zc_tests::Figures;
use zctrace::report::{Process, State, Usage};

use super::differences::{Compared, WORKLOADS, compared_of_copier, options_of_copier};
use crate::harness::{Program, Rows, Run, c, program, untraced, workload, zctrace};

/// What the program did under both backends: eBPF, strace.
fn runs(program: &Program) -> [Run; 2] {
    let runs = ["ebpf", "strace"].map(|backend| zctrace().by_thread().option(format!("--backend={backend}")).run(program));
    for (run, backend) in runs.iter().zip(["ebpf", "strace"]) {
        assert_eq!(run.report.backend, backend);
        run.assert_exact();
    }
    runs
}

/// The rows of a run that are to be compared.
#[track_caller]
fn figures(run: &Run, compared: Compared) -> Figures {
    match compared {
        Compared::All => run.totals().figures(),
        Compared::AllBut(names) => {
            let mut figures = run.totals().figures();
            figures.retain(|name, _| !names.contains(&name.as_str()));
            figures
        }
        Compared::OwnThread | Compared::OwnThreadAsStated => {
            let stated = run.stated();
            let thread = run.thread(stated.thread.as_deref().expect("it names its thread"));
            thread.assert_equal(&stated.calls);
            thread.figures()
        }
        Compared::OwnProcess => Rows::of(run.process(run.stated().pid.expect("it names its child"))).figures(),
        Compared::Nothing => Figures::new(),
    }
}

/// A process as both backends must show it.
type Shape<'a> = (Option<&'a str>, Option<&'a str>, State);

/// Which processes there were, in an order that does not depend on their ids.
fn shapes<'a>(run: &'a Run) -> Vec<Shape<'a>> {
    let shape = |process: &'a Process| (process.comm.as_deref(), process.exe.as_deref(), process.state);
    let mut shapes: Vec<Shape<'_>> = run.report.processes.iter().map(shape).collect();
    shapes.sort_by_key(|(comm, exe, _)| (*comm, *exe));
    shapes
}

/// Makes sure that both backends report the same of this program.
#[track_caller]
fn assert_equal(program: &Program, compared: Compared) {
    let [ebpf, strace] = runs(program);
    println!("{:?}: {compared:?}", program.words());
    assert_eq!((ebpf.finished.code, ebpf.report.exit), (strace.finished.code, strace.report.exit), "end of {program:?}");
    assert_eq!(shapes(&ebpf), shapes(&strace), "processes of {program:?}");
    if !matches!(compared, Compared::AllBut(_)) {
        assert_eq!(ebpf.report.totals.threads, strace.report.totals.threads, "threads of {program:?}");
    }
    let [expected, found] = [&ebpf, &strace].map(|run| figures(run, compared));
    assert!(!expected.is_empty(), "nothing is compared of {program:?}");
    if compared == Compared::OwnThreadAsStated {
        assert_eq!(expected.keys().collect::<Vec<_>>(), found.keys().collect::<Vec<_>>(), "calls of {program:?}");
    } else {
        assert_eq!(expected, found, "eBPF (left) and strace, of {program:?}");
    }
}

/// The names that a program lists.
fn listed(program: Program) -> Vec<String> {
    let list = untraced(&program.arg("--list")).finish();
    list.successful().lines().filter_map(|line| Some(line.split_ascii_whitespace().next()?.to_owned())).collect()
}

#[test]
fn every_workload() {
    assert_eq!(listed(program(env!("CARGO_BIN_EXE_workload"))), WORKLOADS.iter().map(|(words, _)| words[0]).collect::<Vec<_>>());
    for (words, compared) in WORKLOADS.iter().filter(|(_, compared)| *compared != Compared::Nothing) {
        assert_equal(&workload(words[0]).args(&words[1..]), *compared);
    }
}

/// Every case of a copier, from file to file. Some cannot: then the same calls fail in the same way.
fn every_case_of(copier: &Program) {
    let dir = tempfile::tempdir().expect("a directory");
    let [from, to] = ["from", "to"].map(|name| dir.path().join(name));
    fs::write(&from, vec![7; 1_000_000]).expect("ours");
    let cases = listed(copier.clone());
    assert!(cases.len() >= 8, "{cases:?}");
    for case in cases {
        let copy = copier.clone().arg(&case).arg("--from").arg(&from).arg("--to").arg(&to).args(options_of_copier(&case));
        assert_equal(&copy, compared_of_copier(&case));
    }
}

#[test]
fn every_copier() {
    every_case_of(&program(env!("CARGO_BIN_EXE_copier")));
}

#[test]
fn every_copier_in_c() {
    every_case_of(&c("copier-c"));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn thirty_two_bit_calls() {
    assert_equal(&c("int80").args(&["500", "20"]), Compared::All);
}

#[test]
fn only_the_selected_calls() {
    for set in ["pread64,%network", "ioctl(FICLONE)", "write", "all"] {
        let [ebpf, strace] = ["ebpf", "strace"].map(|backend| {
            let run = zctrace().by_thread().syscalls(set).option(format!("--backend={backend}")).run(&workload("known"));
            run.assert_exact();
            run.thread("zc-known").figures()
        });
        assert!(!ebpf.is_empty(), "{set}");
        assert_eq!(ebpf, strace, "eBPF (left) and strace, of {set}");
    }
}

#[test]
fn what_strace_cannot_know_is_null() {
    let [ebpf, strace] = runs(&workload("fork-storm").arg("5"));
    let usages = |run: &Run| -> Vec<Usage> {
        let processes = run.report.processes.iter().map(|process| process.usage);
        run.threads().map(|thread| thread.usage).chain(processes).chain([run.report.totals.usage]).collect()
    };
    assert!(usages(&strace).iter().all(|usage| *usage == Usage::default()), "{:?}", usages(&strace));
    assert!(
        strace.report.processes.iter().all(|process| process.command.is_none()),
        "words are cut: {:?}",
        strace.report.processes
    );
    assert!(usages(&ebpf).iter().all(|usage| usage.user_ns.is_some() && usage.page_faults.minor.is_some()));
    let is_timed = |run: &Run| run.report.totals.syscalls.iter().all(|call| call.calls == 0 || call.p99_ns.is_some());
    assert!(is_timed(&ebpf) && is_timed(&strace), "both time calls");
    assert!(strace.report.wall_ns.is_some_and(|wall| wall > 0));
}
