//! The backends: each runs a command and returns a [`Trace`].

mod callback;
mod control;
pub mod ebpf;
mod file_calls;
mod file_sums;
mod inherited;
mod progress;
mod spans;
pub mod strace;

use std::{
    ffi::OsString,
    fmt, fs, io,
    sync::Arc,
    time::{Duration, SystemTime},
};

use thiserror::Error;
use tokio::sync::Notify;

pub use callback::Callback;
pub use control::SpanControl;
pub use ebpf::KernelTracer;
pub use progress::{OnProgress, Progress};
pub use spans::{Boundaries, OnSpan, SpanCounters, Spans};
pub use zctrace_core::options::{
    AtDuration, Choice, Limits, Listed, Recorded, SampledCalls, Until,
};

use crate::{
    attach::{AttachError, Targets},
    launch::{LaunchError, LaunchOptions, SignalError, interpreter},
    privileges::{self, AfterAttach},
    syscalls::Selection,
    toolchain,
    trace::{Attached, Ends, Exit, STRACE, STRACE_FALLBACK, Trace},
};
use zctrace_core::text::{from_os, plural};

/// What to run, and what to count of it.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Program and arguments; not empty, unless the trace attaches.
    pub command: Vec<OsString>,
    /// What to attach to, instead of launching a command.
    pub attach: Option<Targets>,
    /// Is told when everything is followed that the trace attaches to.
    pub on_attached: Option<fn(&Attached)>,
    /// Which calls are counted.
    pub selection: Selection,
    /// Whether the trace ends with the launched process, or with the last of its descendants.
    pub until: Until,
    /// How the command is started.
    pub launch: LaunchOptions,
    /// Receives the trace so far when SIGUSR1 asks for it. Without it, that signal goes to the
    /// command like others.
    pub on_interim_trace: Option<OnInterimTrace>,
    /// Receives about every second how far the run is.
    pub on_progress: Option<OnProgress>,
    /// How the trace is divided while it goes on, and who gets the spans; `None`: it is not.
    pub spans: Option<Spans>,
    /// How long the trace lasts at most. Then it ends, with its report.
    pub duration: Option<Duration>,
    /// What becomes of the command then. One that goes on is a child of this process until that ends.
    pub at_duration: AtDuration,
    /// Whoever calls `notify_one` ends the trace as at the end of its duration.
    pub stop: Option<Arc<Notify>>,
    /// How long the command may take. Then it is killed, together with everything that it has
    /// started.
    pub timeout: Option<Duration>,
    /// How many rows, files and tasks the kernel side can hold.
    pub limits: Limits,
    /// What is recorded of each call.
    pub recorded: Recorded,
    /// Which processes the trace tells apart.
    pub listed: Listed,
    /// What becomes of zctrace's file capabilities while the command runs.
    pub privileges: AfterAttach,
    /// Whether the backend logs to stderr what it does.
    pub verbose: bool,
}

/// Receives the trace so far while the command keeps running, or the reason why there is none.
pub type OnInterimTrace = Callback<Result<Trace, RunError>>;

/// Why there is no trace. `Debug` shows the same sentence as `Display`, with its causes: that is
/// what `fn main() -> Result<(), RunError>` and `unwrap` print.
#[derive(Error)]
pub enum RunError {
    /// The command could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// It is not possible to attach.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The eBPF backend cannot run here.
    #[error(transparent)]
    Ebpf(#[from] ebpf::EbpfUnavailable),
    /// The strace backend cannot run here.
    #[error(transparent)]
    Strace(#[from] strace::StraceError),
    /// No backend can run here.
    #[error("{ebpf}; strace cannot replace it: {strace}")]
    NoBackend {
        /// Why eBPF cannot.
        ebpf: String,
        /// Why strace cannot.
        strace: strace::StraceError,
    },
    /// The kernel's maps could not be read.
    #[error("cannot read the counts from the kernel")]
    Drain(#[from] aya::maps::MapError),
    /// A signal came that ends the command, too.
    #[error(transparent)]
    Signal(#[from] SignalError),
    /// The command took longer than it may.
    #[error(
        "'{program}' did not end within {limit:?}: zctrace killed it and everything it had started"
    )]
    TimedOut {
        /// The command's program.
        program: String,
        /// Its time limit.
        limit: Duration,
    },
    /// The command ran, but an eBPF program did not.
    #[error(
        "the kernel did not run the attached eBPF program {0}, so nothing is known about the command: use --backend strace, and please report this"
    )]
    SilentProgram(&'static str),
    /// The strace backend cannot report before the end: strace prints most lines late.
    #[error("the strace backend cannot report before the command ends: use --backend ebpf")]
    NoInterimTrace,
    /// A trace was to be divided where it cannot be known when the counts of a span are final.
    #[error(
        "the trace cannot be divided into spans: with one processor or nohz_full, the kernel does not show when the counts of a span are final; ask for one report instead"
    )]
    NoSpans,
    /// Something else failed in the operating system.
    #[error("cannot trace")]
    Io(#[from] io::Error),
}

impl fmt::Debug for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        std::iter::successors(std::error::Error::source(self), |error| error.source())
            .try_for_each(|cause| write!(f, ": {cause}"))
    }
}

impl RunError {
    /// Whether the only problem is that this machine or this user cannot trace. A test may then be
    /// skipped, visibly.
    pub fn is_unavailable(&self) -> bool {
        use strace::StraceError::Unavailable;
        matches!(
            self,
            Self::Ebpf(_) | Self::NoBackend { .. } | Self::Strace(Unavailable(_))
        )
    }

    /// The error of a run that exceeded its time limit.
    fn timed_out(options: &RunOptions) -> Self {
        let program = options.command.first().map(|word| word.to_string_lossy());
        Self::TimedOut {
            program: program.unwrap_or_default().into_owned(),
            limit: options.timeout.unwrap_or_default(),
        }
    }

    /// The exit status if the command could not be started; `None` for other errors.
    pub fn exit_status(&self) -> Option<u8> {
        match self {
            Self::Launch(error) => Some(error.exit_status()),
            _ => None,
        }
    }
}

/// Runs the command under this backend, and finds out what its programs were built with. If `auto`
/// falls back to strace, the trace has a note that says why.
pub fn run(choice: Choice, options: &RunOptions) -> Result<Trace, RunError> {
    run_with(&mut KernelTracer::default(), choice, options)
}

/// As [`run`], with programs that may have served other runs before.
pub fn run_with(
    tracer: &mut KernelTracer,
    choice: Choice,
    options: &RunOptions,
) -> Result<Trace, RunError> {
    let oom_kills_before = oom_kills();
    let trace = run_backend(tracer, choice, options)?;
    let mut trace = complete_trace(trace, options.recorded);
    let has_failed = !matches!(trace.exit, None | Some(Exit::Code(0)));
    let killed = oom_kills().zip(oom_kills_before);
    let killed = killed.map(|(now, before)| now.saturating_sub(before));
    if let Some(killed @ 1..) = killed.filter(|_| has_failed) {
        let processes = plural(killed, "process", "processes");
        trace.notes.push(format!("meanwhile the kernel killed {processes} of this machine for lack of memory (oom_kill in /proc/vmstat)"));
    }
    Ok(trace)
}

fn run_backend(
    tracer: &mut KernelTracer,
    choice: Choice,
    options: &RunOptions,
) -> Result<Trace, RunError> {
    match choice {
        Choice::Ebpf => ebpf::run(options, tracer),
        Choice::Strace => strace::run(options),
        Choice::Auto => match ebpf::run(options, tracer) {
            // This error comes before anything is launched.
            Err(RunError::Ebpf(why)) if !takes_ebpf(options) => {
                let mut trace = strace::run(options).map_err(|error| match error {
                    RunError::Strace(strace) => RunError::NoBackend {
                        ebpf: why.to_string(),
                        strace,
                    },
                    other => other,
                })?;
                let note = format!("{STRACE_FALLBACK}: {why}");
                trace.notes.insert(0, note);
                Ok(trace)
            }
            result => result,
        },
    }
}

/// How many processes of the machine the kernel has killed for lack of memory, of a cgroup or of the
/// machine: `mm/oom_kill.c` of the kernel. `None`: unknown.
fn oom_kills() -> Option<u64> {
    let counters = fs::read_to_string("/proc/vmstat").ok()?;
    let mut lines = counters.lines();
    let count = lines.find_map(|line| line.strip_prefix("oom_kill "))?;
    count.parse().ok()
}

/// Whether the other backend cannot do what is asked for.
fn takes_ebpf(options: &RunOptions) -> bool {
    matches!(options.attach, Some(Targets::Cgroup(_) | Targets::System))
}

/// Removes what was not to be recorded, as far as the backend could not leave it out, and says so.
fn leave_out(mut trace: Trace, recorded: Recorded) -> Trace {
    let processes = trace.all_processes_mut();
    for thread in processes.flat_map(|process| &mut process.threads) {
        if !recorded.has_times() {
            for row in &mut thread.rows {
                (row.times, row.total_ns) = (None, None);
            }
        }
        if !recorded.has_files() {
            thread.parts.clear();
            let rows = thread.rows.iter_mut().chain(&mut thread.ring_rows);
            rows.for_each(|row| row.ends = Ends::default());
        }
    }
    if !recorded.has_times() {
        let note = "the times of calls are unknown because of --counts-only";
        trace.notes.push(note.to_owned());
    }
    if !recorded.has_files() {
        trace.failed_paths = None;
        trace.files.clear();
        let note =
            "files, the paths of failed calls and transfers are unknown because of --no-files";
        trace.notes.push(note.to_owned());
    }
    trace
}

/// Adds what no backend knows: what the programs were built with, which of them ran without the
/// privileges of their file, and what was not to be recorded.
fn complete_trace(trace: Trace, recorded: Recorded) -> Trace {
    let mut trace = leave_out(trace, recorded);
    toolchain::note_toolchains(&mut trace);
    trace
        .notes
        .extend(interpreter::missing_interpreters(&trace));
    let why = " (no_new_privs): zctrace has file capabilities, and its caller is not root";
    let restrained = privileges::is_elevated().then(|| privileges::restrained_note(&trace, why));
    let callers = unknown_callers_note(&trace, recorded);
    trace
        .notes
        .extend(restrained.flatten().into_iter().chain(callers));
    trace
}

/// Why callers are unknown, if they were to be sampled.
fn unknown_callers_note(trace: &Trace, recorded: Recorded) -> Option<String> {
    let why = match trace.backend {
        _ if !recorded.has_callers() || trace.stacks.is_some() => return None,
        STRACE => "--callers needs the eBPF backend",
        _ if !cfg!(feature = "callers") => "this zctrace was built without its feature `callers`",
        _ => "functions get their names when the command ends",
    };
    Some(format!("callers are unknown: {why}"))
}

/// Runs the future to its end in this thread.
fn block_on<T>(future: impl Future<Output = Result<T, RunError>>) -> Result<T, RunError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    runtime.block_on(future)
}

/// The result of the future; `None` if it takes longer than the limit.
async fn within_limit<T>(limit: Option<Duration>, future: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, future).await.ok(),
        None => Some(future.await),
    }
}

/// The trace of a run that has just begun: the machine, the command, its directory.
fn new_trace(
    backend: &'static str,
    options: &RunOptions,
    started_at: SystemTime,
) -> io::Result<Trace> {
    let system = nix::sys::utsname::uname()?;
    let command = options.command.iter();
    // `None` if zctrace's own directory is gone, or no command is launched. Paths are compared with those that the kernel
    // reports, which have no symbolic links.
    let directory = match &options.launch.directory {
        _ if options.attach.is_some() => None,
        Some(directory) => directory.canonicalize().ok(),
        None => std::env::current_dir().ok(),
    };
    // Any pipe or socket may have been open before the attach.
    let inherited = options
        .attach
        .is_none()
        .then(inherited::open_pipes_and_sockets);
    Ok(Trace {
        backend,
        kernel: Some(system.release().to_string_lossy().into_owned()),
        arch: Some(system.machine().to_string_lossy().into_owned()),
        command: command.map(from_os).collect(),
        started_at: Some(started_at),
        counted: Some(options.selection.clone()),
        directory: directory.map(from_os),
        inherited: inherited.flatten(),
        ..Trace::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_the_sentence_of_an_error_with_its_causes() {
        let silent = RunError::SilentProgram("sys_exit");
        assert_eq!(format!("{silent:?}"), silent.to_string());
        let error = RunError::Io(io::Error::other("no more memory"));
        assert_eq!(format!("{error:?}"), "cannot trace: no more memory");
    }
}
