//! `zctrace check`: runs commands and checks that they behave as expected.

mod baselines;
mod endings;
mod files;
mod formats;
mod results;

use std::path::Path;

use serde_json::Value;

use crate::harness::{Finished, TestDir, Zctrace, zctrace};

/// `zctrace check` with these options.
fn check(options: &[&str]) -> Zctrace {
    zctrace().option("check").options(options)
}

/// Checks a script of the shell in this directory.
fn script_in(dir: &TestDir, options: &[&str], script: &str) -> Finished {
    words_in(dir, options, &["sh", "-c", script])
}

/// Checks a command in this directory.
fn words_in(dir: &TestDir, options: &[&str], words: &[&str]) -> Finished {
    let check = check(options).option("--").dir(dir.path());
    check.finish_with(words)
}

/// A directory with this `zctrace.toml`.
fn dir_with(toml: &str) -> TestDir {
    TestDir::with("zctrace.toml", toml)
}

/// A check of a `zctrace.toml`: its name, its command as TOML, and the expectation that the command
/// succeeds. More keys can follow.
fn succeeds(name: &str, command: &str) -> String {
    format!("[[check]]\nname = '{name}'\ncommand = {command}\nexpect = ['exit.code == 0']\n")
}

/// Runs the checks of a directory.
fn run_in(dir: &Path, options: &[&str]) -> Finished {
    check(options).dir(dir).finish()
}

/// A value at this place in the results of each check.
fn of_each(results: &Value, place: &str) -> Vec<Value> {
    let checks = results["checks"].as_array().expect("a list");
    let value = |check: &Value| check.pointer(place).cloned().unwrap_or_default();
    checks.iter().map(value).collect()
}
