//! Attaches to running processes: finds their tasks, and counts until a signal, the end of the last
//! task or the end of its time ends the trace. The processes are never stopped.
//!
//! The programs are attached before the tasks are looked for. So whatever a followed task creates is
//! followed from its beginning, and walks find the rest.

use std::{
    collections::{HashMap, HashSet},
    fs,
    time::SystemTime,
};

use super::{
    programs_log::ProgramsLog,
    run_loop::{RunEvent, RunLoop},
    watcher::TaskWatcher,
};
use crate::{
    attach::{AttachError, Held, Targets, running_program},
    backend::{
        RunError, RunOptions, Until,
        ebpf::{
            load::{
                kernel::TypesFile, object::Loaded, settings::LoadSettings, tracer::KernelTracer,
            },
            read::epochs::now_ns,
        },
        new_trace,
    },
    launch::{SignalError, Signals},
    trace::Trace,
};

/// Attaches to these targets and returns the trace.
pub async fn run(
    backend: &'static str,
    options: &RunOptions,
    targets: &Targets,
    tracer: &mut KernelTracer,
) -> Result<Trace, RunError> {
    // Before signals are blocked: the file may be on a filesystem that does not respond.
    let types = TypesFile::find()?;
    let signals = Signals::hold(options.launch.on_tracer_exit)?;
    let held = targets.hold()?;
    let settings = LoadSettings::from(options);
    let (mut loaded, watched) = tracer.attach(&settings, types)?;
    let mut log = ProgramsLog::open(options.verbose, &mut loaded);
    let mut watch = TaskWatcher::new(watched, options.recorded)?;
    loaded.look_for(&held)?;
    loaded.find_tasks(|| watch.drain())?;
    watch.check_found(&held, &loaded)?;
    watch.store.tasks.begin(now_ns());
    watch.wakeups.await_many()?;
    let mut trace = Trace {
        sees_memory: loaded.sight.sees_memory,
        attached: Some(held.described()),
        ..new_trace(backend, options, SystemTime::now())?
    };
    watch.divide(options, &trace)?;
    watch.describe_found(&loaded)?;
    if let (Some(on_attached), Some(attached)) = (options.on_attached, &trace.attached) {
        on_attached(attached);
    }
    let mut run = RunLoop::new(options, &trace, &signals, &mut log)?;
    watch.until_detached(&mut run, &held, &mut loaded).await?;
    let concluded = watch.conclude(Until::AllEnd, &mut loaded, &mut trace);
    let watched = tokio::select! {
        watched = concluded => watched?,
        // Whoever asks twice does not want to wait.
        signal = ending_signal(&signals) => return Err(signal?.into()),
    };
    trace.exit_ns = None;
    log.flush();
    tracer.keep_for_next_run(settings, loaded, watched);
    Ok(trace)
}

/// Waits for a signal that ends zctrace, as an error.
async fn ending_signal(signals: &Signals) -> Result<SignalError, SignalError> {
    loop {
        let signal = signals.next().await?;
        if let Some(signal) = signal.as_ending() {
            return Ok(SignalError::Interrupted(signal));
        }
    }
}

impl TaskWatcher {
    /// Reads what the programs are of the tasks that were found, and which code they have mapped.
    fn describe_found(&mut self, loaded: &Loaded) -> Result<(), RunError> {
        let found = self.store.tasks.take_found();
        if found.is_empty() {
            return Ok(());
        }
        let serials: HashSet<u32> = found.iter().map(|task| task.serial).collect();
        let live = loaded.maps.live_tasks()?;
        let spaces = live.iter().filter(|task| serials.contains(&task.serial));
        let spaces: HashMap<u32, u32> = spaces.map(|task| (task.space, task.pid)).collect();
        self.samples.note_found(spaces);
        for first in found.iter().filter(|task| task.serial == task.program) {
            // Later than the program was found; if another one runs by now, its message has come.
            let process = running_program(first.pid);
            self.drain();
            self.store.tasks.describe_program(first.program, process);
        }
        Ok(())
    }

    /// Checks that the processes were found, and are those that were asked for.
    fn check_found(&self, held: &Held, loaded: &Loaded) -> Result<(), RunError> {
        held.check_alive()?;
        let pids = self.store.tasks.pids();
        let missing = held.pids().into_iter().find(|pid| !pids.contains(pid));
        let Some(pid) = missing else { return Ok(()) };
        let has_no_room = loaded
            .maps
            .loss_count(zc_ebpf::KernelLoss::UnfollowedTask)?
            > 0;
        Err(if has_no_room {
            AttachError::NoRoom
        } else {
            AttachError::not_found(pid, fs::read_link(format!("/proc/{pid}/exe")))
        }
        .into())
    }

    /// Waits until the trace is over.
    async fn until_detached(
        &mut self,
        run: &mut RunLoop<'_>,
        held: &Held,
        loaded: &mut Loaded,
    ) -> Result<(), RunError> {
        while held.may_grow() || !self.have_all_ended() {
            match run.next(self, loaded).await? {
                Some(RunEvent::Signal(signal)) if signal.is_ending() => return Ok(()),
                Some(RunEvent::TimeOver) => return Ok(()),
                Some(RunEvent::LookAgain) => {
                    self.find_entered(held, loaded)?;
                    // The message of the last end may be lost.
                    if loaded.maps.live_tasks()?.is_empty() && !held.may_grow() {
                        return Ok(());
                    }
                }
                Some(RunEvent::Signal(_)) | None => {}
            }
        }
        Ok(())
    }

    /// Finds the threads of processes that have entered a cgroup, but for the first ones.
    fn find_entered(&mut self, held: &Held, loaded: &mut Loaded) -> Result<(), RunError> {
        self.drain();
        match held {
            Held::Cgroup(_) => loaded.find_tasks(|| self.drain())?,
            Held::Processes(_) | Held::System => {}
        }
        self.describe_found(loaded)
    }
}
