//! Files of checks: the directory and environment of a check, the selection of checks, and errors
//! in files and command lines.

use std::{fs, path::Path};

use super::{check, dir_with, of_each, run_in, script_in, succeeds};
use crate::harness::{Finished, TestDir, exists};

#[test]
fn files_are_created_in_a_directory_that_is_removed_afterwards() {
    let dir = dir_with(
        r#"
[[check]]
name = "files"
command = 'test "$(stat -c %s in sub/zero | tr "\n" " ")" = "100000 10 " && test "$(cat text)" = hello && pwd > "$ZCTRACE_CHECK_DIR/where" && echo > new'
files = [
    { path = "in", size = "100000" },
    { path = "sub/zero", size = "10B", fill = "zero" },
    { path = "text", content = "hello" },
]
env = { UNUSED = "1" }
expect = ["exit.code == 0"]
"#,
    );
    run_in(dir.path(), &[]).exits(0);
    let used = dir.read("where");
    assert!(used.contains("zctrace-check-"), "{used}");
    assert!(!Path::new(used.trim()).exists(), "{used} is left");
}

#[test]
fn env_cwd_and_a_relative_program_are_applied() {
    let dir = dir_with(
        r#"
[[check]]
name = "where"
command = ["./tool", "in"]
cwd = "sub"
env = { GREETING = "hi there" }
expect = ["exit.code == 0", 'write[process="tool"].bytes >= 1 or write.bytes >= 1']
"#,
    );
    fs::create_dir(dir.join("sub")).expect("it belongs to the test");
    let is_as_told = r#"test "$GREETING" = 'hi there' && test "$(basename "$PWD")" = sub"#;
    dir.executable(
        "tool",
        &format!("#!/bin/sh\n{is_as_told} && echo yes > \"$1\"\n"),
    );
    run_in(dir.path(), &[]).exits(0);
    assert_eq!(dir.read("sub/in"), "yes\n");
}

const THREE: &str = r#"
[[check]]
name = "cp small"
command = ["true"]
expect = ["exit.code == 0"]
[[check]]
name = "cp large"
command = ["false"]
expect = ["exit.code == 0"]
[[check]]
name = "mv"
command = ["sh", "-c", "exit 3"]
expect = ["exit.code == 3"]
"#;

#[test]
fn patterns_select_checks_and_a_list_runs_none() {
    let dir = dir_with(THREE);
    let two = run_in(dir.path(), &["--format=json", "mv", "cp s*"]);
    assert_eq!(of_each(&two.exits(0).json(), "/name"), ["cp small", "mv"]);
    let all = run_in(dir.path(), &["--format=json"]);
    let statuses = ["passed", "failed", "passed"];
    assert_eq!(of_each(&all.exits(1).json(), "/status"), statuses);
    let listed = "cp small: true\ncp large: false\nmv: sh -c 'exit 3'\n";
    run_in(dir.path(), &["--list"]).exits(0).prints_only(listed);
    // A file in another directory.
    let path = dir.word("zctrace.toml");
    let finished = check(&["--format=json"]).finish_with(&[&path, "cp large"]);
    let show = format!("zctrace check {path} 'cp large' --report");
    assert_eq!(of_each(&finished.exits(1).json(), "/show"), [show]);
}

#[test]
fn variables_are_set_for_the_command_only() {
    // If zctrace saw this variable, it could not use eBPF.
    let keys = "env = { ZCTRACE_BTF = '/nonexistent' }\nbackend = 'ebpf'\n";
    let dir = dir_with(&(succeeds("a", "'test \"$ZCTRACE_BTF\" = /nonexistent'") + keys));
    run_in(dir.path(), &[]).exits(0);
}

#[test]
fn the_whole_report_of_a_check_can_be_shown() {
    let finished = run_in(dir_with(THREE).path(), &["mv", "--report"]);
    let head = "zctrace: sh -c 'exit 3'\nexit 3, wall";
    finished.exits(0).prints(head);
}

#[test]
fn leftover_processes_are_killed_and_stderr_is_shown_on_failure() {
    let dir = TestDir::new();
    let script = "setsid sleep 1000 & echo $! > pid; echo bad luck >&2";
    let finished = script_in(&dir, &["--expect=exit.code == 1"], script);
    finished.exits(1).prints("bad luck");
    assert!(!exists(dir.read("pid").trim()), "still running");
}

#[test]
fn only_a_little_of_stderr_is_kept_and_none_of_it_in_a_file() {
    let dir = TestDir::with("in", vec![b'x'; 3_000_000]);
    let no_file = "--expect=transfer(* -> regular).count == 0";
    script_in(&dir, &[no_file], "head -c 3000000 in >&2").exits(0);
    // Endless output does not keep the check from ending.
    let options = ["--expect=exit.code == 0", "--timeout=1s"];
    let endless = script_in(&dir, &options, "yes >&2");
    endless.exits(2).prints("(timeout)");
    let lines = endless.text().lines().filter(|line| line.trim() == "y");
    assert_eq!(lines.count(), 20);
}

#[test]
fn show_output_shows_what_the_command_writes() {
    let dir = dir_with(&succeeds("a", "'echo hello'"));
    let shown = run_in(dir.path(), &["--show-output"]);
    assert!(shown.successful().starts_with("hello\n"));
    run_in(dir.path(), &[]).exits(0).never_prints("hello");
}

/// Makes sure that zctrace refused to run: one line on stderr with these words, and perhaps a
/// marker below it. It left nothing in the directory but a `zctrace.toml`.
#[track_caller]
fn assert_refused(dir: &TestDir, finished: &Finished, words: &[&str]) {
    finished.exits(2).prints_only("").says_all(words);
    let stderr = &finished.stderr;
    let is_short = stderr.lines().count() == 1 || stderr.ends_with("^\n");
    assert!(stderr.starts_with("zctrace: ") && is_short, "{stderr}");
    assert!(dir.names().iter().all(|name| name == "zctrace.toml"));
}

#[test]
fn an_invalid_file_is_refused_with_the_position_of_the_error() {
    let check = "[[check]]\nname = 'a'\ncommand = ['touch', 'x']\n";
    let expect = "expect = ['exit.code == 0', 'read.bytes < 2s']\n";
    let dir = dir_with(&(check.to_owned() + expect));
    let words = [
        "zctrace.toml:4:43: '2s' is not a size, like 64KiB",
        "                ^\n",
    ];
    assert_refused(&dir, &run_in(dir.path(), &[]), &words);
}

#[test]
fn a_command_line_that_checks_nothing_is_refused() {
    let nothing = TestDir::new();
    let words = ["cannot read 'zctrace.toml'", "--expect"];
    assert_refused(&nothing, &run_in(nothing.path(), &[]), &words);
    let dir = dir_with(&succeeds("a", "'touch x'"));
    for (options, said) in [
        (&["none.toml"][..], "cannot read 'none.toml'"),
        (&["a.toml", "b.toml"], "only one file of checks"),
        (&["b*"], "no check is called 'b*'"),
        (&["--expect=exit.code == 0"], "no command to check"),
        (&["--bogus"], "--bogus"),
        (
            &["--timeout=0s"],
            "--timeout: a timeout of '0s' is too short",
        ),
        (
            &["--tolerance=read.calls=5"],
            "--tolerance needs a baseline",
        ),
        (&["--export", "yaml", "x"], "'yaml' is not one of"),
    ] {
        assert_refused(&dir, &run_in(dir.path(), options), &[said]);
    }
    for (options, said) in [
        (&[][..], "there is nothing to check"),
        (
            &["--expect=write.cals == 0"],
            "--expect: unknown figure of write 'cals'; did you mean 'calls'?\n  write.cals == 0\n        ^\n",
        ),
        (
            &["--expect=fsync.calls == 0", "--syscalls=read"],
            "--syscalls does not count fsync",
        ),
    ] {
        let finished = script_in(&dir, options, "touch it-ran");
        assert_refused(&dir, &finished, &[said]);
    }
}

#[test]
fn a_check_that_could_not_be_run_says_why() {
    let missing = "without a result: cannot run 'no-such-program': not found in PATH\n";
    for (keys, words) in [
        (succeeds("a", "['no-such-program', 'x']"), &[missing][..]),
        (
            succeeds("a", "['true']") + "cwd = 'sub'\n",
            &["its working directory '", "sub' does not exist"],
        ),
    ] {
        // Wherever the command may write.
        for options in [&[][..], &["--show-output"]] {
            let finished = run_in(dir_with(&keys).path(), options);
            finished.exits(2).prints_all(words).says_only("");
        }
    }
    let dir = dir_with(&(succeeds("a", "['true']") + "backend = 'ebpf'\n"));
    let without_btf = check(&[])
        .env("ZCTRACE_BTF", "/nonexistent")
        .dir(dir.path());
    let finished = without_btf.finish();
    finished
        .exits(2)
        .prints_all(&["without a result: ", "/nonexistent"]);
    // A failure outranks it.
    let dir = dir_with(&(succeeds("a", "['no-such-program']") + &succeeds("b", "['false']")));
    let finished = run_in(dir.path(), &[]);
    finished
        .exits(1)
        .prints("2 checks: 1 failed, 1 without a result\n");
}
