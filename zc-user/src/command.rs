//! [`Command`]: run a program to its end, and look at what it did.

use std::{
    ffi::OsStr,
    io::{self, PipeReader, Read as _},
    panic::resume_unwind,
    path::PathBuf,
    thread,
    time::Duration,
};

use crate::{
    backend::{self, Choice, Limits, RunError, RunOptions, Until},
    launch::{LaunchOptions, OnTracerExit, Stream},
    privileges::AfterAttach,
    report::{self, Files, Report},
    syscall::Selection,
};

/// A program to run and to trace, in the shape of [`std::process::Command`].
///
/// ```no_run
/// use zctrace::{Command, Sysno};
///
/// let report = Command::new("cp").args(["in.dat", "out.dat"]).report()?;
/// assert_eq!(report.exit.code, Some(0));
/// assert!(report.process("cp")?.syscall(Sysno::copy_file_range)?.calls >= 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The command is traced as `zctrace -- CMD` traces it, and is killed if this process is. Several may run at once, in threads of their own.
#[derive(Debug, Clone)]
pub struct Command {
    options: RunOptions,
    backend: Choice,
}

/// What a command did and wrote: see [`Command::output`].
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// What it did, and how it ended.
    pub report: Report,
    /// What was written to its standard output.
    pub stdout: Vec<u8>,
    /// What was written to its standard error.
    pub stderr: Vec<u8>,
}

impl Command {
    /// A command without arguments. A program without a slash is looked for in the command's `PATH`.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let options = RunOptions {
            command: vec![program.as_ref().to_owned()],
            selection: Selection::default(),
            until: Until::RootEnds,
            launch: LaunchOptions { on_tracer_exit: OnTracerExit::KillInHost, ..LaunchOptions::default() },
            limits: Limits::default(),
            privileges: AfterAttach::Lowered,
            so_far: None,
            timeout: None,
            verbose: false,
        };
        Self { options, backend: Choice::Auto }
    }

    /// Adds an argument.
    pub fn arg(&mut self, arg: impl AsRef<OsStr>) -> &mut Self {
        self.options.command.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args(&mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Self {
        self.options.command.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.options.launch.environment.set(name.as_ref(), value.as_ref());
        self
    }

    /// Takes an environment variable away.
    pub fn env_remove(&mut self, name: impl AsRef<OsStr>) -> &mut Self {
        self.options.launch.environment.remove(name.as_ref());
        self
    }

    /// Takes all environment variables away.
    pub fn env_clear(&mut self) -> &mut Self {
        self.options.launch.environment.clear();
        self
    }

    /// Sets the working directory. A program whose path is not absolute is looked for from there.
    pub fn current_dir(&mut self, directory: impl Into<PathBuf>) -> &mut Self {
        self.options.launch.directory = Some(directory.into());
        self
    }

    /// What it reads from; without, this process's own standard input, or nothing at all for [`output`](Self::output).
    pub fn stdin(&mut self, stdin: impl Into<Stream>) -> &mut Self {
        self.options.launch.streams.stdin = stdin.into();
        self
    }

    /// What it writes to; without, this process's own standard output, which a test runner does not catch.
    pub fn stdout(&mut self, stdout: impl Into<Stream>) -> &mut Self {
        self.options.launch.streams.stdout = stdout.into();
        self
    }

    /// Where it writes its errors; without, this process's own standard error.
    pub fn stderr(&mut self, stderr: impl Into<Stream>) -> &mut Self {
        self.options.launch.streams.stderr = stderr.into();
        self
    }

    /// Which calls are counted; without, everything that moves data.
    ///
    /// ```no_run
    /// # use zctrace::Command;
    /// let report = Command::new("true").syscalls("all".parse()?).report()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn syscalls(&mut self, selection: Selection) -> &mut Self {
        self.options.selection = selection;
        self
    }

    /// What traces it; without, eBPF where it can run, else strace.
    pub fn backend(&mut self, backend: Choice) -> &mut Self {
        self.backend = backend;
        self
    }

    /// Waits for every descendant, not only for the command itself.
    pub fn wait_all(&mut self) -> &mut Self {
        self.options.until = Until::AllEnd;
        self
    }

    /// Has it killed after this time, with all that it has started: an error then ([`RunError::TimedOut`]).
    pub fn timeout(&mut self, limit: Duration) -> &mut Self {
        self.options.timeout = Some(limit);
        self
    }

    /// Runs it to its end, and reports on it. That it failed is no error: see [`Report::exit`].
    pub fn report(&self) -> Result<Report, RunError> {
        run(self.backend, &self.options)
    }

    /// Runs it to its end, with what it writes caught in pipes, and an empty standard input unless another was given.
    pub fn output(&self) -> Result<Output, RunError> {
        let mut options = self.options.clone();
        let streams = &mut options.launch.streams;
        if matches!(streams.stdin, Stream::Inherited) {
            streams.stdin = Stream::null()?;
        }
        let (stdout, writer) = io::pipe()?;
        streams.stdout = writer.into();
        let (stderr, writer) = io::pipe()?;
        streams.stderr = writer.into();
        thread::scope(|scope| {
            let [stdout, stderr] = [stdout, stderr].map(|pipe| scope.spawn(|| read_all(pipe)));
            let report = run(self.backend, &options);
            // The last writers on this side: now the readers can come to an end.
            drop(options);
            let [stdout, stderr] = [stdout, stderr].map(|reader| reader.join().unwrap_or_else(|panic| resume_unwind(panic)));
            Ok(Output { report: report?, stdout: stdout?, stderr: stderr? })
        })
    }
}

/// In a thread of its own: signals are held back there and not here, and this one may belong to an async runtime.
fn run(choice: Choice, options: &RunOptions) -> Result<Report, RunError> {
    let trace = thread::scope(|scope| {
        let runner = thread::Builder::new().name("zctrace".into()).spawn_scoped(scope, || backend::run(choice, options))?;
        runner.join().unwrap_or_else(|panic| resume_unwind(panic))
    })?;
    Ok(Report::from_trace(&trace, &for_tests()))
}

/// What a report has that a test looks at: all that is known.
pub(crate) fn for_tests() -> report::Options {
    report::Options { files: Files::Listed, file_calls: Files::Listed, ..report::Options::default() }
}

fn read_all(mut pipe: PipeReader) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes)?;
    Ok(bytes)
}
