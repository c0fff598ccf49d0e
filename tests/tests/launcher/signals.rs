//! Signals to zctrace reach the command, and zctrace reports all the same.

use rustix::process::Signal;
use zctrace::report::State;

use crate::harness::{Conversation, ReportFile, child_of, each_backend, is_alive, shell, state_of, wait_until, zctrace};

/// A command that waits for a signal, and has said that it does.
fn waiting() -> (Conversation, ReportFile) {
    let (mut zctrace, report) = zctrace().start(&shell("echo ready; exec sleep 100"));
    zctrace.expect("ready");
    (zctrace, report)
}

#[test]
fn a_signal_ends_the_command_and_the_report_is_written() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let (zctrace, report) = waiting();
        zctrace.signal(signal);
        assert_eq!(zctrace.wait(), Some(128 + signal.as_raw()), "{signal:?}");
        let report = report.read(&zctrace.into_stderr());
        assert_eq!((report.exit.code, report.exit.signal), (None, Some(signal.as_raw())));
        assert!(report.exact, "{:?}", report.losses);
    }
}

#[test]
fn a_command_that_handles_a_signal_goes_on() {
    for zctrace in each_backend() {
        let script = "trap '' INT; trap 'echo handled' TERM; echo ready; until read line; do :; done; echo $line; exit 5";
        let (mut zctrace, report) = zctrace.start(&shell(script));
        zctrace.expect("ready");
        zctrace.signal(Signal::INT);
        zctrace.signal(Signal::TERM);
        zctrace.expect("handled");
        zctrace.signal(Signal::TERM);
        zctrace.expect("handled");
        zctrace.say("go on");
        zctrace.expect("go on");
        assert_eq!(zctrace.wait(), Some(5));
        let report = report.read(&zctrace.into_stderr());
        assert_eq!(report.exit.code, Some(5));
        assert!(report.exact, "{:?}", report.losses);
    }
}

#[test]
fn a_signal_ends_the_wait_for_all_descendants() {
    for zctrace in each_backend() {
        let (mut zctrace, report) = zctrace.option("--wait-all").start(&shell("sleep 100 >&- & echo $$"));
        let shell = zctrace.hear();
        wait_until("the shell has ended", || !std::path::Path::new("/proc").join(&shell).exists());
        zctrace.signal(Signal::TERM);
        assert_eq!(zctrace.wait(), Some(0), "the command's own status");
        let report = report.read(&zctrace.into_stderr());
        let states: Vec<_> = report.processes.iter().map(|process| process.state).collect();
        assert_eq!(states, [State::Exited, State::Running]);
        assert!(is_alive(report.processes[1].pid), "it goes on");
    }
}

#[test]
fn a_signal_that_comes_with_the_commands_end_does_not_end_zctrace() {
    // As by Ctrl-C, which ends the command before zctrace has a look at it. Which of both it sees first is chance.
    for _ in 0..12 {
        let (zctrace, report) = waiting();
        let command = child_of(zctrace.pid());
        zctrace.signal(Signal::STOP);
        wait_until("zctrace has stopped", || state_of(zctrace.pid()) == 'T');
        zctrace.signal(Signal::TERM);
        rustix::process::kill_process(command, Signal::INT).expect("it lives");
        wait_until("the command has ended", || state_of(command) == 'Z');
        zctrace.signal(Signal::CONT);
        assert_eq!(zctrace.wait(), Some(130));
        assert_eq!(report.read(&zctrace.into_stderr()).exit.signal, Some(2));
    }
}

#[test]
fn without_zctrace_the_command_goes_on() {
    for zctrace in each_backend() {
        let (mut zctrace, _report) = zctrace.start(&shell("echo ready; read line; echo $line; read line; echo $line"));
        zctrace.expect("ready");
        zctrace.signal(Signal::KILL);
        assert_eq!(zctrace.wait(), None, "killed");
        zctrace.say("still");
        zctrace.expect("still");
        zctrace.say("there");
        zctrace.expect("there");
    }
}

#[test]
fn stopped_and_continued_with_its_command() {
    // As by Ctrl-Z and `fg`: both stop, both go on.
    let (mut zctrace, report) = zctrace().start(&shell("echo ready; read line; kill -STOP $$; echo $line"));
    zctrace.expect("ready");
    zctrace.signal(Signal::STOP);
    zctrace.say("on");
    let command = child_of(zctrace.pid());
    wait_until("the command has stopped", || state_of(command) == 'T');
    rustix::process::kill_process(command, Signal::CONT).expect("it lives");
    zctrace.signal(Signal::CONT);
    zctrace.expect("on");
    assert_eq!(zctrace.wait(), Some(0));
    assert!(report.read(&zctrace.into_stderr()).exact);
}
