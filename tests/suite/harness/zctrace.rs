//! Runs `zctrace` with the options of a test, and reads its report.

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::PathBuf,
};

use rustix::process::geteuid;
use zc_tests::{BIN_VARIABLE, zctrace_to_test};
use zctrace::report::{Report, violations};

use super::{Conversation, Finished, Program, Run, TestDir};

/// A run of zctrace, before it is started.
#[derive(Clone)]
pub struct Zctrace {
    launch: Program,
    through: Vec<OsString>,
    options: Vec<OsString>,
}

/// The zctrace to test. It needs root, so a test without root fails.
pub fn zctrace() -> Zctrace {
    assert!(geteuid().is_root(), "needs root: run `cargo xtask test`");
    Zctrace {
        launch: Program::default(),
        through: Vec::new(),
        options: Vec::new(),
    }
}

/// The options that choose each backend.
pub const BACKENDS: [&str; 2] = ["--backend=ebpf", "--backend=strace"];

/// A zctrace for each backend.
pub fn each_backend() -> [Zctrace; 2] {
    BACKENDS.map(|backend| zctrace().option(backend))
}

/// The path of the zctrace to test, which is there.
pub fn binary() -> PathBuf {
    let path = zctrace_to_test();
    assert!(
        path.is_file(),
        "there is no {}: run `cargo xtask test`, or name it in {BIN_VARIABLE}",
        path.display()
    );
    path
}

impl Zctrace {
    /// Adds an option, as one word.
    pub fn option(mut self, option: impl Into<OsString>) -> Self {
        self.options.push(option.into());
        self
    }

    /// Adds options, each as one word.
    pub fn options(self, options: &[&str]) -> Self {
        options.iter().copied().fold(self, Self::option)
    }

    /// Writes the report to this file, as JSON.
    pub fn json_to(self, path: impl Into<OsString>) -> Self {
        self.option("--format=json").option("--output").option(path)
    }

    /// Reports calls by thread.
    pub fn by_thread(self) -> Self {
        self.option("--by=thread")
    }

    /// Uses this backend and no other.
    pub fn backend(self, name: &str) -> Self {
        self.option(format!("--backend={name}"))
    }

    /// Uses the eBPF backend and no other.
    pub fn ebpf(self) -> Self {
        self.backend("ebpf")
    }

    /// Counts these calls.
    pub fn syscalls(self, set: &str) -> Self {
        self.option(format!("--syscalls={set}"))
    }

    /// Starts it through another program, like `unshare`.
    pub fn through(mut self, words: &[impl AsRef<OsStr>]) -> Self {
        self.through
            .extend(words.iter().map(|word| word.as_ref().to_owned()));
        self
    }

    /// Starts it by a script of bash, in which `"$@"` stands for it.
    pub fn by_script(self, script: &str) -> Self {
        self.through(&["bash", "-c", script, "bash"])
    }

    /// Starts it in a mount namespace of its own, after a script that may mount something there.
    pub fn with_mounts(self, script: &str) -> Self {
        let script = format!("{script} && exec \"$@\"");
        self.through(&["unshare", "--mount"]).by_script(&script)
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.launch = self.launch.env(name, value);
        self
    }

    /// Sets the working directory.
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.launch = self.launch.dir(dir);
        self
    }

    /// Gives it a pipe with these bytes as stdin.
    pub fn input(mut self, bytes: &[u8]) -> Self {
        self.launch = self.launch.input(bytes);
        self
    }

    /// Traces the program to its end and reads the report from a JSON file. Unless the test chooses
    /// a backend, it must be eBPF, so that strace does not take over unnoticed.
    #[track_caller]
    pub fn run(self, program: &Program) -> Run {
        let may_be_any = self.has_option("--backend");
        let run = self.run_with_any_backend(program);
        let Report { backend, notes, .. } = &run.report;
        assert!(
            may_be_any || backend == "ebpf",
            "backend {backend}: {notes:?}"
        );
        run
    }

    /// The same; the report must be exact.
    #[track_caller]
    pub fn run_exactly(self, program: &Program) -> Run {
        let run = self.run(program);
        run.assert_exact();
        run
    }

    /// The same with any backend.
    #[track_caller]
    pub fn run_with_any_backend(self, program: &Program) -> Run {
        let report = ReportFile::new();
        let finished = self.json_to(report.path()).show(program);
        Run {
            report: report.read(&finished.stderr),
            finished,
        }
    }

    /// Traces the program to its end; the options say where the report goes.
    pub fn show(self, program: &Program) -> Finished {
        self.launch_of(program).finish()
    }

    /// Starts to trace the program. The report is written as JSON.
    pub fn start(self, program: &Program) -> (Conversation, ReportFile) {
        let report = ReportFile::new();
        let zctrace = self.json_to(report.path());
        (zctrace.launch_of(program).start(), report)
    }

    /// Starts it without a command, to attach. The report is written as JSON.
    pub fn start_without_command(self) -> (Conversation, ReportFile) {
        let report = ReportFile::new();
        let zctrace = self.json_to(report.path());
        (zctrace.launch().start(), report)
    }

    /// Whether an option begins like this.
    fn has_option(&self, name: &str) -> bool {
        let mut options = self.options.iter();
        options.any(|option| option.to_string_lossy().starts_with(name))
    }

    /// Runs it with these words after its options, and no `--` before them.
    pub fn finish_with(self, words: &[impl AsRef<OsStr>]) -> Finished {
        self.launch_with(words).finish()
    }

    /// Holds a program against this expectation.
    #[track_caller]
    pub fn check(self, expectation: &str, program: &Program) -> Finished {
        self.subcommand("check")
            .options(&["--expect", expectation])
            .show(program)
    }

    /// The report on the log that [`Program::log_in`] wrote.
    #[track_caller]
    pub fn report_on_log(self, dir: &TestDir) -> Report {
        let report = self.subcommand("report").option("--format=json");
        report.dir(dir.path()).finish_with(&["log"]).report()
    }

    fn subcommand(mut self, name: &str) -> Self {
        self.options.insert(0, name.into());
        self
    }

    /// Runs it without further words.
    pub fn finish(self) -> Finished {
        self.launch().finish()
    }

    /// The whole command line.
    pub fn launch_of(self, program: &Program) -> Program {
        self.option("--").launch_with(program.words())
    }

    /// A command line with no words after the options.
    pub fn launch(self) -> Program {
        self.launch_with(&[""; 0])
    }

    /// A command line with these words at its end, and no `--` before them.
    pub fn launch_with(self, words: &[impl AsRef<OsStr>]) -> Program {
        let launch = self.launch.args(&self.through).arg(binary());
        launch.args(&self.options).args(words)
    }
}

/// The file that a report will be written to.
pub struct ReportFile(TestDir);

impl ReportFile {
    fn new() -> Self {
        Self(TestDir::new())
    }

    fn path(&self) -> PathBuf {
        self.0.join("report.json")
    }

    /// Whether the report was written.
    pub fn is_there(&self) -> bool {
        self.path().exists()
    }

    /// Reads the report, whose sums must add up; `stderr` is shown if there is none.
    #[track_caller]
    pub fn read(&self, stderr: &str) -> Report {
        let text = fs::read_to_string(self.path())
            .unwrap_or_else(|error| panic!("no report: {error}; stderr: {stderr}"));
        let report = Report::from_json(&text)
            .unwrap_or_else(|error| panic!("the report cannot be read: {error}\n{text}"));
        assert_eq!(violations(&report), [""; 0], "its sums do not add up");
        report
    }
}
