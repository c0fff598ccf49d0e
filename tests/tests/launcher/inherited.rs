//! What a command inherits: the same without zctrace and with it, whichever its backend.

use std::os::unix::fs::PermissionsExt as _;

use crate::harness::{Launch, Program, each_backend, program, shell, workload, zctrace};

/// Makes sure that the program prints the same with and without zctrace, when started through these words, as far as it is `seen`.
#[track_caller]
fn assert_same_as<T: PartialEq + std::fmt::Debug>(through: &[&str], program: &Program, seen: impl Fn(&str) -> T) {
    let without = Launch::default().words(through).words(program.words()).finish();
    assert!(!without.successful().is_empty(), "it prints something");
    for zctrace in each_backend() {
        let with = zctrace.through(through).run(program).finished;
        assert_eq!(seen(without.text()), seen(with.successful()), "without zctrace (left) and with it");
    }
}

/// The same of all that it prints.
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

/// The masks of `/proc/PID/status`, without signal 32 and 33: those are the C library's own, which takes them over in every program
/// that has threads.
fn signals(status: &str) -> Vec<String> {
    let signals = |line: &str| {
        let (name, mask) = line.split_once(":\t").expect("a name and a mask");
        format!("{name} {:08x}", u64::from_str_radix(mask, 16).expect("a mask") & !(0b11 << 31))
    };
    status.lines().map(signals).collect()
}

#[test]
fn open_files() {
    assert_same(&[], &program("ls").arg("/proc/self/fd"));
}

#[test]
fn open_files_beyond_the_standard_streams() {
    assert_same(&["sh", "-c", r#"exec "$@" 7</dev/null 9>/dev/null"#, "sh"], &program("ls").arg("/proc/self/fd"));
}

#[test]
fn signals_as_they_usually_are() {
    assert_same_signals(&[]);
}

#[test]
fn ignored_signals() {
    assert_same_signals(&["env", "--ignore-signal=HUP", "--ignore-signal=INT", "--ignore-signal=TERM"]);
}

#[test]
fn an_ignored_sigpipe() {
    assert_same_signals(&["env", "--ignore-signal=PIPE"]);
}

#[test]
fn blocked_signals() {
    assert_same_signals(&["env", "--block-signal=USR1", "--block-signal=TERM"]);
}

#[test]
fn limits() {
    assert_same(&["sh", "-c", r#"ulimit -S -n 200; ulimit -S -c 0; exec "$@""#, "sh"], &program("cat").arg("/proc/self/limits"));
}

#[test]
fn environment() {
    assert_same(&["env", "-i", "PATH=/bin:/usr/bin", "A=b", "LC_ALL=C", "EMPTY="], &program("env"));
}

#[test]
fn niceness_umask_and_oom_score() {
    let shown = "cat /proc/self/oom_score_adj; nice; umask; cat /proc/self/timerslack_ns; grep NoNewPrivs /proc/self/status";
    assert_same(&["sh", "-c", r#"umask 027; exec nice -n 5 "$@""#, "sh"], &shell(shown));
}

#[test]
fn working_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let run = zctrace().dir(dir.path()).run(&program("pwd"));
    assert_eq!(run.finished.successful().trim_end(), dir.path().canonicalize().expect("it is there").to_string_lossy());
}

#[test]
fn a_command_named_relative_to_the_working_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = dir.path().join("here");
    std::fs::write(&script, "#!/bin/sh\necho found\n").expect("ours");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("ours");
    assert_eq!(zctrace().dir(dir.path()).run(&program("./here")).finished.successful(), "found\n");
}

#[test]
fn process_group_and_session() {
    // Fields 5 and 6 of `man 5 proc_pid_stat`; the harness makes zctrace the leader of its group.
    let run = zctrace().run(&program("cut").args(&["-d ", "-f5,6", "/proc/self/stat"]));
    let own = std::fs::read_to_string("/proc/self/stat").expect("there is /proc");
    let session = own.rsplit_once(')').and_then(|(_, fields)| fields.split(' ').nth(4)).expect("a session");
    let expected = format!("{} {session}\n", run.finished.group.pid().as_raw_pid());
    assert_eq!(run.finished.successful(), expected);
}

#[test]
fn arguments_as_they_are() {
    let words = ["--", "-o", "", "a b", "$HOME", "*", "\u{e9}", "--help"];
    for zctrace in each_backend() {
        let run = zctrace.run(&program("printf").arg("%s|").args(&words));
        assert_eq!(run.finished.successful(), words.join("|") + "|");
        assert_eq!(run.report.command[2..], words);
    }
}

#[test]
fn the_parent_is_zctrace() {
    let run = zctrace().run(&shell("echo $PPID"));
    assert_eq!(run.finished.successful().trim(), run.finished.group.pid().as_raw_pid().to_string());
}

#[test]
fn no_signal_is_left_blocked_in_a_descendant() {
    let run = zctrace().run(&shell("sh -c 'kill -TERM $$'; echo $?"));
    assert_eq!(run.finished.successful(), "143\n");
    let run = zctrace().run(&workload("kill-self").arg("TERM"));
    assert_eq!(run.finished.code, Some(143));
}
