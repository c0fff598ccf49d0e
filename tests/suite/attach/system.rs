//! `--system-wide`: every process of the machine, and those that start later.

use super::{AttachedTrace, process, target, tell};

#[test]
fn processes_are_counted_that_run_before_the_attach_and_that_start_later() {
    let mut early = target();
    let trace = AttachedTrace::start(&["-a"]);
    let mut late = target();
    tell(&mut early, "writes(5000); child(100)");
    tell(&mut late, "writes(70)");
    let zctrace = trace.zctrace.pid().as_raw_pid().unsigned_abs();
    trace.zctrace.signal(rustix::process::Signal::INT);
    // The report also has whatever else runs now, which may cause losses.
    let report = trace.ended_perhaps_with_losses();
    assert!(report.attached.as_ref().is_some_and(|one| one.system));
    // Each says `done`; the late one was new, so it has written 1000 times and said `ready`.
    for (target, expected) in [(&early, 5000 + 1), (&late, 1000 + 1 + 70 + 1)] {
        let mut calls = process(&report, target.pid()).syscalls.iter();
        let write = calls.find(|call| call.name == "write").expect("it writes");
        assert_eq!(write.calls, expected);
    }
    let is_zctrace = |pid: u32| pid == zctrace;
    assert!(!report.processes.iter().any(|one| is_zctrace(one.pid)));
}
