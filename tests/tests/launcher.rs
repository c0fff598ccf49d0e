//! The command runs as it would without zctrace: exit status, inherited state, standard streams.

use std::{fs::File, io, process::Stdio};

use rustix::pipe::{PipeFlags, pipe_with};
use zctrace::report::Exit;

use crate::harness::{
    Group, Launch, Program, TestDir, Zctrace, each_backend, program, shell, workload, zctrace,
};

#[test]
fn the_exit_status_is_passed_through() {
    for status in [0, 1, 7, 125, 126, 127, 255] {
        let run = zctrace().run(&workload("exit-code").arg(status.to_string()));
        assert_eq!(run.finished.code, Some(status));
        assert_eq!(
            run.report.exit,
            Exit {
                code: Some(status),
                signal: None
            }
        );
        run.assert_exact();
    }
}

#[test]
fn a_fatal_signal_gives_128_plus_its_number() {
    for (name, number) in [
        ("TERM", 15),
        ("KILL", 9),
        ("INT", 2),
        ("HUP", 1),
        ("USR1", 10),
        ("ABRT", 6),
        ("SEGV", 11),
    ] {
        let run = zctrace().run(&workload("kill-self").arg(name));
        assert_eq!(run.finished.code, Some(128 + number), "SIG{name}");
        assert_eq!(
            run.report.exit,
            Exit {
                code: None,
                signal: Some(number)
            }
        );
        run.assert_exact();
    }
}

#[test]
fn a_script_without_a_shebang_is_run_by_the_shell() {
    let dir = TestDir::new();
    let script = dir.executable("script", "exit 9\n");
    assert_eq!(zctrace().run(&program(&script)).finished.code, Some(9));
}

#[test]
fn the_exit_status_is_that_of_the_command_and_not_of_its_children() {
    assert_eq!(
        zctrace()
            .run(&shell("(exit 3); kill -KILL $$ & wait; exit 4"))
            .finished
            .code,
        Some(137)
    );
    assert_eq!(
        zctrace().run(&shell("(exit 3); exit 4")).finished.code,
        Some(4)
    );
}

#[test]
fn the_subcommand_run_may_be_written_out() {
    let finished = zctrace()
        .launch_with(&["run", "--by=total", "--", "sh", "-c", "exit 6"])
        .finish();
    assert_eq!(finished.code, Some(6));
    assert!(
        finished.stderr.contains("exit 6, wall "),
        "{}",
        finished.stderr
    );
}

#[test]
fn dashes_before_the_command_are_optional_and_its_own_are_kept() {
    let cases: [(&[&str], &str); 5] = [
        (
            &["printf", "<%s>", "-n", "--version", "--"],
            "<-n><--version><-->",
        ),
        (&["--", "printf", "<%s>", "--", "-n", "--"], "<--><-n><-->"),
        (&["run", "printf", "<%s>", "--help"], "<--help>"),
        (&["printf", "<%s>", "check"], "<check>"),
        (
            &["--by=total", "sh", "-c", "printf \"$1\"", "--", "<x>"],
            "<x>",
        ),
    ];
    for (words, stdout) in cases {
        let finished = zctrace().launch_with(words).finish();
        assert_eq!(
            (
                finished.code,
                String::from_utf8_lossy(&finished.stdout).as_ref()
            ),
            (Some(0), stdout),
            "{words:?}: {}",
            finished.stderr
        );
        assert!(
            finished.stderr.contains("exit 0, wall "),
            "{}",
            finished.stderr
        );
    }
}

/// Makes sure that the program prints the same with and without zctrace when it is started through
/// these words. `seen` selects the part of its output that is compared.
#[track_caller]
fn assert_same_as<T: PartialEq + std::fmt::Debug>(
    through: &[&str],
    program: &Program,
    seen: impl Fn(&str) -> T,
) {
    let without = Launch::default()
        .words(through)
        .words(program.words())
        .finish();
    assert!(!without.successful().is_empty(), "it prints something");
    for zctrace in each_backend() {
        let with = zctrace.through(through).run(program).finished;
        assert_eq!(
            seen(without.text()),
            seen(with.successful()),
            "without zctrace (left) and with it"
        );
    }
}

/// The same for its whole output.
#[track_caller]
fn assert_same(through: &[&str], program: &Program) {
    assert_same_as(through, program, str::to_owned);
}

/// Makes sure that the command finds the same signals pending, blocked, ignored and caught.
#[track_caller]
fn assert_same_signals(through: &[&str]) {
    let masks = program("grep").args(&["-E", "^(Sig|Shd)(Pnd|Blk|Ign|Cgt)", "/proc/self/status"]);
    assert_same_as(through, &masks, signals);
}

/// The masks of `/proc/PID/status` without signals 32 and 33, which the C library handles itself in
/// every program with threads.
fn signals(status: &str) -> Vec<String> {
    let signals = |line: &str| {
        let (name, mask) = line.split_once(":\t").expect("a name and a mask");
        format!(
            "{name} {:08x}",
            u64::from_str_radix(mask, 16).expect("a mask") & !(0b11 << 31)
        )
    };
    status.lines().map(signals).collect()
}

#[test]
fn the_command_inherits_no_other_open_files() {
    assert_same(&[], &program("ls").arg("/proc/self/fd"));
}

#[test]
fn the_command_inherits_open_files_beyond_the_standard_streams() {
    assert_same(
        &["sh", "-c", r#"exec "$@" 7</dev/null 9>/dev/null"#, "sh"],
        &program("ls").arg("/proc/self/fd"),
    );
}

#[test]
fn the_command_inherits_the_usual_signal_masks() {
    assert_same_signals(&[]);
}

#[test]
fn the_command_inherits_ignored_signals() {
    assert_same_signals(&[
        "env",
        "--ignore-signal=HUP",
        "--ignore-signal=INT",
        "--ignore-signal=TERM",
    ]);
}

#[test]
fn the_command_inherits_an_ignored_sigpipe() {
    assert_same_signals(&["env", "--ignore-signal=PIPE"]);
}

#[test]
fn the_command_inherits_blocked_signals() {
    assert_same_signals(&["env", "--block-signal=USR1", "--block-signal=TERM"]);
}

#[test]
fn the_command_inherits_resource_limits() {
    assert_same(
        &[
            "sh",
            "-c",
            r#"ulimit -S -n 200; ulimit -S -c 0; exec "$@""#,
            "sh",
        ],
        &program("cat").arg("/proc/self/limits"),
    );
}

#[test]
fn the_command_inherits_the_environment() {
    assert_same(
        &[
            "env",
            "-i",
            "PATH=/bin:/usr/bin",
            "A=b",
            "LC_ALL=C",
            "EMPTY=",
        ],
        &program("env"),
    );
}

#[test]
fn the_command_inherits_niceness_umask_and_oom_score() {
    let shown = "cat /proc/self/oom_score_adj; nice; umask; cat /proc/self/timerslack_ns; grep NoNewPrivs /proc/self/status";
    assert_same(
        &["sh", "-c", r#"umask 027; exec nice -n 5 "$@""#, "sh"],
        &shell(shown),
    );
}

#[test]
fn the_command_inherits_the_working_directory() {
    let dir = TestDir::new();
    let run = zctrace().dir(dir.path()).run(&program("pwd"));
    assert_eq!(
        run.finished.successful().trim_end(),
        dir.path()
            .canonicalize()
            .expect("it is there")
            .to_string_lossy()
    );
}

#[test]
fn a_relative_command_is_found_in_the_working_directory() {
    let dir = TestDir::new();
    dir.executable("here", "#!/bin/sh\necho found\n");
    assert_eq!(
        zctrace()
            .dir(dir.path())
            .run(&program("./here"))
            .finished
            .successful(),
        "found\n"
    );
}

#[test]
fn the_command_stays_in_the_process_group_and_session() {
    // Fields 5 and 6 of `man 5 proc_pid_stat`; the harness makes zctrace the leader of its group.
    let run = zctrace().run(&program("cut").args(&["-d ", "-f5,6", "/proc/self/stat"]));
    let own = std::fs::read_to_string("/proc/self/stat").expect("there is /proc");
    let session = own
        .rsplit_once(')')
        .and_then(|(_, fields)| fields.split(' ').nth(4))
        .expect("a session");
    let expected = format!("{} {session}\n", run.finished.group.pid().as_raw_pid());
    assert_eq!(run.finished.successful(), expected);
}

#[test]
fn arguments_are_passed_unchanged() {
    let words = ["--", "-o", "", "a b", "$HOME", "*", "\u{e9}", "--help"];
    for zctrace in each_backend() {
        let run = zctrace.run(&program("printf").arg("%s|").args(&words));
        assert_eq!(run.finished.successful(), words.join("|") + "|");
        assert_eq!(run.report.command[2..], words);
    }
}

#[test]
fn the_parent_of_the_command_is_zctrace() {
    let run = zctrace().run(&shell("echo $PPID"));
    assert_eq!(
        run.finished.successful().trim(),
        run.finished.group.pid().as_raw_pid().to_string()
    );
}

#[test]
fn no_signal_is_left_blocked_in_a_descendant() {
    let run = zctrace().run(&shell("sh -c 'kill -TERM $$'; echo $?"));
    assert_eq!(run.finished.successful(), "143\n");
    let run = zctrace().run(&workload("kill-self").arg("TERM"));
    assert_eq!(run.finished.code, Some(143));
}

#[test]
fn stdin_and_stdout_pass_every_byte() {
    let bytes: Vec<u8> = (0..100_000_u32)
        .map(|number| number.to_le_bytes()[usize::from(number % 3 == 0)])
        .collect();
    let shown = zctrace().input(&bytes).show(&program("cat"));
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    assert!(
        shown.stdout == bytes,
        "{} of {} bytes",
        shown.stdout.len(),
        bytes.len()
    );
}

#[test]
fn only_the_report_is_added_to_stderr() {
    let shown = zctrace().show(&shell("echo out; echo err >&2"));
    assert_eq!(shown.successful(), "out\n");
    let report = shown
        .stderr
        .strip_prefix("err\n")
        .expect("the command's own line comes first");
    assert!(report.starts_with("zctrace: sh -c "), "{report}");
}

#[test]
fn with_the_report_in_a_file_stderr_has_only_the_commands_output() {
    let run = zctrace().run(&shell("echo err >&2"));
    run.finished.successful();
    assert_eq!(run.finished.stderr, "err\n");
}

#[test]
fn input_that_the_command_does_not_read_is_left_for_the_next() {
    let script = r#"read first; "$@"; read third; echo "$third""#;
    let through = ["sh", "-c", script, "sh"];
    let run = zctrace()
        .through(&through)
        .input(b"1\n2\n3\n")
        .run(&shell(r#"read second; echo "$second""#));
    assert_eq!(run.finished.successful(), "2\n3\n");
}

/// Runs a script with stdout or stderr as a pipe that nobody reads: its exit status.
fn unread(zctrace: Zctrace, script: &str, is_stdout: bool) -> Option<i32> {
    let (reader, unread) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    drop(reader);
    let null = || {
        File::options()
            .write(true)
            .open("/dev/null")
            .expect("there is one")
    };
    let mut command = zctrace.launch_of(&shell(script)).command();
    let (stdout, stderr) = if is_stdout {
        (unread, null().into())
    } else {
        (null().into(), unread)
    };
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    Group::start(&mut command).wait()
}

#[test]
fn a_closed_stdout_or_stderr_is_not_an_error() {
    for format in ["--format=json", "--format=table"] {
        assert_eq!(
            unread(
                zctrace().option(format).option("--output=-"),
                "exit 7",
                true
            ),
            Some(7),
            "{format} to stdout"
        );
        assert_eq!(
            unread(zctrace().option(format), "exit 7", false),
            Some(7),
            "{format} to stderr"
        );
    }
}

#[test]
fn an_error_that_nobody_reads_keeps_its_exit_status() {
    assert_eq!(
        unread(zctrace().option("--syscalls=raed"), "exit 7", false),
        Some(125)
    );
    let missing = |zctrace: Zctrace| zctrace.option("--output=/nonexistent/report");
    assert_eq!(unread(missing(zctrace()), "exit 7", false), Some(125));
}

#[test]
fn a_reader_that_exits_early_ends_the_pipeline() {
    let through = ["sh", "-c", r#""$@" | head -c 10"#, "sh"];
    let finished = zctrace()
        .option("--format=json")
        .option("--output=-")
        .through(&through)
        .show(&program("true"));
    assert_eq!(finished.successful().len(), 10);
    assert_eq!(finished.stderr, "");
}

#[test]
fn closed_standard_streams_are_not_replaced_by_files() -> io::Result<()> {
    // If stdin, stdout and stderr are closed, files that are opened must not get their numbers.
    let dir = TestDir::new();
    let report = dir.join("report.json");
    let through = ["sh", "-c", r#"exec "$@" <&- >&- 2>&-"#, "sh"];
    let zctrace = zctrace().through(&through).json_to(&report);
    assert_eq!(zctrace.show(&shell("echo unheard; exit 5")).code, Some(5));
    let report: zctrace::report::Report = serde_json::from_str(&std::fs::read_to_string(report)?)?;
    assert!(report.exact);
    Ok(())
}
