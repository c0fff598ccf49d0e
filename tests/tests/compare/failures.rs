//! What cannot work, told in one line; most of it before anything runs.

use super::{compare, compared};
use crate::harness::{Zctrace, fifo, full};

/// zctrace compare, refused whatever the command is. The option keeps the harness from adding one that `compare` has not.
fn refused(options: &[&str]) -> Zctrace {
    compare(options).option("--output=null")
}

const TRESPASS: &str = "touch it-ran";

#[test]
fn a_command_that_fails() {
    let refusal = refused(&["--name=mine", "--runs=3"]).refuses_words(&["exit 3"]);
    refusal.with_status(125).saying("'mine' failed with exit status 3 in run 1").saying("--ignore-failure (-i)");
    let refusal = refused(&["--warmup=2"]).refuses_words(&["kill -SEGV $$"]);
    refusal.with_status(125).saying("was killed by SIGSEGV in warm-up run 1");
}

#[test]
fn a_command_that_fails_only_when_it_is_traced() {
    // It has a parent that zctrace is not only if something stands between them, as strace does.
    let script = "grep -q '^TracerPid:.0$' /proc/$$/status";
    refused(&["--runs=1", "--backend=strace"]).refuses_words(&[script]).with_status(125).saying("in the traced run");
}

#[test]
fn a_failure_that_does_not_matter() {
    let found = compared(&["--runs=2", "--ignore-failure"], &["exit 3"]);
    assert_eq!(found["commands"][0]["runs"][1]["exit"]["code"], 3);
    let page = compare(&["-i", "--runs=2"]).launch_with(&["exit 3"]).finish();
    assert!(page.successful().contains("warning: exit 3: 2 of 2 runs failed"), "{}", page.text());
}

#[test]
fn a_preparation_that_fails() {
    for option in ["--prepare", "--conclude", "--setup", "--cleanup"] {
        let refusal = refused(&["--runs=1", &format!("{option}=exit 4")]).refuses_words(&["true"]);
        refusal.with_status(125).saying(&format!("the {option} command 'exit 4' failed with exit status 4")).saying("|| true");
    }
}

#[test]
fn a_program_that_is_missing() {
    refused(&["-N"]).refuses_words(&[TRESPASS, "no-such-program x"]).with_status(127).saying("'no-such-program'");
    refused(&["-N"]).refuses_words(&[TRESPASS, "/etc/passwd"]).with_status(126).saying("'/etc/passwd'");
    refused(&["--shell=no-such-shell"]).refuses_words(&[TRESPASS]).with_status(127).saying("'no-such-shell'");
    // In a shell, it is the shell's to say.
    refused(&[]).refuses_words(&["no-such-program"]).with_status(125).saying("exit status 127");
}

#[test]
fn a_shell_that_is_none() {
    refused(&["--shell=false"]).refuses_words(&[TRESPASS]).with_status(125).saying("the shell failed").saying("--shell");
}

#[test]
fn a_command_line_that_cannot_be_read() {
    refused(&["-N"]).refuses_words(&[TRESPASS, "echo 'a"]).with_status(125).saying("echo 'a").saying("quote");
    refused(&["-N"]).refuses_words(&[TRESPASS, ""]).with_status(125).saying("names no program");
}

#[test]
fn no_command() {
    refused(&[]).refuses_words(&[]).with_status(125).saying("no command to compare").saying("zctrace compare '");
}

#[test]
fn options_that_do_not_fit_the_commands() {
    refused(&["--reference=c", "--name=a"]).refuses_words(&[TRESPASS, "b"]).with_status(125).saying("'c'").saying("'a', 'b'");
    refused(&["--name=a", "--name=b"]).refuses_words(&[TRESPASS]).with_status(125).saying("2 names for 1 commands");
    let refusal = refused(&["--prepare=a", "--prepare=b"]).refuses_words(&[TRESPASS, "b", "c"]);
    refusal.with_status(125).saying("--prepare is given 2 times").saying("each of the 3");
    refused(&["--min-runs=5", "--max-runs=4"]).refuses_words(&[TRESPASS]).with_status(125).saying("--min-runs 5");
    refused(&["--runs=0"]).refuses_words(&[TRESPASS]).with_status(125).saying("--runs");
    refused(&["--runs=3", "--max-runs=3"]).refuses_words(&[TRESPASS]).with_status(125).saying("--runs");
    refused(&["--no-such-option"]).refuses_words(&[TRESPASS]).with_status(125).saying("(see zctrace compare --help)");
}

#[test]
fn streams_that_cannot_be_opened() {
    refused(&["--input=no-such-file"]).refuses_words(&[TRESPASS]).with_status(125).saying("'no-such-file'");
    compare(&["--output=./missing/file"]).refuses_words(&[TRESPASS]).with_status(125).saying("'./missing/file'");
    compare(&["--output=nul"]).refuses_words(&[TRESPASS]).with_status(125).saying("'nul'").saying("./nul");
}

#[test]
fn a_fifo_is_not_waited_for() {
    let dir = tempfile::tempdir().expect("a directory");
    fifo(dir.path());
    for option in ["--input=./fifo", "--output=./fifo"] {
        let finished = compare(&["-N", "--runs=1", option]).dir(dir.path()).launch_with(&["true"]).finish();
        assert_eq!(finished.code, Some(125), "{}", finished.text());
        assert!(finished.stderr.contains("'./fifo'") && finished.stderr.contains("a FIFO"), "{}", finished.stderr);
    }
}

#[test]
fn a_file_that_cannot_be_written_is_known_before() {
    let export = |path| refused(&["--export", "json", path]).refuses_words(&[TRESPASS]).with_status(125);
    export("missing/file.json").saying("'missing/file.json'").saying("No such file or directory");
    export(".").saying("Is a directory");
    refused(&["--export", "yaml", "file"]).refuses_words(&[TRESPASS]).with_status(125).saying("'yaml'").saying("markdown");
}

#[test]
fn a_full_device_is_no_success() {
    let dir = tempfile::tempdir().expect("a directory");
    let device = full(dir.path());
    let finished = compare(&["-N", "--runs=1", "--export", "csv"]).option(device).launch_with(&["true"]).finish();
    assert_eq!(finished.code, Some(125));
    assert!(finished.stderr.contains("No space left on device"), "{}", finished.stderr);
}

#[test]
fn a_backend_that_cannot_run_is_known_before() {
    let refusal = refused(&["--backend=ebpf"]).env("ZCTRACE_BTF", "/nonexistent").refuses_words(&[TRESPASS]);
    refusal.with_status(125).saying("/nonexistent");
}
