//! Files of checks: the directory and environment of a check, the selection of checks, and errors
//! in files and command lines.

use std::fs;

use super::{check, dir_with, of_script, results, run_in, succeeds};
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
    let finished = run_in(dir.path(), &[]);
    assert_eq!(finished.code, Some(0), "{}", finished.text());
    let used = dir.read("where");
    assert!(
        !std::path::Path::new(used.trim()).exists(),
        "{used} is left"
    );
    assert!(used.contains("zctrace-check-"), "{used}");
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
    let sub = dir.join("sub");
    fs::create_dir(&sub).expect("it belongs to the test");
    dir.executable(
        "tool",
        "#!/bin/sh\ntest \"$GREETING\" = 'hi there' && test \"$(basename \"$PWD\")\" = sub && echo yes > \"$1\"\n",
    );
    let finished = run_in(dir.path(), &[]);
    assert_eq!(finished.code, Some(0), "{}", finished.text());
    assert_eq!(
        fs::read_to_string(sub.join("in")).expect("was written"),
        "yes\n"
    );
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
    let found = results(&run_in(dir.path(), &["--format=json", "mv", "cp s*"]), 0);
    assert_eq!(found["checks"].as_array().map(Vec::len), Some(2));
    let found = results(&run_in(dir.path(), &["--format=json"]), 1);
    let statuses: Vec<_> = found["checks"]
        .as_array()
        .expect("three")
        .iter()
        .map(|check| check["status"].as_str())
        .collect();
    assert_eq!(statuses, [Some("passed"), Some("failed"), Some("passed")]);
    let list = run_in(dir.path(), &["--list"]);
    assert_eq!(
        list.successful(),
        "cp small: true\ncp large: false\nmv: sh -c 'exit 3'\n"
    );
    // A file in another directory.
    let path = dir.join("zctrace.toml");
    let words = [path.to_str().expect("text"), "cp large"];
    let finished = check(&["--format=json"]).launch_with(&words).finish();
    let show = results(&finished, 1)["checks"][0]["show"].clone();
    assert_eq!(
        show,
        format!("zctrace check {} 'cp large' --report", path.display())
    );
}

#[test]
fn variables_are_set_for_the_command_only() {
    // If zctrace saw this variable, it could not use eBPF.
    let keys = "env = { ZCTRACE_BTF = '/nonexistent' }\nbackend = 'ebpf'\n";
    let dir = dir_with(&(succeeds("a", "'test \"$ZCTRACE_BTF\" = /nonexistent'") + keys));
    let finished = run_in(dir.path(), &[]);
    assert_eq!(finished.code, Some(0), "{}", finished.text());
}

#[test]
fn the_whole_report_of_a_check_can_be_shown() {
    let dir = dir_with(THREE);
    let finished = run_in(dir.path(), &["mv", "--report"]);
    assert!(
        finished
            .successful()
            .contains("zctrace: sh -c 'exit 3'\nexit 3, wall"),
        "{}",
        finished.text()
    );
}

#[test]
fn leftover_processes_are_killed_and_stderr_is_shown_on_failure() {
    let dir = dir_with(
        "[[check]]\nname = 'a'\ncommand = 'setsid sleep 1000 & echo $! > \"$ZCTRACE_CHECK_DIR/pid\"; echo bad luck >&2'\nexpect = ['exit.code == 1']\n",
    );
    let finished = run_in(dir.path(), &[]);
    assert_eq!(finished.code, Some(1));
    assert!(finished.text().contains("bad luck"), "{}", finished.text());
    let pid = dir.read("pid");
    assert!(!exists(&pid), "still running");
}

#[test]
fn only_a_little_of_stderr_is_kept() {
    let dir = TestDir::with("in", vec![b'x'; 3_000_000]);
    let script = "head -c 3000000 in >&2; echo >&2; exit 3";
    let options = [
        "--expect=transfer(* -> regular).count == 0",
        "--expect=exit.code == 0",
        "--format=json",
    ];
    let finished = of_script(&options, script).dir(dir.path()).finish();
    let found = results(&finished, 1);
    let verdicts: Vec<_> = (0..2)
        .map(|index| found["checks"][0]["expectations"][index]["verdict"].clone())
        .collect();
    assert_eq!(verdicts, ["holds", "fails"]);
    let stderr = found["checks"][0]["stderr"]
        .as_array()
        .expect("lines")
        .clone();
    assert!(
        stderr.len() == 1
            && stderr[0]
                .as_str()
                .is_some_and(|line| line.chars().count() == 301),
        "{stderr:?}"
    );
    // Endless output does not keep the check from ending.
    let endless = of_script(&["--expect=exit.code == 0", "--timeout=1s"], "yes >&2").finish();
    assert_eq!(endless.code, Some(2), "{}", endless.text());
    assert!(
        endless.text().contains("(timeout)")
            && endless
                .text()
                .lines()
                .filter(|line| line.trim() == "y")
                .count()
                == 20
    );
}

#[test]
fn show_output_shows_what_the_command_writes() {
    let dir = dir_with(&succeeds("a", "'echo hello'"));
    assert!(
        run_in(dir.path(), &["--show-output"])
            .successful()
            .starts_with("hello\n")
    );
    assert!(!run_in(dir.path(), &[]).successful().contains("hello"));
}

/// Makes sure that zctrace refused to run: one line on stderr with these words, and perhaps a
/// marker below it.
#[track_caller]
fn assert_refused(finished: &Finished, words: &[&str]) {
    assert_eq!(finished.code, Some(2), "{}", finished.stderr);
    assert_eq!(finished.text(), "");
    assert!(
        finished.stderr.starts_with("zctrace: "),
        "{}",
        finished.stderr
    );
    assert!(
        finished.stderr.lines().count() == 1 || finished.stderr.ends_with("^\n"),
        "{}",
        finished.stderr
    );
    for word in words {
        assert!(
            finished.stderr.contains(word),
            "no {word:?} in {}",
            finished.stderr
        );
    }
}

#[test]
fn an_invalid_expectation_is_refused_and_its_error_is_marked() {
    let finished = of_script(&["--expect=write.cals == 0"], "touch it-ran").finish();
    assert_refused(
        &finished,
        &[
            "--expect: unknown figure of write 'cals'; did you mean 'calls'?\n  write.cals == 0\n        ^\n",
        ],
    );
}

#[test]
fn an_invalid_file_is_refused_with_the_position_of_the_error() {
    let refused = |toml: &str, words: &[&str]| {
        let dir = dir_with(toml);
        assert_refused(&run_in(dir.path(), &[]), words);
        assert_eq!(
            fs::read_dir(dir.path())
                .expect("it belongs to the test")
                .count(),
            1,
            "something was left"
        );
    };
    refused(
        "[[check]]\nname = 'a'\ncommand = ['touch', 'x'\n",
        &["zctrace.toml:"],
    );
    refused(
        "[[check]]\nname = 'a'\ncomand = ['touch', 'x']\n",
        &["zctrace.toml:3:1: unknown field `comand`", "comand = "],
    );
    refused(
        "[[check]]\nname = 'a'\ncommand = ['touch', 'x']\nexpect = ['exit.code == 0', 'read.bytes < 2s']\n",
        &[
            "zctrace.toml:4:43: '2s' is not a size, like 64KiB",
            "                ^\n",
        ],
    );
}

#[test]
fn a_command_line_that_checks_nothing_is_refused() {
    let dir = TestDir::new();
    assert_refused(
        &run_in(dir.path(), &[]),
        &["cannot read 'zctrace.toml'", "--expect"],
    );
    assert_refused(
        &run_in(dir.path(), &["none.toml"]),
        &["cannot read 'none.toml'"],
    );
    assert_refused(
        &run_in(dir.path(), &["a.toml", "b.toml"]),
        &["one file of checks at a time", "b.toml"],
    );
    let dir = dir_with(&succeeds("a", "'touch x'"));
    assert_refused(
        &run_in(dir.path(), &["b*"]),
        &["no check is called 'b*'", "--list"],
    );
    assert_refused(
        &of_script(&[], "true").finish(),
        &["nothing is expected of the command"],
    );
    assert_refused(
        &run_in(dir.path(), &["--expect=exit.code == 0"]),
        &["no command to check", "zctrace check --expect"],
    );
    assert_refused(&run_in(dir.path(), &["--bogus"]), &["--bogus"]);
    assert_refused(
        &run_in(dir.path(), &["--timeout=soon"]),
        &["--timeout: 'soon' is not a time"],
    );
    assert_refused(
        &run_in(dir.path(), &["--timeout=0s"]),
        &["--timeout: a timeout of '0s' is too short"],
    );
    assert_refused(
        &run_in(dir.path(), &["--tolerance=read.calls=5"]),
        &["--tolerance needs a baseline"],
    );
    assert_refused(
        &run_in(dir.path(), &["--export", "yaml", "x"]),
        &["'yaml' is not one of", "junit"],
    );
    assert_refused(
        &of_script(&["--expect=fsync.calls == 0", "--syscalls=read"], "true").finish(),
        &["--syscalls does not count fsync"],
    );
}

#[test]
fn a_check_of_a_missing_command_could_not_be_run() {
    let finished = check(&["--expect=exit.code == 0"])
        .launch_with(&["--", "no-such-program", "x"])
        .finish();
    assert_eq!(finished.code, Some(2));
    assert!(
        finished.text().contains(
            "could not be run: cannot run 'no-such-program': No such file or directory\n"
        ),
        "{}",
        finished.text()
    );
    let finished = check(&["--expect=exit.code == 0"])
        .launch_with(&["--", "/etc/passwd"])
        .finish();
    assert!(
        finished.code == Some(2) && finished.text().contains("cannot run '/etc/passwd'"),
        "{}",
        finished.text()
    );
}

#[test]
fn a_check_without_a_working_backend_could_not_be_run() {
    let finished = check(&["--backend=ebpf", "--expect=exit.code == 0"])
        .env("ZCTRACE_BTF", "/nonexistent")
        .launch_with(&["--", "true"])
        .finish();
    assert_eq!(finished.code, Some(2));
    assert!(
        finished.text().contains("could not be run: ") && finished.text().contains("/nonexistent"),
        "{}",
        finished.text()
    );
}

#[test]
fn a_check_in_a_missing_directory_could_not_be_run() {
    let dir = dir_with(&(succeeds("a", "['true']") + "cwd = 'sub'\n"));
    let finished = run_in(dir.path(), &[]);
    assert_eq!(finished.code, Some(2));
    assert!(
        finished.text().contains("its working directory '")
            && finished.text().contains("sub' is not there"),
        "{}",
        finished.text()
    );
}

#[test]
fn a_failure_outranks_a_check_that_could_not_be_run() {
    let dir = dir_with(&(succeeds("a", "['no-such-program']") + &succeeds("b", "['false']")));
    let finished = run_in(dir.path(), &[]);
    assert_eq!(finished.code, Some(1));
    assert!(
        finished
            .text()
            .ends_with("2 checks: 1 failed, 1 could not be run\n"),
        "{}",
        finished.text()
    );
}
