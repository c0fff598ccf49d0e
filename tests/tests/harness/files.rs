//! Files of a test's own: special ones, and copies of programs. Tests run as root: a report that went astray must not replace one of the machine's.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use rustix::fs::{CWD, Dev, FileType, Mode, makedev, mknodat};

/// Makes a FIFO in this directory.
pub fn fifo(dir: &Path) -> PathBuf {
    make(dir, "fifo", FileType::Fifo, 0)
}

/// Makes a FIFO at this path.
pub fn fifo_at(path: &Path) {
    make(
        path.parent().expect("a directory"),
        path.file_name().and_then(|name| name.to_str()).expect("a name"),
        FileType::Fifo,
        0,
    );
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
    made.unwrap_or_else(|error| panic!("cannot make {} (for a device it takes CAP_MKNOD): {error}", path.display()));
    path
}

/// Copies a program, to be executed. By another program: while this one had the copy open for writing, a child that some other test
/// starts at that moment would have it too, and to execute it would fail with "Text file busy".
pub fn copy_program(from: &Path, to: &Path) {
    let status = Command::new("cp").arg(from).arg(to).status().expect("cp is there");
    assert!(status.success(), "room for a copy");
}
