//! The same command under both backends, and under strace by itself: what must be equal, and what
//! may differ.
//!
//! Wall time and the times of calls are never compared, because tracing slows a program. CPU time,
//! context switches and page faults are always unknown (`null`) under strace, and so are the
//! command lines of processes, because strace is told to cut strings. Everything else must be
//! equal, except for the calls that [`Compared`] leaves out.

use std::{collections::BTreeMap, fs};

use Compared::{All, AllBut, Nothing, OwnProcess, OwnThread, OwnThreadAsStated};
use serde_json::Value;
use zc_tests::Figures;
use zctrace::report::{Api, Process, State, Usage};

use crate::harness::{
    Program, Run, TestDir, c, counted_by_strace, moved_as_strace_logs, program, shell, untraced,
    workload, zctrace,
};

/// The runs of a program under eBPF and under strace.
fn runs(program: &Program) -> [Run; 2] {
    let runs =
        ["ebpf", "strace"].map(|backend| zctrace().by_thread().backend(backend).run(program));
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
            run.own_thread().assert_equal(&run.stated().calls);
            run.own_thread().figures()
        }
        OwnProcess => run.own_process().figures(),
        Nothing => Figures::new(),
    }
}

/// A process as both backends must show it.
type Shape<'a> = (Option<&'a str>, Option<&'a str>, State);

/// All processes, in an order that does not depend on their ids.
fn shapes<'a>(run: &'a Run) -> Vec<Shape<'a>> {
    let shape = |process: &'a Process| {
        (
            process.comm.as_deref(),
            process.exe.as_deref(),
            process.state,
        )
    };
    let mut shapes: Vec<Shape<'_>> = run.report.processes.iter().map(shape).collect();
    shapes.sort_by_key(|(comm, exe, _)| (*comm, *exe));
    shapes
}

/// Makes sure that both backends report the same of this program.
#[track_caller]
fn assert_equal(program: &Program, compared: Compared) {
    let [ebpf, strace] = runs(program);
    println!("{:?}: {compared:?}", program.words());
    assert_eq!(
        (ebpf.finished.code, ebpf.report.exit),
        (strace.finished.code, strace.report.exit),
        "end of {program:?}"
    );
    assert_eq!(shapes(&ebpf), shapes(&strace), "processes of {program:?}");
    if !matches!(compared, AllBut(_) | Nothing) {
        assert_eq!(
            ebpf.report.totals.threads, strace.report.totals.threads,
            "threads of {program:?}"
        );
    }
    let [expected, found] = [&ebpf, &strace].map(|run| figures(run, compared));
    assert!(
        compared == Nothing || !expected.is_empty(),
        "nothing is compared of {program:?}"
    );
    if compared == OwnThreadAsStated {
        assert_eq!(
            expected.keys().collect::<Vec<_>>(),
            found.keys().collect::<Vec<_>>(),
            "calls of {program:?}"
        );
    } else {
        assert_eq!(expected, found, "eBPF (left) and strace, of {program:?}");
    }
}

/// The names that a program lists.
fn listed(program: Program) -> Vec<String> {
    let list = untraced(&program.arg("--list")).finish();
    list.successful()
        .lines()
        .filter_map(|line| Some(line.split_ascii_whitespace().next()?.to_owned()))
        .collect()
}

#[test]
fn every_workload_is_counted_the_same() {
    assert_eq!(
        listed(program(env!("CARGO_BIN_EXE_workload"))),
        WORKLOADS
            .iter()
            .map(|(words, _)| words[0])
            .collect::<Vec<_>>()
    );
    for (words, compared) in WORKLOADS
        .iter()
        .filter(|(_, compared)| *compared != Nothing)
    {
        assert_equal(&workload(words[0]).args(&words[1..]), *compared);
    }
}

/// Compares every case of a copier, from file to file. Some cases cannot copy to a file: then the
/// same calls fail in the same way.
fn compare_every_case_of(copier: &Program) {
    let dir = TestDir::new();
    let (from, to) = (dir.write("from", vec![7; 1_000_000]), dir.join("to"));
    let cases = listed(copier.clone());
    assert!(cases.len() >= 8, "{cases:?}");
    for case in cases {
        let copy = copier
            .clone()
            .arg(&case)
            .arg("--from")
            .arg(&from)
            .arg("--to")
            .arg(&to)
            .args(options_of_copier(&case));
        assert_equal(&copy, compared_of_copier(&case));
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
fn selected_calls_are_counted_the_same() {
    for set in ["pread64,%network", "ioctl(FICLONE)", "write", "all"] {
        let [ebpf, strace] = ["ebpf", "strace"].map(|backend| {
            let run = zctrace()
                .by_thread()
                .syscalls(set)
                .backend(backend)
                .run(&workload("known"));
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
        run.threads()
            .map(|thread| thread.usage)
            .chain(processes)
            .chain([run.report.totals.usage])
            .collect()
    };
    assert!(
        usages(&strace)
            .iter()
            .all(|usage| *usage == Usage::default()),
        "{:?}",
        usages(&strace)
    );
    assert!(
        strace
            .report
            .processes
            .iter()
            .all(|process| process.command.is_none()),
        "strace cuts their words: {:?}",
        strace.report.processes
    );
    assert!(
        usages(&ebpf)
            .iter()
            .all(|usage| usage.user_ns.is_some() && usage.page_faults.minor.is_some())
    );
    let is_timed = |run: &Run| {
        run.report
            .totals
            .syscalls
            .iter()
            .all(|call| call.calls == 0 || call.p99_ns.is_some())
    };
    assert!(is_timed(&ebpf) && is_timed(&strace), "both time calls");
    assert!(strace.report.wall_ns.is_some_and(|wall| wall > 0));
}

/// Which rows of a case are the same in each run, so that two runs can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// The totals of all processes.
    All,
    /// The totals, without these calls.
    AllBut(&'static [&'static str]),
    /// The rows of the thread that the workload names.
    OwnThread,
    /// The same, but their figures differ between runs: those of each run are compared with what
    /// that run states.
    OwnThreadAsStated,
    /// The rows of the process that the workload names.
    OwnProcess,
    /// None.
    Nothing,
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
pub const WORKLOADS: &[(&[&str], Compared)] = &[
    (&["known"], OwnThread),
    (&["errnos"], OwnThread),
    // It reads files of /proc whose length differs from run to run.
    (&["proc-io", "30", "20", "70"], OwnThreadAsStated),
    (&["signal-reads", "20"], OwnThread),
    (&["signal-recv", "20"], OwnThread),
    (&["signal-restart", "20"], OwnThread),
    (&["fork-storm", "200"], All),
    (&["exec-storm", "50"], All),
    (&["thread-storm", "16", "100"], AllBut(ARENAS)),
    // Another thread, or the parent, polls /proc until the call blocks.
    (&["unfinished"], OwnThread),
    (&["killed"], OwnProcess),
    (&["killed-sending"], OwnProcess),
    (&["trapped"], OwnThread),
    // How often the other thread polls depends on time. The tests in files/evidence.rs cover these
    // cases.
    (&["trapped-in-handler"], Nothing),
    (&["denied-in-handler"], Nothing),
    // copy_file_range (number 326 on x86_64) fails with ENOSYS.
    (&["deny", "38", "326", "true"], All),
    // strace cannot follow the child, and reports that.
    (&["untraced-child"], Nothing),
    (&["unknown-numbers"], All),
    (&["rusage"], OwnProcess),
    (&["exec-thread", "70", "30"], AllBut(ALIGNMENT)),
    (&["write", "50", "20"], All),
    (&["sync", "20"], All),
    (&["deep", "20"], AllBut(ARENAS)),
    // It runs until it is killed.
    (&["bystander"], Nothing),
    (&["exit-code", "7"], All),
    (&["kill-self", "TERM"], All),
];

/// What is compared of a case of `copier` or `copier-c`, besides the exit status and the processes.
pub fn compared_of_copier(case: &str) -> Compared {
    match case {
        // The only call left is `pread64`, with which the loader reads headers on x86_64. On arm64
        // it has them from its first read.
        "tokio-io-copy" if cfg!(target_arch = "x86_64") => AllBut(ARENAS_AND_WAKES),
        "tokio-io-copy" => Nothing,
        _ => All,
    }
}

/// Options that keep a case of `copier-c` short: under strace, two calls for each byte take long.
pub fn options_of_copier(case: &str) -> &'static [&'static str] {
    if case == "byte-cat" {
        &["--size=5000"]
    } else {
        &[]
    }
}

/// Threads feed one socket of the copy and drain the other. The drained socket is never a source,
/// whichever thread calls first.
#[test]
fn a_drained_socket_is_not_a_source() {
    let copies = program(env!("CARGO_BIN_EXE_kernel-copy")).args(&[
        "socket-pipe-socket",
        "std-io-copy",
        "--copies",
        "20",
    ]);
    for backend in ["ebpf", "strace"] {
        for _ in 0..10 {
            let run = zctrace().backend(backend).run(&copies);
            let found: Vec<_> = run
                .root_transfers()
                .into_iter()
                .map(|transfer| (transfer.api, transfer.bytes))
                .collect();
            assert_eq!(
                found,
                [(Api::Splice, Some(20 * 128 * 1024))],
                "{backend}: {:#?}",
                run.root_transfers()
            );
        }
    }
}

/// A script that writes one line more each time it runs. It remembers the number in the file
/// `memory`.
fn fickle(memory: &std::path::Path) -> Program {
    shell("echo >>$0; while read line; do echo hi; done <$0").arg(memory)
}

#[test]
fn verify_succeeds_if_both_runs_are_equal() {
    let finished =
        zctrace()
            .option("--verify")
            .show(&program("head").args(&["-c", "5000", "/dev/zero"]));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert_eq!(finished.stdout, [0; 10_000], "it runs twice");
    // That the bytes came from there is known by other means under each backend.
    let answers = [
        "\nnothing changed: ",
        "\nno change is known: 1 cannot be compared",
    ];
    assert!(
        answers
            .iter()
            .any(|answer| finished.stderr.contains(answer))
            && !finished.stderr.contains("  figure "),
        "{}",
        finished.stderr
    );
}

#[test]
fn verify_fails_and_shows_what_differs() {
    let dir = TestDir::new();
    let finished = zctrace()
        .option("--verify")
        .show(&fickle(&dir.join("memory")));
    assert_eq!(
        (finished.code, finished.text()),
        (Some(1), "hi\nhi\nhi\n"),
        "{}",
        finished.stderr
    );
    let row = |name: &str| {
        let mut lines = finished.stderr.lines();
        let line = lines.find(|line| line.trim().starts_with(name));
        line.map(|line| line.split_whitespace().collect::<Vec<_>>())
    };
    let writes = ["write.calls", "2", "3", "+1"];
    assert_eq!(row("write.calls "), Some(writes.to_vec()));
    for backend in ["backend ebpf, exact", "backend strace, exact"] {
        assert!(finished.stderr.contains(backend), "{}", finished.stderr);
    }
}

#[test]
fn verify_says_that_the_first_run_read_stdin() {
    let finished = zctrace()
        .option("--verify")
        .input(b"1\n2\n")
        .show(&program("cat"));
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    assert!(
        finished.stderr.contains("needed from stdin"),
        "{}",
        finished.stderr
    );
}

#[test]
fn verify_writes_its_comparison_as_json() {
    let dir = TestDir::new();
    let output = dir.join("verify.json");
    let finished = zctrace()
        .option("--verify")
        .option("--format=json")
        .option("--output")
        .option(&output);
    let finished = finished.show(&fickle(&dir.join("memory")));
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(1), ""));
    let text = fs::read_to_string(output).expect("it was written");
    let comparison: Value = serde_json::from_str(&text).expect("JSON");
    let backends = [0, 1].map(|side| comparison["sides"][side]["backend"].clone());
    assert_eq!(
        (backends, &comparison["outcome"]),
        (["ebpf", "strace"].map(Value::from), &"changed".into())
    );
    let figure = |metric: &str| {
        let figures = comparison["figures"].as_array().expect("a list");
        let mut figures = figures.iter();
        let found = figures.find(|figure| figure["metric"] == metric)?;
        Some([found["baseline"].as_u64(), found["now"].as_u64()])
    };
    assert_eq!(figure("mmap.calls"), None, "{comparison}");
    assert_eq!(figure("write.bytes"), Some([Some(4), Some(7)]));
}

#[test]
fn verify_reports_a_command_that_cannot_be_run() {
    zctrace()
        .option("--verify")
        .refuses_to_run(&program("no-such-command"))
        .with_status(127)
        .saying("'no-such-command'");
}

#[test]
fn verify_refuses_the_option_backend() {
    zctrace()
        .option("--verify")
        .option("--backend=strace")
        .refuses()
        .with_status(125)
        .saying("--backend");
}

/// Copies this many blocks of 4 KiB.
fn dd(blocks: u32) -> Program {
    program("dd").args(&[
        "if=/dev/zero",
        "of=/dev/null",
        "bs=4k",
        &format!("count={blocks}"),
    ])
}

/// How many blocks `dd` copies where strace traces it, which is slow.
const FEW: u32 = 20_000;

#[test]
fn ebpf_counts_four_hundred_thousand_blocks_of_dd() {
    let run = zctrace().run(&dd(400_000));
    run.assert_exact();
    for (name, own) in [("read", 2), ("write", 3)] {
        // Besides the blocks, the loader reads libc, and dd prints what it did.
        let row = run.totals().row(name);
        let blocks = row.bytes.expect("known") / 4096;
        assert!(
            (400_000..=400_000 + own).contains(&row.calls),
            "{name}: {row:?}"
        );
        assert_eq!((blocks, row.errors), (400_000, 0), "{name}: {row:?}");
    }
}

#[test]
fn ebpf_counts_as_many_calls_of_dd_as_strace() {
    let run = zctrace().run(&dd(FEW));
    let strace = counted_by_strace(&dd(FEW));
    run.assert_exact();
    for name in ["read", "write"] {
        let row = run.totals().row(name);
        assert_eq!(
            (row.calls, row.errors),
            strace[name],
            "{name}: calls and errors"
        );
    }
}

#[test]
fn ebpf_counts_as_many_bytes_of_dd_as_strace_logs() {
    // Otherwise dd prints the time that it took, whose length differs from run to run.
    let quiet = dd(FEW).arg("status=none");
    let run = zctrace().run(&quiet);
    let strace = moved_as_strace_logs(&quiet, &["read", "write"]);
    run.assert_exact();
    for name in ["read", "write"] {
        assert_eq!(
            run.totals().row(name).bytes,
            Some(strace[name]),
            "{name}: bytes"
        );
    }
}

#[test]
fn ebpf_counts_every_call_of_a_script_like_strace() {
    let script = shell(
        "/bin/true; ls /nonexistent 2>/dev/null; cat /etc/hostname >/dev/null; /bin/false; true",
    );
    let run = zctrace().syscalls("all").run(&script);
    let mut strace = counted_by_strace(&script);
    let mut counted: BTreeMap<_, _> = run
        .totals()
        .figures()
        .into_iter()
        .map(|(name, row)| (name, (row.calls, row.errors)))
        .collect();
    run.assert_exact();
    // It never returns, so it is not among the calls.
    assert_eq!(counted.remove("exit_group"), Some((0, 0)));
    assert_eq!(
        run.totals().row("exit_group").unfinished,
        run.report.totals.processes
    );
    strace.remove("exit_group");
    assert_eq!(counted, strace, "calls and errors");
}

/// The calls without rows by name: how many returned, failed, and never returned.
fn other_calls(run: &Run) -> BTreeMap<&str, (u64, u64, u64)> {
    let others = run
        .report
        .totals
        .other_syscalls
        .as_ref()
        .expect("eBPF counts them");
    others
        .iter()
        .map(|call| {
            (
                call.name.as_str(),
                (call.sums.calls, call.sums.errors, call.sums.unfinished),
            )
        })
        .collect()
}

#[test]
fn ebpf_counts_the_calls_without_rows_like_strace() {
    let script = shell(
        "/bin/true; ls /nonexistent 2>/dev/null; cat /etc/hostname >/dev/null; /bin/false; true",
    );
    let run = zctrace().run(&script);
    run.assert_exact();
    let with_rows = run.totals().figures();
    let strace: BTreeMap<String, (u64, u64)> = counted_by_strace(&script);
    let others = other_calls(&run);
    let expected = strace
        .iter()
        .filter(|(name, _)| !with_rows.contains_key(*name) && *name != "exit_group");
    let mut expected: BTreeMap<&str, (u64, u64, u64)> = expected
        .map(|(name, (calls, errors))| (name.as_str(), (*calls, *errors, 0)))
        .collect();
    expected.insert("exit_group", (0, 0, run.report.totals.processes));
    assert_eq!(
        others, expected,
        "calls, errors, unfinished: zctrace (left) and strace -c"
    );
    let by_process = run
        .report
        .processes
        .iter()
        .map(|process| process.other_calls.expect("counted").calls)
        .sum::<u64>();
    assert_eq!(
        by_process,
        others.values().map(|(calls, ..)| calls).sum::<u64>(),
        "the processes add up"
    );
}

#[test]
fn a_sleep_is_in_the_time_of_the_calls_without_rows() {
    let run = zctrace().run(&program("sleep").arg("0.3"));
    let sleep = run
        .report
        .totals
        .other_syscalls
        .as_ref()
        .and_then(|others| others.first())
        .expect("the longest call");
    assert_eq!(
        (sleep.name.as_str(), sleep.sums.calls),
        ("clock_nanosleep", 1)
    );
    let slept = sleep.sums.total_ns.expect("known");
    assert!(
        (300_000_000..=run.report.wall_ns.expect("known")).contains(&slept),
        "{slept} ns"
    );
}

#[test]
fn a_call_without_a_row_that_a_signal_ends_has_returned_only_if_the_task_goes_on() {
    let killed = zctrace().run(&shell("sleep 60 & sleep 0.1; kill -TERM $!; wait"));
    let (calls, errors, unfinished) = other_calls(&killed)["clock_nanosleep"];
    assert_eq!(
        (calls, errors, unfinished),
        (1, 0, 1),
        "one slept to its end, the other one was killed"
    );
    let stopped = zctrace().run(&shell(
        "sleep 0.5 & sleep 0.1; kill -STOP $!; sleep 0.05; kill -CONT $!; wait",
    ));
    let others = other_calls(&stopped);
    assert_eq!(
        others["clock_nanosleep"],
        (3, 1, 0),
        "the stopped one failed with ERESTART_RESTARTBLOCK"
    );
    assert_eq!(others["restart_syscall"], (1, 0, 0), "and was restarted");
}

#[test]
fn calls_without_rows_are_unknown_where_they_are_not_counted() {
    let run = zctrace().backend("strace").run(&program("true"));
    assert_eq!(
        (
            &run.report.totals.other_syscalls,
            run.report.processes[0].other_calls
        ),
        (&None, None)
    );
    let all = zctrace().syscalls("all").run(&program("true"));
    assert_eq!(
        all.report.totals.other_syscalls,
        Some(Vec::new()),
        "every call has a row"
    );
}

/// Makes sure that every row agrees in calls and errors.
#[track_caller]
fn assert_as_strace_counts(program: &Program) {
    let run = zctrace().backend("strace").syscalls("all").run(program);
    let mut summary = counted_by_strace(program);
    run.assert_exact();
    assert_eq!(
        run.totals().row("exit_group").unfinished,
        run.report.totals.processes
    );
    let mut counted = BTreeMap::new();
    for (name, row) in run.totals().figures() {
        // strace counts every kind of ioctl as `ioctl`.
        let bare = name.split('(').next().unwrap_or_default().to_owned();
        let (calls, errors) = counted.entry(bare).or_default();
        *calls += row.calls;
        *errors += row.errors;
    }
    for never_returns in ["exit", "exit_group"] {
        assert!(
            counted
                .remove(never_returns)
                .is_none_or(|row| row == (0, 0)),
            "{never_returns} never returns"
        );
        summary.remove(never_returns);
    }
    assert!(summary.len() > 10, "{summary:?}");
    assert_eq!(
        counted, summary,
        "calls and errors: zctrace (left) and strace -c"
    );
}

#[test]
fn the_strace_backend_counts_every_call_of_a_script_like_strace() {
    assert_as_strace_counts(&shell(
        "/bin/true; ls /nonexistent 2>/dev/null; cat /etc/hostname >/dev/null; /bin/false; true",
    ));
}

#[test]
fn the_strace_backend_counts_every_call_that_moves_data_like_strace() {
    assert_as_strace_counts(&workload("known"));
}
