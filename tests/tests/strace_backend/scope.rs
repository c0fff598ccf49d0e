//! Where the trace begins and ends, and signals on the way.

use std::{fs, io::Write as _};

use rustix::process::Signal;
use zctrace::report::State;

use super::{assert_empty, strace, strace_with_own_tmp};
use crate::harness::{Rows, fifo, is_alive, shell, wait_until};

#[test]
fn a_signal_ends_the_command_and_the_report_is_written() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let (zctrace, tmp) = strace_with_own_tmp();
        let (mut zctrace, report) = zctrace.start(&shell("echo ready; exec sleep 100"));
        zctrace.expect("ready");
        zctrace.signal(signal);
        assert_eq!(zctrace.wait(), Some(128 + signal.as_raw()), "{signal:?}");
        let report = report.read(&zctrace.into_stderr());
        assert_eq!((report.exit.code, report.exit.signal), (None, Some(signal.as_raw())));
        assert!(report.exact, "{:?}", report.losses);
        assert_empty(tmp.path());
    }
}

#[test]
fn a_descendant_that_lives_on_is_running_and_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let (fifo, said) = (fifo(dir.path()), dir.path().join("said"));
    // The shell ends when the other one is inside its read.
    let is_in_read = format!("grep -q '^{} ' /proc/$!/syscall", libc::SYS_read);
    let script = &format!("exec 3<>$0; (read line <&3; echo $line >$1) & until {is_in_read}; do :; done");
    let (zctrace, tmp) = strace_with_own_tmp();
    let run = zctrace.run(&shell(script).arg(&fifo).arg(&said));
    run.finished.successful();
    run.assert_exact();
    assert_empty(tmp.path());
    let running: Vec<_> = run.descendants().iter().filter(|process| process.state == State::Running).collect();
    assert_eq!((running.len(), run.root().state), (1, State::Exited));
    assert_eq!(Rows::of(running[0]).row("read").unfinished, 1);
    assert!(is_alive(running[0].pid), "it lives");
    fs::OpenOptions::new().write(true).open(&fifo).and_then(|mut end| end.write_all(b"hello\n")).expect("it reads");
    wait_until("its calls still work", || fs::read_to_string(&said).is_ok_and(|said| said == "hello\n"));
}

#[test]
fn a_busy_descendant_does_not_notice_that_the_trace_ends() {
    // dd stops at the first call that fails.
    let dir = tempfile::tempdir().expect("a directory");
    let (started, end) = (dir.path().join("started"), dir.path().join("end"));
    let script = "(dd if=/dev/zero bs=1 count=300000 2>/dev/null >$0; echo $? >$1) & until test -s $0; do :; done";
    let run = strace().run(&shell(script).arg(&started).arg(&end));
    run.finished.successful();
    assert_eq!(run.root().state, State::Exited);
    assert!(run.descendants().iter().any(|process| process.state == State::Running), "dd runs");
    wait_until("dd has ended", || fs::read_to_string(&end).is_ok_and(|end| end.ends_with('\n')));
    assert_eq!(fs::read_to_string(&end).expect("it is there"), "0\n", "status of dd");
    assert_eq!(fs::metadata(&started).expect("it is there").len(), 300_000);
}
