//! Every process and thread that the command creates is followed, also into PID namespaces; and
//! when the trace ends.

use std::{fs, io::Write as _, path::Path};

use zc_tests::Figure;
use zctrace::report::State;

use crate::harness::{
    Rows, Run, TestDir, each_backend, exists, fifo, program, shell, wait_until, workload, zctrace,
};

#[test]
fn a_program_executed_by_a_thread_is_the_same_process() {
    let run = zctrace()
        .by_thread()
        .run(&workload("exec-thread").args(&["70", "30"]));
    run.finished.successful();
    run.assert_exact();
    assert_eq!(
        (run.report.totals.processes, run.report.totals.threads),
        (1, 2)
    );
    assert_eq!(run.totals().row("write"), Figure::of(70, 30));
    let root = run.root();
    assert_eq!(root.state, State::Exited);
    assert_eq!(
        root.command.as_deref(),
        Some(
            ["workload", "write", "70", "30"]
                .map(str::to_owned)
                .as_slice()
        )
    );
    assert_eq!(
        root.by_thread
            .iter()
            .filter(|thread| thread.tid == root.pid)
            .count(),
        2,
        "both have had the process's id"
    );
}

#[test]
fn a_pipeline_of_three_programs_is_followed() {
    let run = zctrace().run(&shell("head -c 5000 /dev/zero | tail -c 3000 | wc -c"));
    assert_eq!(run.finished.successful().trim(), "3000");
    run.assert_exact();
    assert_eq!(run.report.totals.processes, 4);
    let written = |comm| Rows::of(run.process_named(comm)).row("write").bytes;
    assert_eq!(
        (written("head"), written("tail"), written("wc")),
        (Some(5000), Some(3000), Some(5))
    );
}

#[test]
fn calls_before_the_exec_are_not_counted() {
    // Between fork and exec, the child still runs the code of zctrace.
    let run = zctrace().syscalls("all").run(&program("true"));
    let figures = run.totals().figures();
    run.assert_exact();
    assert_eq!(figures["execve"].calls, 1);
    assert!(
        !["rt_sigprocmask", "dup2", "close_range"]
            .iter()
            .any(|name| figures.contains_key(*name)),
        "{figures:?}"
    );
}

#[test]
fn a_descendant_that_outlives_the_command_is_running() {
    let dir = TestDir::new();
    let fifo = fifo(dir.path());
    // The shell ends when cat is inside its read.
    let is_in_read = format!("grep -q '^{} ' /proc/$!/syscall", libc::SYS_read);
    let script = &format!(
        "exec 3<>$0; cat <&3 & until {is_in_read} && grep -q cat /proc/$!/comm; do :; done"
    );
    let run = zctrace().run(&shell(script).arg(&fifo));
    run.finished.successful();
    run.assert_exact();
    let cat = run.process_named("cat");
    assert_eq!(
        (cat.state, Rows::of(cat).row("read").unfinished),
        (State::Running, 1)
    );
    assert!(
        cat.usage.page_faults.minor > Some(0),
        "its counters so far: {:?}",
        cat.usage
    );
    assert!(
        Path::new(&format!("/proc/{}", cat.pid)).exists(),
        "it lives"
    );
    assert_eq!(run.root().state, State::Exited);
}

#[test]
fn a_busy_descendant_is_counted_until_the_trace_ends() {
    // zctrace stops counting in several steps. With four busy processes, one is likely to be
    // between any two of these steps.
    let busy = "dd if=/dev/zero of=/dev/null bs=1 2>/dev/null & dds=\"$dds $!\";";
    let script = format!(
        "{busy}{busy}{busy}{busy} for dd in $dds; do until grep -q '^syscw: ...' /proc/$dd/io; do :; done; done"
    );
    for _ in 0..3 {
        let run = zctrace().run(&shell(&script));
        run.finished.successful();
        run.assert_exact();
        let busy: Vec<_> = run
            .report
            .processes
            .iter()
            .filter(|process| process.comm.as_deref() == Some("dd"))
            .collect();
        assert_eq!(busy.len(), 4);
        for dd in busy {
            let (read, write) = (Rows::of(dd).row("read"), Rows::of(dd).row("write"));
            assert_eq!(dd.state, State::Running);
            assert!(
                read.unfinished + write.unfinished <= 1,
                "it is in one call at most: {read:?} {write:?}"
            );
            assert_eq!(write.bytes, Some(write.calls), "every byte is a call");
            let timed = |name: &str| {
                dd.syscalls
                    .iter()
                    .any(|row| row.name == name && row.total_ns.is_some() && row.min_ns.is_some())
            };
            assert!(
                timed("read") && timed("write"),
                "its times are known: {:?}",
                dd.syscalls
            );
        }
    }
}

#[test]
fn wait_all_waits_for_the_last_descendant() {
    for zctrace in each_backend() {
        let dir = TestDir::new();
        let fifo = fifo(dir.path());
        let (mut zctrace, report) = zctrace
            .option("--wait-all")
            .start(&shell("cat <$0 >/dev/null & echo $$").arg(&fifo));
        let shell = zctrace.hear();
        wait_until("the shell has ended", || !exists(&shell));
        assert!(!zctrace.has_ended(), "a descendant lives");
        fs::OpenOptions::new()
            .write(true)
            .open(&fifo)
            .and_then(|mut end| end.write_all(b"hello"))
            .expect("cat reads it");
        assert_eq!(zctrace.wait(), Some(0));
        let report = report.read(&zctrace.into_stderr());
        assert!(report.exact, "{:?}", report.losses);
        let cat = report.processes.last().expect("a process");
        assert_eq!(
            (cat.comm.as_deref(), cat.state),
            (Some("cat"), State::Exited)
        );
        assert_eq!(
            Rows::of(cat).row("write"),
            Figure {
                requested_bytes: Some(5),
                ..Figure::of(1, 5)
            }
        );
    }
}

#[test]
fn without_wait_all_the_trace_ends_with_the_command() {
    let dir = TestDir::new();
    let run = zctrace().run(&shell("cat <$0 >/dev/null & exit 3").arg(fifo(dir.path())));
    assert_eq!(run.finished.code, Some(3));
    run.assert_exact();
    assert_eq!(
        run.report
            .processes
            .iter()
            .filter(|process| process.state == State::Running)
            .count(),
        1
    );
}

/// The process id that the command printed.
fn printed_pid(run: &Run) -> u32 {
    run.finished.successful().trim().parse().expect("a number")
}

#[test]
fn a_zctrace_inside_a_pid_namespace_shows_the_ids_of_that_namespace() {
    let run = zctrace()
        .through(&["unshare", "--pid", "--fork", "--mount-proc"])
        .run(&shell("echo $$; true; exit"));
    run.assert_exact();
    let root = run.root();
    assert_eq!(
        (root.pid, root.ppid, root.comm.as_deref()),
        (printed_pid(&run), Some(1), Some("sh"))
    );
    assert!(root.pid < 50, "a new namespace counts from 1: {}", root.pid);
}

#[test]
fn with_the_proc_of_another_namespace_counters_of_running_processes_are_unknown() {
    let run = zctrace()
        .through(&["unshare", "--pid", "--fork"])
        .run(&shell("sleep 5 & true; exit"));
    run.finished.successful();
    run.assert_exact();
    let sleep = run
        .descendants()
        .iter()
        .find(|process| process.state == State::Running)
        .expect("it lives");
    assert_eq!(
        (sleep.usage.page_faults.minor, sleep.usage.user_ns),
        (None, None)
    );
    assert!(
        run.report
            .notes
            .iter()
            .any(|note| note.contains("/proc belongs to another PID namespace")),
        "{:?}",
        run.report.notes
    );
}

#[test]
fn processes_in_a_nested_namespace_have_the_ids_of_the_outer_one() {
    // The outer /proc stays mounted, so the link has the outer id.
    let run =
        zctrace().run(&program("unshare").args(&["--pid", "--fork", "readlink", "/proc/self"]));
    run.assert_exact();
    assert_eq!(run.report.totals.processes, 2);
    let inner = &run.descendants()[0];
    assert_eq!(
        (inner.pid, inner.comm.as_deref()),
        (printed_pid(&run), Some("readlink"))
    );
}

#[test]
fn threads_in_a_namespace_stay_with_their_process() {
    let storm = workload("thread-storm").args(&["8", "100"]);
    let run = zctrace().run(&storm.through(&["unshare", "--pid", "--fork"]));
    run.stated();
    run.assert_exact();
    assert_eq!(
        (run.report.totals.processes, run.report.totals.threads),
        (2, 10)
    );
    assert_eq!(Rows::of(&run.descendants()[0]).row("write").calls, 801);
}

#[test]
fn orphaned_descendants_are_followed() {
    // The middle shell ends at once, so the last one gets another parent.
    let dir = TestDir::new();
    let fifo = fifo(dir.path());
    let script = "sh -c '(read go <$0; echo 1234567 >/dev/null; echo done) & exit' $0; echo >$0";
    let run = zctrace()
        .option("--wait-all")
        .run(&shell(script).arg(&fifo));
    assert_eq!(run.finished.successful(), "done\n");
    run.assert_exact();
    assert_eq!(run.report.totals.processes, 3);
    assert_eq!(run.totals().row("write").bytes, Some(8 + 5 + 1));
}
