//! The same command under both backends, and under strace by itself: what must be equal, and what
//! may differ.
//!
//! Wall time and the times of calls are never compared, because tracing slows a program. CPU time,
//! context switches and page faults are always unknown (`null`) under strace, and so are the
//! command lines of processes, because strace is told to cut strings. Everything else must be
//! equal, except for the calls that [`ComparedRows`] leaves out.

use std::collections::BTreeMap;

use ComparedRows::{All, AllBut, Nothing, OwnProcess, OwnThread};
use zc_tests::Figures;
use zctrace::report::{State, Usage};

use crate::{
    copiers::cases,
    counters::rusage,
    harness::{
        Program, Run, TestDir, Zctrace, c, counted_by_strace, each_backend, last_programs, program,
        python, shell, workload, zctrace,
    },
};

/// The runs of a program under eBPF and under strace.
fn runs(program: &Program) -> [Run; 2] {
    ["ebpf", "strace"].map(|backend| {
        let run = zctrace().by_thread().backend(backend).run_exactly(program);
        assert_eq!(run.report.backend, backend);
        run
    })
}

/// Which rows of a case are the same in each run, so that two runs can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ComparedRows {
    /// The totals of all processes.
    All,
    /// The totals, without these calls.
    AllBut(&'static [&'static str]),
    /// The rows of the thread that the workload names: in each run as that run states.
    OwnThread,
    /// The rows of the process that the workload names, and what the workload states about it.
    OwnProcess,
    /// None.
    Nothing,
}

/// The rows of a run that are to be compared.
#[track_caller]
fn figures(run: &Run, compared: ComparedRows) -> Figures {
    let mut figures = match compared {
        All | AllBut(_) => run.totals().figures(),
        OwnProcess => {
            run.own_process().assert_contain(&run.stated().calls);
            run.own_process().figures()
        }
        OwnThread => {
            run.own_thread().assert_equal(&run.stated().calls);
            Figures::new()
        }
        Nothing => Figures::new(),
    };
    if let AllBut(names) = compared {
        figures.retain(|name, _| !names.contains(&name.as_str()));
    }
    figures
}

/// All processes as both backends must show them, in an order that does not depend on their ids. A
/// program that made no calls before its process executed another one is not seen by strace.
fn shapes(run: &Run) -> Vec<(Option<&str>, Option<&str>, State)> {
    let processes = last_programs(&run.report).into_iter();
    let shapes = processes.map(|one| (one.comm.as_deref(), one.exe.as_deref(), one.state));
    let mut shapes: Vec<_> = shapes.collect();
    shapes.sort_by_key(|(comm, exe, _)| (*comm, *exe));
    shapes
}

/// Makes sure that both backends report the same of this program.
#[track_caller]
fn assert_equal(program: &Program, compared: ComparedRows) {
    println!("{:?}: {compared:?}", program.words());
    let [ebpf, strace] = runs(program);
    let end = |run: &Run| (run.finished.code, run.report.exit);
    assert_eq!(end(&ebpf), end(&strace), "ends");
    assert_eq!(shapes(&ebpf), shapes(&strace), "processes");
    if !matches!(compared, AllBut(_) | Nothing) {
        let [ours, theirs] = [&ebpf, &strace].map(|run| run.report.totals.threads);
        assert_eq!(ours, theirs, "threads");
    }
    let [expected, found] = [&ebpf, &strace].map(|run| figures(run, compared));
    let may_be_empty = matches!(compared, OwnThread | Nothing);
    assert!(may_be_empty || !expected.is_empty(), "nothing is compared");
    assert_eq!(expected, found, "eBPF (left) and strace");
}

#[test]
fn every_workload_is_counted_the_same() {
    let names: Vec<_> = WORKLOADS.iter().map(|(words, _)| words[0]).collect();
    assert_eq!(cases(&program(env!("CARGO_BIN_EXE_workload"))), names);
    for (words, compared) in WORKLOADS {
        if *compared != Nothing {
            assert_equal(&workload(words[0]).args(&words[1..]), *compared);
        }
    }
    assert_equal(&rusage(), OwnProcess);
}

/// Compares every case of a copier, from file to file. Some cases cannot copy to a file: then the
/// same calls fail in the same way.
fn compare_every_case_of(copier: &Program) {
    let dir = TestDir::new();
    let (from, to) = (dir.write("from", vec![7; 1_000_000]), dir.join("to"));
    let cases = cases(copier);
    assert!(cases.len() >= 8, "{cases:?}");
    for case in cases {
        let copy = copier.clone().arg(&case).arg("--from").arg(&from);
        let copy = copy.arg("--to").arg(&to);
        match case.as_str() {
            // Under strace, two calls for each byte take long.
            "byte-cat" => assert_equal(&copy.arg("--size=5000"), All),
            // The only call left is `pread64`, with which the loader reads headers on x86_64. On
            // arm64 it has them from its first read.
            "tokio-io-copy" if cfg!(target_arch = "x86_64") => {
                assert_equal(&copy, AllBut(ARENAS_AND_WAKES));
            }
            "tokio-io-copy" => assert_equal(&copy, Nothing),
            _ => assert_equal(&copy, All),
        }
    }
}

#[test]
fn every_case_of_the_rust_copier_is_counted_the_same() {
    compare_every_case_of(&program(env!("CARGO_BIN_EXE_copier")));
}

#[test]
fn every_case_of_the_c_copier_is_counted_the_same() {
    compare_every_case_of(&c("copier-c"));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn thirty_two_bit_calls_are_counted_the_same() {
    assert_equal(&c("int80").args(&["500", "20"]), All);
}

#[test]
fn values_that_strace_cannot_know_are_null() {
    let [ebpf, strace] = runs(&workload("fork-storm").arg("5"));
    let usages = |run: &Run| -> Vec<Usage> {
        let processes = run.report.processes.iter().map(|process| process.usage);
        let threads = run.threads().map(|thread| thread.usage);
        let parts = threads.chain(processes);
        parts.chain([run.report.totals.usage]).collect()
    };
    for usage in usages(&strace) {
        assert_eq!(usage, Usage::default());
    }
    for usage in usages(&ebpf) {
        assert!(usage.user_ns.is_some() && usage.page_faults.minor.is_some());
    }
    // strace cuts their words.
    let mut processes = strace.report.processes.iter();
    assert!(processes.all(|process| process.command.is_none()));
    for run in [&ebpf, &strace] {
        let mut calls = run.report.totals.syscalls.iter();
        assert!(calls.all(|call| call.calls == 0 || call.p99_ns.is_some()));
    }
    assert!(strace.report.wall_ns.is_some_and(|wall| wall > 0));
}

/// If two threads allocate at the same time, glibc makes a new arena for one of them. For the ninth
/// arena, it reads the number of processors.
const ARENAS: &[&str] = &["mmap", "munmap", "read"];
/// A worker of tokio that is done also wakes the main thread through an eventfd, if that is asleep
/// already.
const ARENAS_AND_WAKES: &[&str] = &["mmap", "munmap", "read", "write"];
/// To align an arena, glibc unmaps what is before and after it: nothing, one piece or two,
/// depending on the address.
const ALIGNMENT: &[&str] = &["mmap", "munmap"];

/// Every case of `workload`, with arguments that keep it short.
const WORKLOADS: &[(&[&str], ComparedRows)] = &[
    (&["known"], OwnThread),
    (&["errnos"], OwnThread),
    (&["signal-reads", "200"], OwnThread),
    (&["signal-recv", "200"], OwnThread),
    (&["signal-restart", "200"], OwnThread),
    (&["fork-storm", "200"], All),
    (&["exec-storm", "50"], All),
    (&["thread-storm", "16", "100"], AllBut(ARENAS)),
    // Another thread, or the parent, polls /proc until the call blocks.
    (&["unfinished"], OwnThread),
    (&["killed"], OwnProcess),
    // Of a call that SIGKILL ends, strace does not see the result.
    (&["killed-sending"], Nothing),
    (&["broken-pipe"], OwnProcess),
    (&["trapped"], OwnThread),
    // How often the other thread polls depends on time. The tests in files/memory.rs cover these
    // cases.
    (&["trapped-in-handler"], Nothing),
    (&["denied-in-handler"], Nothing),
    // copy_file_range (number 326 on x86_64) fails with ENOSYS.
    (&["deny", "38", "326", "true"], All),
    (&["unknown-numbers"], All),
    (&["exec-thread", "70", "30"], AllBut(ALIGNMENT)),
    (&["write", "50", "20"], All),
    (&["sync", "20"], All),
    (&["deep", "20"], AllBut(ARENAS)),
];

fn verify() -> Zctrace {
    zctrace().option("--verify")
}

#[test]
fn verify_succeeds_if_both_runs_are_equal_and_shows_what_differs() {
    let finished = verify().show(&program("head").args(&["-c", "5000", "/dev/zero"]));
    finished.exits(0).never_says("≠").never_says("  figure ");
    assert_eq!(finished.stdout, [0; 10_000], "it runs twice");
    // That the bytes came from there is known by other means under each backend.
    let stderr = &finished.stderr;
    let is_answered = ["\nnothing changed: ", "\nno change is known: "];
    assert!(
        is_answered.iter().any(|said| stderr.contains(said)),
        "{stderr}"
    );

    // It writes one line more each time it runs, and remembers the number in a file.
    let script = "echo >>$0; while read line; do echo hi; done <$0";
    let dir = TestDir::new();
    let finished = verify().show(&shell(script).arg(dir.join("memory")));
    finished.exits(1).prints_only("hi\nhi\nhi\n");
    finished.says_all(&["backend ebpf, exact", "backend strace, exact"]);
    let mut lines = finished.stderr.lines();
    let row = lines.find(|line| line.trim().starts_with("write.calls "));
    let row: Vec<&str> = row.expect("it differs").split_whitespace().collect();
    assert_eq!(row, ["write.calls", "2", "3", "+1"]);

    let read_once = verify().input(b"1\n2\n").show(&program("cat"));
    read_once.exits(1).says("needed from stdin");
}

/// A script whose processes make calls of many kinds.
fn script() -> Program {
    let missing = "ls /nonexistent 2>/dev/null";
    shell(&format!(
        "/bin/true; {missing}; cat /etc/hostname >/dev/null; /bin/false; true"
    ))
}

/// The calls without rows by name: how many returned, failed, and never returned.
fn other_calls(run: &Run) -> BTreeMap<&str, (u64, u64, u64)> {
    let others = run.report.totals.other_syscalls.as_ref();
    let others = others.expect("eBPF counts them").iter();
    let sums = others.map(|call| (call.name.as_str(), &call.sums));
    sums.map(|(name, sums)| (name, (sums.calls, sums.errors, sums.unfinished)))
        .collect()
}

#[test]
fn ebpf_counts_the_calls_without_rows_like_strace() {
    let run = zctrace().run_exactly(&script());
    let with_rows = run.totals().figures();
    let strace = counted_by_strace(&script(), &[]);
    let mut expected: BTreeMap<&str, (u64, u64, u64)> = (strace.iter())
        .filter(|(name, _)| !with_rows.contains_key(*name))
        .map(|(name, (calls, errors))| (name.as_str(), (*calls, *errors, 0)))
        .collect();
    // It never returns.
    expected.insert("exit_group", (0, 0, run.report.totals.processes));
    let others = other_calls(&run);
    // Calls, errors, unfinished: zctrace (left) and strace -c.
    assert_eq!(others, expected);
    let processes = run.report.processes.iter();
    let by_process = processes.map(|process| process.other_calls.expect("counted").calls);
    let calls: u64 = others.values().map(|(calls, ..)| calls).sum();
    assert_eq!(by_process.sum::<u64>(), calls);
}

#[test]
fn a_sleep_is_in_the_time_of_the_calls_without_rows() {
    let report = zctrace().run(&program("sleep").arg("0.3")).report;
    let others = report.totals.other_syscalls.expect("eBPF counts them");
    let longest = &others[0];
    let found = (longest.name.as_str(), longest.sums.calls);
    assert_eq!(found, ("clock_nanosleep", 1));
    let (slept, wall) = (longest.sums.total_ns, report.wall_ns);
    assert!(
        slept >= Some(300_000_000) && slept <= wall,
        "{slept:?} of {wall:?}"
    );
}

#[test]
fn waits_whose_time_limit_passed_are_counted_among_the_calls_without_rows() {
    let script = "
import os, select
end, other = os.pipe()
poll = select.poll()
poll.register(end, select.POLLIN)
for _ in range(5):
    os.write(other, b'x')
    poll.poll(1000)
    os.read(end, 1)
for limit in (10, 200, 30):
    poll.poll(limit)
";
    let report = zctrace()
        .run(&program("python3").args(&["-c", script]))
        .report;
    let others = report.totals.other_syscalls.expect("eBPF counts them");
    let poll = others.iter().find(|call| call.name == "poll");
    let sums = poll.expect("it polled").sums;
    assert_eq!((sums.calls, sums.timed_out), (8, 3));
    assert!(sums.timed_out_ns >= 240_000_000, "{sums:?}");
    let longest = sums.max_ns.expect("all have times");
    assert!(
        (200_000_000..sums.timed_out_ns).contains(&longest),
        "{sums:?}"
    );
}

#[test]
fn a_call_without_a_row_that_a_signal_ends_has_returned_only_if_the_task_goes_on() {
    let killed = zctrace().run(&shell("sleep 60 & sleep 0.1; kill -TERM $!; wait"));
    // One slept to its end, the other one was killed.
    assert_eq!(other_calls(&killed)["clock_nanosleep"], (1, 0, 1));
    let stop = "sleep 0.5 & sleep 0.1; kill -STOP $!; sleep 0.05; kill -CONT $!; wait";
    let stopped = zctrace().run(&shell(stop));
    let others = other_calls(&stopped);
    // The stopped one failed with ERESTART_RESTARTBLOCK, and was restarted.
    assert_eq!(others["clock_nanosleep"], (3, 1, 0));
    assert_eq!(others["restart_syscall"], (1, 0, 0));
}

#[test]
fn calls_without_rows_are_unknown_where_they_are_not_counted() {
    let report = zctrace().backend("strace").run(&program("true")).report;
    assert_eq!(report.totals.other_syscalls, None);
    assert_eq!(report.processes[0].other_calls, None);
    let all = zctrace().syscalls("all").run(&program("true")).report;
    let no_others = Some(Vec::new());
    assert_eq!(all.totals.other_syscalls, no_others, "every call has a row");
}

/// Calls and errors of all processes by name. strace counts every kind of ioctl as `ioctl`.
fn calls_and_errors(run: &Run) -> BTreeMap<String, (u64, u64)> {
    let mut counted = BTreeMap::<_, (u64, u64)>::new();
    for (name, row) in run.totals().figures() {
        let bare = name.split('(').next().unwrap_or_default().to_owned();
        let (calls, errors) = counted.entry(bare).or_default();
        *calls += row.calls;
        *errors += row.errors;
    }
    counted
}

#[test]
fn both_backends_count_every_call_like_strace() {
    for (backend, program) in [
        ("ebpf", script()),
        ("strace", script()),
        ("strace", workload("known")),
    ] {
        let zctrace = zctrace().backend(backend).syscalls("all");
        let run = zctrace.run_exactly(&program);
        let mut summary = counted_by_strace(&program, &[]);
        let processes = run.report.totals.processes;
        assert_eq!(run.totals().row("exit_group").unfinished, processes);
        let mut counted = calls_and_errors(&run);
        for never_returns in ["exit", "exit_group"] {
            let returned = counted.remove(never_returns);
            assert!(returned.is_none_or(|row| row == (0, 0)), "{never_returns}");
            summary.remove(never_returns);
        }
        assert!(summary.len() > 10, "{summary:?}");
        assert_eq!(counted, summary, "{backend} (left) and strace -c");
    }
}

/// Opens a file twice, reads it through a copy of a descriptor, and renames it at the end.
const USES: &str = "
import os
first, second = os.open('in', os.O_RDONLY), os.open('in', os.O_RDWR)
copy = os.dup(first)
os.read(copy, 10), os.read(copy, 10), os.pread(second, 5, 0), os.write(second, b'x')
os.stat('in'), os.access('in', os.R_OK), os.fstat(first), os.path.exists('in.none')
[os.close(one) for one in (first, second, copy)]
os.rename('in', 'renamed')
os.link('renamed', 'in')
os.unlink('renamed')
";

#[test]
fn both_backends_select_the_calls_on_a_path_like_strace() {
    let dir = TestDir::with("in", "x".repeat(10_000));
    let root = dir.word("");
    for (program, path) in [
        (program("cp").args(&["in", "out"]), "/etc/ld.so.cache"),
        (program("cat").args(&["in", "in"]), "in"),
        (shell("cat in; ls -l in none; cd /; true"), "in"),
        (shell("ls; cd /; ls"), &root),
        (python(USES), "in"),
    ] {
        let program = program.dir(dir.path());
        let strace = counted_by_strace(&program, &["-P", path]);
        for zctrace in each_backend() {
            let zctrace = zctrace.dir(dir.path()).options(&["-P", path]);
            let run = zctrace.run_exactly(&program);
            assert_eq!(run.report.paths, [path]);
            let found = calls_and_errors(&run);
            assert_eq!(
                found, strace,
                "{path} {:?} and strace -P",
                run.report.command
            );
        }
    }
}
