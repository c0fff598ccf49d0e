//! strace is killed in the middle, or zctrace is: the command must not suffer.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use super::{assert_empty, strace, strace_with_own_tmp};
use crate::harness::{child_of, shell, wait_until};

/// Says what it hears, twice, and fails in a way of its own.
const ECHO: &str = "echo ready; read line; echo $line; read line; echo $line; exit 5";

#[test]
fn without_strace_the_command_goes_on_and_its_status_passes() {
    let (zctrace, tmp) = strace_with_own_tmp();
    let (mut zctrace, report) = zctrace.start(&shell(ECHO));
    zctrace.expect("ready");
    kill_process(child_of(zctrace.pid()), Signal::KILL).expect("it lives");
    for word in ["still", "there"] {
        zctrace.say(word);
        zctrace.expect(word);
    }
    assert_eq!(zctrace.wait(), Some(5));
    let group = zctrace.pid();
    let report = report.read(&zctrace.into_stderr());
    assert_eq!((report.exit.code, report.exit.signal), (Some(5), None));
    assert!(!report.exact && report.losses.contains_key("tracer_ended"), "{:?}", report.losses);
    assert_empty(tmp.path());
    assert!(rustix::process::test_kill_process_group(group).is_err(), "nothing of it is left");
}

/// The parent of a process, field 4 of `man 5 proc_pid_stat`.
fn parent_of(process: Pid) -> Pid {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_pid())).expect("it lives");
    let parent = stat.rsplit_once(") ").and_then(|(_, fields)| fields.split(' ').nth(1)?.parse().ok());
    parent.and_then(Pid::from_raw).expect("every process here has a parent")
}

#[test]
fn a_signal_reaches_a_command_without_strace() {
    let (mut zctrace, report) = strace().start(&shell("echo ready; exec sleep 100"));
    zctrace.expect("ready");
    let strace = child_of(zctrace.pid());
    let command = child_of(strace);
    kill_process(strace, Signal::KILL).expect("it lives");
    wait_until("the command is zctrace's", || parent_of(command) == zctrace.pid());
    zctrace.signal(Signal::TERM);
    assert_eq!(zctrace.wait(), Some(143));
    let report = report.read(&zctrace.into_stderr());
    assert_eq!((report.exit.signal, report.exact), (Some(15), false));
}

#[test]
fn the_table_says_that_it_is_a_lower_bound() {
    // The command kills its own tracer.
    let finished = strace().show(&shell("kill -KILL $PPID; echo on; exit 6"));
    assert_eq!((finished.code, finished.text()), (Some(6), "on\n"), "{}", finished.stderr);
    assert!(finished.stderr.contains("lower bound") && finished.stderr.contains("tracer ended"), "{}", finished.stderr);
}

#[test]
fn with_wait_all_too() {
    let finished = strace().option("--wait-all").show(&shell("kill -KILL $PPID; echo on; exit 6"));
    assert_eq!((finished.code, finished.text()), (Some(6), "on\n"), "{}", finished.stderr);
}

#[test]
fn without_zctrace_nothing_mixes_with_the_commands_stderr() {
    let (mut zctrace, _report) = strace().start(&shell(ECHO));
    zctrace.expect("ready");
    zctrace.signal(Signal::KILL);
    assert_eq!(zctrace.wait(), None, "killed");
    for word in ["still", "there"] {
        zctrace.say(word);
        zctrace.expect(word);
    }
    assert_eq!(zctrace.into_stderr(), "");
}
