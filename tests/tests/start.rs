//! How often zctrace calls the kernel to start, to follow and to end. How long that takes depends
//! on the machine, these numbers do not.

use std::fs;

use crate::harness::{Program, program, workload, zctrace};

/// The lines of strace about these calls of zctrace and of its threads, while it runs a command.
fn calls(names: &str, command: &Program) -> Vec<String> {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("log").display().to_string();
    let strace = [
        "strace",
        "-f",
        "-qq",
        "--seccomp-bpf",
        "-o",
        &log,
        "-e",
        &format!("trace={names}"),
        "-e",
        "signal=none",
    ];
    zctrace()
        .ebpf()
        .option("--output=/dev/null")
        .through(&strace)
        .launch_of(command)
        .finish()
        .successful();
    let log = fs::read_to_string(log).expect("strace writes it");
    log.lines()
        .filter(|line| !line.contains(" resumed>"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_run_of_a_command_that_does_nothing_makes_few_calls_of_bpf() {
    let calls = calls("bpf", &program("true"));
    // 116 were seen when this was written. To read all counts of calls without rows one by one took
    // 2,000.
    assert!(calls.len() <= 130, "{}:\n{}", calls.len(), calls.join("\n"));
}

#[test]
fn the_start_waits_for_no_grace_period() {
    let calls = calls("membarrier", &program("true"));
    assert!(
        calls
            .iter()
            .all(|call| call.contains("MEMBARRIER_CMD_QUERY")),
        "{calls:?}"
    );
}

#[test]
fn the_table_of_descriptors_grows_before_there_are_threads() {
    // Later, the kernel waits for a grace period when it grows.
    let calls = calls("fcntl,clone,clone3", &program("true"));
    let place = |what: &str| {
        calls
            .iter()
            .position(|call| call.contains(what))
            .unwrap_or_else(|| panic!("no {what}: {calls:#?}"))
    };
    assert!(
        place("F_DUPFD_CLOEXEC, 255") < place("CLONE_THREAD"),
        "{calls:#?}"
    );
}

#[test]
fn a_storm_of_processes_does_not_wake_zctrace_at_each() {
    let wakeups = calls("epoll_wait", &workload("exec-storm").arg("300"));
    assert!(
        wakeups.len() <= 60,
        "{} wakeups for 300 processes",
        wakeups.len()
    );
}
