//! The counts of both backends beside those of `strace` itself, run separately.

use std::collections::BTreeMap;

use crate::harness::{Program, counted_by_strace, moved_as_strace_logs, program, shell, workload, zctrace};

/// Copies this many blocks of 4 KiB.
fn dd(blocks: u32) -> Program {
    program("dd").args(&["if=/dev/zero", "of=/dev/null", "bs=4k", &format!("count={blocks}")])
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
        assert!((400_000..=400_000 + own).contains(&row.calls), "{name}: {row:?}");
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
        assert_eq!((row.calls, row.errors), strace[name], "{name}: calls and errors");
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
        assert_eq!(run.totals().row(name).bytes, Some(strace[name]), "{name}: bytes");
    }
}

#[test]
fn ebpf_counts_every_call_of_a_script_like_strace() {
    let script = shell("/bin/true; ls /nonexistent 2>/dev/null; cat /etc/hostname >/dev/null; /bin/false; true");
    let run = zctrace().syscalls("all").run(&script);
    let mut strace = counted_by_strace(&script);
    let mut counted: BTreeMap<_, _> =
        run.totals().figures().into_iter().map(|(name, row)| (name, (row.calls, row.errors))).collect();
    run.assert_exact();
    // It never returns, so it is not among the calls.
    assert_eq!(counted.remove("exit_group"), Some((0, 0)));
    assert_eq!(run.totals().row("exit_group").unfinished, run.report.totals.processes);
    strace.remove("exit_group");
    assert_eq!(counted, strace, "calls and errors");
}

/// Makes sure that every row agrees in calls and errors.
#[track_caller]
fn assert_as_strace_counts(program: &Program) {
    let run = zctrace().option("--backend=strace").syscalls("all").run(program);
    let mut summary = counted_by_strace(program);
    run.assert_exact();
    assert_eq!(run.totals().row("exit_group").unfinished, run.report.totals.processes);
    let mut counted = BTreeMap::new();
    for (name, row) in run.totals().figures() {
        // strace counts every kind of ioctl as `ioctl`.
        let bare = name.split('(').next().unwrap_or_default().to_owned();
        let (calls, errors) = counted.entry(bare).or_default();
        *calls += row.calls;
        *errors += row.errors;
    }
    for never_returns in ["exit", "exit_group"] {
        assert!(counted.remove(never_returns).is_none_or(|row| row == (0, 0)), "{never_returns} never returns");
        summary.remove(never_returns);
    }
    assert!(summary.len() > 10, "{summary:?}");
    assert_eq!(counted, summary, "calls and errors: zctrace (left) and strace -c");
}

#[test]
fn the_strace_backend_counts_every_call_of_a_script_like_strace() {
    assert_as_strace_counts(&shell("/bin/true; ls /nonexistent 2>/dev/null; cat /etc/hostname >/dev/null; /bin/false; true"));
}

#[test]
fn the_strace_backend_counts_every_call_that_moves_data_like_strace() {
    assert_as_strace_counts(&workload("known"));
}
