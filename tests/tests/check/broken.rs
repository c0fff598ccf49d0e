//! What cannot be checked: status 2, and a message that says why.

use std::fs;

use super::{check, folder, of_script, run_in};
use crate::harness::Finished;

/// It says this on stderr, in one line and what points into it, and nothing else.
#[track_caller]
fn assert_refused(finished: &Finished, words: &[&str]) {
    assert_eq!(finished.code, Some(2), "{}", finished.stderr);
    assert_eq!(finished.text(), "");
    assert!(finished.stderr.starts_with("zctrace: "), "{}", finished.stderr);
    assert!(finished.stderr.lines().count() == 1 || finished.stderr.ends_with("^\n"), "{}", finished.stderr);
    for word in words {
        assert!(finished.stderr.contains(word), "no {word:?} in {}", finished.stderr);
    }
}

#[test]
fn an_expectation_that_is_none() {
    let finished = of_script(&["--expect=write.cals == 0"], "touch it-ran").finish();
    assert_refused(&finished, &["--expect: write has no figure 'cals'; did you mean 'calls'?\n  write.cals == 0\n        ^\n"]);
}

#[test]
fn a_file_that_is_broken() {
    let refused = |toml: &str, words: &[&str]| {
        let folder = folder(toml);
        assert_refused(&run_in(folder.path(), &[]), words);
        assert_eq!(fs::read_dir(folder.path()).expect("ours").count(), 1, "something was left");
    };
    refused("[[check]]\nname = 'a'\ncommand = ['touch', 'x'\n", &["zctrace.toml:"]);
    refused("[[check]]\nname = 'a'\ncomand = ['touch', 'x']\n", &["zctrace.toml:3:1: unknown field `comand`", "comand = "]);
    refused(
        "[[check]]\nname = 'a'\ncommand = ['touch', 'x']\nexpect = ['exit.code == 0', 'read.bytes < 2s']\n",
        &["zctrace.toml:4:43: '2s' is a time, but a size is needed here", "                ^\n"],
    );
}

#[test]
fn nothing_to_check() {
    let folder = tempfile::tempdir().expect("a directory");
    assert_refused(&run_in(folder.path(), &[]), &["cannot read 'zctrace.toml'", "--expect"]);
    assert_refused(&run_in(folder.path(), &["none.toml"]), &["cannot read 'none.toml'"]);
    assert_refused(&run_in(folder.path(), &["a.toml", "b.toml"]), &["one file of checks at a time", "b.toml"]);
    let folder = super::folder("[[check]]\nname = 'a'\ncommand = 'touch x'\nexpect = ['exit.code == 0']\n");
    assert_refused(&run_in(folder.path(), &["b*"]), &["no check is called 'b*'", "--list"]);
    assert_refused(&of_script(&[], "true").finish(), &["nothing is expected of the command"]);
    assert_refused(&run_in(folder.path(), &["--expect=exit.code == 0"]), &["no command to check", "zctrace check --expect"]);
    assert_refused(&run_in(folder.path(), &["--bogus"]), &["--bogus"]);
    assert_refused(&run_in(folder.path(), &["--timeout=soon"]), &["--timeout: 'soon' is not a time"]);
    assert_refused(&run_in(folder.path(), &["--timeout=0s"]), &["--timeout: a timeout of '0s' is too short"]);
    assert_refused(&run_in(folder.path(), &["--tolerance=read.calls=5"]), &["--tolerance is for a comparison"]);
    assert_refused(&run_in(folder.path(), &["--export", "yaml", "x"]), &["'yaml' is none of", "junit"]);
    assert_refused(
        &of_script(&["--expect=fsync.calls == 0", "--syscalls=read"], "true").finish(),
        &["--syscalls does not count fsync"],
    );
}

#[test]
fn a_command_that_does_not_exist() {
    let finished = check(&["--expect=exit.code == 0"]).launch_with(&["--", "no-such-program", "x"]).finish();
    assert_eq!(finished.code, Some(2));
    assert!(
        finished.text().contains("could not be run: cannot run 'no-such-program': No such file or directory\n"),
        "{}",
        finished.text()
    );
    let finished = check(&["--expect=exit.code == 0"]).launch_with(&["--", "/etc/passwd"]).finish();
    assert!(finished.code == Some(2) && finished.text().contains("cannot run '/etc/passwd'"), "{}", finished.text());
}

#[test]
fn a_machine_without_a_backend() {
    let finished = check(&["--backend=ebpf", "--expect=exit.code == 0"])
        .env("ZCTRACE_BTF", "/nonexistent")
        .launch_with(&["--", "true"])
        .finish();
    assert_eq!(finished.code, Some(2));
    assert!(finished.text().contains("could not be run: ") && finished.text().contains("/nonexistent"), "{}", finished.text());
}

#[test]
fn a_directory_that_is_not_there() {
    let folder = folder("[[check]]\nname = 'a'\ncommand = ['true']\ncwd = 'sub'\nexpect = ['exit.code == 0']\n");
    let finished = run_in(folder.path(), &[]);
    assert_eq!(finished.code, Some(2));
    assert!(
        finished.text().contains("its working directory '") && finished.text().contains("sub' is not there"),
        "{}",
        finished.text()
    );
}

#[test]
fn what_failed_comes_before_what_could_not_be_run() {
    let one =
        |name: &str, command: &str| format!("[[check]]\nname = '{name}'\ncommand = ['{command}']\nexpect = ['exit.code == 0']\n");
    let both = folder(&(one("a", "no-such-program") + &one("b", "false")));
    let finished = run_in(both.path(), &[]);
    assert_eq!(finished.code, Some(1));
    assert!(finished.text().ends_with("2 checks: 1 failed, 1 could not be run\n"), "{}", finished.text());
}
