//! What `strace` says of a program: the independent count.

use std::collections::BTreeMap;

use super::{Program, untraced};

/// Calls and errors, by name.
pub type Counts = BTreeMap<String, (u64, u64)>;

/// Calls and errors of the program and all its descendants, by name, from `strace -c -f`.
pub fn counted_by_strace(program: &Program) -> Counts {
    strace(&["-c", "-f"], program).lines().filter_map(count).collect()
}

/// A line of the summary: `% time, seconds, usecs/call, calls, errors (or nothing), syscall`.
fn count(line: &str) -> Option<(String, (u64, u64))> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let number = |index: usize| words.get(index)?.parse().ok();
    let name = (*words.last()?).to_owned();
    let errors = if words.len() == 6 { number(4)? } else { 0 };
    let calls = number(3)?;
    (name != "total").then_some((name, (calls, errors)))
}

/// Bytes that the calls returned as moved, by name, summed up from a plain `strace -f` log.
pub fn moved_as_strace_logs(program: &Program, calls: &[&str]) -> BTreeMap<String, u64> {
    let log = strace(&["-f", "--string-limit=0", &format!("--trace={}", calls.join(","))], program);
    let mut bytes = BTreeMap::new();
    for (name, moved) in log.lines().filter_map(moved) {
        *bytes.entry(name).or_default() += moved;
    }
    bytes
}

/// A line of the log: `123 read(0, ""..., 4096) = 4096`.
fn moved(line: &str) -> Option<(String, u64)> {
    assert!(!line.contains("unfinished"), "only for programs without concurrency: {line}");
    let name = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ').split_once('(')?.0;
    let (_, result) = line.rsplit_once(" = ")?;
    Some((name.to_owned(), result.split(' ').next()?.parse().ok()?))
}

/// Runs the program under strace, and returns what strace wrote.
fn strace(options: &[&str], program: &Program) -> String {
    let output = tempfile::NamedTempFile::new().expect("a temporary file");
    let strace = super::program("strace").args(options).arg("-o").arg(output.path()).arg("--");
    untraced(&strace).words(program.words()).finish().successful();
    std::fs::read_to_string(output.path()).expect("strace wrote it")
}
