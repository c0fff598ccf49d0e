//! `zctrace::Command`: traces a command for a test.

use std::{
    fs::{self, File},
    io::{Seek as _, Write as _},
    thread,
    time::{Duration, Instant},
};

use zctrace::{
    Command, Report, RunError, Sysno,
    backend::Choice,
    launch::Stream,
    report::{Api, State},
};

use crate::harness::{TestDir, copy_program, last_programs, patience, wait_until};

const BACKENDS: [Choice; 2] = [Choice::Ebpf, Choice::Strace];

fn sh(script: &str, backend: Choice) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]).backend(backend);
    command
}

/// The report of a command that is traced to its end.
#[track_caller]
fn traced(command: &Command) -> Report {
    command.report().expect("is traced")
}

/// What a command that is traced to its end wrote to stdout.
#[track_caller]
fn printed(command: &Command) -> String {
    String::from_utf8(command.output().expect("is traced").stdout).expect("text")
}

#[test]
fn a_command_gives_a_report() {
    for backend in BACKENDS {
        let dir = TestDir::with("in", vec![1; 100_000]);
        let mut copy = Command::new("cp");
        copy.args(["in", "out"]).current_dir(dir.path());
        let report = traced(copy.backend(backend));
        assert!(report.exact, "{:?}", report.losses);
        assert_eq!(report.exit.code, Some(0));
        assert_eq!(report.command, ["cp", "in", "out"]);
        let cp = report.process("cp").expect("is there");
        let calls = |number| cp.syscall(number).expect("was counted");
        assert_eq!(calls(Sysno::copy_file_range).bytes, Some(100_000));
        assert_eq!(calls(Sysno::sendfile).calls, 0);
        let [transfer] = report.transfers.as_slice() else {
            panic!("one transfer: {report:?}")
        };
        assert_eq!(transfer.api, Api::CopyFileRange);
        // Paths are relative to where the command ran.
        let ends = [&transfer.from.path, &transfer.to.path];
        assert_eq!(ends.map(Option::as_deref), [Some("in"), Some("out")]);
    }
}

#[test]
fn output_is_captured_to_the_last_descendant_also_more_than_a_pipe_holds() {
    for backend in BACKENDS {
        let script = "cat; (sleep 0.1; head -c 3000000 /dev/zero; echo err >&2) & exit 3";
        let mut command = sh(script, backend);
        let output = command.wait_all().output().expect("is traced");
        assert_eq!(output.stdout.len(), 3_000_000);
        assert_eq!(output.stderr, b"err\n");
        assert_eq!(output.report.exit.code, Some(3));
        let mut processes = output.report.processes.iter();
        assert!(processes.all(|process| process.state == State::Exited));
    }
}

#[test]
fn streams_can_be_set() {
    let mut input = tempfile::tempfile().expect("a file");
    input.write_all(b"hello").expect("room");
    input.rewind().expect("it is a file");
    let dir = TestDir::new();
    let output = File::create(dir.join("out")).expect("room");
    let mut command = sh("cat; cat nothing", Choice::Ebpf);
    command.stdin(input).stdout(output);
    command.stderr(Stream::null().expect("is there"));
    assert_eq!(traced(&command).exit.code, Some(1));
    assert_eq!(dir.read("out"), "hello");
}

#[test]
fn the_environment_can_be_set_and_cleared() {
    for backend in BACKENDS {
        let mut command = sh("echo $ZC_ONE-$ZC_TWO-${HOME:+home}", backend);
        command.env("ZC_ONE", "1").env("ZC_TWO", "2");
        command.env_remove("ZC_TWO").env("HOME", "/");
        assert_eq!(printed(&command), "1--home\n");
        command.env_clear().env("ZC_TWO", "2");
        // The program is found without a PATH, as by libc.
        assert_eq!(printed(&command), "-2-\n");
        let mut all = Command::new("env");
        all.env_clear().env("A", "b c").backend(backend);
        assert_eq!(printed(&all), "A=b c\n");
        assert_eq!(std::env::var_os("ZC_ONE"), None);
    }
}

#[test]
fn a_program_is_searched_on_the_commands_path_and_in_its_directory() {
    for backend in BACKENDS {
        let dir = TestDir::new();
        copy_program("/bin/true".as_ref(), &dir.join("zc-only-here"));
        let mut command = Command::new("zc-only-here");
        let error = command.backend(backend).report().expect_err("is not found");
        assert!(matches!(error, RunError::Launch(_)), "{error:?}");
        assert_eq!(
            (error.is_unavailable(), error.exit_status()),
            (false, Some(127))
        );
        assert_eq!(traced(command.env("PATH", dir.path())).exit.code, Some(0));
        let mut relative = Command::new("./zc-only-here");
        relative.current_dir(dir.path()).backend(backend);
        assert_eq!(traced(&relative).exit.code, Some(0));
        let elsewhere = relative.current_dir("/no/such/place").report();
        let error = elsewhere.expect_err("cannot run there").to_string();
        let said = "the directory '/no/such/place' does not exist";
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_timeout_kills_the_command_and_all_its_descendants() {
    for backend in BACKENDS {
        let dir = TestDir::new();
        let script = "setsid sleep 1000 & echo $! > pid; (sleep 1000); true";
        let mut command = sh(script, backend);
        // Long enough for the shell to write the file.
        let timeout = patience(Duration::from_millis(700));
        command.current_dir(dir.path()).timeout(timeout);
        let began = Instant::now();
        let error = command.output().expect_err("takes too long");
        assert!(began.elapsed() < patience(Duration::from_secs(20)));
        assert!(matches!(error, RunError::TimedOut { .. }), "{error:?}");
        let said = format!(
            "'sh' did not end within {timeout:?}: zctrace killed it and everything it had started"
        );
        assert_eq!(error.to_string(), said);
        // It may be a zombie whose new parent has not reaped it yet.
        let pid = dir.read("pid");
        wait_until("it is gone", || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
            stat.map_or(true, |stat| stat.contains(") Z "))
        });
        let mut short = sh("exit 4", backend);
        let report = traced(short.timeout(Duration::from_mins(1)));
        assert_eq!(report.exit.code, Some(4));
    }
}

#[test]
fn several_commands_can_run_at_once_and_none_counts_programs_of_another() {
    thread::scope(|scope| {
        let running = (1..=4).map(|number| {
            let script = format!("for i in $(seq {number}); do echo; done; exit {number}");
            scope.spawn(move || sh(&script, Choice::Ebpf).output().expect("is traced"))
        });
        for (number, output) in (1..).zip(running.collect::<Vec<_>>()) {
            let output = output.join().expect("no panic");
            assert_eq!(output.stdout.len(), number);
            let processes = last_programs(&output.report).into_iter();
            let names: Vec<_> = processes.filter_map(|one| one.comm.as_deref()).collect();
            assert_eq!(names, ["sh", "seq"]);
        }
    });
}
