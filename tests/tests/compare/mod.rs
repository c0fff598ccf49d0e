//! `zctrace compare`: times commands untraced, counts their calls in one traced run each, and shows
//! them side by side.

mod failures;
mod figures;
mod output;

use serde_json::Value;

use crate::harness::{Finished, Program, Zctrace, zctrace};

/// `zctrace compare` with these options.
fn compare(options: &[&str]) -> Zctrace {
    zctrace().option("compare").options(options)
}

/// A program as a command line.
fn line(program: &Program) -> String {
    let words: Vec<&str> = program
        .words()
        .iter()
        .map(|word| word.to_str().expect("text"))
        .collect();
    assert!(
        words
            .iter()
            .all(|word| !word.contains([' ', '\'', '"', '\\'])),
        "needs quotes: {words:?}"
    );
    words.join(" ")
}

/// Compares these commands as JSON.
#[track_caller]
fn compared(options: &[&str], commands: &[&str]) -> Value {
    read(
        &compare(options)
            .option("--format=json")
            .launch_with(commands)
            .finish(),
    )
}

#[track_caller]
fn read(finished: &Finished) -> Value {
    assert_eq!(finished.stderr, "");
    serde_json::from_str(finished.successful()).expect("JSON")
}
