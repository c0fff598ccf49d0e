//! Backends: each runs a command in scope and gives back a [`Trace`].

pub mod ebpf;
pub mod strace;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt, io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use thiserror::Error;

pub use zctrace_core::options::{Choice, Limits, Until};

use crate::{
    launch::{LaunchError, LaunchOptions, SignalError},
    privileges::{self, AfterAttach},
    syscall::Selection,
    toolchain,
    trace::Trace,
};

/// What to run, and what to count of it.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Program and arguments; not empty.
    pub command: Vec<OsString>,
    /// Which calls are counted.
    pub selection: Selection,
    /// Whether the trace ends with the launched process, or with the last of its descendants.
    pub until: Until,
    /// How the command is started.
    pub launch: LaunchOptions,
    /// Who gets the trace so far when SIGUSR1 asks for it. Without, that signal goes to the command like others.
    pub so_far: Option<SoFar>,
    /// How long it may take; then it is killed, with all that it has started.
    pub timeout: Option<Duration>,
    /// How much is kept at once.
    pub limits: Limits,
    /// What becomes of zctrace's file capabilities while the command runs.
    pub privileges: AfterAttach,
    /// Whether the backend tells what it does, on stderr.
    pub verbose: bool,
}

/// Gets the trace so far while the command runs on.
#[derive(Clone)]
pub struct SoFar(Arc<dyn Fn(Result<Trace, RunError>) + Send + Sync>);

impl SoFar {
    /// Has this function called with the trace so far, or why there is none.
    pub fn new(show: impl Fn(Result<Trace, RunError>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(show))
    }

    fn give(&self, trace: Result<Trace, RunError>) {
        self.0(trace.map(complete));
    }
}

impl fmt::Debug for SoFar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SoFar")
    }
}

/// Why there is no trace.
#[derive(Debug, Error)]
pub enum RunError {
    /// The command could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The eBPF backend cannot run here.
    #[error(transparent)]
    Ebpf(#[from] ebpf::EbpfUnavailable),
    /// The strace backend cannot run here.
    #[error(transparent)]
    Strace(#[from] strace::StraceError),
    /// No backend can run here.
    #[error("{ebpf}; nor can strace take its place: {strace}")]
    NoBackend {
        /// Why eBPF cannot.
        ebpf: String,
        /// Why strace cannot.
        strace: strace::StraceError,
    },
    /// The kernel's maps could not be read.
    #[error("cannot read what the kernel counted")]
    Drain(#[from] aya::maps::MapError),
    /// A signal came, and the command was not to go on after that.
    #[error(transparent)]
    Signal(#[from] SignalError),
    /// The command took longer than it may.
    #[error("'{program}' did not end within {limit:?}: it was killed, with all that it had started")]
    TimedOut {
        /// The command's program.
        program: String,
        /// How long it was given.
        limit: Duration,
    },
    /// The command ran, and its start was not seen.
    #[error("the kernel did not run the eBPF program sched_process_exec when the command started: nothing of it was counted")]
    UnseenExec,
    /// The strace backend learns of most calls from lines that strace has yet to print.
    #[error("the strace backend has no report before the end of its command: use --backend ebpf")]
    NotSoFar,
    /// A thread cannot trace itself under strace.
    #[error("strace cannot trace a closure, only a command: use the eBPF backend")]
    ClosureUnderStrace,
    /// The operating system refused something else.
    #[error("cannot trace")]
    Io(#[from] io::Error),
}

impl RunError {
    /// The error of the second backend, if that cannot run either, together with that of the first.
    fn after(self, ebpf: String) -> Self {
        if let Self::Strace(strace) = self { Self::NoBackend { ebpf, strace } } else { self }
    }

    /// Whether nothing is wrong but that this machine, or this user, cannot trace: a test may be skipped then, for all to see.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Ebpf(_) | Self::NoBackend { .. } => true,
            Self::Strace(error) => matches!(error, strace::StraceError::Missing | strace::StraceError::Unavailable(_)),
            _ => false,
        }
    }

    /// The error of a run that took longer than it may.
    fn timed_out(options: &RunOptions) -> Self {
        let program = options.command.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        Self::TimedOut { program, limit: options.timeout.unwrap_or_default() }
    }

    /// The exit status of a command that could not be started; `None` if that was not the trouble.
    pub fn exit_status(&self) -> Option<u8> {
        if let Self::Launch(error) = self { Some(error.exit_status()) } else { None }
    }
}

/// Runs a command in scope.
pub trait Backend {
    /// The name in reports.
    fn name(&self) -> &'static str;

    /// Runs the command to its end, and gives back what it did.
    fn run(&self, options: &RunOptions) -> Result<Trace, RunError>;
}

/// Runs the command under the backend of choice, and looks at what its programs were built with. If that is strace only for want of
/// another, the trace has a note that says why.
pub fn run(choice: Choice, options: &RunOptions) -> Result<Trace, RunError> {
    run_backend(choice, options).map(complete)
}

fn run_backend(choice: Choice, options: &RunOptions) -> Result<Trace, RunError> {
    match choice {
        Choice::Ebpf => ebpf::Ebpf.run(options),
        Choice::Strace => strace::Strace.run(options),
        Choice::Auto => match ebpf::Ebpf.run(options) {
            // It says so before it launches anything.
            Err(RunError::Ebpf(why)) => {
                let mut trace = strace::Strace.run(options).map_err(|error| error.after(why.to_string()))?;
                trace.notes.insert(0, format!("backend strace, since eBPF cannot run here: {why}"));
                Ok(trace)
            }
            result => result,
        },
    }
}

/// Adds what no backend knows: what the programs were built with, and what they were kept from.
fn complete(mut trace: Trace) -> Trace {
    toolchain::recognise(&mut trace);
    trace.notes.extend(privileges::restrained_note(&trace));
    trace
}

/// What comes of it within this time; `None` if nothing does.
async fn within<T>(limit: Option<Duration>, future: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, future).await.ok(),
        None => Some(future.await),
    }
}

/// The working directory of a command; `None` if zctrace's own is gone.
fn directory_of(launch: &LaunchOptions) -> Option<PathBuf> {
    let own = std::env::current_dir();
    // Paths are compared with what the kernel shows, and that has no links in it.
    launch.directory.as_ref().map_or_else(|| own.ok(), |directory| directory.canonicalize().ok())
}

/// The trace of a run that has just begun: who runs what, where.
fn new_trace(backend: &'static str, options: &RunOptions, started_at: SystemTime) -> io::Result<Trace> {
    let system = nix::sys::utsname::uname()?;
    Ok(Trace {
        backend,
        kernel: Some(system.release().to_string_lossy().into_owned()),
        arch: Some(system.machine().to_string_lossy().into_owned()),
        command: options.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        started_at: Some(started_at),
        wall_ns: None,
        exit: None,
        losses: BTreeMap::new(),
        notes: Vec::new(),
        counted: Some(options.selection.clone()),
        directory: directory_of(&options.launch).map(|path| path.to_string_lossy().into_owned()),
        files: Vec::new(),
        calls_without_files: 0,
        sees_memory: false,
        processes: Vec::new(),
    })
}
