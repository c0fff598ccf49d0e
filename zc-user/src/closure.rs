//! [`trace()`]: reports what a part of this process does.

use std::cell::RefCell;

use crate::{
    backend::{Limits, RunError, RunOptions, ebpf},
    command::{all_details, plain_run},
    pool::with_tracer,
    report::Report,
    syscalls::Selection,
    toolchain,
};

thread_local! {
    /// Why this thread could trace no closure.
    static REFUSAL: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Why this thread could trace no closure since this was asked last. `None`: it could, or has not
/// tried.
pub(crate) fn take_refusal() -> Option<String> {
    REFUSAL.take()
}

/// Runs a closure in this thread and reports what it did. Counted are this thread and all threads
/// and child processes that it creates meanwhile, and those that they create. Returns the result of
/// the closure as well.
///
/// Counting starts and ends with the closure. Threads that this process already has are not
/// counted, such as those of other tests, or a thread pool of tokio or rayon. An idle worker of a
/// pool sleeps until it is woken, so what a thread does that the closure wakes may be its work: if
/// such a thread makes selected calls, the report is not [exact](Report::exact) and says how many
/// they were. The same holds for the threads that this one wakes. So start a pool within the
/// closure. The closure begins when no other thread is awake but those that trace; if one takes 50 ms
/// of CPU time without a pause, the calls of all count as such. What is not seen is work that a thread takes because somebody else has
/// woken it: do not share a busy pool with other closures. What the closure leaves running is
/// counted until the closure ends. Calls of zctrace itself are not counted, unless the closure
/// itself traces something.
///
/// Several threads may trace at the same time, as in a test runner. The first trace takes a fraction
/// of a second to start, later ones a few milliseconds: the programs stay in the kernel, and attached
/// for up to a second after the last trace. As long as they are attached, every call on the machine
/// takes some 0.1 us more. If the closure panics, the trace ends and the panic continues.
///
/// Only the eBPF backend can do this, because a thread cannot ptrace(2) itself. Where eBPF cannot
/// run, [`RunError::is_unavailable`] tells a test that it may be skipped: see [the crate's
/// documentation](crate#where-nothing-can-be-traced).
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
}

impl Tracer {
    /// Counts all calls that move data.
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects the calls to count.
    #[must_use]
    pub fn syscalls(mut self, selection: Selection) -> Self {
        self.selection = selection;
        self
    }

    /// Sets how much is kept at the same time.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Runs a closure: see [`trace()`].
    pub fn trace<R>(&self, closure: impl FnOnce() -> R) -> Result<(R, Report), RunError> {
        let traced = self.try_trace(closure);
        if let Err(error) = &traced
            && error.is_unavailable()
        {
            REFUSAL.set(Some(error.to_string()));
        }
        traced
    }

    fn try_trace<R>(&self, closure: impl FnOnce() -> R) -> Result<(R, Report), RunError> {
        let this_thread = ebpf::TracingThread::enter();
        let options = RunOptions {
            selection: self.selection.clone(),
            limits: self.limits,
            ..plain_run(std::env::args_os().collect())
        };
        let (value, mut trace) = with_tracer(&options, |tracer| {
            ebpf::closure::run(tracer, &options, &this_thread, closure)
        })?;
        toolchain::note_toolchains(&mut trace);
        Ok((value, Report::from_trace(&trace, &all_details())))
    }
}
