//! `zctrace check`: runs commands and checks that they behave as expected.

mod endings;
mod files;
mod formats;
mod results;

use std::path::Path;

use serde_json::Value;

use crate::harness::{Finished, Launch, TestDir, Zctrace, zctrace};

/// `zctrace check` with these options.
fn check(options: &[&str]) -> Zctrace {
    zctrace().option("check").options(options)
}

/// Checks a script of the shell.
fn of_script(options: &[&str], script: &str) -> Launch {
    check(options).launch_with(&["--", "sh", "-c", script])
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
    check(options).dir(dir).launch().finish()
}

/// The results as JSON, with this exit status.
#[track_caller]
fn results(finished: &Finished, status: i32) -> Value {
    assert_eq!(
        finished.code,
        Some(status),
        "{} {}",
        finished.text(),
        finished.stderr
    );
    serde_json::from_str(finished.text())
        .unwrap_or_else(|error| panic!("{error}: {} {}", finished.text(), finished.stderr))
}
