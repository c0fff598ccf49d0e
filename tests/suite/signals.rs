//! Signals and the terminal: signals to zctrace reach the command, and zctrace still writes its
//! report.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use zctrace::report::{Exit, FatalFault, Report, State};

use crate::harness::{
    Conversation, ReportFile, ReportRows, Terminal, TestDir, Zctrace, child_of, each_backend,
    exists, last_programs, program, python, shell, state_of, untraced, wait_until, zctrace,
};

/// A zctrace whose command prints `ready` and then waits.
fn started(zctrace: Zctrace, script: &str) -> (Conversation, ReportFile) {
    let (mut zctrace, report) = zctrace.start(&shell(script));
    zctrace.expect("ready");
    (zctrace, report)
}

/// Ends the conversation, which must have this exit status, and reads the exact report.
#[track_caller]
fn ended(zctrace: &Conversation, report: &ReportFile, status: i32) -> Report {
    assert_eq!(zctrace.wait(), Some(status));
    let report = report.read(&zctrace.stderr());
    assert!(report.exact, "{:?}", report.losses);
    report
}

#[test]
fn a_signal_ends_the_command_and_the_report_is_written() {
    for zctrace in each_backend() {
        for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
            let tmp = TestDir::new();
            let zctrace = zctrace.clone().env("TMPDIR", tmp.path());
            let (zctrace, report) = started(zctrace, "echo ready; exec sleep 100");
            zctrace.signal(signal);
            let number = signal.as_raw();
            let (code, signal) = (None, Some(number));
            let found = ended(&zctrace, &report, 128 + number).exit;
            assert_eq!(found, Exit { code, signal });
            tmp.assert_has_only(&[]);
        }
    }
}

#[test]
fn a_signal_that_comes_with_an_error_is_told_with_the_call_and_its_file() {
    let dir = TestDir::new();
    let broken = "import os, signal
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
read, write = os.pipe()
os.close(read)
os.write(write, b'x')";
    let full = "import os, resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
out = os.open('out', os.O_CREAT | os.O_WRONLY)
for _ in range(2):
    os.write(out, bytes(4096))";
    for zctrace in each_backend() {
        for (script, signal, errno, file) in
            [(broken, 13, "EPIPE", "pipe"), (full, 25, "EFBIG", "out")]
        {
            let zctrace = zctrace.clone().dir(dir.path());
            let script = program("python3").args(&["-c", script]);
            let report = zctrace.run(&script).report;
            assert_eq!(report.exit.signal, Some(signal));
            let found = report.before_signal.expect("is told");
            assert_eq!(
                (found.syscall.as_str(), found.errno.as_str()),
                ("write", errno)
            );
            let found = found.file.expect("is known");
            assert!(found.kind.as_deref() == Some(file) || found.path.as_deref() == Some(file));
        }
    }
    let shown = zctrace().show(&program("python3").args(&["-c", broken]));
    shown.says("killed by SIGPIPE after write on pipe (EPIPE), wall ");
}

#[test]
fn a_fault_that_kills_a_process_is_told_with_its_address() {
    let dir = TestDir::new();
    let null = "import ctypes; ctypes.string_at(16)";
    let short = "import mmap
file = open('short', 'w+b')
file.truncate(8192)
view = mmap.mmap(file.fileno(), 8192)
file.truncate(0)
view[4096]";
    // Its handler raises the signal again, so no fault kills it.
    let raised = "import ctypes, faulthandler; faulthandler.enable(); ctypes.string_at(16)";
    for zctrace in each_backend() {
        let zctrace = zctrace.dir(dir.path());
        let faults = |script: &str, signal| {
            let report = zctrace.clone().run(&python(script)).report;
            assert_eq!(report.exit.signal, Some(signal), "{script}");
            report.fatal_faults
        };
        let found = faults(null, libc::SIGSEGV);
        let known = |one: &FatalFault| (one.code.clone(), one.is_launched);
        assert_eq!(found[0].address, "0x10");
        assert_eq!(known(&found[0]), ("SEGV_MAPERR".to_owned(), true));
        let found = faults(short, libc::SIGBUS);
        assert_eq!(known(&found[0]), ("BUS_ADRERR".to_owned(), true));
        assert!(found[0].address.ends_with("000"), "{found:?}");
        assert_eq!(faults(raised, libc::SIGSEGV), []);
        let script = format!("python3 -c '{null}'; true");
        let found = zctrace.run(&shell(&script)).report.fatal_faults;
        assert_eq!(known(&found[0]), ("SEGV_MAPERR".to_owned(), false));
    }
    let told = " by SIGSEGV at 0x10 (SEGV_MAPERR: nothing is mapped there)";
    let shown = zctrace().show(&python(null));
    shown.says(&format!("killed{told} after "));
    let shown = zctrace().show(&shell(&format!("python3 -c '{null}'; true")));
    shown.says("killed: python3 (").says(&format!("){told}"));
}

#[test]
fn what_the_kernel_kills_for_lack_of_memory_is_noted() {
    // In a cgroup of its own: cgroup v1, or the second version of cgroups.
    let script = "
for root in /sys/fs/cgroup/memory /sys/fs/cgroup; do
    group=$root/zctrace-test-$$
    mkdir $group 2>/dev/null || continue
    for limit in memory.limit_in_bytes memory.max; do
        [ -e $group/$limit ] && echo 32M >$group/$limit && break
    done && break
done
echo $$ >$group/cgroup.procs
exec python3 -c 'x = bytearray(256 << 20)'";
    let run = zctrace().run(&shell(script));
    assert_eq!(run.report.exit.signal, Some(9));
    for root in ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"] {
        let _ = fs::remove_dir(format!("{root}/zctrace-test-{}", run.root().pid));
    }
    run.assert_noted("meanwhile the kernel killed 1 process of this machine for lack of memory");
}

#[test]
fn a_signal_ends_also_what_the_command_started() {
    // The shell dies at once, and does not pass the signal on.
    let script = "(sleep 102; true) & echo $!; sleep 100; true";
    for zctrace in each_backend() {
        for signal in [Signal::TERM, Signal::HUP] {
            let (mut zctrace, _report) = zctrace.clone().start(&shell(script));
            let child = zctrace.hear();
            let children = || fs::read_to_string(format!("/proc/{child}/task/{child}/children"));
            wait_until("it sleeps", || children().is_ok_and(|ids| !ids.is_empty()));
            let sleeper = children().expect("it lives");
            zctrace.signal(signal);
            assert_eq!(zctrace.wait(), Some(128 + signal.as_raw()));
            // That of a process that has ended is empty until somebody waits for it.
            let line = |id| fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            wait_until("both have ended", || {
                [&child, sleeper.trim()]
                    .into_iter()
                    .all(|id| line(id).is_empty())
            });
        }
    }
}

#[test]
fn a_command_that_handles_a_signal_keeps_running() {
    let script = "trap '' INT; trap 'echo handled' TERM; echo ready; \
                  until read line; do :; done; echo $line; exit 5";
    for zctrace in each_backend() {
        let (mut zctrace, report) = started(zctrace, script);
        zctrace.signal(Signal::INT);
        for _ in 0..2 {
            zctrace.signal(Signal::TERM);
            zctrace.expect("handled");
        }
        zctrace.say("go on");
        zctrace.expect("go on");
        assert_eq!(ended(&zctrace, &report, 5).exit.code, Some(5));
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
        let send = |signal: &str| {
            let kill = program("kill").args(&[&format!("-{signal}"), &pid]);
            untraced(&kill).finish().exits(0);
        };
        for signal in ["USR2", "ALRM", "VTALRM", "PROF", "IO", "34"] {
            send(signal);
            zctrace.expect(signal);
        }
        send("35");
        ended(&zctrace, &report, 7);
    }
}

#[test]
fn usr1_writes_the_report_so_far_and_the_trace_continues() {
    let write = "head -c 5000 /dev/zero >/dev/null";
    let script = format!("{write}; echo ready; read line; {write}");
    let (mut zctrace, report) = started(zctrace().ebpf(), &script);
    zctrace.signal(Signal::USR1);
    wait_until("a report is there", || report.is_there());
    let so_far = report.read("");
    let Exit { code, signal } = so_far.exit;
    assert_eq!((code, signal, so_far.exact), (None, None, false));
    assert!(so_far.losses.keys().eq(["read_while_running"]));
    let programs = last_programs(&so_far);
    let states = programs.iter().map(|process| process.state);
    assert!(states.eq([State::Running, State::Exited]));
    let written = |report: &Report| {
        ReportRows::new("all", &report.totals.syscalls)
            .row("write")
            .bytes
    };
    let before = written(&so_far).expect("known");
    assert!(before >= 5000 && so_far.wall_ns.is_some(), "{before}");
    zctrace.say("go on");
    let whole = ended(&zctrace, &report, 0);
    assert_eq!(written(&whole), Some(before + 5000));
}

#[test]
fn usr1_under_strace_says_that_there_is_no_report_so_far() {
    let strace = zctrace().backend("strace");
    let (mut zctrace, report) = started(strace, "echo ready; read line");
    zctrace.signal(Signal::USR1);
    wait_until("zctrace answers", || zctrace.stderr().ends_with('\n'));
    let said = zctrace.stderr();
    let is_short = said.lines().count() == 1;
    assert!(is_short && said.contains("--backend ebpf"), "{said}");
    zctrace.say("go on");
    ended(&zctrace, &report, 0);
}

#[test]
fn a_signal_ends_the_wait_for_all_descendants() {
    for zctrace in each_backend() {
        let script = shell("sleep 100 >&- & echo $$");
        let (mut zctrace, report) = zctrace.option("--wait-all").start(&script);
        let shell = zctrace.hear();
        wait_until("the shell has ended", || !exists(&shell));
        zctrace.signal(Signal::TERM);
        assert_eq!(zctrace.wait(), Some(0), "the command's own status");
        // The conversation must not be dropped yet: that would kill everything that was started.
        let report = report.read(&zctrace.stderr());
        let programs = last_programs(&report);
        let states: Vec<_> = programs.iter().map(|process| process.state).collect();
        assert_eq!(states, [State::Exited, State::Running]);
        assert!(exists(programs[1].pid), "it goes on");
    }
}

#[test]
fn a_signal_after_the_commands_end_does_not_reach_what_the_command_has_left() {
    for zctrace in each_backend() {
        // Which of the two zctrace sees first is chance.
        for _ in 0..6 {
            let script = shell("sleep 100 >&- & echo $$; read line");
            let (mut zctrace, report) = zctrace.clone().option("--wait-all").start(&script);
            let shell = zctrace.hear().parse().ok().and_then(Pid::from_raw);
            let shell = shell.expect("an id");
            zctrace.signal(Signal::STOP);
            wait_until("zctrace has stopped", || state_of(zctrace.pid()) == 'T');
            kill_process(shell, Signal::KILL).expect("it lives");
            wait_until("the shell has ended", || !exists(shell.as_raw_pid()));
            zctrace.signal(Signal::TERM);
            zctrace.signal(Signal::CONT);
            assert_eq!(zctrace.wait(), Some(128 + Signal::KILL.as_raw()));
            let report = report.read(&zctrace.stderr());
            let programs = last_programs(&report);
            assert_eq!(programs[1].state, State::Running);
            assert!(exists(programs[1].pid), "it goes on");
        }
    }
}

#[test]
fn a_signal_at_the_moment_of_the_commands_end_does_not_end_zctrace() {
    // Ctrl-C can end the command before zctrace handles the signal. Which of the two zctrace sees
    // first is chance.
    for _ in 0..12 {
        let (zctrace, report) = started(zctrace(), "echo ready; exec sleep 100");
        let command = child_of(zctrace.pid());
        zctrace.signal(Signal::STOP);
        wait_until("zctrace has stopped", || state_of(zctrace.pid()) == 'T');
        zctrace.signal(Signal::TERM);
        kill_process(command, Signal::INT).expect("it lives");
        wait_until("the command has ended", || state_of(command) == 'Z');
        zctrace.signal(Signal::CONT);
        assert_eq!(ended(&zctrace, &report, 130).exit.signal, Some(2));
    }
}

#[test]
fn the_command_survives_a_killed_zctrace_and_nothing_is_written_to_its_stderr() {
    let script = "echo ready; read line; echo $line; read line; echo $line";
    for zctrace in each_backend() {
        let (mut zctrace, _report) = started(zctrace, script);
        zctrace.signal(Signal::KILL);
        assert_eq!(zctrace.wait(), None, "killed");
        for word in ["still", "there"] {
            zctrace.say(word);
            zctrace.expect(word);
        }
        assert_eq!(zctrace.stderr(), "");
    }
}

#[test]
fn zctrace_and_its_command_can_be_stopped_and_continued() {
    // Like Ctrl-Z and `fg`: both stop, and both go on.
    let script = "echo ready; read line; kill -STOP $$; echo $line";
    let (mut zctrace, report) = started(zctrace(), script);
    zctrace.signal(Signal::STOP);
    zctrace.say("on");
    let command = child_of(zctrace.pid());
    wait_until("the command has stopped", || state_of(command) == 'T');
    kill_process(command, Signal::CONT).expect("it lives");
    zctrace.signal(Signal::CONT);
    zctrace.expect("on");
    ended(&zctrace, &report, 0);
}

/// Runs zctrace on a terminal of this width: its exit status, and what was shown.
fn on_terminal(columns: u16, zctrace: Zctrace, script: &str) -> (Option<i32>, String) {
    Terminal::run(columns, &zctrace.launch_of(&shell(script)))
}

#[test]
fn the_table_fits_the_terminal() {
    let (code, shown) = on_terminal(40, zctrace(), "exit 7");
    assert_eq!(code, Some(7));
    let widths = shown.lines().map(|line| line.trim_end().chars().count());
    assert!(widths.max() <= Some(40), "{shown}");
    assert!(shown.contains("mmap") && shown.contains("calls"), "{shown}");
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
        let zctrace = zctrace().env("TERM", term);
        let zctrace = no_colour
            .into_iter()
            .fold(zctrace, |zctrace, value| zctrace.env("NO_COLOR", value));
        let zctrace = zctrace.option(format!("--color={option}"));
        let is_coloured = on_terminal(80, zctrace, "true").1.contains('\x1b');
        assert_eq!(is_coloured, expected, "{term} {no_colour:?} {option}");
    }
}

#[test]
fn keys_that_send_signals_end_the_command_and_the_report_is_shown() {
    for (key, status, said) in [
        ("\x03", 130, "killed by SIGINT"),
        ("\x1c", 131, "killed by SIGQUIT"),
    ] {
        let script = shell("ulimit -c 0; echo ready; exec sleep 100");
        let mut terminal = Terminal::start(80, &zctrace().launch_of(&script));
        terminal.wait_for("ready");
        terminal.type_in(key);
        let (code, shown) = terminal.finish();
        assert_eq!(code, Some(status));
        assert!(shown.contains(said) && shown.contains("exact"), "{shown}");
    }
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
    let found = (code, shown.matches("typed\r\n").count());
    assert_eq!(found, (Some(0), 2), "{shown}");
}
