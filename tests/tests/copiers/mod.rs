//! The copiers by themselves: they copy the right bytes between all ends, and neither signals nor failing peers harm a copy.

mod apis;
mod copies;
mod endings;
mod errors;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::harness::{Conversation, Program, TestDir, c, program, untraced};

/// The copier in Rust.
pub fn in_rust() -> Program {
    program(env!("CARGO_BIN_EXE_copier"))
}

/// The copier in C.
pub fn in_c() -> Program {
    c("copier-c")
}

/// A copy.
pub fn copy(copier: &Program, case: &str, from: &str, to: &str) -> Program {
    copier.clone().args(&[case, "--from", from, "--to", to])
}

/// The cases that a copier lists, each with its twin in the other one.
pub fn cases(copier: &Program) -> Vec<(String, Option<String>)> {
    let list = untraced(&copier.clone().arg("--list")).finish();
    let case = |line: &str| {
        let mut words = line.split_ascii_whitespace().map(str::to_owned);
        (words.next().expect("a name"), words.next().filter(|twin| twin != "-"))
    };
    list.successful().lines().map(case).collect()
}

/// A directory of a test's own with a file to copy.
pub struct Scene {
    dir: TestDir,
    /// What the file holds: more than a pipe does, whole sectors, and no two of them alike.
    pub bytes: Vec<u8>,
}

impl Scene {
    /// One with a file of this size.
    pub fn new(size: u32) -> Self {
        let bytes: Vec<u8> = (0..size / 4).flat_map(|number| number.wrapping_mul(0x9e37_79b1).to_le_bytes()).collect();
        let this = Self { dir: TestDir::new(), bytes };
        fs::write(this.path("in"), &this.bytes).expect("room for it");
        this
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A path in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The same, as a copier takes it, after a prefix.
    pub fn spec(&self, prefix: &str, name: &str) -> String {
        format!("{prefix}{}", self.path(name).display())
    }

    /// Whether there is nothing in the directory but what is to be copied.
    pub fn is_tidy(&self) -> bool {
        let names = fs::read_dir(self.dir()).expect("ours").map(|entry| entry.expect("ours").file_name());
        names.collect::<Vec<_>>() == ["in"]
    }
}

/// The other side of a socket: `copier sink`, or `copier feed`.
pub struct Side {
    /// The process.
    pub talk: Conversation,
    /// What the copier is to be given as its end.
    pub spec: String,
}

impl Side {
    /// `copier sink ADDRESS --checksum`, once it listens.
    pub fn sink(address: &str) -> Self {
        Self::start(&["sink", address, "--checksum"])
    }

    /// `copier feed ADDRESS --from FROM`, once it listens.
    pub fn feed(address: &str, from: &str) -> Self {
        Self::start(&["feed", address, "--from", from])
    }

    fn start(words: &[&str]) -> Self {
        let mut talk = untraced(&in_rust().args(words)).start();
        let line = talk.hear();
        let spec = line.strip_prefix("listening ").unwrap_or_else(|| panic!("not what {words:?} says: {line}"));
        Self { spec: spec.to_owned(), talk }
    }

    /// Its last line, after a successful end.
    #[track_caller]
    pub fn last_line(mut self) -> String {
        let line = self.talk.hear();
        assert_eq!(self.talk.wait(), Some(0), "{line}");
        line
    }
}

/// The checksum of these bytes, as the copiers tell it.
pub fn crc32(bytes: &[u8]) -> String {
    format!("crc32 {:08x}", crc32fast::hash(bytes))
}

/// A block device with the contents of a file.
pub struct LoopDevice(String);

impl LoopDevice {
    pub fn of(file: &Path) -> Self {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output().expect("losetup is there");
        assert!(output.status.success(), "losetup: {}", String::from_utf8_lossy(&output.stderr));
        Self(String::from_utf8(output.stdout).expect("a path").trim_end().to_owned())
    }

    pub fn path(&self) -> &str {
        &self.0
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}
