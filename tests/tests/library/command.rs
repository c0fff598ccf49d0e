//! `zctrace::Command`: traces a command for a test.

use std::{
    fs::{self, File},
    io::Read as _,
    process,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use zctrace::{
    Command, RunError, Sysno,
    backend::Choice,
    launch::Stream,
    report::{Api, State},
};

use crate::harness::{TestDir, patience, wait_until};

const BACKENDS: [Choice; 2] = [Choice::Ebpf, Choice::Strace];

fn sh(script: &str, backend: Choice) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]).backend(backend);
    command
}

#[test]
fn a_command_gives_a_report() {
    for backend in BACKENDS {
        let dir = TestDir::with("in", vec![1; 100_000]);
        let report = Command::new("cp")
            .args(["in", "out"])
            .current_dir(dir.path())
            .backend(backend)
            .report()
            .expect("is traced");
        assert_eq!(
            (report.exit.code, report.command.as_slice()),
            (Some(0), ["cp", "in", "out"].map(String::from).as_slice())
        );
        let cp = report.process("cp").expect("is there");
        assert_eq!(
            cp.syscall(Sysno::copy_file_range)
                .expect("was counted")
                .bytes,
            Some(100_000)
        );
        assert_eq!(cp.syscall(Sysno::sendfile).expect("was counted").calls, 0);
        let [transfer] = report.transfers.as_slice() else {
            panic!("one transfer: {report:?}")
        };
        // Paths are relative to where the command ran.
        assert_eq!(
            (
                transfer.api,
                transfer.from.path.as_deref(),
                transfer.to.path.as_deref()
            ),
            (Api::CopyFileRange, Some("in"), Some("out"))
        );
        assert!(report.exact, "{:?}", report.losses);
    }
}

#[test]
fn stdout_and_stderr_are_captured() {
    for backend in BACKENDS {
        let output = sh("cat; echo out; echo err >&2; exit 3", backend)
            .output()
            .expect("is traced");
        assert_eq!(
            (output.stdout.as_slice(), output.stderr.as_slice()),
            (b"out\n".as_slice(), b"err\n".as_slice())
        );
        assert_eq!(output.report.exit.code, Some(3));
    }
}

#[test]
fn more_output_than_a_pipe_holds_is_captured() {
    let output = sh("head -c 3000000 /dev/zero", Choice::Ebpf)
        .output()
        .expect("is traced");
    assert_eq!(output.stdout.len(), 3_000_000);
}

#[test]
fn streams_can_be_set() {
    let mut input = tempfile::tempfile().expect("a file");
    std::io::Write::write_all(&mut input, b"hello")
        .and_then(|()| std::io::Seek::rewind(&mut input))
        .expect("room");
    let dir = TestDir::new();
    let path = dir.join("out");
    let mut command = sh("cat; cat nothing", Choice::Ebpf);
    command
        .stdin(input)
        .stdout(File::create(&path).expect("room"))
        .stderr(Stream::null().expect("is there"));
    assert_eq!(command.report().expect("is traced").exit.code, Some(1));
    let mut text = String::new();
    File::open(&path)
        .and_then(|mut file| file.read_to_string(&mut text))
        .expect("is there");
    assert_eq!(text, "hello");
}

#[test]
fn the_environment_can_be_set_and_cleared() {
    for backend in BACKENDS {
        let text = |command: &Command| {
            String::from_utf8(command.output().expect("is traced").stdout).expect("text")
        };
        let mut command = sh("echo $ZC_ONE-$ZC_TWO-${HOME:+home}", backend);
        command
            .env("ZC_ONE", "1")
            .env("ZC_TWO", "2")
            .env_remove("ZC_TWO")
            .env("HOME", "/");
        assert_eq!(text(&command), "1--home\n");
        command.env_clear().env("ZC_TWO", "2");
        assert_eq!(
            text(&command),
            "-2-\n",
            "the program is found without a PATH, as by libc"
        );
        let mut all = Command::new("env");
        all.env_clear().env("A", "b c").backend(backend);
        assert_eq!(text(&all), "A=b c\n");
        assert_eq!(std::env::var_os("ZC_ONE"), None);
    }
}

#[test]
fn a_program_is_searched_on_the_commands_path_and_in_its_directory() {
    for backend in BACKENDS {
        let dir = TestDir::new();
        crate::harness::copy_program("/bin/true".as_ref(), &dir.join("zc-only-here"));
        let mut command = Command::new("zc-only-here");
        command.backend(backend);
        assert!(matches!(command.report(), Err(RunError::Launch(_))));
        assert_eq!(
            command
                .env("PATH", dir.path())
                .report()
                .expect("is traced")
                .exit
                .code,
            Some(0)
        );
        let mut relative = Command::new("./zc-only-here");
        assert_eq!(
            relative
                .current_dir(dir.path())
                .backend(backend)
                .report()
                .expect("is traced")
                .exit
                .code,
            Some(0)
        );
        let error = relative
            .current_dir("/no/such/place")
            .report()
            .expect_err("cannot run there")
            .to_string();
        assert!(
            error.contains("there is no directory '/no/such/place'"),
            "{error}"
        );
    }
}

#[test]
fn a_timeout_kills_the_command_and_all_its_descendants() {
    for backend in BACKENDS {
        let dir = TestDir::new();
        let mut command = sh(
            "setsid sleep 1000 & echo $! > pid; (sleep 1000); true",
            backend,
        );
        // Long enough for the shell to write the file.
        let timeout = patience(Duration::from_millis(700));
        command.current_dir(dir.path()).timeout(timeout);
        let began = Instant::now();
        let error = command.output().expect_err("takes too long");
        assert!(matches!(error, RunError::TimedOut { .. }), "{error:?}");
        assert_eq!(
            error.to_string(),
            format!(
                "'sh' did not end within {timeout:?}: it was killed, together with everything that it had started"
            )
        );
        assert!(began.elapsed() < patience(Duration::from_secs(20)));
        let pid = dir.read("pid");
        // It may be a zombie whose new parent has not reaped it yet.
        let is_gone = || {
            let state =
                fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        };
        wait_until("it is gone", is_gone);
    }
}

#[test]
fn a_command_within_its_timeout_is_not_affected() {
    for backend in BACKENDS {
        let report = sh("exit 4", backend)
            .timeout(Duration::from_mins(1))
            .report()
            .expect("is traced");
        assert_eq!(report.exit.code, Some(4));
    }
}

#[test]
fn wait_all_waits_for_descendants() {
    for backend in BACKENDS {
        let script = "(read line < fifo; echo over > over) & exec > /dev/null";
        let run = |wait: bool| {
            let dir = TestDir::new();
            crate::harness::fifo(dir.path());
            let mut command = sh(script, backend);
            command.current_dir(dir.path());
            let path = dir.join("fifo");
            if wait {
                let report = thread::scope(|scope| {
                    let report = scope.spawn(|| command.wait_all().report().expect("is traced"));
                    fs::write(&path, "\n").expect("is read");
                    report.join().expect("does not panic")
                });
                assert!(dir.join("over").exists());
                report
            } else {
                let report = command.report().expect("is traced");
                fs::write(&path, "\n").expect("is read");
                wait_until("the descendant is done", || dir.join("over").exists());
                report
            }
        };
        let states = |wait: bool| {
            run(wait)
                .processes
                .iter()
                .map(|process| process.state)
                .collect::<Vec<_>>()
        };
        assert_eq!(states(true), [State::Exited, State::Exited]);
        assert_eq!(states(false), [State::Exited, State::Running]);
    }
}

#[test]
fn programs_started_by_other_threads_are_not_counted() {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    process::Command::new("true").status().expect("is there");
                }
            });
        }
        for _ in 0..5 {
            let report = Command::new("sh")
                .args(["-c", "exit 5"])
                .report()
                .expect("is traced");
            let names: Vec<_> = report
                .processes
                .iter()
                .map(|process| process.comm.as_deref())
                .collect();
            assert_eq!((names, report.exit.code), (vec![Some("sh")], Some(5)));
        }
        is_over.store(true, Relaxed);
    });
}

#[test]
fn several_commands_can_run_at_once() {
    thread::scope(|scope| {
        let running: Vec<_> = (1..=4)
            .map(|number| {
                let script = format!("for i in $(seq {number}); do echo; done");
                scope.spawn(move || sh(&script, Choice::Ebpf).output().expect("is traced"))
            })
            .collect();
        for (number, output) in (1..).zip(running) {
            let output = output.join().expect("does not panic");
            assert_eq!(output.stdout.len(), number);
        }
    });
}

#[test]
fn a_program_that_cannot_be_run_is_a_typed_error() {
    for backend in BACKENDS {
        let error = Command::new("no-such-program")
            .backend(backend)
            .report()
            .expect_err("there is none");
        assert!(
            matches!(error, RunError::Launch(_)) && !error.is_unavailable(),
            "{error:?}"
        );
        assert_eq!(error.exit_status(), Some(127));
    }
}

#[test]
fn a_command_can_be_traced_from_async_code() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let report = runtime.block_on(async { Command::new("true").report().expect("is traced") });
    assert_eq!(report.exit.code, Some(0));
}
