//! [`trace()`]: what a piece of this very program does.

use crate::{
    backend::{Choice, Limits, RunError, RunOptions, Until, ebpf},
    command::for_tests,
    launch::LaunchOptions,
    privileges::AfterAttach,
    report::Report,
    syscall::Selection,
    toolchain,
};

/// Runs a closure in this thread, and reports on what this thread and whatever it creates meanwhile do: threads and child processes,
/// however deep. Gives back what the closure returned, too.
///
/// ```no_run
/// use std::{fs::File, io};
/// use zctrace::Sysno;
///
/// let (mut from, mut to) = (File::open("in.dat")?, File::create("out.dat")?);
/// let (copied, report) = zctrace::trace(|| io::copy(&mut from, &mut to))?;
/// assert_eq!(report.syscall(Sysno::copy_file_range)?.bytes, Some(copied?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Counting begins with the closure and ends with it. Threads of this process that were there before are not counted, whatever they do: a
/// thread pool (tokio's, rayon's) among them. If they make calls of the selection meanwhile, that may be work of the closure: the report
/// is not [exact](Report::exact) then, and says how many calls it were. So start a pool within the closure, and run such a test in a
/// process of its own, as nextest does; other tests of the same process are other threads, too. What the closure leaves running is counted up to its end. zctrace's own calls are in no figure, unless
/// the closure itself traces something: then they are its calls.
///
/// Traces in several threads stand side by side, as in a test runner; each takes a fraction of a second to begin. If the closure panics,
/// the trace ends and the panic goes on.
///
/// It needs the eBPF backend, since a thread cannot be its own ptrace(2) tracer. Where that cannot run,
/// [`RunError::is_unavailable`] tells a test that it may be skipped: see [the crate's documentation](crate#where-nothing-can-be-traced).
pub fn trace<R>(closure: impl FnOnce() -> R) -> Result<(R, Report), RunError> {
    Tracer::new().trace(closure)
}

/// [`trace()`] with options.
///
/// ```no_run
/// let (_, report) = zctrace::Tracer::new().syscalls("openat,%network".parse()?).trace(|| std::fs::read("in.dat"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Tracer {
    selection: Selection,
    limits: Limits,
    backend: Choice,
}

impl Tracer {
    /// Counts everything that moves data.
    pub fn new() -> Self {
        Self::default()
    }

    /// Which calls are counted.
    #[must_use]
    pub fn syscalls(mut self, selection: Selection) -> Self {
        self.selection = selection;
        self
    }

    /// How much is kept at once.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What traces it. Of all backends eBPF alone can; strace is refused ([`RunError::ClosureUnderStrace`]).
    #[must_use]
    pub fn backend(mut self, backend: Choice) -> Self {
        self.backend = backend;
        self
    }

    /// Runs a closure: see [`trace()`].
    pub fn trace<R>(&self, closure: impl FnOnce() -> R) -> Result<(R, Report), RunError> {
        if self.backend == Choice::Strace {
            return Err(RunError::ClosureUnderStrace);
        }
        let options = RunOptions {
            command: std::env::args_os().collect(),
            selection: self.selection.clone(),
            until: Until::RootEnds,
            launch: LaunchOptions::default(),
            limits: self.limits,
            privileges: AfterAttach::Lowered,
            so_far: None,
            timeout: None,
            verbose: false,
        };
        let (value, mut trace) = ebpf::closure::run(&options, closure)?;
        toolchain::recognise(&mut trace);
        Ok((value, Report::from_trace(&trace, &for_tests())))
    }
}
