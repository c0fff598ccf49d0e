//! How often zctrace calls the kernel to start, to follow and to end. How long that takes depends
//! on the machine, these numbers do not.

use std::fs;

use crate::harness::{Program, program, workload, zctrace};

/// What strace writes about these calls of zctrace and of its threads, while it runs a command.
fn log_of_calls(names: &str, command: &Program) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("log").display().to_string();
    let trace = format!("--trace={names}");
    let strace = [
        "strace",
        "-f",
        "-qq",
        "--seccomp-bpf",
        "-o",
        &log,
        &trace,
        "--signal=none",
    ];
    let zctrace = zctrace().ebpf().option("--output=/dev/null");
    zctrace.through(&strace).show(command).successful();
    fs::read_to_string(log).expect("strace writes it")
}

#[test]
fn the_start_makes_few_calls_of_bpf_and_waits_for_no_grace_period() {
    let log = log_of_calls("bpf,membarrier,fcntl,clone,clone3", &program("true"));
    let calls: Vec<_> = log
        .lines()
        .filter(|line| !line.contains(" resumed>"))
        .collect();
    let of = |name: &'static str| calls.iter().filter(move |call| call.contains(name));
    // 133 were seen when this was written. To read all counts of calls without rows one by one took
    // 2,000.
    let bpf = of(" bpf(").count();
    assert!((50..=145).contains(&bpf), "{bpf}:\n{}", calls.join("\n"));
    for call in of(" membarrier(") {
        assert!(call.contains("MEMBARRIER_CMD_QUERY"), "{call}");
    }
    // The table of descriptors grows before there are threads. Later, the kernel would wait for a
    // grace period.
    let place = |what: &str| {
        let place = calls.iter().position(|call| call.contains(what));
        place.unwrap_or_else(|| panic!("no {what}: {calls:#?}"))
    };
    assert!(
        place("F_DUPFD_CLOEXEC, 255") < place("CLONE_THREAD"),
        "{calls:#?}"
    );
}

#[test]
fn a_storm_of_processes_does_not_wake_zctrace_at_each() {
    let log = log_of_calls("epoll_wait", &workload("exec-storm").arg("300"));
    // Timers also wake it, the more often the longer the storm takes: then no descriptor is ready, or the
    // one of the runtime itself, which has the number 0.
    let is_by_event =
        |line: &&str| (line.split("u64=").skip(1)).any(|number| !number.starts_with("0}"));
    let wakeups = log.lines().filter(is_by_event).count();
    // 3 were seen when this was written, and 700 where each event woke it.
    assert!((1..=30).contains(&wakeups), "{wakeups} wakeups:\n{log}");
}
