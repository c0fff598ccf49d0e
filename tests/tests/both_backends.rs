//! The same command under both backends: what must be equal, and what may differ.
//!
//! Never compared: wall time and the times of calls, since tracing slows a program. Always unknown (`null`) under strace: CPU time, context
//! switches, page faults, and the command lines of processes, because strace is told to show no strings. Everything else must be equal,
//! except for what [`Compared`] leaves out of a case.

use std::fs;

use Compared::{All, AllBut, Nothing, OwnProcess, OwnThread, OwnThreadAsStated};
use serde_json::Value;
use zc_tests::Figures;
use zctrace::report::{Api, Process, State, Usage};

use crate::harness::{Program, Rows, Run, TestDir, c, program, shell, untraced, workload, zctrace};

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
        All => run.totals().figures(),
        AllBut(names) => {
            let mut figures = run.totals().figures();
            figures.retain(|name, _| !names.contains(&name.as_str()));
            figures
        }
        OwnThread | OwnThreadAsStated => {
            let stated = run.stated();
            let thread = run.thread(stated.thread.as_deref().expect("it names its thread"));
            thread.assert_equal(&stated.calls);
            thread.figures()
        }
        OwnProcess => Rows::of(run.process(run.stated().pid.expect("it names its child"))).figures(),
        Nothing => Figures::new(),
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
    if !matches!(compared, AllBut(_) | Nothing) {
        assert_eq!(ebpf.report.totals.threads, strace.report.totals.threads, "threads of {program:?}");
    }
    let [expected, found] = [&ebpf, &strace].map(|run| figures(run, compared));
    assert!(compared == Nothing || !expected.is_empty(), "nothing is compared of {program:?}");
    if compared == OwnThreadAsStated {
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
fn every_workload_is_counted_the_same() {
    assert_eq!(listed(program(env!("CARGO_BIN_EXE_workload"))), WORKLOADS.iter().map(|(words, _)| words[0]).collect::<Vec<_>>());
    for (words, compared) in WORKLOADS.iter().filter(|(_, compared)| *compared != Nothing) {
        assert_equal(&workload(words[0]).args(&words[1..]), *compared);
    }
}

/// Every case of a copier, from file to file. Some cannot: then the same calls fail in the same way.
fn every_case_of(copier: &Program) {
    let dir = TestDir::new();
    let [from, to] = ["from", "to"].map(|name| dir.join(name));
    fs::write(&from, vec![7; 1_000_000]).expect("ours");
    let cases = listed(copier.clone());
    assert!(cases.len() >= 8, "{cases:?}");
    for case in cases {
        let copy = copier.clone().arg(&case).arg("--from").arg(&from).arg("--to").arg(&to).args(options_of_copier(&case));
        assert_equal(&copy, compared_of_copier(&case));
    }
}

#[test]
fn every_case_of_the_rust_copier_is_counted_the_same() {
    every_case_of(&program(env!("CARGO_BIN_EXE_copier")));
}

#[test]
fn every_case_of_the_c_copier_is_counted_the_same() {
    every_case_of(&c("copier-c"));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn thirty_two_bit_calls_are_counted_the_same() {
    assert_equal(&c("int80").args(&["500", "20"]), All);
}

#[test]
fn selected_calls_are_counted_the_same() {
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
fn values_that_strace_cannot_know_are_null() {
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

/// Which rows of a case do not depend on the moment, so that two runs can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// The totals of all processes.
    All,
    /// The totals, without the calls that depend on which thread was faster.
    AllBut(&'static [&'static str]),
    /// Those of the thread that the workload names.
    OwnThread,
    /// The same, but each run only with what that run states of itself.
    OwnThreadAsStated,
    /// Those of the process that the workload names.
    OwnProcess,
    /// None.
    Nothing,
}

/// A thread that finds the C library's memory in use by another gets an arena of its own, if it comes at the same time; for the ninth
/// arena, glibc looks up the number of processors.
const ARENAS: &[&str] = &["mmap", "munmap", "read"];
/// Besides, a worker of tokio that is done wakes the main thread, through an eventfd, if that sleeps already.
const ARENAS_AND_WAKES: &[&str] = &["mmap", "munmap", "read", "write"];
/// glibc gives back what stands before and behind an arena, to align it: nothing, one piece or two, as the address happens to be.
const ALIGNMENT: &[&str] = &["mmap", "munmap"];

/// Every case of `workload` with arguments that make it short.
pub const WORKLOADS: &[(&[&str], Compared)] = &[
    (&["known"], OwnThread),
    (&["errnos"], OwnThread),
    // The files of /proc tell also what comes from the disk, so they are not equally long at all times.
    (&["proc-io", "30", "20", "70"], OwnThreadAsStated),
    (&["signal-reads", "20"], OwnThread),
    (&["signal-recv", "20"], OwnThread),
    (&["signal-restart", "20"], OwnThread),
    (&["fork-storm", "200"], All),
    (&["exec-storm", "50"], All),
    (&["thread-storm", "16", "100"], AllBut(ARENAS)),
    // The other thread, or the parent, polls /proc until the call blocks.
    (&["unfinished"], OwnThread),
    (&["killed"], OwnProcess),
    (&["killed-sending"], OwnProcess),
    (&["trapped"], OwnThread),
    // How often the other thread looks whether this one waits depends on time; tests/tests/files/evidence.rs has them.
    (&["trapped-in-handler"], Nothing),
    (&["denied-in-handler"], Nothing),
    // ENOSYS of copy_file_range.
    (&["deny", "38", "326", "true"], All),
    // strace cannot follow it, and says so.
    (&["untraced-child"], Nothing),
    (&["unknown-numbers"], All),
    (&["rusage"], OwnProcess),
    (&["exec-thread", "70", "30"], AllBut(ALIGNMENT)),
    (&["write", "50", "20"], All),
    // It works as long as somebody lets it.
    (&["bystander"], Nothing),
    (&["exit-code", "7"], All),
    (&["kill-self", "TERM"], All),
];

/// What is compared of a case of `copier` or `copier-c`. The exit status and the processes always are.
pub fn compared_of_copier(case: &str) -> Compared {
    match case {
        // The only call left is `pread64`, with which the loader reads headers on x86_64. On arm64 it finds them in its first read.
        "tokio-io-copy" if cfg!(target_arch = "x86_64") => AllBut(ARENAS_AND_WAKES),
        "tokio-io-copy" => Nothing,
        _ => All,
    }
}

/// What makes a case of `copier-c` short: under strace, two calls a byte take long.
pub fn options_of_copier(case: &str) -> &'static [&'static str] {
    if case == "byte-cat" { &["--size=5000"] } else { &[] }
}

/// Threads feed and drain the sockets at the ends of the copy. What is drained came from what is fed, and not the other way round,
/// whichever thread happens to call first.
#[test]
fn a_drained_socket_is_not_a_source() {
    let copies = program(env!("CARGO_BIN_EXE_kernel-copy")).args(&["socket-pipe-socket", "std-io-copy", "--copies", "20"]);
    for backend in ["ebpf", "strace"] {
        for _ in 0..10 {
            let run = zctrace().option(format!("--backend={backend}")).run(&copies);
            let found: Vec<_> = run.report.processes[0].transfers.iter().map(|transfer| (transfer.api, transfer.bytes)).collect();
            assert_eq!(found, [(Api::Splice, Some(20 * 128 * 1024))], "{backend}: {:#?}", run.report.processes[0].transfers);
        }
    }
}

/// A script that writes once more each time it runs. Its memory is the file that is its first argument.
fn fickle(memory: &std::path::Path) -> Program {
    shell("echo >>$0; while read line; do echo hi; done <$0").arg(memory)
}

#[test]
fn verify_succeeds_if_both_runs_are_equal() {
    let finished = zctrace().option("--verify").show(&program("head").args(&["-c", "5000", "/dev/zero"]));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert_eq!(finished.stdout, [0; 10_000], "it runs twice");
    assert!(finished.stderr.lines().next().is_some_and(|line| line.starts_with("equal: ")), "{}", finished.stderr);
    assert!(!finished.stderr.contains('≠'), "{}", finished.stderr);
}

#[test]
fn verify_fails_and_shows_what_differs() {
    let dir = TestDir::new();
    let finished = zctrace().option("--verify").show(&fickle(&dir.join("memory")));
    assert_eq!((finished.code, finished.text()), (Some(1), "hi\nhi\nhi\n"), "{}", finished.stderr);
    let first = finished.stderr.lines().next().expect("a line");
    assert!(first.starts_with("DIFFERENT: ") && first.contains("ebpf") && first.contains("strace"), "{first}");
    assert!(
        finished.stderr.lines().any(|line| line.trim().starts_with("write ") && line.contains("2 ≠ 3")),
        "{}",
        finished.stderr
    );
}

#[test]
fn verify_notes_that_the_first_run_read_stdin() {
    let finished = zctrace().option("--verify").input(b"1\n2\n").show(&program("cat"));
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    assert!(finished.stderr.contains("needed from stdin"), "{}", finished.stderr);
}

#[test]
fn verify_writes_its_comparison_as_json() {
    let dir = TestDir::new();
    let output = dir.join("verify.json");
    let finished = zctrace().option("--verify").option("--format=json").option("--output").option(&output);
    let finished = finished.show(&fickle(&dir.join("memory")));
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(1), ""));
    let text = fs::read_to_string(output).expect("it was written");
    let comparison: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(comparison["backends"], serde_json::json!(["ebpf", "strace"]));
    let row = |name| comparison["rows"].as_array().and_then(|rows| rows.iter().find(|row| row["name"] == name)).expect("a row");
    assert_eq!(row("mmap")["equal"], true);
    let write = row("write");
    assert_eq!(write["equal"], false);
    assert_eq!([&write["figures"][0]["bytes"], &write["figures"][1]["bytes"]], [4, 7]);
}

#[test]
fn verify_reports_a_command_that_cannot_be_run() {
    zctrace().option("--verify").refuses_to_run(&program("no-such-command")).with_status(127).saying("'no-such-command'");
}

#[test]
fn verify_refuses_the_option_backend() {
    zctrace().option("--verify").option("--backend=strace").refuses().with_status(125).saying("--backend");
}
