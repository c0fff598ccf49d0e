//! The strace backend: how it starts and ends, that the command does not notice it, and what
//! happens if strace is missing or killed.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use zctrace::report::State;

use crate::harness::{
    Rows, TestDir, Zctrace, child_of, fifo, is_alive, program, shell, wait_until, waiting,
    workload, zctrace,
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
fn the_exit_status_is_that_of_the_command() {
    for (words, status, code, signal) in [
        (["exit-code", "0"], 0, Some(0), None),
        (["exit-code", "7"], 7, Some(7), None),
        (["exit-code", "255"], 255, Some(255), None),
        (["kill-self", "TERM"], 143, None, Some(15)),
        (["kill-self", "KILL"], 137, None, Some(9)),
        (["kill-self", "SEGV"], 139, None, Some(11)),
    ] {
        let run = strace().run_exactly(&workload(words[0]).arg(words[1]));
        run.finished.exits(status);
        assert_eq!(
            (run.report.exit.code, run.report.exit.signal),
            (code, signal)
        );
    }
}

#[test]
fn a_command_that_cannot_be_run_ends_with_127_or_126_and_leaves_no_temporary_file() {
    let dir = TestDir::new();
    let plain = dir.write_with_mode("plain", "#!/bin/sh\n", 0o644);
    let no_interpreter = dir.executable("command", "#!/no/such/interpreter\n");
    let missing = "No such file or directory";
    for (command, status, said) in [
        (
            "no-such-command".into(),
            127,
            &["'no-such-command'", missing][..],
        ),
        (plain, 126, &["Permission denied"]),
        ("/etc".into(), 126, &["'/etc'", "Is a directory"]),
        (no_interpreter, 127, &["cannot run '", missing]),
    ] {
        let (zctrace, tmp) = strace_with_own_tmp();
        let refusal = zctrace.refuses_to_run(&program(command));
        refusal.with_status(status).saying_all(said);
        tmp.assert_empty();
    }
    // `execvp` runs a script without a shebang by the shell, and so do `env` and the other backend.
    let script = dir.executable("script", "echo hello; exit 4\n");
    let run = strace().show(&program(script));
    assert_eq!(
        (run.code, run.text()),
        (Some(4), "hello\n"),
        "{}",
        run.stderr
    );
}

#[test]
fn only_the_command_uses_the_standard_streams_and_then_comes_the_report() {
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let (zctrace, tmp) = strace_with_own_tmp();
    let run = zctrace.input(&bytes).run(&program("cat"));
    assert_eq!(
        (run.finished.code, run.finished.stderr.as_str()),
        (Some(0), "")
    );
    assert!(run.finished.stdout == bytes, "what cat read");
    tmp.assert_empty();
    let shown = strace().show(&shell("echo 'write(1, \"x\", 1) = 1' >&2"));
    shown.never_says("strace:");
    let start = "write(1, \"x\", 1) = 1\nzctrace: sh ";
    assert!(shown.stderr.starts_with(start), "{}", shown.stderr);
}

#[test]
fn the_command_can_run_as_another_user() {
    let run = strace()
        .option("--user=65534:65533")
        .run_exactly(&program("id"));
    let id = run.finished.successful();
    let is_nobody = id.contains("uid=65534") && id.contains("gid=65533");
    assert!(is_nobody && !id.contains("=0("), "{id}");
}

/// A script that repeats two lines and exits with a status of its own.
const ECHO: &str = "echo ready; read line; echo $line; read line; echo $line; exit 5";

#[test]
fn the_command_survives_a_killed_strace_and_its_status_is_passed_through() {
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
    let has_ended = report.losses.contains_key("tracer_ended");
    assert!(!report.exact && has_ended, "{:?}", report.losses);
    tmp.assert_empty();
    let left = rustix::process::test_kill_process_group(group);
    assert!(left.is_err(), "nothing of it is left");
}

/// The parent of a process, field 4 of `man 5 proc_pid_stat`.
fn parent_of(process: Pid) -> Pid {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_pid()));
    let stat = stat.expect("it lives");
    let (_, fields) = stat.rsplit_once(") ").expect("fields");
    let parent = fields
        .split(' ')
        .nth(1)
        .and_then(|parent| parent.parse().ok());
    parent
        .and_then(Pid::from_raw)
        .expect("every process here has a parent")
}

#[test]
fn a_signal_reaches_the_command_after_strace_was_killed() {
    let (mut zctrace, report) = strace().start(&waiting());
    zctrace.expect("ready");
    let strace = child_of(zctrace.pid());
    let command = child_of(strace);
    kill_process(strace, Signal::KILL).expect("it lives");
    wait_until("zctrace is the command's parent", || {
        parent_of(command) == zctrace.pid()
    });
    zctrace.signal(Signal::TERM);
    assert_eq!(zctrace.wait(), Some(143));
    let report = report.read(&zctrace.into_stderr());
    assert_eq!((report.exit.signal, report.exact), (Some(15), false));
}

#[test]
fn the_table_says_lower_bound_after_strace_was_killed() {
    // The command kills its own tracer.
    for options in [&[][..], &["--wait-all"]] {
        let script = shell("kill -KILL $PPID; echo on; exit 6");
        let shown = strace().options(options).show(&script);
        shown.exits(6).says("lower bound").says("tracer ended");
        assert_eq!(shown.text(), "on\n");
    }
}

#[test]
fn strace_writes_nothing_to_the_commands_stderr_after_zctrace_was_killed() {
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

#[test]
fn a_signal_ends_the_command_and_the_report_is_written() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let (zctrace, tmp) = strace_with_own_tmp();
        let (mut zctrace, report) = zctrace.start(&waiting());
        zctrace.expect("ready");
        zctrace.signal(signal);
        assert_eq!(zctrace.wait(), Some(128 + signal.as_raw()), "{signal:?}");
        let report = report.read(&zctrace.into_stderr());
        assert_eq!(report.exit.code, None);
        assert_eq!(report.exit.signal, Some(signal.as_raw()));
        assert!(report.exact, "{:?}", report.losses);
        tmp.assert_empty();
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
    let report = report.read(&zctrace.into_stderr());
    assert_eq!((report.exit.code, report.exit.signal), (None, Some(15)));
}

#[test]
fn a_descendant_that_outlives_the_command_is_running_and_goes_on() {
    let dir = TestDir::new();
    let (fifo, said) = (fifo(dir.path()), dir.join("said"));
    // The shell ends when the other one is inside its read.
    let is_in_read = format!("grep -q '^{} ' /proc/$!/syscall", libc::SYS_read);
    let reader = "(read line <&3; echo $line >$1)";
    let script = &format!("exec 3<>$0; {reader} & until {is_in_read}; do :; done");
    let (zctrace, tmp) = strace_with_own_tmp();
    let run = zctrace.run_exactly(&shell(script).arg(&fifo).arg(&said));
    run.finished.successful();
    tmp.assert_empty();
    let mut running = run.descendants();
    running.retain(|process| process.state == State::Running);
    assert_eq!((running.len(), run.root().state), (1, State::Exited));
    assert_eq!(Rows::of_process(running[0]).row("read").unfinished, 1);
    assert!(is_alive(running[0].pid), "it lives");
    fs::write(&fifo, "hello\n").expect("it reads");
    wait_until("its calls still work", || {
        fs::read_to_string(&said).is_ok_and(|said| said == "hello\n")
    });
}

#[test]
fn a_busy_descendant_is_not_disturbed_by_the_end_of_the_trace() {
    // If the end of the trace made a call fail, dd would stop there.
    let dir = TestDir::new();
    let (started, end) = (dir.join("started"), dir.join("end"));
    let script = "(dd if=/dev/zero bs=1 count=300000 2>/dev/null >$0; echo $? >$1) & \
                  until test -s $0; do :; done";
    let run = strace().run(&shell(script).arg(&started).arg(&end));
    run.finished.successful();
    assert_eq!(run.root().state, State::Exited);
    let mut others = run.descendants().into_iter();
    assert!(
        others.any(|process| process.state == State::Running),
        "dd runs"
    );
    wait_until("dd has ended", || {
        fs::read_to_string(&end).is_ok_and(|end| end.ends_with('\n'))
    });
    assert_eq!(dir.read("end"), "0\n", "status of dd");
    assert_eq!(fs::metadata(&started).expect("it is there").len(), 300_000);
}

#[test]
fn an_strace_that_is_missing_or_fails_at_once_is_reported() {
    let without = |zctrace: Zctrace| zctrace.env("PATH", "/nonexistent");
    let refusal = without(strace()).refuses_to_run(&program("/bin/true"));
    let said = ["strace is not installed", "package 'strace'"];
    refusal.with_status(125).saying_all(&said);
    // eBPF works without it.
    let run = without(zctrace()).run(&program("/bin/true"));
    run.finished.successful();
    assert_eq!(
        (run.report.backend.as_str(), run.report.notes.len()),
        ("ebpf", 0)
    );

    let dir = TestDir::new();
    dir.executable("strace", "#!/bin/sh\nexit 3\n");
    let failing = strace().env("PATH", dir.path());
    let refusal = failing.refuses_to_run(&program("/bin/true"));
    refusal.with_status(125).saying("exit status 3");
}

#[test]
fn a_process_that_is_already_traced_cannot_be_traced_again() {
    // A process can have only one tracer, so strace does not work under strace.
    let (zctrace, tmp) = strace_with_own_tmp();
    let dir = TestDir::new();
    let zctrace = zctrace
        .dir(dir.path())
        .through(&["strace", "-f", "-o/dev/null"]);
    let finished = zctrace.show(&program("touch").arg("it-ran"));
    dir.assert_empty();
    tmp.assert_empty();
    finished.exits(125);
    // Messages of strace itself may come before.
    let last = finished.stderr.lines().last().expect("a line");
    assert!(
        last.starts_with("zctrace: ") && last.contains("trace"),
        "{last}"
    );
}
