//! The command runs as it would without zctrace: exit status, inherited state, standard streams.

use std::{fmt::Debug, fs::File, process::Stdio};

use rustix::{
    pipe::{PipeFlags, pipe_with},
    process::getpid,
};
use zctrace::report::{Exit, Report};

use crate::harness::{
    ProcessGroup, Program, TestDir, Zctrace, binary, each_backend, program, shell, stat_field,
    untraced, zctrace,
};

#[test]
fn the_exit_status_or_128_plus_the_signal_is_passed_through() {
    for zctrace in each_backend() {
        let end_of = |script: &str, status: i32| {
            let run = zctrace.clone().run_exactly(&shell(script));
            run.finished.exits(status);
            run.report.exit
        };
        for status in [0, 1, 7, 125, 126, 127, 255] {
            let (code, signal) = (Some(status), None);
            let end = end_of(&format!("exit {status}"), status);
            assert_eq!(end, Exit { code, signal });
        }
        for (name, number) in [
            ("TERM", 15),
            ("KILL", 9),
            ("INT", 2),
            ("HUP", 1),
            ("USR1", 10),
            ("ABRT", 6),
            ("SEGV", 11),
        ] {
            let (code, signal) = (None, Some(number));
            let end = end_of(&format!("kill -{name} $$"), 128 + number);
            assert_eq!(end, Exit { code, signal });
        }
    }
}

#[test]
fn a_closed_standard_stream_stays_closed() {
    let zctrace = binary();
    for backend in ["ebpf", "strace"] {
        for closed in ["<&-", ">&-"] {
            let words = format!(
                "exec \"$0\" --backend {backend} -o /dev/null -- cat /etc/hostname - {closed}"
            );
            let cat = untraced(&program("sh").args(&["-c", &words]).arg(&zctrace));
            cat.finish().exits(1).says("Bad file descriptor");
        }
    }
}

#[test]
fn the_exit_status_is_that_of_the_command_and_not_of_its_children() {
    let dir = TestDir::new();
    // `execvp` runs a script without a shebang by the shell, and so do `env` and both backends.
    let script = dir.executable("script", "exit 9\n");
    let killed = "(exit 3); kill -KILL $$ & wait; exit 4";
    for zctrace in each_backend() {
        for (command, status) in [
            (program(&script), 9),
            (shell(killed), 137),
            (shell("(exit 3); exit 4"), 4),
        ] {
            zctrace.clone().show(&command).exits(status);
        }
    }
}

#[test]
fn dashes_before_the_command_are_optional_and_its_own_are_kept() {
    for (words, stdout, end) in [
        (
            &["printf", "<%s>", "-n", "--version", "--"][..],
            "<-n><--version><-->",
            0,
        ),
        (
            &["--", "printf", "<%s>", "--", "-n", "--"],
            "<--><-n><-->",
            0,
        ),
        (&["run", "printf", "<%s>", "--help"], "<--help>", 0),
        (&["printf", "<%s>", "check"], "<check>", 0),
        (
            &["--by=total", "sh", "-c", "printf \"$1\"", "--", "<x>"],
            "<x>",
            0,
        ),
        (&["run", "--by=total", "--", "sh", "-c", "exit 6"], "", 6),
    ] {
        let finished = zctrace().finish_with(words);
        finished.exits(end).says(&format!("exit {end}, wall "));
        finished.prints_only(stdout);
    }
}

/// Makes sure that the program prints the same with and without zctrace when it is started through
/// these words. `seen` selects the part of its output that is compared.
#[track_caller]
fn assert_same_as<T: PartialEq + Debug>(
    through: &[&str],
    program: &Program,
    seen: impl Fn(&str) -> T,
) {
    let without = untraced(&program.clone().through(through)).finish();
    assert!(!without.successful().is_empty(), "it prints something");
    for zctrace in each_backend() {
        let with = zctrace.through(through).run(program).finished;
        let [without, with] = [without.text(), with.successful()].map(&seen);
        assert_eq!(without, with, "without zctrace (left) and with it");
    }
}

/// The masks of `/proc/PID/status` without signals 32 and 33, which the C library handles itself in
/// every program with threads.
fn signals(status: &str) -> Vec<String> {
    let signals = |line: &str| {
        let (name, mask) = line.split_once(":\t").expect("a name and a mask");
        let mask = u64::from_str_radix(mask, 16).expect("a mask") & !(0b11 << 31);
        format!("{name} {mask:08x}")
    };
    status.lines().map(signals).collect()
}

#[test]
fn the_command_inherits_pending_blocked_ignored_and_caught_signals() {
    let masks = program("grep").args(&["-E", "^(Sig|Shd)(Pnd|Blk|Ign|Cgt)", "/proc/self/status"]);
    let ignoring = [
        "env",
        "--ignore-signal=HUP",
        "--ignore-signal=INT",
        "--ignore-signal=TERM",
    ];
    for through in [
        &[][..],
        &ignoring,
        &["env", "--ignore-signal=PIPE"],
        &["env", "--block-signal=USR1", "--block-signal=TERM"],
    ] {
        assert_same_as(through, &masks, signals);
    }
}

#[test]
fn the_command_inherits_files_limits_environment_niceness_umask_and_oom_score() {
    let files = program("ls").arg("/proc/self/fd");
    let more_files = r#"exec "$@" 7</dev/null 9>/dev/null"#;
    let limits = r#"ulimit -S -n 200; ulimit -S -c 0; exec "$@""#;
    let nice = r#"umask 027; exec nice -n 5 "$@""#;
    let environment = [
        "env",
        "-i",
        "PATH=/bin:/usr/bin",
        "A=b",
        "LC_ALL=C",
        "EMPTY=",
    ];
    let rest = "cat /proc/self/oom_score_adj; nice; umask; cat /proc/self/timerslack_ns; \
                grep NoNewPrivs /proc/self/status";
    for (through, program) in [
        (&[][..], &files),
        (&["sh", "-c", more_files, "sh"], &files),
        (
            &["sh", "-c", limits, "sh"],
            &program("cat").arg("/proc/self/limits"),
        ),
        (&environment, &program("env")),
        (&["sh", "-c", nice, "sh"], &shell(rest)),
    ] {
        assert_same_as(through, program, str::to_owned);
    }
}

#[test]
fn the_command_is_a_child_of_zctrace_in_its_process_group_and_session() {
    // The harness makes zctrace the leader of its group.
    let run = zctrace().run(&shell("echo $PPID; cut '-d ' -f5,6 /proc/self/stat"));
    let session = stat_field(getpid(), 6);
    let group = run.finished.group.pid().as_raw_pid();
    let expected = format!("{group}\n{group} {session}\n");
    run.finished.exits(0).prints_only(&expected);
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
fn stdin_and_stdout_pass_every_byte_and_no_temporary_file_is_left() {
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    for zctrace in each_backend() {
        let tmp = TestDir::new();
        let zctrace = zctrace.env("TMPDIR", tmp.path()).input(&bytes);
        let cat = zctrace.run(&program("cat")).finished;
        cat.exits(0).says_only("");
        assert!(cat.stdout == bytes, "{} bytes", cat.stdout.len());
        tmp.assert_has_only(&[]);
    }
}

#[test]
fn only_the_report_is_added_to_stderr_and_nothing_if_it_goes_to_a_file() {
    // A line that looks like one of strace is the command's own.
    let script = shell("echo out; echo 'write(1, \"x\", 1) = 1' >&2");
    let err = "write(1, \"x\", 1) = 1\n";
    for zctrace in each_backend() {
        let shown = zctrace.clone().show(&script);
        shown.exits(0).prints_only("out\n").never_says("strace:");
        let is_in_order = shown.stderr.starts_with(&format!("{err}zctrace: sh -c "));
        assert!(is_in_order, "{}", shown.stderr);
        let with_file = zctrace.run(&script).finished;
        with_file.exits(0).prints_only("out\n").says_only(err);
    }
}

#[test]
fn input_that_the_command_does_not_read_is_left_for_the_next() {
    let script = r#"read first; "$@"; read third; echo "$third""#;
    let zctrace = zctrace().by_script(script);
    let zctrace = zctrace.input(b"1\n2\n3\n");
    let shown = zctrace.show(&shell(r#"read second; echo "$second""#));
    shown.exits(0).prints_only("2\n3\n");
}

/// Runs a script with stdout or stderr as a pipe that nobody reads: its exit status.
fn unread(zctrace: Zctrace, script: &str, is_stdout: bool) -> Option<i32> {
    let (reader, unread) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    drop(reader);
    let null = File::create("/dev/null").expect("there is one");
    let mut command = zctrace.launch_of(&shell(script)).command();
    if is_stdout {
        command.stdout(unread).stderr(null);
    } else {
        command.stdout(null).stderr(unread);
    }
    ProcessGroup::start(command.stdin(Stdio::null())).wait()
}

#[test]
fn a_closed_stdout_or_stderr_is_not_an_error() {
    for format in ["--format=json", "--format=table"] {
        let to_stdout = zctrace().option(format).option("--output=-");
        assert_eq!(unread(to_stdout, "exit 7", true), Some(7), "{format}");
        let to_stderr = zctrace().option(format);
        assert_eq!(unread(to_stderr, "exit 7", false), Some(7), "{format}");
    }
    // An error that nobody reads keeps its exit status.
    for option in ["--syscalls=raed", "--output=/nonexistent/report"] {
        assert_eq!(unread(zctrace().option(option), "exit 7", false), Some(125));
    }
}

#[test]
fn a_reader_that_exits_early_ends_the_pipeline() {
    let zctrace = zctrace().options(&["--format=json", "--output=-"]);
    let zctrace = zctrace.by_script(r#""$@" | head -c 10"#);
    let finished = zctrace.show(&program("true"));
    assert_eq!(finished.says_only("").successful().len(), 10);
}

#[test]
fn closed_standard_streams_are_not_replaced_by_files() {
    // If stdin, stdout and stderr are closed, files that are opened must not get their numbers.
    let dir = TestDir::new();
    let closed = zctrace().by_script(r#"exec "$@" <&- >&- 2>&-"#);
    let zctrace = closed.json_to(dir.join("report.json"));
    zctrace.show(&shell("echo unheard; exit 5")).exits(5);
    let report = Report::from_json(&dir.read("report.json")).expect("a report");
    assert!(report.exact);
}
