//! The figures of a report compared with the kernel's own counters of the same work.

use serde_json::Value;
use zctrace::report::Usage;

use crate::harness::{workload, zctrace};

/// A number that a workload states.
#[track_caller]
fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("not a number: {value}"))
}

#[test]
fn reads_and_writes_equal_those_in_proc_self_io() {
    let run = zctrace()
        .by_thread()
        .run(&workload("proc-io").args(&["3000", "2000", "700"]));
    let stated = run.stated();
    let (growth, not_in_growth) = (
        &stated.facts["growth"],
        &stated.facts["not_in_growth"]["read"],
    );
    let thread = run.thread("zc-proc-io");
    let (read, write) = (thread.row("read"), thread.row("write"));
    run.assert_exact();
    thread.assert_equal(&stated.calls);
    assert_eq!(
        read.calls,
        number(&growth["syscr"]) + number(&not_in_growth["calls"])
    );
    assert_eq!(
        read.bytes,
        Some(number(&growth["rchar"]) + number(&not_in_growth["bytes"]))
    );
    assert_eq!(write.calls, number(&growth["syscw"]));
    assert_eq!(write.bytes, Some(number(&growth["wchar"])));
}

/// What `wait4` and the report say of the same process.
fn usages() -> (Value, Usage) {
    let run = zctrace().run(&workload("rusage"));
    let stated = run.stated();
    run.assert_exact();
    let process = run.process(stated.pid.expect("it names its child"));
    assert_eq!(process.threads, 1);
    (stated.facts["rusage"].clone(), process.usage)
}

#[test]
fn page_faults_equal_those_of_wait4() {
    let (wait4, usage) = usages();
    assert!(
        number(&wait4["ru_minflt"]) >= 1000,
        "the child touches 1000 pages: {wait4}"
    );
    assert_eq!(usage.page_faults.minor, wait4["ru_minflt"].as_u64());
    assert_eq!(usage.page_faults.major, wait4["ru_majflt"].as_u64());
}

#[test]
fn context_switches_equal_those_of_wait4_except_for_the_last() {
    let (wait4, usage) = usages();
    // The last switch of the process may be in one of them and not in the other.
    for (name, found) in [
        ("ru_nvcsw", usage.context_switches.voluntary),
        ("ru_nivcsw", usage.context_switches.involuntary),
    ] {
        let expected = number(&wait4[name]);
        assert!(
            found.is_some_and(|found| found.abs_diff(expected) <= 1),
            "{name}: expected {expected}, found {found:?}"
        );
    }
    assert!(
        number(&wait4["ru_nvcsw"]) >= 150,
        "the child waits 200 times: {wait4}"
    );
}

#[test]
fn cpu_time_is_within_2_ms_of_wait4() {
    let (wait4, usage) = usages();
    for (name, found_ns) in [
        ("ru_utime_us", usage.user_ns),
        ("ru_stime_us", usage.system_ns),
    ] {
        let (expected_us, found_us) = (number(&wait4[name]), found_ns.expect("known") / 1000);
        assert!(
            found_us.abs_diff(expected_us) <= 2_000,
            "{name}: expected {expected_us}, found {found_us}"
        );
    }
    let all_us = number(&wait4["ru_utime_us"]) + number(&wait4["ru_stime_us"]);
    assert!(all_us >= 50_000, "the child burns 50 ms: {wait4}");
}

#[test]
fn totals_are_the_sums_of_the_processes() {
    let run = zctrace().by_thread().run(&workload("fork-storm").arg("50"));
    let sum = |of: fn(&Usage) -> Option<u64>| {
        run.report
            .processes
            .iter()
            .map(|process| of(&process.usage))
            .sum::<Option<u64>>()
    };
    let totals = &run.report.totals;
    assert_eq!(totals.processes, 51);
    assert_eq!(totals.threads, run.threads().count() as u64);
    assert_eq!(totals.usage.user_ns, sum(|usage| usage.user_ns));
    assert_eq!(totals.usage.system_ns, sum(|usage| usage.system_ns));
    assert_eq!(
        totals.usage.page_faults.minor,
        sum(|usage| usage.page_faults.minor)
    );
    assert_eq!(
        totals.usage.context_switches.voluntary,
        sum(|usage| usage.context_switches.voluntary)
    );
}
