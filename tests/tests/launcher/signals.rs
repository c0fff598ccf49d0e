//! Signals to zctrace reach the command, and zctrace reports all the same.

use rustix::process::Signal;
use zctrace::report::{Report, State};

use crate::harness::{Conversation, ReportFile, child_of, each_backend, is_alive, program, shell, state_of, wait_until, zctrace};

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
fn other_signals_reach_the_command_and_do_not_end_zctrace() {
    // 34 is the first real-time signal. bash looks for signals before it reads, and not again until that returns: so it reads for a moment.
    let script = "for signal in USR2 ALRM VTALRM PROF IO 34; do trap \"echo $signal\" $signal; done; echo ready; \
                  until read -t 0.05 line; do :; done; exit 7";
    for zctrace in each_backend() {
        let (mut zctrace, report) = zctrace.start(&program("bash").arg("-c").arg(script));
        zctrace.expect("ready");
        for signal in ["USR2", "ALRM", "VTALRM", "PROF", "IO", "34"] {
            let pid = zctrace.pid().as_raw_pid().to_string();
            let sent = std::process::Command::new("kill").args([&format!("-{signal}"), &pid]).status().expect("kill is there");
            assert!(sent.success());
            zctrace.expect(signal);
        }
        zctrace.say("go on");
        assert_eq!(zctrace.wait(), Some(7));
        let report = report.read(&zctrace.into_stderr());
        assert!(report.exact, "{:?}", report.losses);
    }
}

#[test]
fn usr1_shows_the_report_so_far_and_the_trace_goes_on() {
    let script = "head -c 5000 /dev/zero >/dev/null; echo ready; read line; head -c 5000 /dev/zero >/dev/null";
    let (mut zctrace, report) = zctrace().ebpf().start(&shell(script));
    zctrace.expect("ready");
    zctrace.signal(Signal::USR1);
    wait_until("a report is there", || report.is_there());
    let so_far = report.read("");
    assert_eq!((so_far.exit.code, so_far.exit.signal, so_far.exact), (None, None, false));
    assert_eq!(so_far.losses.keys().collect::<Vec<_>>(), ["read_while_running"]);
    let states: Vec<_> = so_far.processes.iter().map(|process| process.state).collect();
    assert_eq!(states, [State::Running, State::Exited]);
    let written = |report: &Report| report.totals.syscalls.iter().find(|row| row.name == "write").and_then(|row| row.bytes);
    let before = written(&so_far).expect("known");
    assert!(before >= 5000 && so_far.wall_ns.is_some(), "{before}");
    zctrace.say("go on");
    assert_eq!(zctrace.wait(), Some(0));
    let whole = report.read(&zctrace.into_stderr());
    assert!(whole.exact, "{:?}", whole.losses);
    assert_eq!(written(&whole), Some(before + 5000));
}

#[test]
fn under_strace_there_is_no_report_so_far_and_one_line_says_so() {
    let (mut zctrace, report) = zctrace().option("--backend=strace").start(&shell("echo ready; read line"));
    zctrace.expect("ready");
    zctrace.signal(Signal::USR1);
    wait_until("it says so", || !zctrace.stderr_so_far().is_empty());
    zctrace.say("go on");
    assert_eq!(zctrace.wait(), Some(0));
    let stderr = zctrace.into_stderr();
    assert!(stderr.lines().count() == 1 && stderr.contains("--backend ebpf"), "{stderr}");
    assert!(report.read(&stderr).exact);
}

#[test]
fn waiting_for_all_descendants_the_wall_time_is_that_of_the_whole_trace() {
    for zctrace in each_backend() {
        let run = zctrace.option("--wait-all").run_with_any_backend(&shell("sleep 0.3 >&- 2>&- &"));
        let wall_ns = run.report.wall_ns.expect("known");
        assert!(wall_ns >= 300_000_000, "{wall_ns} ns");
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
        // What was launched is killed once nobody talks to it any more.
        let report = report.read(&zctrace.stderr_so_far());
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
