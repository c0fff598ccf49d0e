//! Every process and thread that the command creates is followed, also into PID namespaces; and
//! when the trace ends.

use std::fs;

use zc_tests::Figure;
use zctrace::report::State;

use crate::harness::{
    ReportRows, Run, TestDir, each_backend, exists, fifo, program, shell, wait_until, workload,
    zctrace,
};

#[test]
fn a_program_executed_by_a_thread_is_the_same_process() {
    let workload = workload("exec-thread").args(&["70", "30"]);
    let run = zctrace().by_thread().run_exactly(&workload);
    run.finished.successful();
    let totals = &run.report.totals;
    assert_eq!((totals.processes, totals.threads), (1, 2));
    assert_eq!(run.totals().row("write"), Figure::of_calls(70, 30));
    let [before, after] = run.report.processes.as_slice() else {
        panic!("two programs: {:?}", run.report.processes)
    };
    assert_eq!((before.pid, before.state), (after.pid, State::Exited));
    let command = after.command.as_ref().expect("known");
    assert_eq!(*command, ["workload", "write", "70", "30"]);
    // The thread that executes the program gets the process's id.
    assert_eq!((before.threads, after.threads), (2, 1));
    assert_eq!(after.by_thread[0].tid, after.pid);
}

#[test]
fn calls_before_the_exec_are_not_counted() {
    // Between fork and exec, the child still runs the code of zctrace.
    let run = zctrace().syscalls("all").run_exactly(&program("true"));
    let figures = run.totals().figures();
    assert_eq!(figures["execve"].calls, 1);
    for name in ["rt_sigprocmask", "dup2", "close_range"] {
        assert!(!figures.contains_key(name), "{figures:?}");
    }
}

#[test]
fn a_descendant_that_outlives_the_command_is_running_and_goes_on() {
    // The shell ends when cat is inside its read.
    let is_in_read = format!("grep -q '^{} ' /proc/$!/syscall", libc::SYS_read);
    let is_reading = format!("{is_in_read} && grep -q cat /proc/$!/comm");
    let script = format!("exec 3<>fifo; cat <&3 >said & until {is_reading}; do :; done");
    for zctrace in each_backend() {
        let (dir, tmp) = (TestDir::new(), TestDir::new());
        let fifo = fifo(dir.join("fifo"));
        let zctrace = zctrace.env("TMPDIR", tmp.path()).dir(dir.path());
        let run = zctrace.run_exactly(&shell(&script));
        run.finished.exits(0);
        tmp.assert_has_only(&[]);
        let cat = run.process_named("cat");
        let unfinished = ReportRows::of_process(cat).row("read").unfinished;
        assert_eq!((cat.state, unfinished), (State::Running, 1));
        assert_eq!(run.root().state, State::Exited);
        // Its counters so far.
        let is_counted = cat.usage.page_faults.minor > Some(0);
        assert_eq!(is_counted, run.report.backend == "ebpf");
        assert!(exists(cat.pid), "it lives");
        fs::write(&fifo, "hello\n").expect("it reads");
        wait_until("its calls still work", || dir.read("said") == "hello\n");
    }
}

#[test]
fn a_busy_descendant_is_counted_until_the_trace_ends() {
    // zctrace stops counting in several steps. With four busy processes, one is likely to be
    // between any two of these steps.
    let busy = "dd if=/dev/zero of=/dev/null bs=1 2>/dev/null & dds=\"$dds $!\";";
    let wait = "until grep -q '^syscw: ...' /proc/$dd/io; do :; done";
    let script = format!("{} for dd in $dds; do {wait}; done", busy.repeat(4));
    for _ in 0..3 {
        let run = zctrace().run_exactly(&shell(&script));
        run.finished.successful();
        let mut busy: Vec<_> = run.report.processes.iter().collect();
        busy.retain(|process| process.comm.as_deref() == Some("dd"));
        assert_eq!(busy.len(), 4);
        for dd in busy {
            let [read, write] = ["read", "write"].map(|name| ReportRows::of_process(dd).row(name));
            assert_eq!(dd.state, State::Running);
            // It is in one call at most, and every byte is a call.
            let unfinished = read.unfinished + write.unfinished;
            assert!(unfinished <= 1, "{read:?} {write:?}");
            assert_eq!(write.bytes, Some(write.calls));
            for name in ["read", "write"] {
                let row = dd.syscalls.iter().find(|row| row.name == name).expect(name);
                assert!(row.total_ns.is_some() && row.min_ns.is_some(), "{row:?}");
            }
        }
    }
}

#[test]
fn wait_all_waits_for_the_last_descendant() {
    for zctrace in each_backend() {
        let dir = TestDir::new();
        let fifo = fifo(dir.join("fifo"));
        let script = shell("cat <$0 >/dev/null & echo $$").arg(&fifo);
        let (mut zctrace, report) = zctrace.option("--wait-all").start(&script);
        let shell = zctrace.hear();
        wait_until("the shell has ended", || !exists(&shell));
        assert!(!zctrace.has_ended(), "a descendant lives");
        fs::write(&fifo, "hello").expect("cat reads it");
        assert_eq!(zctrace.wait(), Some(0));
        let report = report.read(&zctrace.stderr());
        assert!(report.exact, "{:?}", report.losses);
        let cat = report.processes.last().expect("a process");
        let found = (cat.comm.as_deref(), cat.state);
        assert_eq!(found, (Some("cat"), State::Exited));
        assert_eq!(
            ReportRows::of_process(cat).row("write"),
            Figure::of_calls(1, 5)
        );
    }
}

/// The process id that the command printed.
fn printed_pid(run: &Run) -> u32 {
    run.finished.successful().trim().parse().expect("a number")
}

#[test]
fn a_zctrace_inside_a_pid_namespace_shows_the_ids_of_that_namespace() {
    let zctrace = zctrace().through(&["unshare", "--pid", "--fork", "--mount-proc"]);
    let run = zctrace.run_exactly(&shell("echo $$; true; exit"));
    let root = run.root();
    assert_eq!((root.pid, root.ppid), (printed_pid(&run), Some(1)));
    assert_eq!(root.comm.as_deref(), Some("sh"));
    assert!(root.pid < 50, "a new namespace counts from 1: {}", root.pid);
}

#[test]
fn with_the_proc_of_another_namespace_counters_of_running_processes_are_unknown() {
    let zctrace = zctrace().through(&["unshare", "--pid", "--fork"]);
    let run = zctrace.run_exactly(&shell("sleep 5 & true; exit"));
    run.finished.successful();
    let mut others = run.descendants().into_iter();
    let sleep = others.find(|process| process.state == State::Running);
    let usage = sleep.expect("it lives").usage;
    assert_eq!((usage.page_faults.minor, usage.user_ns), (None, None));
    run.assert_noted("/proc belongs to another PID namespace");
}

#[test]
fn processes_in_a_nested_namespace_have_the_ids_of_the_outer_one() {
    // The outer /proc stays mounted, so the link has the outer id.
    let unshare = program("unshare").args(&["--pid", "--fork", "readlink", "/proc/self"]);
    let run = zctrace().run_exactly(&unshare);
    assert_eq!(run.report.totals.processes, 2);
    let inner = run.process_named("readlink");
    assert_eq!(inner.pid, printed_pid(&run));
}

#[test]
fn threads_in_a_namespace_stay_with_their_process() {
    let storm = workload("thread-storm").args(&["8", "100"]);
    let run = zctrace().run_exactly(&storm.through(&["unshare", "--pid", "--fork"]));
    run.stated();
    let totals = &run.report.totals;
    assert_eq!((totals.processes, totals.threads), (2, 10));
    let write = ReportRows::of_process(run.descendants()[0]).row("write");
    assert_eq!(write.calls, 801);
}

#[test]
fn orphaned_descendants_are_followed() {
    // The middle shell ends at once, so the last one gets another parent.
    let dir = TestDir::new();
    let fifo = fifo(dir.join("fifo"));
    let script = "sh -c '(read go <$0; echo 1234567 >/dev/null; echo done) & exit' $0; echo >$0";
    let zctrace = zctrace().option("--wait-all");
    let run = zctrace.run_exactly(&shell(script).arg(&fifo));
    run.finished.exits(0).prints_only("done\n");
    assert_eq!(run.report.totals.processes, 3);
    assert_eq!(run.totals().row("write").bytes, Some(8 + 5 + 1));
}
