//! Starts programs in an environment that is the same on every machine.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    fs::File,
    io::Write as _,
    os::unix::fs::FileExt as _,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
};

use serde_json::Value;
use zctrace::report::Report;

use super::{Conversation, ProcessGroup, TestDir};

/// Variables that change the output of zctrace, strace or a C program.
const UNWANTED: &str = "NO_COLOR CLICOLOR_FORCE TERM COLUMNS LANG LANGUAGE ZCTRACE_BTF";

/// A program to start: its words, environment, directory and input.
#[derive(Clone, Debug, Default)]
pub struct Program {
    words: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    dir: Option<PathBuf>,
    input: Option<Vec<u8>>,
}

/// A case of the program `workload`, by its name.
pub fn workload(case: &str) -> Program {
    program(env!("CARGO_BIN_EXE_workload")).arg(case)
}

/// A C program of this package, by its name.
pub fn c(name: &str) -> Program {
    program(zc_tests::program_beside(name))
}

/// Any program, by its name or path.
pub fn program(name: impl Into<OsString>) -> Program {
    Program::default().arg(name)
}

/// The words of a line without quotes.
pub fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// A script for `sh`.
pub fn shell(script: &str) -> Program {
    program("sh").arg("-c").arg(script)
}

/// A program in Python, which loads no more than that takes.
pub fn python(script: &str) -> Program {
    program("/usr/bin/python3").args(&["-I", "-S", "-c", script])
}

/// A program that prints `ready` and then waits for a signal.
pub fn waiting() -> Program {
    shell("echo ready; exec sleep 100")
}

/// The same program, to be started without zctrace.
pub fn untraced(program: &Program) -> Program {
    program.clone()
}

impl Program {
    /// Adds an argument.
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.words.push(argument.into());
        self
    }

    /// Adds arguments.
    pub fn args(self, arguments: &[impl AsRef<OsStr>]) -> Self {
        arguments.iter().map(AsRef::as_ref).fold(self, Self::arg)
    }

    /// The same, started by another program, such as `unshare`.
    pub fn through(mut self, words: &[&str]) -> Self {
        self.words.splice(..0, words.iter().map(OsString::from));
        self
    }

    /// The same on a new terminal with this many columns, whose keys and screen are stdin and
    /// stdout.
    pub fn on_terminal(&self, columns: u16) -> Self {
        let words = self.words.iter().map(|word| word.to_str().expect("text"));
        let command = shell_words::join(words);
        // Without noflsh, the kernel drops output that comes just after a key that sends a signal.
        let line = format!("stty rows 24 cols {columns} noflsh && exec {command}");
        let words = ["script", "-qefc", &line, "/dev/null"].map(OsString::from);
        Self {
            words: words.to_vec(),
            ..self.clone()
        }
    }

    /// The program and its arguments.
    pub fn words(&self) -> &[OsString] {
        &self.words
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Sets the working directory.
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Gives it a pipe with these bytes as stdin. Without this, stdin is `/dev/null`.
    pub fn input(mut self, bytes: &[u8]) -> Self {
        self.input = Some(bytes.to_vec());
        self
    }

    /// The command; its standard streams are not set yet.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        for name in UNWANTED.split(' ') {
            command.env_remove(name);
        }
        command.env("LC_ALL", "C").envs(self.env.iter().cloned());
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        command
    }

    /// Runs it to its end.
    pub fn finish(&self) -> Finished {
        // These are files, not pipes: a process that outlives the program may keep a pipe open.
        let (stdout, stderr) = (Capture::new(), Capture::new());
        let mut command = self.command();
        let has_input = self.input.is_some();
        command.stdin(if has_input {
            Stdio::piped()
        } else {
            Stdio::null()
        });
        command.stdout(stdout.stdio()).stderr(stderr.stdio());
        let mut group = ProcessGroup::start(&mut command);
        if let (Some(mut stdin), Some(input)) = (group.child().stdin.take(), self.input.clone()) {
            // The program may exit without reading all of it.
            thread::spawn(move || drop(stdin.write_all(&input)));
        }
        let code = group.wait();
        let (stdout, stderr) = (stdout.bytes(), stderr.text());
        Finished {
            code,
            stdout,
            stderr,
            group,
        }
    }

    /// Runs it under strace with these options, and returns what that wrote into the file `log` of
    /// this directory.
    #[track_caller]
    pub fn log_in(&self, dir: &TestDir, options: &[&str]) -> String {
        let strace = program("strace").args(options).args(&["-o", "log"]);
        let strace = strace.args(&self.words).dir(dir.path());
        strace.finish().exits(0);
        dir.read("log")
    }

    /// Starts it, to talk with it through pipes.
    pub fn start(&self) -> Conversation {
        let stderr = Capture::new();
        let mut command = self.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(stderr.stdio());
        Conversation::new(ProcessGroup::start(&mut command), stderr)
    }
}

/// How a program ended, and what it wrote.
pub struct Finished {
    /// Its exit status; `None` if a signal killed it.
    pub code: Option<i32>,
    /// What it wrote to stdout.
    pub stdout: Vec<u8>,
    /// What it wrote to stderr.
    pub stderr: String,
    /// The program and the rest of its process group.
    pub group: ProcessGroup,
}

impl Finished {
    /// What it wrote to stdout, as text.
    pub fn text(&self) -> &str {
        str::from_utf8(&self.stdout).expect("text")
    }

    /// What it wrote to stdout, as text. It must have succeeded.
    #[track_caller]
    pub fn successful(&self) -> &str {
        self.exits(0).text()
    }

    /// What it wrote to stdout, as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// The report that it wrote to stdout.
    #[track_caller]
    pub fn report(&self) -> Report {
        Report::from_json(self.text()).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// Makes sure that this was the exit status.
    #[track_caller]
    pub fn exits(&self, status: i32) -> &Self {
        assert_eq!(self.code, Some(status), "exit status of {self}");
        self
    }

    /// Makes sure that it wrote these words to stderr.
    #[track_caller]
    pub fn says(&self, words: &str) -> &Self {
        assert!(self.stderr.contains(words), "no {words:?} in {self}");
        self
    }

    /// Makes sure that it wrote all of these words to stderr.
    #[track_caller]
    pub fn says_all(&self, words: &[&str]) -> &Self {
        words.iter().fold(self, |this, words| this.says(words))
    }

    /// Makes sure that it did not write these words to stderr.
    #[track_caller]
    pub fn never_says(&self, words: &str) -> &Self {
        assert!(!self.stderr.contains(words), "{words:?} in {self}");
        self
    }

    /// Makes sure that this is all that it wrote to stderr.
    #[track_caller]
    pub fn says_only(&self, text: &str) -> &Self {
        assert_eq!(self.stderr, text, "stderr of {self}");
        self
    }

    /// Makes sure that it wrote these words to stdout.
    #[track_caller]
    pub fn prints(&self, words: &str) -> &Self {
        assert!(self.text().contains(words), "no {words:?} in {self}");
        self
    }

    /// Makes sure that it wrote all of these words to stdout.
    #[track_caller]
    pub fn prints_all(&self, words: &[&str]) -> &Self {
        words.iter().fold(self, |this, words| this.prints(words))
    }

    /// Makes sure that it did not write these words to stdout.
    #[track_caller]
    pub fn never_prints(&self, words: &str) -> &Self {
        assert!(!self.text().contains(words), "{words:?} in {self}");
        self
    }

    /// Makes sure that this is all that it wrote to stdout.
    #[track_caller]
    pub fn prints_only(&self, text: &str) -> &Self {
        assert_eq!(self.text(), text, "stdout of {self}");
        self
    }
}

impl fmt::Display for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stdout = String::from_utf8_lossy(&self.stdout);
        write!(
            f,
            "{:?}, stdout: {stdout}\nstderr: {}",
            self.code, self.stderr
        )
    }
}

/// A file that collects what a program writes.
pub struct Capture(File);

impl Capture {
    pub fn new() -> Self {
        Self(tempfile::tempfile().expect("a temporary file"))
    }

    pub fn stdio(&self) -> Stdio {
        self.0.try_clone().expect("one more descriptor").into()
    }

    /// What was written so far. This does not move the file position, which the writing program
    /// shares.
    pub fn bytes(&self) -> Vec<u8> {
        let length = self.0.metadata().expect("a file").len();
        let mut bytes = vec![0; usize::try_from(length).expect("short")];
        self.0.read_exact_at(&mut bytes, 0).expect("it is a file");
        bytes
    }

    /// The same as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }
}
