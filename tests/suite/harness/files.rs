//! Directories, special files and copies of programs for one test. Tests run as root, so a report
//! that goes to the wrong place must not replace a file of the machine.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::wait_until;

/// A directory for one test, deleted with the value.
pub struct TestDir(TempDir);

impl TestDir {
    /// An empty temporary directory.
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    /// An empty directory inside this one.
    pub fn inside(parent: &str) -> Self {
        let made = tempfile::tempdir_in(parent);
        Self(made.unwrap_or_else(|error| panic!("no directory in {parent}: {error}")))
    }

    /// A directory with one file.
    pub fn with(name: &str, content: impl AsRef<[u8]>) -> Self {
        let dir = Self::new();
        dir.write(name, content);
        dir
    }

    /// A directory with a file `in` of so many bytes. No two of its sectors are equal.
    pub fn with_input(bytes: u32) -> Self {
        let words = (0..bytes.div_ceil(4)).map(|number| number.wrapping_mul(0x9e37_79b1));
        let mut content: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        content.truncate(bytes as usize);
        Self::with("in", content)
    }

    /// The directory's path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// A path in the directory.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    /// A path in the directory as a word of a command line.
    pub fn word(&self, name: &str) -> String {
        self.join(name).to_str().expect("a plain path").to_owned()
    }

    /// Writes a file.
    #[track_caller]
    pub fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        fs::write(&path, content)
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        path
    }

    /// The text of a file.
    #[track_caller]
    pub fn read(&self, name: impl AsRef<Path>) -> String {
        let path = self.join(name);
        fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
    }

    /// Waits until a file has its first whole line, and returns that without the line end.
    #[track_caller]
    pub fn wait_for_line(&self, name: &str) -> String {
        let text = || fs::read_to_string(self.join(name)).unwrap_or_default();
        wait_until(name, || text().ends_with('\n'));
        text().trim_end().to_owned()
    }

    /// The names of its entries, in order.
    pub fn names(&self) -> Vec<OsString> {
        let entries = fs::read_dir(self.path()).expect("the directory is ours");
        let names = entries.map(|entry| entry.expect("it can be read").file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    /// Makes sure that it has these entries and no others.
    #[track_caller]
    pub fn assert_has_only(&self, expected: &[&str]) {
        assert_eq!(self.names(), expected, "in {}", self.path().display());
    }
}

/// Makes a FIFO at this path.
pub fn fifo(path: PathBuf) -> PathBuf {
    let made = mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0);
    made.expect("the directory is ours");
    path
}

/// Copies a program that is to be executed. `cp` makes the copy: if this process had it open for
/// writing, a child that another test forks at that moment would have it open as well, and its
/// execution would fail with "Text file busy".
pub fn copy_program(from: &Path, to: &Path) {
    let status = Command::new("cp").arg(from).arg(to).status();
    assert!(status.expect("cp is there").success(), "room for a copy");
}
