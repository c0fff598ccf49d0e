//! The copiers by themselves: they copy the right bytes between all ends, also if signals interrupt
//! them or a peer fails.

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

/// The cases that a copier lists, each with the equal case of the other copier.
pub fn cases(copier: &Program) -> Vec<(String, Option<String>)> {
    let list = untraced(&copier.clone().arg("--list")).finish();
    let case = |line: &str| {
        let mut words = line.split_ascii_whitespace().map(str::to_owned);
        let name = words.next().expect("a name");
        (name, words.next().filter(|twin| twin != "-"))
    };
    list.successful().lines().map(case).collect()
}

/// A directory of a test's own with a file to copy.
pub struct Scene {
    dir: TestDir,
    /// The content of the file. No two of its sectors are equal.
    pub bytes: Vec<u8>,
}

impl Scene {
    /// A directory with a file of this size.
    pub fn new(size: u32) -> Self {
        let words = (0..size / 4).map(|number| number.wrapping_mul(0x9e37_79b1));
        let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        let dir = TestDir::with("in", &bytes);
        Self { dir, bytes }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A path in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The content of a file in the directory.
    #[track_caller]
    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).expect("it is there")
    }

    /// A path in the directory as an argument of a copier, after a prefix.
    pub fn spec(&self, prefix: &str, name: &str) -> String {
        format!("{prefix}{}", self.path(name).display())
    }

    /// Whether the directory has only the file to copy.
    pub fn is_tidy(&self) -> bool {
        self.dir.names() == ["in"]
    }
}

/// The other side of a socket: `copier sink`, or `copier feed`.
pub struct Side {
    /// The process.
    pub talk: Conversation,
    /// The address, as the argument of the copier that connects to it.
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
        let Some(spec) = line.strip_prefix("listening ") else {
            panic!("not what {words:?} says: {line}")
        };
        let spec = spec.to_owned();
        Self { talk, spec }
    }

    /// Its last line, after a successful end.
    #[track_caller]
    pub fn last_line(mut self) -> String {
        let line = self.talk.hear();
        assert_eq!(self.talk.wait(), Some(0), "{line}");
        line
    }
}

/// The checksum of these bytes, as the copiers print it.
pub fn crc32(bytes: &[u8]) -> String {
    format!("crc32 {:08x}", crc32fast::hash(bytes))
}

/// A block device with the contents of a file.
pub struct LoopDevice(String);

impl LoopDevice {
    pub fn for_file(file: &Path) -> Self {
        let mut losetup = Command::new("losetup");
        let output = losetup.args(["--find", "--show"]).arg(file).output();
        let output = output.expect("losetup is there");
        assert!(output.status.success(), "{output:?}");
        let path = String::from_utf8(output.stdout).expect("a path");
        Self(path.trim_end().to_owned())
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
