//! [`Command`]: runs a program to its end and reports what it did.

use std::{
    ffi::{OsStr, OsString},
    io::{self, PipeReader, Read as _},
    panic::resume_unwind,
    path::PathBuf,
    thread,
    time::Duration,
};

use crate::{
    backend::{
        self, AtDuration, Choice, Limits, Listed, Recorded, RunError, RunOptions, Until, ebpf,
    },
    launch::{LaunchOptions, OnTracerExit, Stream},
    pool::with_tracer,
    privileges::AfterAttach,
    report::{self, Detail, Files, Report},
    syscalls::Selection,
};

/// A program to run and trace, with the interface of [`std::process::Command`].
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
/// The command is traced as `zctrace -- CMD` traces it. If this process is killed, the command is
/// killed too. Several commands may run at the same time in different threads.
#[derive(Debug, Clone)]
pub struct Command {
    options: RunOptions,
    backend: Choice,
}

/// The report and the output of a command: see [`Command::output`].
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// What the command did and how it ended.
    pub report: Report,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
}

impl Command {
    /// A command without arguments. A name without a slash is searched in the `PATH` of the
    /// command.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let mut options = plain_run(vec![program.as_ref().to_owned()]);
        options.launch.on_tracer_exit = OnTracerExit::KillInHost;
        Self {
            options,
            backend: Choice::Auto,
        }
    }

    /// Adds an argument.
    pub fn arg(&mut self, arg: impl AsRef<OsStr>) -> &mut Self {
        self.options.command.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args(&mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Self {
        self.options
            .command
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.options
            .launch
            .environment
            .set(name.as_ref(), value.as_ref());
        self
    }

    /// Removes an environment variable.
    pub fn env_remove(&mut self, name: impl AsRef<OsStr>) -> &mut Self {
        self.options.launch.environment.remove(name.as_ref());
        self
    }

    /// Removes all environment variables.
    pub fn env_clear(&mut self) -> &mut Self {
        self.options.launch.environment.clear();
        self
    }

    /// Sets the working directory. A relative path of the program starts there.
    pub fn current_dir(&mut self, directory: impl Into<PathBuf>) -> &mut Self {
        self.options.launch.directory = Some(directory.into());
        self
    }

    /// Sets its standard input. The default is that of this process, or empty for
    /// [`output`](Self::output).
    pub fn stdin(&mut self, stdin: impl Into<Stream>) -> &mut Self {
        self.options.launch.streams.stdin = stdin.into();
        self
    }

    /// Sets its standard output. The default is that of this process, which a test runner does not
    /// capture.
    pub fn stdout(&mut self, stdout: impl Into<Stream>) -> &mut Self {
        self.options.launch.streams.stdout = stdout.into();
        self
    }

    /// Sets its standard error. The default is that of this process.
    pub fn stderr(&mut self, stderr: impl Into<Stream>) -> &mut Self {
        self.options.launch.streams.stderr = stderr.into();
        self
    }

    /// Selects the calls to count. The default is all calls that move data.
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

    /// Sets the backend. The default is eBPF where it can run, else strace.
    pub fn backend(&mut self, backend: Choice) -> &mut Self {
        self.backend = backend;
        self
    }

    /// Also judges which files were synced in order, for expectations such as `durable("data/**")`.
    ///
    /// ```no_run
    /// # use zctrace::{Command, assert_syscalls};
    /// let report = Command::new("./save").syncs().report()?;
    /// assert_syscalls!(report, r#"durable("data/**")"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn syncs(&mut self) -> &mut Self {
        self.options.recorded = self.options.recorded.with_syncs(true);
        self
    }

    /// Waits for all descendants of the command, not only for the command itself.
    pub fn wait_all(&mut self) -> &mut Self {
        self.options.until = Until::AllEnd;
        self
    }

    /// Records the paths and addresses that it touches ([`Report::touched`]), which expectations such
    /// as `touches(write) within ["out/**"]` need.
    pub fn record_paths(&mut self) -> &mut Self {
        self.options.recorded = self.options.recorded.with_touches(true);
        self
    }

    /// Kills it with all its descendants after this time. That is an error
    /// ([`RunError::TimedOut`]).
    pub fn timeout(&mut self, limit: Duration) -> &mut Self {
        self.options.timeout = Some(limit);
        self
    }

    /// Runs it to its end and reports what it did. A failed command is not an error: see
    /// [`Report::exit`].
    pub fn report(&self) -> Result<Report, RunError> {
        run(self.backend, &self.options)
    }

    /// Runs it to its end and captures its output. Its standard input is empty unless one was set.
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
            // Closes the last writing ends in this process, so that the readers reach the end.
            drop(options);
            let [stdout, stderr] = [stdout, stderr]
                .map(|reader| reader.join().unwrap_or_else(|panic| resume_unwind(panic)));
            Ok(Output {
                report: report?,
                stdout: stdout?,
                stderr: stderr?,
            })
        })
    }
}

/// A run of this command that counts all calls that move data, with every detail, and leaves
/// nothing of what was granted to zctrace to the command.
///
/// Public for the program zctrace only.
#[doc(hidden)]
pub fn plain_run(command: Vec<OsString>) -> RunOptions {
    RunOptions {
        command,
        attach: None,
        on_attached: None,
        selection: Selection::default(),
        until: Until::RootEnds,
        launch: LaunchOptions::default(),
        limits: Limits::default(),
        listed: Listed::All,
        recorded: Recorded::ALL,
        privileges: AfterAttach::Lowered,
        on_interim_trace: None,
        on_progress: None,
        spans: None,
        duration: None,
        at_duration: AtDuration::LeaveRunning,
        stop: None,
        timeout: None,
        verbose: false,
    }
}

/// Runs in a thread of its own: it blocks signals there, and the calling thread may belong to an
/// async runtime.
fn run(choice: Choice, options: &RunOptions) -> Result<Report, RunError> {
    let trace = thread::scope(|scope| {
        let runner = ebpf::own_thread().spawn_scoped(scope, || {
            with_tracer(options, |tracer| backend::run_with(tracer, choice, options))
        })?;
        runner.join().unwrap_or_else(|panic| resume_unwind(panic))
    })?;
    Ok(Report::from_trace(&trace, &all_details()))
}

/// Reports for tests have every detail.
pub(crate) fn all_details() -> report::Options {
    report::Options {
        detail: Detail::Thread,
        files: Files::Listed,
        file_calls: Files::Listed,
        ..report::Options::default()
    }
}

fn read_all(mut pipe: PipeReader) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes)?;
    Ok(bytes)
}
