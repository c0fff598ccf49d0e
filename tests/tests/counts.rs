//! Known calls are counted one by one: calls, errors, errnos, unfinished calls, bytes, requested bytes.

use std::path::Path;

use crate::harness::{Program, Rows, Zctrace, each_backend, shell, workload, zctrace};

/// Makes sure that the workload's own thread has exactly the rows that the workload states, and no others.
#[track_caller]
fn assert_thread_as_stated(zctrace: Zctrace, workload: &Program) {
    let run = zctrace.by_thread().run(workload);
    let stated = run.stated();
    run.assert_exact();
    run.thread(stated.thread.as_deref().expect("it names its thread")).assert_equal(&stated.calls);
}

#[test]
fn every_call_that_moves_data() {
    assert_thread_as_stated(zctrace(), &workload("known"));
}

#[test]
fn every_call_that_moves_data_on_tmpfs() {
    assert!(Path::new("/dev/shm").is_dir(), "needs /dev/shm");
    assert_thread_as_stated(zctrace(), &workload("known").arg("/dev/shm"));
}

#[test]
fn failing_calls_by_errno() {
    assert_thread_as_stated(zctrace(), &workload("errnos"));
}

#[test]
fn reads_that_signals_end() {
    assert_thread_as_stated(zctrace(), &workload("signal-reads"));
}

#[test]
fn receptions_that_signals_end() {
    assert_thread_as_stated(zctrace(), &workload("signal-recv"));
}

#[test]
fn one_read_that_signals_restart() {
    assert_thread_as_stated(zctrace(), &workload("signal-restart"));
}

#[test]
fn a_read_that_the_end_of_the_process_cuts_off() {
    assert_thread_as_stated(zctrace(), &workload("unfinished"));
}

#[test]
fn a_read_that_a_fatal_signal_cuts_off() {
    let run = zctrace().run(&workload("killed"));
    let stated = run.stated();
    run.assert_exact();
    Rows::of(run.process(stated.pid.expect("it names its child"))).assert_equal(&stated.calls);
}

#[test]
fn a_send_that_a_fatal_signal_cuts_off_after_a_part() {
    for zctrace in each_backend() {
        let run = zctrace.run(&workload("killed-sending"));
        let stated = run.stated();
        run.assert_exact();
        Rows::of(run.process(stated.pid.expect("it names its child"))).assert_contain(&stated.calls);
    }
}

#[test]
fn calls_that_seccomp_traps_were_not_made() {
    for zctrace in each_backend() {
        let run = zctrace.by_thread().run(&workload("trapped"));
        let stated = run.stated();
        run.assert_exact();
        run.thread("zc-trapped").assert_equal(&stated.calls);
    }
}

#[test]
fn calls_that_seccomp_denies_are_attempts_on_their_files() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("in"), vec![1; 100_000]).expect("room");
    let (errno, number) = (libc::ENOSYS.to_string(), libc::SYS_copy_file_range.to_string());
    for zctrace in each_backend() {
        let run = zctrace.dir(dir.path()).run(&workload("deny").args(&[&errno, &number, "cp", "in", "out"]));
        run.finished.successful();
        run.assert_exact();
        let denied = run.totals().row("copy_file_range");
        assert_eq!((denied.calls, denied.errnos.get("ENOSYS"), denied.bytes), (1, Some(&1), Some(0)));
        let transfers = &run.root().transfers;
        let attempts: Vec<_> = transfers.iter().flat_map(|transfer| &transfer.attempts).collect();
        assert!(attempts.iter().any(|attempt| attempt.syscall == "copy_file_range"), "{transfers:?}");
    }
}

#[test]
fn calls_that_no_table_has_have_their_numbers() {
    for zctrace in each_backend() {
        let run = zctrace.syscalls("all").run(&workload("unknown-numbers"));
        run.finished.successful();
        run.assert_exact();
        for name in ["syscall_0x2bc", "syscall_0x7d0", "syscall_0x1388", "syscall_from_0xffff"] {
            let row = run.totals().row(name);
            assert_eq!((row.calls, row.errnos.get("ENOSYS")), (1, Some(&1)), "{name}");
        }
        assert_eq!(run.totals().figures().keys().filter(|name| name.starts_with("syscall_")).count(), 4);
    }
}

#[test]
fn a_child_that_cannot_be_followed_is_a_loss() {
    let [ebpf, strace] = each_backend().map(|zctrace| zctrace.run(&workload("untraced-child")));
    ebpf.assert_exact();
    assert_eq!((ebpf.report.totals.processes, ebpf.totals().row("write").bytes), (2, Some(1000)));
    assert_eq!((strace.report.totals.processes, strace.report.losses.get("unfollowed_tasks")), (1, Some(&1)));
    assert!(!strace.report.exact);
}

#[test]
fn processes_in_a_namespace_are_listed_once() {
    for zctrace in each_backend() {
        let pipe = shell("head -c 5000 /dev/zero | cat >/dev/null").through(&["unshare", "--pid", "--fork", "--mount-proc"]);
        let run = zctrace.run(&pipe);
        run.finished.successful();
        run.assert_exact();
        assert_eq!(run.report.totals.processes, 4);
    }
}

#[test]
fn only_the_selected_calls() {
    let run = zctrace().by_thread().syscalls("pread64,sendfile,%network").run(&workload("known"));
    let mut stated = run.stated();
    stated.calls.retain(|name, _| ["pread64", "sendfile"].contains(&name.as_str()) || is_network(name));
    assert_eq!(stated.calls.len(), 8, "{stated:?}");
    run.assert_exact();
    run.thread("zc-known").assert_equal(&stated.calls);
}

fn is_network(name: &str) -> bool {
    name.starts_with("send") && name != "sendfile" || name.starts_with("recv")
}

#[test]
fn one_kind_of_ioctl_among_all() {
    let of = |set: &str| zctrace().by_thread().syscalls(set).run(&workload("known")).thread("zc-known").figures();
    let clones = of("ioctl(FICLONE)");
    assert_eq!(clones.keys().collect::<Vec<_>>(), ["ioctl(FICLONE)"]);
    assert_eq!(of("ioctl"), clones, "a thread that makes no other ioctl");
}
