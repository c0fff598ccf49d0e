//! `zctrace check`: commands that must behave as expected.

mod endings;
mod files;
mod formats;
mod results;

use std::path::Path;

use serde_json::Value;

use crate::harness::{Finished, Launch, TestDir, Zctrace, zctrace};

/// `zctrace check` with these options.
fn check(options: &[&str]) -> Zctrace {
    options.iter().fold(zctrace().option("check"), |zctrace, &option| zctrace.option(option))
}

/// Checks a script of the shell.
fn of_script(options: &[&str], script: &str) -> Launch {
    check(options).launch_with(&["--", "sh", "-c", script])
}

/// A folder with this `zctrace.toml`.
fn folder(toml: &str) -> TestDir {
    TestDir::with("zctrace.toml", toml)
}

/// Runs the checks of a folder.
fn run_in(folder: &Path, options: &[&str]) -> Finished {
    check(options).dir(folder).launch().finish()
}

/// The results as JSON, with this exit status.
#[track_caller]
fn results(finished: &Finished, status: i32) -> Value {
    assert_eq!(finished.code, Some(status), "{} {}", finished.text(), finished.stderr);
    serde_json::from_str(finished.text()).unwrap_or_else(|error| panic!("{error}: {} {}", finished.text(), finished.stderr))
}
