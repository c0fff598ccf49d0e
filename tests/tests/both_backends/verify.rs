//! `--verify`: one command, both backends, side by side.

use serde_json::Value;

use crate::harness::{Program, program, shell, zctrace};

/// A script that writes once more each time it runs. Its memory is the file that is its first argument.
fn fickle(memory: &std::path::Path) -> Program {
    shell("echo >>$0; while read line; do echo hi; done <$0").arg(memory)
}

#[test]
fn a_command_that_does_the_same_is_equal() {
    let finished = zctrace().option("--verify").show(&program("head").args(&["-c", "5000", "/dev/zero"]));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert_eq!(finished.stdout, [0; 10_000], "it runs twice");
    assert!(finished.stderr.lines().next().is_some_and(|line| line.starts_with("equal: ")), "{}", finished.stderr);
    assert!(!finished.stderr.contains('≠'), "{}", finished.stderr);
}

#[test]
fn a_command_that_changes_differs() {
    let dir = tempfile::tempdir().expect("a directory");
    let finished = zctrace().option("--verify").show(&fickle(&dir.path().join("memory")));
    assert_eq!((finished.code, finished.text()), (Some(1), "hi\nhi\nhi\n"), "{}", finished.stderr);
    let first = finished.stderr.lines().next().expect("a line");
    assert!(first.starts_with("DIFFERENT: ") && first.contains("ebpf") && first.contains("strace"), "{first}");
    assert!(
        finished.stderr.lines().any(|line| line.trim().starts_with("write ") && line.contains("2 ≠ 3")),
        "{}",
        finished.stderr
    );
}

#[test]
fn an_input_that_the_first_run_takes_is_told_of() {
    let finished = zctrace().option("--verify").input(b"1\n2\n").show(&program("cat"));
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    assert!(finished.stderr.contains("read from stdin"), "{}", finished.stderr);
}

#[test]
fn the_same_as_json() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = dir.path().join("verify.json");
    let finished = zctrace().option("--verify").option("--format=json").option("--output").option(&output);
    let finished = finished.show(&fickle(&dir.path().join("memory")));
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(1), ""));
    let text = std::fs::read_to_string(output).expect("it was written");
    let comparison: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(comparison["backends"], serde_json::json!(["ebpf", "strace"]));
    let row = |name| comparison["rows"].as_array().and_then(|rows| rows.iter().find(|row| row["name"] == name)).expect("a row");
    assert_eq!(row("mmap")["equal"], true);
    let write = row("write");
    assert_eq!(write["equal"], false);
    assert_eq!([&write["figures"][0]["bytes"], &write["figures"][1]["bytes"]], [4, 7]);
}

#[test]
fn a_command_that_cannot_be_run() {
    zctrace().option("--verify").refuses_to_run(&program("no-such-command")).with_status(127).saying("'no-such-command'");
}

#[test]
fn a_backend_besides_is_refused() {
    zctrace().option("--verify").option("--backend=strace").refuses().with_status(125).saying("--backend");
}
