//! `strace -c -f`, run separately, beside this backend.

use std::collections::BTreeMap;

use super::strace;
use crate::harness::{Program, counted_by_strace, shell, workload};

/// Makes sure that every row agrees in calls and errors.
#[track_caller]
fn assert_as_strace_counts(program: &Program) {
    let run = strace().syscalls("all").run(program);
    let mut summary = counted_by_strace(program);
    run.assert_exact();
    assert_eq!(run.totals().row("exit_group").unfinished, run.report.totals.processes);
    let mut counted = BTreeMap::new();
    for (name, row) in run.totals().figures() {
        // To strace, each kind of ioctl is an ioctl.
        let bare = name.split('(').next().unwrap_or_default().to_owned();
        let (calls, errors) = counted.entry(bare).or_default();
        *calls += row.calls;
        *errors += row.errors;
    }
    for never_returns in ["exit", "exit_group"] {
        assert!(counted.remove(never_returns).is_none_or(|row| row == (0, 0)), "{never_returns} is no call that returned");
        summary.remove(never_returns);
    }
    assert!(summary.len() > 10, "{summary:?}");
    assert_eq!(counted, summary, "calls and errors: zctrace (left) and strace -c");
}

#[test]
fn every_call_of_a_script() {
    assert_as_strace_counts(&shell("/bin/true; ls /nonexistent 2>/dev/null; cat /etc/hostname >/dev/null; /bin/false; true"));
}

#[test]
fn every_call_of_a_program_that_moves_data() {
    assert_as_strace_counts(&workload("known"));
}
