//! Calls that workloads make a known number of times: calls, errors, errnos, unfinished calls,
//! bytes, requested bytes.

use std::path::Path;

use crate::harness::{Program, TestDir, Zctrace, each_backend, shell, workload, zctrace};

/// Makes sure that the workload's own thread has exactly the rows that the workload states.
#[track_caller]
fn assert_thread_as_stated(zctrace: Zctrace, workload: &Program) {
    let run = zctrace.by_thread().run(workload);
    run.assert_exact();
    run.own_thread().assert_equal(&run.stated().calls);
}

#[test]
fn every_call_that_moves_data_is_counted() {
    assert_thread_as_stated(zctrace(), &workload("known"));
}

#[test]
fn every_call_that_moves_data_on_tmpfs_is_counted() {
    assert!(Path::new("/dev/shm").is_dir(), "needs /dev/shm");
    assert_thread_as_stated(zctrace(), &workload("known").arg("/dev/shm"));
}

#[test]
fn without_times_all_else_is_counted() {
    for zctrace in each_backend() {
        let run = zctrace
            .by_thread()
            .option("--counts-only")
            .run(&workload("known"));
        run.assert_exact();
        run.own_thread().assert_equal(&run.stated().calls);
        let calls = &run.report.totals.syscalls;
        assert!(
            calls
                .iter()
                .all(|call| (call.total_ns, call.p99_ns) == (None, None)),
            "{calls:?}"
        );
        let others = run.report.totals.other_syscalls.iter().flatten();
        assert!(
            others
                .map(|call| call.sums)
                .all(|sums| sums.total_ns.is_none() || sums.calls == 0)
        );
    }
}

#[test]
fn without_files_all_else_is_counted_and_transfers_are_unknown() {
    for zctrace in each_backend() {
        let run = zctrace
            .by_thread()
            .option("--no-files")
            .run(&workload("known"));
        run.assert_exact();
        run.own_thread().assert_equal(&run.stated().calls);
        assert_eq!(
            (run.report.transfers.len(), run.report.totals.loading),
            (0, None)
        );
        assert!(
            run.report
                .notes
                .iter()
                .any(|note| note.contains("--no-files")),
            "{:?}",
            run.report.notes
        );
    }
}

#[test]
fn failed_calls_are_counted_by_errno() {
    assert_thread_as_stated(zctrace(), &workload("errnos"));
}

#[test]
fn reads_interrupted_by_signals_are_counted() {
    assert_thread_as_stated(zctrace(), &workload("signal-reads"));
}

#[test]
fn receives_interrupted_by_signals_are_counted() {
    assert_thread_as_stated(zctrace(), &workload("signal-recv"));
}

#[test]
fn a_read_restarted_after_signals_is_counted_once() {
    assert_thread_as_stated(zctrace(), &workload("signal-restart"));
}

#[test]
fn a_read_cut_off_by_the_process_exit_is_unfinished() {
    assert_thread_as_stated(zctrace(), &workload("unfinished"));
}

#[test]
fn a_read_cut_off_by_a_fatal_signal_is_unfinished() {
    let run = zctrace().run(&workload("killed"));
    run.assert_exact();
    run.own_process().assert_equal(&run.stated().calls);
}

#[test]
fn a_partial_send_cut_off_by_a_fatal_signal_is_unfinished() {
    for zctrace in each_backend() {
        let run = zctrace.run(&workload("killed-sending"));
        run.assert_exact();
        run.own_process().assert_contain(&run.stated().calls);
    }
}

#[test]
fn calls_trapped_by_seccomp_are_not_counted() {
    for zctrace in each_backend() {
        let run = zctrace.by_thread().run(&workload("trapped"));
        let stated = run.stated();
        run.assert_exact();
        run.thread("zc-trapped").assert_equal(&stated.calls);
    }
}

#[test]
fn calls_denied_by_seccomp_are_attempts_of_their_transfer() {
    let dir = TestDir::with("in", vec![1; 100_000]);
    let (errno, number) = (
        libc::ENOSYS.to_string(),
        libc::SYS_copy_file_range.to_string(),
    );
    for zctrace in each_backend() {
        let run = zctrace
            .dir(dir.path())
            .run(&workload("deny").args(&[&errno, &number, "cp", "in", "out"]));
        run.finished.successful();
        run.assert_exact();
        let denied = run.totals().row("copy_file_range");
        assert_eq!(
            (denied.calls, denied.errnos.get("ENOSYS"), denied.bytes),
            (1, Some(&1), Some(0))
        );
        let transfers = run.root_transfers();
        let attempts: Vec<_> = transfers
            .iter()
            .flat_map(|transfer| &transfer.attempts)
            .collect();
        assert!(
            attempts
                .iter()
                .any(|attempt| attempt.syscall == "copy_file_range"),
            "{transfers:?}"
        );
    }
}

#[test]
fn calls_without_a_name_are_shown_by_number() {
    for zctrace in each_backend() {
        let run = zctrace.syscalls("all").run(&workload("unknown-numbers"));
        run.finished.successful();
        run.assert_exact();
        for name in [
            "syscall_0x2bc",
            "syscall_0x7d0",
            "syscall_0x1388",
            "syscall_from_0xffff",
        ] {
            let row = run.totals().row(name);
            assert_eq!(
                (row.calls, row.errnos.get("ENOSYS")),
                (1, Some(&1)),
                "{name}"
            );
        }
        assert_eq!(
            run.totals()
                .figures()
                .keys()
                .filter(|name| name.starts_with("syscall_"))
                .count(),
            4
        );
    }
}

#[test]
fn a_child_that_strace_cannot_follow_is_a_loss() {
    let [ebpf, strace] = each_backend().map(|zctrace| zctrace.run(&workload("untraced-child")));
    ebpf.assert_exact();
    assert_eq!(
        (
            ebpf.report.totals.processes,
            ebpf.totals().row("write").bytes
        ),
        (2, Some(1000))
    );
    assert_eq!(
        (
            strace.report.totals.processes,
            strace.report.losses.get("unfollowed_tasks")
        ),
        (1, Some(&1))
    );
    assert!(!strace.report.exact);
}

#[test]
fn processes_in_a_pid_namespace_are_listed_once() {
    for zctrace in each_backend() {
        let pipe = shell("head -c 5000 /dev/zero | cat >/dev/null").through(&[
            "unshare",
            "--pid",
            "--fork",
            "--mount-proc",
        ]);
        let run = zctrace.run(&pipe);
        run.finished.successful();
        run.assert_exact();
        assert_eq!(run.report.totals.processes, 4);
    }
}

#[test]
fn only_selected_calls_are_counted() {
    let run = zctrace()
        .by_thread()
        .syscalls("pread64,sendfile,%network")
        .run(&workload("known"));
    let mut stated = run.stated();
    stated
        .calls
        .retain(|name, _| ["pread64", "sendfile"].contains(&name.as_str()) || is_network(name));
    assert_eq!(stated.calls.len(), 8, "{stated:?}");
    run.assert_exact();
    run.thread("zc-known").assert_equal(&stated.calls);
}

fn is_network(name: &str) -> bool {
    name.starts_with("send") && name != "sendfile" || name.starts_with("recv")
}

#[test]
fn one_kind_of_ioctl_can_be_selected() {
    let of = |set: &str| {
        zctrace()
            .by_thread()
            .syscalls(set)
            .run(&workload("known"))
            .thread("zc-known")
            .figures()
    };
    let clones = of("ioctl(FICLONE)");
    assert_eq!(clones.keys().collect::<Vec<_>>(), ["ioctl(FICLONE)"]);
    assert_eq!(of("ioctl"), clones, "the thread makes no other ioctl");
}

/// Calls through the 32-bit entry have rows of their own. They are made by `int $0x80`, an
/// instruction of x86.
#[cfg(target_arch = "x86_64")]
mod thirty_two_bit {
    use zc_tests::Figure;

    use crate::harness::{c, each_backend, zctrace};

    #[test]
    fn thirty_two_bit_writes_have_a_row_of_their_own() {
        let run = zctrace().run(&c("int80").args(&["500", "20"]));
        let stated = run.stated();
        let figures = run.totals().figures();
        run.assert_exact();
        assert_eq!(figures["write@i386"], stated.calls["write"]);
        assert_eq!(
            figures["write"],
            Figure::of(1, run.finished.stdout.len() as u64)
        );
        assert_eq!(
            figures
                .keys()
                .filter(|name| name.contains('@'))
                .collect::<Vec<_>>(),
            ["write@i386"]
        );
    }

    #[test]
    fn thirty_two_bit_calls_with_arguments_in_memory_are_decoded() {
        // The arguments are in memory, which the eBPF programs do not read. So under eBPF the size
        // asked for is unknown.
        let requested = [[None, None], [Some(10_000), Some(8192)]];
        for (zctrace, [by_socket, by_mmap]) in each_backend().into_iter().zip(requested) {
            let run = zctrace.run(&c("socketcall").args(&["10", "1000"]));
            run.finished.successful();
            run.assert_exact();
            let figures = run.totals().figures();
            for name in ["send@i386", "recv@i386"] {
                assert_eq!(
                    figures[name],
                    Figure {
                        requested_bytes: by_socket,
                        ..Figure::of(10, 1000)
                    },
                    "{name}"
                );
            }
            assert_eq!(
                (
                    figures["mmap@i386"].calls,
                    figures["mmap@i386"].requested_bytes
                ),
                (1, by_mmap)
            );
        }
    }

    #[test]
    fn thirty_two_bit_calls_are_not_mistaken_for_64_bit_calls_of_that_number() {
        // Number 4 is `write` in the 32-bit table and `stat` in the 64-bit table.
        let run = zctrace()
            .syscalls("stat")
            .run(&c("int80").args(&["500", "20"]));
        run.stated();
        run.assert_exact();
        run.totals().assert_equal(&[].into());
    }
}
