//! What a comparison writes: exported files and the page on a terminal.

use serde_json::{Value, json};

use super::{compare, compared, writes};
use crate::harness::{BACKENDS, Terminal, TestDir};

/// A name that every format has to quote.
const NAME: &str = "it's \"a\", b | c\nd";

#[test]
fn all_formats_can_be_exported_at_once() {
    let dir = TestDir::new();
    let options = ["-N", "--runs=3", "--syscalls=write", "--name", NAME];
    let files = ["--export", "json", "a.json", "--export", "markdown", "c.md"];
    let write = writes(30, 11);
    let compare = compare(&options).options(&files).dir(dir.path());
    let finished = compare.finish_with(&[&write, "true"]);
    finished.exits(0).prints("counted calls");
    let json: Value = serde_json::from_str(&dir.read("a.json")).expect("JSON");
    let command = &json["commands"][0];
    assert_eq!(
        (&json["schema"], &command["name"]),
        (&json!(1), &json!(NAME))
    );
    assert_eq!(command["command"], json!(write));
    let markdown = dir.read("c.md");
    let table = markdown.lines().take_while(|line| !line.is_empty());
    let columns: Vec<usize> = table
        .map(|line| line.replace(r"\|", "").matches('|').count())
        .collect();
    assert_eq!(columns, [columns[0]; 4], "{markdown}");
}

#[test]
fn standard_streams_are_dev_null_by_default() {
    let is_null = "test /dev/null -ef /dev/stdin && test /dev/null -ef /dev/stdout && test /dev/null -ef /dev/stderr";
    for backend in BACKENDS {
        compared(&["--runs=2", backend], &[is_null, "! read line"]);
    }
}

#[test]
fn progress_is_shown_only_on_terminals_that_can_erase_it() {
    let compare = |term: &str| {
        let compare = compare(&["--runs=2", "--warmup=1"]).env("TERM", term);
        compare.launch_with(&["true"])
    };
    let [erasable, dumb] = ["xterm", "dumb"].map(|term| Terminal::run(80, &compare(term)).1);
    for stage in ["warming up", "timing  ", "tracing"] {
        assert!(erasable.contains(stage), "no {stage:?}: {erasable}");
        assert!(!dumb.contains(stage), "{stage:?}: {dumb}");
    }
    // Elsewhere stderr stays empty.
    compare("xterm").finish().exits(0).says_only("");
}
