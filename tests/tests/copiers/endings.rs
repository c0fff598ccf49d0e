//! When one side is killed the other one ends, and no process, socket or file is left.

use std::fs;

use rustix::process::{Pid, Signal};

use super::{Scene, Side, copy, in_c, in_rust};
use crate::harness::{Conversation, Program, child_of, untraced, wait_until, zctrace};

/// Starts an endless copy to a sink, and waits until bytes arrive there.
fn endless(copier: &Program, scene: &Scene) -> (Conversation, Side) {
    let sink = Side::sink(&scene.spec("unix:", "socket"));
    let copying = untraced(&copy(copier, "read-write", "/dev/zero", &sink.spec)).start();
    wait_for_reads(copying.pid());
    (copying, sink)
}

/// Waits until a process has read more from files and pipes than its buffer and a socket hold, so
/// that bytes have arrived.
fn wait_for_reads(process: Pid) {
    let path = format!("/proc/{}/io", process.as_raw_pid());
    wait_until("bytes arrive", || {
        let io = fs::read_to_string(&path).expect("it is not reaped");
        let mut lines = io.lines();
        let read = lines.find_map(|line| line.strip_prefix("rchar: ")?.parse::<u64>().ok());
        read.expect("a number") > 2 << 20
    });
}

/// How many bytes a sink says that it received.
#[track_caller]
fn received(sink: Side) -> u64 {
    let line = sink.last_line();
    let bytes = line
        .strip_prefix("received ")
        .and_then(|rest| rest.split(' ').next());
    bytes.and_then(|bytes| bytes.parse().ok()).expect(&line)
}

/// Whether a process has ended; its parent may not have waited for it yet.
fn is_over(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_pid()));
    let stat = stat.unwrap_or_default();
    stat.rsplit_once(") ")
        .is_none_or(|(_, fields)| fields.starts_with('Z'))
}

/// The copies whose source or destination is a process at a pipe.
const PIPES: [(&str, &str); 2] = [
    ("pipe:/dev/zero", "/dev/null"),
    ("/dev/zero", "pipe:/dev/null"),
];

#[test]
fn killing_the_sink_or_a_process_at_a_pipe_ends_the_copier_which_names_it() {
    let scene = Scene::new(0);
    for copier in [in_rust(), in_c()] {
        let (copying, sink) = endless(&copier, &scene);
        sink.talk.signal(Signal::KILL);
        assert_eq!(copying.wait(), Some(1));
        let stderr = copying.into_stderr();
        // The errno depends on whether the sink left something unread.
        let is_named = stderr.contains("EPIPE") || stderr.contains("ECONNRESET");
        assert!(is_named && scene.is_tidy(), "{stderr}");
        for ((from, to), named) in PIPES.into_iter().zip(["pipe:/dev/zero", "EPIPE"]) {
            let copying = untraced(&copy(&copier, "read-write", from, to)).start();
            wait_for_reads(copying.pid());
            rustix::process::kill_process(child_of(copying.pid()), Signal::KILL).expect("it lives");
            assert_eq!(copying.wait(), Some(1));
            let stderr = copying.into_stderr();
            assert!(stderr.contains(named), "{stderr}");
        }
    }
}

#[test]
fn killing_the_copier_ends_sink_feed_and_processes_at_its_pipes() {
    let scene = Scene::new(0);
    for copier in [in_rust(), in_c()] {
        let (copying, sink) = endless(&copier, &scene);
        copying.signal(Signal::KILL);
        assert_eq!(copying.wait(), None);
        assert!(received(sink) > 1 << 20);
        assert!(scene.is_tidy());

        let feed = Side::feed(&scene.spec("unix:", "socket"), "/dev/zero");
        let copying = untraced(&copy(&copier, "read-write", &feed.spec, "/dev/null")).start();
        wait_for_reads(feed.talk.pid());
        copying.signal(Signal::KILL);
        assert!(feed.last_line().starts_with("sent "));
        assert!(scene.is_tidy());

        for (from, to) in PIPES {
            let copying = untraced(&copy(&copier, "read-write", from, to)).start();
            wait_for_reads(copying.pid());
            let other = child_of(copying.pid());
            copying.signal(Signal::KILL);
            copying.wait();
            wait_until("the other process is over", || is_over(other));
        }
    }
}

#[test]
fn a_sink_that_a_signal_ends_removes_its_socket() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let scene = Scene::new(0);
        let sink = Side::sink(&scene.spec("unix:", "socket"));
        assert!(!scene.is_tidy());
        sink.talk.signal(signal);
        assert_eq!(sink.talk.wait(), Some(1));
        assert!(scene.is_tidy());
    }
}

#[test]
fn a_signal_to_zctrace_ends_the_copier_and_its_sink() {
    let scene = Scene::new(0);
    let sink = Side::sink(&scene.spec("unix:", "socket"));
    let copying = copy(&in_rust(), "read-write", "/dev/zero", &sink.spec);
    let (tracing, report) = zctrace().start(&copying);
    wait_until("the copier has connected", || {
        !scene.path("socket").exists()
    });
    let copier = child_of(tracing.pid());
    wait_for_reads(copier);
    tracing.signal(Signal::TERM);
    tracing.wait();
    wait_until("the copier is over", || is_over(copier));
    let received = received(sink);
    let run = report.read(&tracing.into_stderr());
    let mut rows = run.totals.syscalls.iter();
    let sendto = rows.find(|row| row.name == "sendto").expect("it sent");
    // A call that the signal cut off never returned, so the bytes that it moved are in no figure.
    let cut_off = received - sendto.bytes.expect("known");
    let most = 8192 * sendto.unfinished;
    assert!(cut_off <= most, "received {received}, sent {sendto:?}");
    assert!(scene.is_tidy());
}
