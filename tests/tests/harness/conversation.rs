//! Talking with a program while it runs.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{ChildStdin, ChildStdout},
};

use rustix::process::{Pid, Signal};

use super::{Group, launch::Capture};

/// A running program with pipes at its stdin and stdout.
pub struct Conversation {
    group: Group,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    stderr: Capture,
}

impl Conversation {
    pub(super) fn new(mut group: Group, stderr: Capture) -> Self {
        let stdin = group.child().stdin.take();
        let stdout = BufReader::new(group.child().stdout.take().expect("a pipe"));
        Self { group, stdin, stdout, stderr }
    }

    /// The program's id.
    pub fn pid(&self) -> Pid {
        self.group.pid()
    }

    /// Waits for the next line, without its end.
    #[track_caller]
    pub fn hear(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("text");
        assert!(line.ends_with('\n'), "it said no more than {line:?}");
        line.trim_end().to_owned()
    }

    /// Waits for the next line, which must be this one.
    #[track_caller]
    pub fn expect(&mut self, line: &str) {
        assert_eq!(self.hear(), line);
    }

    /// Sends a line to its stdin.
    pub fn say(&mut self, line: &str) {
        self.stdin.as_mut().expect("still open").write_all(format!("{line}\n").as_bytes()).expect("it reads");
    }

    /// Sends a signal to the program alone.
    pub fn signal(&self, signal: Signal) {
        self.group.signal(signal);
    }

    /// Whether the program has ended.
    pub fn has_ended(&self) -> bool {
        self.group.has_ended()
    }

    /// Waits for the program's end, without closing its stdin: its exit status, or `None` if a signal killed it.
    pub fn wait(&self) -> Option<i32> {
        self.group.wait()
    }

    /// What it has written to stderr so far.
    pub fn stderr_so_far(&self) -> String {
        self.stderr.text_so_far()
    }

    /// What it wrote to stderr.
    pub fn into_stderr(self) -> String {
        self.stderr.text()
    }
}
