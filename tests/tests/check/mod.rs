//! `zctrace check`: commands that must behave as expected.

mod endings;
mod files;
mod formats;
mod results;

use std::{fs, path::Path};

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Finished, Launch, Zctrace, zctrace};

/// Both backends, as options.
const BACKENDS: [&str; 2] = ["--backend=ebpf", "--backend=strace"];

/// `zctrace check` with these options.
fn check(options: &[&str]) -> Zctrace {
    options.iter().fold(zctrace().option("check"), |zctrace, &option| zctrace.option(option))
}

/// Checks a script of the shell.
fn of_script(options: &[&str], script: &str) -> Launch {
    check(options).launch_with(&["--", "sh", "-c", script])
}

/// A folder with this `zctrace.toml`.
fn folder(toml: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    fs::write(folder.path().join("zctrace.toml"), toml).expect("ours");
    folder
}

/// Runs the checks of a folder.
fn run_in(folder: &Path, options: &[&str]) -> Finished {
    let words: [&str; 0] = [];
    check(options).dir(folder).launch_with(&words).finish()
}

/// The results as JSON, with this exit status.
#[track_caller]
fn results(finished: &Finished, status: i32) -> Value {
    assert_eq!(finished.code, Some(status), "{} {}", finished.text(), finished.stderr);
    serde_json::from_str(finished.text()).unwrap_or_else(|error| panic!("{error}: {} {}", finished.text(), finished.stderr))
}
