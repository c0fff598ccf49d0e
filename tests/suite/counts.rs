//! Calls that workloads make a known number of times: calls, errors, errnos, unfinished calls,
//! bytes, requested bytes.

use crate::harness::{
    Program, Run, TestDir, Zctrace, each_backend, python, shell, workload, zctrace,
};

/// Makes sure that the workload's own thread has exactly the rows that the workload states.
#[track_caller]
fn assert_thread_as_stated(zctrace: Zctrace, workload: &Program) -> Run {
    let run = zctrace.by_thread().run_exactly(workload);
    run.own_thread().assert_equal(&run.stated().calls);
    run
}

/// `every_workload_is_counted_the_same` compares these under both backends. Guests of CI have time
/// only for this.
#[test]
fn known_failed_interrupted_and_cut_off_calls_are_counted() {
    for (case, dir) in [
        ("known", None),
        ("known", Some("/dev/shm")),
        ("errnos", None),
        ("signal-reads", None),
        ("signal-recv", None),
        // A restarted read is counted once.
        ("signal-restart", None),
        ("trapped", None),
        // At the end of the process.
        ("unfinished", None),
    ] {
        println!("{case}");
        let workload = dir.into_iter().fold(workload(case), Program::arg);
        assert_thread_as_stated(zctrace(), &workload);
    }
    for case in ["killed", "killed-sending", "broken-pipe"] {
        println!("{case}");
        let ended = zctrace().run_exactly(&workload(case));
        ended.own_process().assert_equal(&ended.stated().calls);
    }
}

/// The register that it puts back has the result of the read that was interrupted.
#[test]
fn a_return_from_a_signal_handler_never_fails() {
    for zctrace in each_backend() {
        let run = zctrace
            .syscalls("all")
            .run(&workload("signal-reads").arg("20"));
        let returned = run.report.syscall("rt_sigreturn").expect("was counted");
        assert_eq!((returned.calls, returned.errors), (20, 0));
    }
}

#[test]
fn without_times_all_else_is_counted() {
    for zctrace in each_backend() {
        let run = assert_thread_as_stated(zctrace.option("--counts-only"), &workload("known"));
        let totals = run.report.totals;
        for call in &totals.syscalls {
            assert_eq!((call.total_ns, call.p99_ns), (None, None), "{call:?}");
        }
        for call in totals.other_syscalls.iter().flatten() {
            let is_timed = call.sums.total_ns.is_some() && call.sums.calls > 0;
            assert!(!is_timed, "{call:?}");
        }
    }
}

#[test]
fn without_files_all_else_is_counted_and_transfers_and_failed_paths_are_unknown() {
    for zctrace in each_backend() {
        let run = assert_thread_as_stated(zctrace.option("--no-files"), &workload("known"));
        run.assert_noted("--no-files");
        let report = run.report;
        assert_eq!(report.transfers.len(), 0);
        let totals = report.totals;
        assert_eq!((totals.loading, totals.failed_paths), (None, None));
        assert!(!totals.failed_paths_complete);
    }
}

#[test]
fn calls_denied_by_seccomp_are_attempts_of_their_transfer() {
    let dir = TestDir::with("in", vec![1; 100_000]);
    let errno = libc::ENOSYS.to_string();
    let number = libc::SYS_copy_file_range.to_string();
    for zctrace in each_backend() {
        let denied = workload("deny").args(&[&errno, &number, "cp", "in", "out"]);
        let run = zctrace.dir(dir.path()).run_exactly(&denied);
        run.finished.successful();
        let denied = run.totals().row("copy_file_range");
        let found = (denied.calls, denied.errnos.get("ENOSYS"), denied.bytes);
        assert_eq!(found, (1, Some(&1), Some(0)));
        let transfers = &run.report.transfers;
        let mut attempts = transfers.iter().flat_map(|transfer| &transfer.attempts);
        let is_denied = attempts.any(|attempt| attempt.syscall == "copy_file_range");
        assert!(is_denied, "{transfers:?}");
    }
}

#[test]
fn calls_without_a_name_are_shown_by_number() {
    let names = [
        "syscall_0x1388",
        "syscall_0x2bc",
        "syscall_0x7d0",
        "syscall_from_0xffff",
    ];
    for zctrace in each_backend() {
        let run = zctrace
            .syscalls("all")
            .run_exactly(&workload("unknown-numbers"));
        run.finished.successful();
        let mut figures = run.totals().figures();
        figures.retain(|name, _| name.starts_with("syscall_"));
        assert!(figures.keys().eq(names), "{figures:?}");
        for row in figures.values() {
            assert_eq!((row.calls, row.errnos.get("ENOSYS")), (1, Some(&1)));
        }
    }
}

/// A child, created with `CLONE_UNTRACED`, that writes 10 bytes to /dev/null 100 times.
const UNTRACED_CHILD: &str = r#"
import ctypes, os
null = os.open("/dev/null", os.O_WRONLY)
if ctypes.CDLL(None).syscall(CLONE, 0, 0, 0, 0) == 0:
    for _ in range(100):
        os.write(null, b"0123456789")
    os._exit(0)
assert os.wait()[1] == 0
"#;

#[test]
fn a_child_that_strace_cannot_follow_is_a_loss() {
    let flags = libc::CLONE_UNTRACED | libc::SIGCHLD;
    let clone = format!("{}, {flags}", libc::SYS_clone);
    let untraced_child = python(&UNTRACED_CHILD.replace("CLONE", &clone));
    let [ebpf, strace] = each_backend().map(|zctrace| zctrace.run(&untraced_child));
    ebpf.assert_exact();
    assert_eq!(ebpf.report.totals.processes, 2);
    assert_eq!(ebpf.totals().row("write").bytes, Some(1000));
    let losses = &strace.report.losses;
    assert_eq!(strace.report.totals.processes, 1);
    assert!(!strace.report.exact);
    assert_eq!(losses.get("unfollowed_tasks"), Some(&1));
}

#[test]
fn processes_in_a_pid_namespace_are_listed_once() {
    let pipe = shell("head -c 5000 /dev/zero | cat >/dev/null");
    let pipe = pipe.through(&["unshare", "--pid", "--fork", "--mount-proc"]);
    for zctrace in each_backend() {
        let run = zctrace.run_exactly(&pipe);
        run.finished.successful();
        assert_eq!(run.report.totals.processes, 4);
    }
}

#[test]
fn only_selected_calls_are_counted() {
    for zctrace in each_backend() {
        let rows_of = |set: &str| {
            let run = zctrace.clone().by_thread().syscalls(set);
            let run = run.run_exactly(&workload("known"));
            (run.thread("zc-known").figures(), run.stated().calls)
        };
        let (rows, mut stated) = rows_of("pread64,sendfile,%network");
        stated.retain(|name, _| {
            let moves = name.starts_with("send") || name.starts_with("recv");
            moves || name == "pread64"
        });
        assert_eq!(rows.len(), 8, "{rows:?}");
        assert_eq!(rows, stated);
        // One kind of ioctl. The thread makes no other.
        let [(clones, _), (all, _)] = ["ioctl(FICLONE)", "ioctl"].map(rows_of);
        assert!(clones.keys().eq(["ioctl(FICLONE)"]), "{clones:?}");
        assert_eq!(all, clones);
    }
}

/// Calls through the 32-bit entry have rows of their own. They are made by `int $0x80`, an
/// instruction of x86.
#[cfg(target_arch = "x86_64")]
mod thirty_two_bit {
    use zc_tests::Figure;

    use crate::harness::{c, each_backend, zctrace};

    #[test]
    fn thirty_two_bit_writes_have_a_row_of_their_own() {
        let run = zctrace().run_exactly(&c("int80").args(&["500", "20"]));
        let stated = run.stated();
        let figures = run.totals().figures();
        assert_eq!(figures["write@i386"], stated.calls["write"]);
        let said = run.finished.stdout.len() as u64;
        assert_eq!(figures["write"], Figure::of_calls(1, said));
        let foreign = figures.keys().filter(|name| name.contains('@'));
        assert!(foreign.eq(["write@i386"]), "{figures:?}");
    }

    #[test]
    fn thirty_two_bit_calls_with_arguments_in_memory_are_decoded() {
        // The arguments are in memory, which the eBPF programs do not read. So under eBPF the size
        // asked for is unknown.
        let requested = [[None, None], [Some(10_000), Some(8192)]];
        for (zctrace, [by_socket, by_mmap]) in each_backend().into_iter().zip(requested) {
            let run = zctrace.run_exactly(&c("socketcall").args(&["10", "1000"]));
            run.finished.successful();
            let figures = run.totals().figures();
            let mut expected = Figure::of_calls(10, 1000);
            expected.requested_bytes = by_socket;
            assert_eq!(figures["send@i386"], expected);
            assert_eq!(figures["recv@i386"], expected);
            let mmap = &figures["mmap@i386"];
            assert_eq!((mmap.calls, mmap.requested_bytes), (1, by_mmap));
        }
    }

    #[test]
    fn thirty_two_bit_calls_are_not_mistaken_for_64_bit_calls_of_that_number() {
        // Number 4 is `write` in the 32-bit table and `stat` in the 64-bit table.
        let run = zctrace()
            .syscalls("stat")
            .run_exactly(&c("int80").args(&["500", "20"]));
        run.stated();
        run.totals().assert_equal(&[].into());
    }
}
