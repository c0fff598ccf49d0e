//! Programs that nobody here wrote: each has the right transfer. What they do was looked up with `strace`; what set-up installs is
//! in xtask/src/setup.

mod archives;
mod coreutils;
mod languages;
mod servers;

use std::fs;

use tempfile::TempDir;

/// Several times any program's buffer, and no multiple of one.
const BYTES: u64 = 300_001;

/// A directory with a file `in` of [`BYTES`].
fn directory() -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let bytes: Vec<u8> = (0..BYTES).map(|index| (index * 7 % 251) as u8).collect();
    fs::write(directory.path().join("in"), bytes).expect("room for a file");
    directory
}

/// Makes sure that a file is the same as `in`.
#[track_caller]
fn assert_copied(directory: &TempDir, name: &str) {
    let read = |name: &str| fs::read(directory.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(read("in") == read(name), "{name} is not what in is");
}
