//! What runs when, and how often: told by the commands themselves, which write to a log.

use std::fs;

use serde_json::json;
use tempfile::{TempDir, tempdir};

use super::{compare, compared};

/// A directory for a log.
fn place() -> TempDir {
    tempdir().expect("a directory")
}

/// Compares these commands in a directory, and returns what they wrote to the file `log` there.
#[track_caller]
fn logged(options: &[&str], commands: &[&str]) -> String {
    let dir = place();
    compare(options).dir(dir.path()).launch_with(commands).finish().successful();
    let log = fs::read_to_string(dir.path().join("log")).expect("it was written");
    log.split_whitespace().collect::<Vec<_>>().join(" ")
}

const A: &str = "echo a >> log";
const B: &str = "echo b >> log";

#[test]
fn commands_run_in_turn_and_are_traced_last() {
    assert_eq!(logged(&["--runs=3"], &[A, B]), "a b a b a b a b");
    assert_eq!(logged(&["--runs=2", "--warmup=1"], &[A, B]), "a b a b a b a b");
}

#[test]
fn or_one_after_the_other() {
    assert_eq!(logged(&["--runs=3", "--sequential"], &[A, B]), "a a a a b b b b");
}

#[test]
fn what_prepares_and_concludes_is_run_around_every_run() {
    let options = ["--runs=2", "--warmup=1", "--prepare=echo p >> log", "--conclude=echo c >> log"];
    assert_eq!(logged(&options, &[A]), ["p a c"; 4].join(" "), "a warm-up, two timed runs, a traced one");
}

#[test]
fn each_command_may_have_its_own_preparation() {
    let options = ["--runs=1", "--prepare=echo p >> log", "--prepare=echo q >> log"];
    assert_eq!(logged(&options, &[A, B]), "p a q b p a q b");
}

#[test]
fn what_sets_up_and_cleans_up_is_run_once_for_each_command() {
    let options = ["--runs=1", "--setup=echo s >> log", "--cleanup=echo c >> log"];
    assert_eq!(logged(&options, &[A, B]), "s s a b a b c c");
    let sequential = [&options[..], &["--sequential"]].concat();
    assert_eq!(logged(&sequential, &[A, B]), "s a a c s b b c");
}

#[test]
fn preparations_have_a_shell_also_where_commands_have_none() {
    assert_eq!(logged(&["-N", "--runs=1", "--prepare=echo p >> log; true"], &["true"]), "p p");
}

#[test]
fn as_many_runs_as_asked_for() {
    let runs = |options: &[&str]| compared(options, &["true"])["commands"][0]["runs"].as_array().map(Vec::len);
    assert_eq!(runs(&["-N", "-r", "7"]), Some(7));
    assert_eq!(runs(&["-N", "--max-runs=4"]), Some(4), "fewer than the usual least");
    // It takes no quarter of a second.
    assert_eq!(runs(&["-N", "--min-runs=12", "--max-runs=12"]), Some(12));
}

#[test]
fn three_seconds_are_measured() {
    let found = compared(&["-N"], &["sleep 0.25"]);
    let runs = found["commands"][0]["runs"].as_array().map(Vec::len).expect("runs");
    assert!((10..=12).contains(&runs), "{runs}");
}

#[test]
fn the_reference_is_the_first_command_or_the_chosen_one() {
    let options = ["-N", "--runs=1", "--name=x", "--name=y"];
    let commands = ["sleep 0.1", "sleep 0.2"];
    let found = compared(&options, &commands);
    assert_eq!((&found["reference"], &found["commands"][0]["relative"]["percent"]), (&json!(0), &json!(100.0)));
    assert!(found["commands"][1]["relative"]["percent"].as_f64() > Some(100.0));
    for reference in ["--reference=y", "--reference=sleep 0.2"] {
        let found = compared(&[&options[..], &[reference]].concat(), &commands);
        assert_eq!((&found["reference"], &found["commands"][1]["relative"]["percent"]), (&json!(1), &json!(100.0)));
        assert!(found["commands"][0]["relative"]["percent"].as_f64() < Some(100.0));
    }
}

#[test]
fn the_first_lines_say_who_is_faster() {
    let options = ["-N", "--runs=1", "--name=short", "--name=long"];
    let page = compare(&options).launch_with(&["sleep 0.1", "sleep 0.4"]).finish();
    let lines: Vec<&str> = page.successful().lines().take(2).collect();
    assert_eq!(lines[0], "short ran");
    assert!(lines[1].ends_with(" times faster than long"), "{lines:?}");
}
