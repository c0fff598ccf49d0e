//! Signals and the terminal: signals to zctrace reach the command, and zctrace still writes its
//! report.

use rustix::process::Signal;
use zctrace::report::{Exit, Report, State};

use crate::harness::{
    Conversation, ReportFile, Rows, Terminal, Zctrace, child_of, each_backend, exists, is_alive,
    last_programs, program, shell, state_of, untraced, wait_until, waiting, zctrace,
};

/// A zctrace whose command is waiting for a signal.
fn started() -> (Conversation, ReportFile) {
    let (mut zctrace, report) = zctrace().start(&waiting());
    zctrace.expect("ready");
    (zctrace, report)
}

#[test]
fn a_signal_ends_the_command_and_the_report_is_written() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let (zctrace, report) = started();
        zctrace.signal(signal);
        assert_eq!(zctrace.wait(), Some(128 + signal.as_raw()), "{signal:?}");
        let report = report.read(&zctrace.into_stderr());
        assert_eq!(report.exit.code, None);
        assert_eq!(report.exit.signal, Some(signal.as_raw()));
        assert!(report.exact, "{:?}", report.losses);
    }
}

#[test]
fn a_command_that_handles_a_signal_keeps_running() {
    for zctrace in each_backend() {
        let script = "trap '' INT; trap 'echo handled' TERM; echo ready; \
                      until read line; do :; done; echo $line; exit 5";
        let (mut zctrace, report) = zctrace.start(&shell(script));
        zctrace.expect("ready");
        zctrace.signal(Signal::INT);
        for _ in 0..2 {
            zctrace.signal(Signal::TERM);
            zctrace.expect("handled");
        }
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
    // 34 is the first real-time signal. bash checks for signals only between its reads, so each
    // read is short. What it reads it may lose when the time of that read is over, so a signal ends
    // it, too.
    let script = "for signal in USR2 ALRM VTALRM PROF IO 34; do trap \"echo $signal\" $signal; done; trap 'exit 7' 35; \
                  echo ready; while :; do read -t 0.05; done";
    for zctrace in each_backend() {
        let (mut zctrace, report) = zctrace.start(&program("bash").arg("-c").arg(script));
        zctrace.expect("ready");
        let pid = zctrace.pid().as_raw_pid().to_string();
        let send = |signal| {
            let kill = program("kill").arg(format!("-{signal}")).arg(&pid);
            untraced(&kill).finish().successful();
        };
        for signal in ["USR2", "ALRM", "VTALRM", "PROF", "IO", "34"] {
            send(signal);
            zctrace.expect(signal);
        }
        send("35");
        assert_eq!(zctrace.wait(), Some(7));
        let report = report.read(&zctrace.into_stderr());
        assert!(report.exact, "{:?}", report.losses);
    }
}

#[test]
fn usr1_writes_the_report_so_far_and_the_trace_continues() {
    let write = "head -c 5000 /dev/zero >/dev/null";
    let script = format!("{write}; echo ready; read line; {write}");
    let (mut zctrace, report) = zctrace().ebpf().start(&shell(&script));
    zctrace.expect("ready");
    zctrace.signal(Signal::USR1);
    wait_until("a report is there", || report.is_there());
    let so_far = report.read("");
    let Exit { code, signal } = so_far.exit;
    assert_eq!((code, signal, so_far.exact), (None, None, false));
    assert!(so_far.losses.keys().eq(["read_while_running"]));
    let programs = last_programs(&so_far);
    let states = programs.iter().map(|process| process.state);
    assert!(states.eq([State::Running, State::Exited]));
    let written = |report: &Report| Rows::new("all", &report.totals.syscalls).row("write").bytes;
    let before = written(&so_far).expect("known");
    assert!(before >= 5000 && so_far.wall_ns.is_some(), "{before}");
    zctrace.say("go on");
    assert_eq!(zctrace.wait(), Some(0));
    let whole = report.read(&zctrace.into_stderr());
    assert!(whole.exact, "{:?}", whole.losses);
    assert_eq!(written(&whole), Some(before + 5000));
}

#[test]
fn usr1_under_strace_says_that_there_is_no_report_so_far() {
    let (mut zctrace, report) = zctrace()
        .backend("strace")
        .start(&shell("echo ready; read line"));
    zctrace.expect("ready");
    zctrace.signal(Signal::USR1);
    wait_until("zctrace answers", || !zctrace.stderr_so_far().is_empty());
    zctrace.say("go on");
    assert_eq!(zctrace.wait(), Some(0));
    let stderr = zctrace.into_stderr();
    assert!(
        stderr.lines().count() == 1 && stderr.contains("--backend ebpf"),
        "{stderr}"
    );
    assert!(report.read(&stderr).exact);
}

#[test]
fn with_wait_all_the_wall_time_covers_all_descendants() {
    for zctrace in each_backend() {
        // Under strace, the time begins when zctrace reads the first line of the log, which is
        // later on a loaded machine.
        let run = zctrace
            .option("--wait-all")
            .run_with_any_backend(&shell("sleep 0.6 >&- 2>&- &"));
        let wall_ns = run.report.wall_ns.expect("known");
        assert!(wall_ns >= 300_000_000, "{wall_ns} ns");
    }
}

#[test]
fn a_signal_ends_the_wait_for_all_descendants() {
    for zctrace in each_backend() {
        let (mut zctrace, report) = zctrace
            .option("--wait-all")
            .start(&shell("sleep 100 >&- & echo $$"));
        let shell = zctrace.hear();
        wait_until("the shell has ended", || !exists(&shell));
        zctrace.signal(Signal::TERM);
        assert_eq!(zctrace.wait(), Some(0), "the command's own status");
        // The conversation must not be dropped yet: that would kill everything that was started.
        let report = report.read(&zctrace.stderr_so_far());
        let programs = last_programs(&report);
        let states: Vec<_> = programs.iter().map(|process| process.state).collect();
        assert_eq!(states, [State::Exited, State::Running]);
        assert!(is_alive(programs[1].pid), "it goes on");
    }
}

#[test]
fn a_signal_at_the_moment_of_the_commands_end_does_not_end_zctrace() {
    // Ctrl-C can end the command before zctrace handles the signal. Which of the two zctrace sees
    // first is chance.
    for _ in 0..12 {
        let (zctrace, report) = started();
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
fn the_command_survives_a_killed_zctrace() {
    for zctrace in each_backend() {
        let (mut zctrace, _report) = zctrace.start(&shell(
            "echo ready; read line; echo $line; read line; echo $line",
        ));
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
fn zctrace_and_its_command_can_be_stopped_and_continued() {
    // Like Ctrl-Z and `fg`: both stop, and both go on.
    let (mut zctrace, report) =
        zctrace().start(&shell("echo ready; read line; kill -STOP $$; echo $line"));
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

/// Runs zctrace on a terminal of this width: its exit status, and what was shown.
fn on_terminal(columns: u16, zctrace: Zctrace, script: &str) -> (Option<i32>, String) {
    Terminal::start(columns, &zctrace.launch_of(&shell(script))).finish()
}

#[test]
fn the_table_fits_the_terminal() {
    for columns in [40, 60, 100] {
        let (code, shown) = on_terminal(columns, zctrace(), "exit 7");
        assert_eq!(code, Some(7));
        let widths = shown.lines().map(|line| line.trim_end().chars().count());
        let widest = widths.max();
        assert!(
            widest <= Some(columns.into()),
            "{widest:?} of {columns}:\n{shown}"
        );
        assert!(shown.contains("mmap") && shown.contains("calls"), "{shown}");
    }
}

#[test]
fn the_table_is_coloured_on_a_terminal_unless_disabled() {
    for (term, no_colour, option, expected) in [
        ("xterm", None, "auto", true),
        ("xterm", Some("1"), "auto", false),
        // Empty does not count.
        ("xterm", Some(""), "auto", true),
        ("dumb", None, "auto", false),
        ("xterm", None, "never", false),
        ("dumb", None, "always", true),
    ] {
        let mut zctrace = zctrace()
            .env("TERM", term)
            .option(format!("--color={option}"));
        if let Some(value) = no_colour {
            zctrace = zctrace.env("NO_COLOR", value);
        }
        let is_coloured = on_terminal(80, zctrace, "true").1.contains('\x1b');
        assert_eq!(is_coloured, expected, "{term} {no_colour:?} {option}");
    }
}

#[test]
fn ctrl_c_ends_the_command_and_the_report_is_shown() {
    let mut terminal = Terminal::start(80, &zctrace().launch_of(&waiting()));
    terminal.wait_for("ready");
    terminal.type_in("\x03");
    let (code, shown) = terminal.finish();
    assert_eq!(code, Some(130));
    let has_both = shown.contains("killed by SIGINT") && shown.contains("exact");
    assert!(has_both, "{shown}");
}

#[test]
fn ctrl_c_reaches_the_command_once() {
    let script =
        "trap 'echo caught' INT; echo ready; until read line; do :; done; echo $line; exit 3";
    let mut terminal = Terminal::start(80, &zctrace().launch_of(&shell(script)));
    terminal.wait_for("ready");
    terminal.type_in("\x03");
    // With the end of its line: the terminal may show what is typed before that.
    terminal.wait_for("caught\r\n");
    terminal.type_in("over\n");
    let (code, shown) = terminal.finish();
    assert_eq!(code, Some(3));
    assert_eq!(shown.matches("caught\r\n").count(), 1, "{shown}");
    assert!(shown.contains("exit 3"), "{shown}");
}

#[test]
fn ctrl_backslash_ends_the_command_and_the_report_is_shown() {
    let script = shell("ulimit -c 0; echo ready; exec sleep 100");
    let mut terminal = Terminal::start(80, &zctrace().launch_of(&script));
    terminal.wait_for("ready");
    terminal.type_in("\x1c");
    let (code, shown) = terminal.finish();
    assert_eq!(code, Some(131));
    assert!(shown.contains("killed by SIGQUIT"), "{shown}");
}

#[test]
fn the_command_has_the_terminal() {
    let script = "tty <&1 >&2; test -t 0 && test -t 1 && test -t 2 && echo all three";
    let (code, shown) = on_terminal(80, zctrace(), script);
    let has_all = shown.contains("/dev/pts/") && shown.contains("all three");
    assert!(code == Some(0) && has_all, "{shown}");
    // Typed input goes to the command.
    let mut terminal = Terminal::start(80, &zctrace().launch_of(&program("cat")));
    terminal.type_in("typed\n\x04");
    let (code, shown) = terminal.finish();
    // The echo, and cat's answer.
    assert_eq!(
        (code, shown.matches("typed\r\n").count()),
        (Some(0), 2),
        "{shown}"
    );
}
