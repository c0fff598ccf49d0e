//! Directories, special files and copies of programs for one test. Tests run as root, so a report
//! that goes to the wrong place must not replace a file of the machine.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::fs::{CWD, Dev, FileType, Mode, makedev, mknodat};
use tempfile::TempDir;

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

    /// The directory's path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// A path in the directory.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file.
    #[track_caller]
    pub fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        fs::write(&path, content)
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        path
    }

    /// Writes a file with these permissions.
    #[track_caller]
    pub fn write_with_mode(&self, name: &str, content: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = self.write(name, content);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("the file is ours");
        path
    }

    /// Writes a script that everybody may run.
    #[track_caller]
    pub fn executable(&self, name: &str, content: &str) -> PathBuf {
        self.write_with_mode(name, content, 0o755)
    }

    /// The text of a file.
    #[track_caller]
    pub fn read(&self, name: impl AsRef<Path>) -> String {
        let path = self.join(name);
        fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
    }

    /// Sets the permissions of the directory.
    pub fn set_mode(&self, mode: u32) {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(self.path(), mode).expect("the directory is ours");
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

    /// Makes sure that it is empty.
    #[track_caller]
    pub fn assert_empty(&self) {
        self.assert_has_only(&[]);
    }
}

/// Makes a FIFO in this directory.
pub fn fifo(dir: &Path) -> PathBuf {
    make(dir, "fifo", FileType::Fifo, 0)
}

/// Makes a FIFO at this path.
pub fn fifo_at(path: &Path) {
    let name = path.file_name().and_then(|name| name.to_str());
    let dir = path.parent().expect("a directory");
    make(dir, name.expect("a name"), FileType::Fifo, 0);
}

/// Makes a `/dev/null` in this directory.
pub fn null(dir: &Path) -> PathBuf {
    make(dir, "null", FileType::CharacterDevice, makedev(1, 3))
}

/// Makes a `/dev/full` in this directory.
pub fn full(dir: &Path) -> PathBuf {
    make(dir, "full", FileType::CharacterDevice, makedev(1, 7))
}

fn make(dir: &Path, name: &str, kind: FileType, device: Dev) -> PathBuf {
    let path = dir.join(name);
    let made = mknodat(CWD, &path, kind, Mode::RUSR | Mode::WUSR, device);
    assert_eq!(
        made,
        Ok(()),
        "{} (for a device it takes CAP_MKNOD)",
        path.display()
    );
    path
}

/// Copies a program that is to be executed. `cp` makes the copy: if this process had it open for
/// writing, a child that another test forks at that moment would have it open as well, and its
/// execution would fail with "Text file busy".
pub fn copy_program(from: &Path, to: &Path) {
    let status = Command::new("cp").arg(from).arg(to).status();
    assert!(status.expect("cp is there").success(), "room for a copy");
}
