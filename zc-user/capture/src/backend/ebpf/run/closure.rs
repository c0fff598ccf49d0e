//! Traces a closure in this process: its thread enters the scope before the closure runs and leaves
//! it afterwards.
//!
//! ```text
//! caller   load ── ENTER ── closure ── PAUSE ── LEAVE ──┐
//! helper        └─ watches the events of all tasks ─────┴─ concludes
//! ```
//!
//! Who has work for a thread that sleeps wakes it, which the kernel side sees. So the closure begins
//! when no other thread of the process is awake ([`TracingThread`]).
//!
//! Nothing that zctrace itself does is counted: the helper thread exists before the caller enters
//! the scope, and between entering and pausing the caller only runs the closure.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::mpsc,
    thread,
    time::SystemTime,
};

use tokio::sync::oneshot;
use zc_ebpf::scope;

use super::watcher::TaskWatcher;
use crate::{
    backend::{
        Recorded, RunError, RunOptions, Until, block_on,
        ebpf::{
            NAME,
            attach::idle_threads::{TracingThread, own_thread},
            load::{
                kernel::TypesFile,
                object::{Loaded, Watched},
                settings::LoadSettings,
                tracer::KernelTracer,
            },
        },
        new_trace,
    },
    launch::bring_cpu_time_up_to_date,
    trace::{Loss, State, Trace},
};
use zctrace_core::text::from_os;

/// Runs the closure in this thread. Returns its value, and the trace of this thread and of all
/// tasks that it created meanwhile. The option `command` is what the trace names this process. A
/// panic in the closure continues after the trace has ended.
pub fn run<R>(
    tracer: &mut KernelTracer,
    options: &RunOptions,
    this_thread: &TracingThread,
    closure: impl FnOnce() -> R,
) -> Result<(R, Trace), RunError> {
    let settings = LoadSettings::from(options);
    let (mut loaded, watched) = tracer.attach(&settings, TypesFile::find()?)?;
    loaded.await_thread()?;
    let trace = new_trace(NAME, options, SystemTime::now())?;
    let recorded = options.recorded;
    thread::scope(|scope| {
        let (conclude, concluded) = oneshot::channel();
        let (ready, is_ready) = mpsc::channel();
        let helper = own_thread().spawn_scoped(scope, move || {
            // The thread has its name by now; the kernel side knows it by that. If nobody waits,
            // the caller has failed and reports why.
            let _ = ready.send(());
            watch(watched, recorded, concluded)
        })?;
        // This fails only if the helper failed; joining it gives its error.
        let _ = is_ready.recv();
        let others_slept = this_thread.await_sleep_of_others();
        let outcome = in_scope(&loaded, || catch_unwind(AssertUnwindSafe(closure)))?;
        // This fails only if the helper failed; joining it gives its error.
        let _ = conclude.send((loaded, trace));
        let watched = helper.join().unwrap_or_else(|panic| resume_unwind(panic));
        let value = outcome.unwrap_or_else(|panic| resume_unwind(panic));
        let (mut trace, loaded, watched) = watched?;
        if !others_slept {
            // Who is awake may have taken work without being woken.
            let calls = loaded.maps.loss_count(zc_ebpf::KernelLoss::UnrelatedCall);
            let calls = calls.map_err(|error| RunError::Io(std::io::Error::other(error)))?;
            *trace.losses.entry(Loss::OtherThreads).or_default() += calls;
        }
        tracer.keep_for_next_run(settings, loaded, watched);
        describe_root(&mut trace);
        Ok((value, trace))
    })
}

/// Reads events until the closure has returned, which gives what is needed then, and makes the trace.
fn watch(
    watched: Watched,
    recorded: Recorded,
    mut concluded: oneshot::Receiver<(Loaded, Trace)>,
) -> Result<(Trace, Loaded, Watched), RunError> {
    block_on(async {
        let mut watch = TaskWatcher::new(watched, recorded)?;
        let (mut loaded, mut trace) = loop {
            tokio::select! {
                more = watch.more() => more?,
                end = &mut concluded => match end {
                    Ok(end) => break end,
                    // The caller could not enter or leave the scope and reports why.
                    Err(gone) => return Err(RunError::Io(std::io::Error::other(gone))),
                },
            }
        };
        let watched = watch.conclude(Until::RootEnds, &mut loaded, &mut trace);
        let watched = Box::pin(watched).await?;
        Ok((trace, loaded, watched))
    })
}

/// Runs the closure with this thread in scope.
fn in_scope<R>(loaded: &Loaded, closure: impl FnOnce() -> R) -> Result<R, RunError> {
    bring_cpu_time_up_to_date();
    loaded.step(scope::ENTER)?;
    let value = closure();
    loaded.step(scope::PAUSE)?;
    bring_cpu_time_up_to_date();
    loaded.step(scope::LEAVE)?;
    Ok(value)
}

/// Fills in what the kernel side reports at an exec; this process has had none.
fn describe_root(trace: &mut Trace) {
    let command = trace.command.clone();
    if let Some(root) = trace.processes.first_mut() {
        root.ppid = Some(std::os::unix::process::parent_id());
        let exe = std::env::current_exe().ok();
        root.exe = exe.map(from_os);
        root.command = Some(command);
        root.state = State::Running;
    }
}
