//! A comparison that is broken off, at any point: nothing is left of it.

use std::{fs, path::Path};

use rustix::process::Signal;
use tempfile::{TempDir, tempdir};

use super::heard;
use crate::harness::{Conversation, wait_until};

/// A command that says its id and then waits.
const WAITS: &str = "echo $$; exec sleep 100";
/// One that leaves the waiting to a child, whose id it says.
const CHILD_WAITS: &str = "sleep 100 & echo $!; wait";

/// Starts it in a directory of its own, with a file to write at the end.
fn started(options: &[&str], command: &str) -> (Conversation, TempDir) {
    let dir = tempdir().expect("a directory");
    let options = [options, &["--runs=1", "--export", "json", "out.json"]].concat();
    (heard(&options, command).dir(dir.path()).start(), dir)
}

fn is_there(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

#[track_caller]
fn assert_empty(dir: &TempDir) {
    let left: Vec<_> = fs::read_dir(dir.path()).expect("ours").flatten().map(|entry| entry.file_name()).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// The signal ends zctrace, which says so, and leaves neither this process nor a file.
#[track_caller]
fn assert_ends(mut zctrace: Conversation, dir: &TempDir, signal: Signal, name: &str) {
    let pid = zctrace.hear();
    zctrace.signal(signal);
    assert_eq!(zctrace.wait(), Some(128 + signal.as_raw()));
    assert!(!is_there(&pid), "still running");
    assert_empty(dir);
    assert_eq!(zctrace.into_stderr(), format!("zctrace: interrupted by {name}\n"));
}

#[test]
fn a_signal_ends_a_timed_run() {
    for (signal, name) in [(Signal::INT, "SIGINT"), (Signal::TERM, "SIGTERM"), (Signal::HUP, "SIGHUP")] {
        for command in [WAITS, CHILD_WAITS] {
            let (zctrace, dir) = started(&[], command);
            assert_ends(zctrace, &dir, signal, name);
        }
    }
}

#[test]
fn a_signal_ends_a_preparation() {
    let (zctrace, dir) = started(&[&format!("--prepare={CHILD_WAITS}")], "true");
    assert_ends(zctrace, &dir, Signal::TERM, "SIGTERM");
}

#[test]
fn a_signal_ends_a_traced_run() {
    for backend in ["--backend=ebpf", "--backend=strace"] {
        // The second run is the traced one.
        let command = format!("if test -e timed; then rm timed; {CHILD_WAITS}; else touch timed; fi");
        let (zctrace, dir) = started(&[backend], &command);
        assert_ends(zctrace, &dir, Signal::TERM, "SIGTERM");
    }
}

#[test]
fn a_command_that_takes_no_signal_is_ended_too() {
    let (zctrace, dir) = started(&[], "trap '' INT TERM; echo $$; while :; do sleep 1; done");
    assert_ends(zctrace, &dir, Signal::TERM, "SIGTERM");
}

#[test]
fn killed_zctrace_takes_its_command_with_it() {
    let traced = format!("if test -e timed; then rm timed; {WAITS}; else touch timed; fi");
    for command in [WAITS, &traced] {
        let (mut zctrace, dir) = started(&["--backend=ebpf"], command);
        let pid = zctrace.hear();
        zctrace.signal(Signal::KILL);
        assert_eq!(zctrace.wait(), None, "killed");
        wait_until("the command is gone", || !is_there(&pid));
        assert_empty(&dir);
    }
}
