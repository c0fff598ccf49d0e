//! The strace backend by itself: who may use it, how it ends, what a command notices of it.

mod counts;
mod inherited;
mod killed;
mod launching;
mod privileges;
mod refused;
mod scope;

use std::{fs, path::Path};

use tempfile::TempDir;

use crate::harness::{Zctrace, zctrace};

/// zctrace with this backend.
fn strace() -> Zctrace {
    zctrace().option("--backend=strace")
}

/// The same, with a folder of its own for temporary files.
fn strace_with_own_tmp() -> (Zctrace, TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    (strace().env("TMPDIR", dir.path()), dir)
}

/// Makes sure that nothing was left in a folder.
#[track_caller]
fn assert_empty(dir: &Path) {
    let left: Vec<_> = fs::read_dir(dir).expect("ours").filter_map(Result::ok).map(|entry| entry.file_name()).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}
