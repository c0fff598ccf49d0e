//! The standard streams of the commands, in timed and in traced runs: each command fails if they are not as they should be.

use std::{
    fs::{self, File},
    process::Stdio,
};

use rustix::pipe::{PipeFlags, pipe_with};
use tempfile::tempdir;

use super::{compare, compared};
use crate::harness::Group;

const BACKENDS: [&str; 2] = ["--backend=ebpf", "--backend=strace"];

#[track_caller]
fn assert_succeeds(options: &[&str], command: &str) {
    for backend in BACKENDS {
        compared(&[&["--runs=2", backend], options].concat(), &[command]);
    }
}

#[test]
fn nothing_is_read_or_shown_unless_asked_for() {
    assert_succeeds(&[], "! read line && echo nobody hears && echo this >&2");
    assert_succeeds(&[], "test /dev/null -ef /dev/stdin && test /dev/null -ef /dev/stdout && test /dev/null -ef /dev/stderr");
}

#[test]
fn a_pipe_that_takes_all_there_is() {
    assert_succeeds(&["--output=pipe"], "test -p /dev/stdout && head -c 1000000 /dev/zero");
}

#[test]
fn a_file_that_is_read_from_its_beginning_each_time() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("in");
    fs::write(&path, "first\nsecond\n").expect("ours");
    assert_succeeds(&["--input", path.to_str().expect("text")], "read line && test $line = first");
}

#[test]
fn a_file_that_has_what_the_last_run_wrote() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("out");
    assert_succeeds(&["--output", path.to_str().expect("text")], "echo once");
    assert_eq!(fs::read_to_string(&path).expect("written"), "once\n");
}

#[test]
fn what_is_inherited_is_shown() {
    let finished = compare(&["--runs=1", "--output=inherit"]).launch_with(&["echo hello; echo there >&2"]).finish();
    assert_eq!(finished.successful().matches("hello\n").count(), 2, "timed and traced: {}", finished.text());
    assert_eq!(finished.stderr, "there\nthere\n");
}

#[test]
fn a_reader_of_the_page_that_has_gone_is_no_failure() {
    let dir = tempdir().expect("a directory");
    let (reader, unread) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    drop(reader);
    let export = compare(&["-N", "--runs=1", "--export", "csv", "out.csv"]).dir(dir.path());
    let mut command = export.launch_with(&["true"]).command();
    let stderr = File::options().write(true).open("/dev/null").expect("there is one");
    command.stdin(Stdio::null()).stdout(unread).stderr(stderr);
    assert_eq!(Group::start(&mut command).wait(), Some(0));
    assert!(fs::read_to_string(dir.path().join("out.csv")).expect("written all the same").starts_with("name,"));
}
