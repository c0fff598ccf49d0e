//! `zctrace compare`: times commands untraced, counts their calls in one traced run each, and shows
//! them side by side.

mod failures;
mod figures;
mod habits;
mod output;

use serde_json::Value;

use crate::harness::{Program, Zctrace, zctrace};

/// `zctrace compare` with these options.
fn compare(options: &[&str]) -> Zctrace {
    zctrace().option("compare").options(options)
}

/// A program as a command line.
fn line(program: &Program) -> String {
    let words = program.words().iter();
    let words: Vec<&str> = words.map(|word| word.to_str().expect("text")).collect();
    let line = words.join(" ");
    assert!(!line.contains(['\'', '"', '\\']), "needs quotes: {line}");
    line
}

/// A command line that writes this many bytes this many times.
fn writes(times: u32, bytes: u32) -> String {
    let write = crate::harness::workload("write").arg(times.to_string());
    line(&write.arg(bytes.to_string()))
}

/// Compares these commands as JSON.
#[track_caller]
fn compared(options: &[&str], commands: &[&str]) -> Value {
    let finished = compare(options)
        .option("--format=json")
        .finish_with(commands);
    finished.exits(0).says_only("").json()
}
