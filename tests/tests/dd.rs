//! `dd`, which reads and writes as often as it is told, beside `strace`.

use crate::harness::{Program, counted_by_strace, moved_as_strace_logs, program, shell, zctrace};

/// Copies so many blocks of 4 KiB.
fn dd(blocks: u32) -> Program {
    program("dd").args(&["if=/dev/zero", "of=/dev/null", "bs=4k", &format!("count={blocks}")])
}

/// `strace` takes its time.
const FEW: u32 = 20_000;

#[test]
fn four_hundred_thousand_blocks() {
    let run = zctrace().run(&dd(400_000));
    run.assert_exact();
    for (name, own) in [("read", 2), ("write", 3)] {
        // Besides the blocks: the loader reads libc, and dd says what it did.
        let row = run.totals().row(name);
        let blocks = row.bytes.expect("known") / 4096;
        assert!((400_000..=400_000 + own).contains(&row.calls), "{name}: {row:?}");
        assert_eq!((blocks, row.errors), (400_000, 0), "{name}: {row:?}");
    }
}

#[test]
fn as_many_calls_as_strace_counts() {
    let run = zctrace().run(&dd(FEW));
    let strace = counted_by_strace(&dd(FEW));
    run.assert_exact();
    for name in ["read", "write"] {
        let row = run.totals().row(name);
        assert_eq!((row.calls, row.errors), strace[name], "{name}: calls and errors");
    }
}

#[test]
fn as_many_bytes_as_strace_logs() {
    // dd's last words tell the time it took, so their length differs from run to run.
    let quiet = dd(FEW).arg("status=none");
    let run = zctrace().run(&quiet);
    let strace = moved_as_strace_logs(&quiet, &["read", "write"]);
    run.assert_exact();
    for name in ["read", "write"] {
        assert_eq!(run.totals().row(name).bytes, Some(strace[name]), "{name}: bytes");
    }
}

#[test]
fn every_call_of_a_script_as_strace_counts() {
    let script = shell("/bin/true; ls /nonexistent 2>/dev/null; cat /etc/hostname >/dev/null; /bin/false; true");
    let run = zctrace().syscalls("all").run(&script);
    let mut strace = counted_by_strace(&script);
    let mut counted: std::collections::BTreeMap<_, _> =
        run.totals().figures().into_iter().map(|(name, row)| (name, (row.calls, row.errors))).collect();
    run.assert_exact();
    // It never returns, so it is no call that returned.
    assert_eq!(counted.remove("exit_group"), Some((0, 0)));
    assert_eq!(run.totals().row("exit_group").unfinished, run.report.totals.processes);
    strace.remove("exit_group");
    assert_eq!(counted, strace, "calls and errors");
}
