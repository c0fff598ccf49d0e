//! The strace backend: how it starts and ends, that the command does not notice it, and what
//! happens if strace is missing or killed.

use rustix::process::{Pid, Signal, kill_process, test_kill_process_group};
use zctrace::report::State;

use crate::harness::{
    TestDir, Zctrace, child_of, program, repetitions, shell, stat_field, untraced, wait_until,
    waiting, zctrace,
};

/// A zctrace that uses strace.
fn strace() -> Zctrace {
    zctrace().backend("strace")
}

/// The same, with a directory of its own for temporary files.
fn strace_with_own_tmp() -> (Zctrace, TestDir) {
    let dir = TestDir::new();
    (strace().env("TMPDIR", dir.path()), dir)
}

#[test]
fn the_command_survives_a_killed_strace_and_its_status_is_passed_through() {
    let (zctrace, tmp) = strace_with_own_tmp();
    let script = "echo ready; read line; echo $line; read line; echo $line; exit 5";
    let (mut zctrace, report) = zctrace.start(&shell(script));
    zctrace.expect("ready");
    kill_process(child_of(zctrace.pid()), Signal::KILL).expect("it lives");
    for word in ["still", "there"] {
        zctrace.say(word);
        zctrace.expect(word);
    }
    assert_eq!(zctrace.wait(), Some(5));
    let group = zctrace.pid();
    let report = report.read(&zctrace.stderr());
    assert_eq!((report.exit.code, report.exit.signal), (Some(5), None));
    let has_ended = report.losses.contains_key("tracer_ended");
    assert!(!report.exact && has_ended, "{:?}", report.losses);
    tmp.assert_has_only(&[]);
    drop(zctrace);
    let left = test_kill_process_group(group);
    assert!(left.is_err(), "nothing of it is left");
}

#[test]
fn a_signal_reaches_the_command_after_strace_was_killed() {
    let (mut zctrace, report) = strace().start(&waiting());
    zctrace.expect("ready");
    let strace = child_of(zctrace.pid());
    let command = child_of(strace);
    kill_process(strace, Signal::KILL).expect("it lives");
    wait_until("zctrace is the command's parent", || {
        let parent = stat_field(command, 4).parse().ok().and_then(Pid::from_raw);
        parent == Some(zctrace.pid())
    });
    zctrace.signal(Signal::TERM);
    assert_eq!(zctrace.wait(), Some(143));
    let report = report.read(&zctrace.stderr());
    assert_eq!((report.exit.signal, report.exact), (Some(15), false));
}

#[test]
fn the_table_says_lower_bound_after_strace_was_killed() {
    // The command kills its own tracer.
    for options in [&[][..], &["--wait-all"]] {
        let script = shell("kill -KILL $PPID; echo on; exit 6");
        let shown = strace().options(options).show(&script);
        shown.exits(6).says_all(&["lower bound", "tracer ended"]);
        shown.prints_only("on\n");
    }
}

#[test]
fn a_signal_that_comes_before_strace_has_started_the_command_reaches_it() {
    let path = std::env::var("PATH").expect("a PATH");
    let script = format!(
        "#!/bin/sh\ncase $* in *--output*) kill -TERM $PPID;; esac\nPATH={path} exec strace \"$@\"\n"
    );
    let dir = TestDir::new();
    dir.executable("strace", &script);
    let path = format!("{}:{path}", dir.path().display());
    let (zctrace, report) = strace().env("PATH", path).start(&waiting());
    assert_eq!(zctrace.wait(), Some(143));
    let report = report.read(&zctrace.stderr());
    assert_eq!((report.exit.code, report.exit.signal), (None, Some(15)));
}

#[test]
fn a_signal_that_comes_together_with_the_end_of_strace_reaches_the_command() {
    // zctrace is stopped, so that it finds everything at once: the first lines of the log, the signal
    // and the end of strace. What it looks at first is left to chance.
    let path = std::env::var("PATH").expect("a PATH");
    let script = format!(
        "#!/bin/sh\ncase $* in *--output*) ;; *) PATH={path} exec strace \"$@\" ;; esac\n\
         kill -STOP $PPID\nPATH={path} strace \"$@\" & strace=$!\n\
         until [ -e ready ]; do sleep 0.01; done\n\
         kill -KILL $strace; kill -TERM $PPID; kill -CONT $PPID; kill -KILL $$\n"
    );
    for _ in 0..repetitions(12) {
        let dir = TestDir::new();
        dir.executable("strace", &script);
        let path = format!("{}:{path}", dir.path().display());
        let zctrace = strace().env("PATH", path).dir(dir.path());
        let (zctrace, _report) = zctrace.start(&shell("touch ready; exec sleep 100"));
        assert_eq!(zctrace.wait(), Some(143));
    }
}

#[test]
fn what_a_killed_zctrace_leaves_is_removed_by_the_next_one() {
    let (dir, path) = (TestDir::new(), std::env::var("PATH").expect("a PATH"));
    // strace has not opened its log yet.
    let script = "#!/bin/sh\ncase $* in *--output*) kill -KILL $PPID;; esac\nexec strace -V\n";
    dir.executable(
        "strace",
        &script.replace("exec ", &format!("PATH={path} exec ")),
    );
    let (zctrace, tmp) = strace_with_own_tmp();
    let own_path = format!("{}:{path}", dir.path().display());
    let (killed, _report) = zctrace
        .clone()
        .env("PATH", own_path)
        .start(&program("true"));
    assert_eq!(killed.wait(), None, "killed");
    let left = tmp.names();
    assert_eq!(left.len(), 1);
    // One of this moment may be that of another zctrace, which is about to open it.
    zctrace.clone().run(&program("true")).finished.successful();
    assert_eq!(tmp.names(), left);
    let age =
        program("touch").args(&["-d", "2 minutes ago", &tmp.word(&left[0].to_string_lossy())]);
    untraced(&age).finish().exits(0);
    zctrace.run(&program("true")).finished.successful();
    tmp.assert_has_only(&[]);
}

#[test]
fn a_busy_descendant_is_not_disturbed_by_the_end_of_the_trace() {
    // If the end of the trace made a call fail, dd would stop there.
    let dir = TestDir::new();
    let script = "(dd if=/dev/zero bs=1 count=300000 2>/dev/null >started; echo $? >end) & \
                  until test -s started; do :; done";
    let run = strace().dir(dir.path()).run(&shell(script));
    run.finished.successful();
    assert_eq!(run.root().state, State::Exited);
    let mut others = run.descendants().into_iter();
    let is_running = others.any(|process| process.state == State::Running);
    assert!(is_running, "dd runs");
    assert_eq!(dir.wait_for_line("end"), "0", "status of dd");
    assert_eq!(dir.read("started").len(), 300_000);
}

#[test]
fn an_strace_that_is_missing_or_fails_at_once_is_reported() {
    let without = |zctrace: Zctrace| zctrace.env("PATH", "/nonexistent");
    let refused = without(strace()).refuses_to_run(&program("/bin/true"));
    let said = ["strace is not installed", "package 'strace'"];
    refused.exits(125).says_all(&said);
    // eBPF works without it.
    let run = without(zctrace()).run(&program("/bin/true"));
    run.finished.successful();
    assert_eq!(run.report.notes, [""; 0]);

    let dir = TestDir::new();
    dir.executable("strace", "#!/bin/sh\nexit 3\n");
    let failing = strace().env("PATH", dir.path());
    let refused = failing.refuses_to_run(&program("/bin/true"));
    refused.exits(125).says("exit status 3");
}

#[test]
fn a_process_that_is_already_traced_cannot_be_traced_again() {
    // A process can have only one tracer, so strace does not work under strace.
    let (zctrace, tmp) = strace_with_own_tmp();
    let dir = TestDir::new();
    let traced = ["strace", "-f", "-o/dev/null"];
    let zctrace = zctrace.dir(dir.path()).through(&traced);
    let finished = zctrace.show(&program("touch").arg("it-ran"));
    dir.assert_has_only(&[]);
    tmp.assert_has_only(&[]);
    finished.exits(125);
    // Messages of strace itself may come before.
    let last = finished.stderr.lines().last().expect("a line");
    let is_said = last.starts_with("zctrace: ") && last.contains("trace");
    assert!(is_said, "{last}");
}
