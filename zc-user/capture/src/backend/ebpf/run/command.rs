//! Runs a command: loads the programs, launches the command, waits for its end, and reads the maps.

use std::{collections::HashSet, iter, time::SystemTime};

use super::{
    programs_log::ProgramsLog,
    ring_memory::leave_out_of_forks,
    run_loop::{RunEvent, RunLoop},
    watcher::{EXIT_CHECK, EXIT_LIMIT, TaskWatcher},
};
use crate::{
    backend::{
        AtDuration, RunError, RunOptions, Until,
        ebpf::load::{
            kernel::TypesFile, object::Loaded, settings::LoadSettings, tracer::KernelTracer,
        },
        new_trace, within_limit,
    },
    descendants::{own_descendants, signal_all},
    launch::{Child, OnTracerExit, Received, Signals, find_program},
    privileges,
    trace::{Exit, Trace},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::time::{Instant, sleep};

/// Runs the command and returns its trace.
pub async fn run(
    backend: &'static str,
    options: &RunOptions,
    tracer: &mut KernelTracer,
) -> Result<Trace, RunError> {
    // Before signals are blocked: the file may be on a filesystem that does not respond.
    let types = TypesFile::find()?;
    let signals = Signals::hold(options.launch.on_tracer_exit)?;
    let program = find_program(&options.command, &options.launch)?;
    let settings = LoadSettings::from(options);
    let is_new = !tracer.is_ready_for(&settings);
    let (mut loaded, watched) = tracer.attach(&settings, types)?;
    if is_new && options.launch.on_tracer_exit != OnTracerExit::KillInHost {
        // Without it, forks only take longer.
        let _ = leave_out_of_forks();
    }
    let mut log = ProgramsLog::open(options.verbose, &mut loaded);
    let mut watch = TaskWatcher::new(watched, options.recorded)?;
    watch.wakeups.await_many()?;
    loaded.arm()?;
    let _lowered = privileges::lower(options.privileges, || loaded.maps.losses().is_ok())?;
    let mut trace = Trace {
        sees_memory: loaded.sight.sees_memory,
        ..new_trace(backend, options, SystemTime::now())?
    };
    watch.divide(options, &trace)?;
    watch.begin_in(trace.directory.as_deref());
    let child = Child::start(&program, &options.command, &options.launch, &signals)?;
    let mut run = RunLoop::new(options, &trace, &signals, &mut log)?;
    let over = watch.until_over(&mut run, &child, &loaded);
    let Some(exit) = within_limit(options.timeout, over).await else {
        kill_all(&child, &loaded).await?;
        child.wait().await?;
        return Err(RunError::timed_out(options));
    };
    trace.exit = exit?;
    // Until now, if the command goes on.
    let until = trace.exit.map_or(Until::AllEnd, |_| options.until);
    let watched = Box::pin(watch.conclude(until, &mut loaded, &mut trace)).await?;
    log.flush();
    tracer.keep_for_next_run(settings, loaded, watched);
    Ok(trace)
}

/// Kills all tasks in scope, and again those that they have created meanwhile. Parents
/// come first, so that none sees its child die, and goes on.
async fn kill_all(child: &Child, loaded: &Loaded) -> Result<(), RunError> {
    let deadline = Instant::now() + EXIT_LIMIT;
    loop {
        let live = loaded.maps.live_tasks()?;
        if live.is_empty() || Instant::now() >= deadline {
            return Ok(());
        }
        let pids = live
            .iter()
            .map(|task| Pid::from_raw(task.pid.cast_signed()));
        let live: HashSet<Pid> = pids.filter(|pid| pid.as_raw() > 0).collect();
        let ordered = iter::once(child.id()).chain(own_descendants());
        for pid in ordered
            .filter(|pid| live.contains(pid))
            .chain(live.iter().copied())
        {
            // It may have ended meanwhile.
            let _ = kill(pid, Signal::SIGKILL);
        }
        sleep(EXIT_CHECK).await;
    }
}

impl TaskWatcher {
    /// Waits until the run is over: the launched process has ended, and its descendants if they are
    /// waited for and no signal ends the trace before. `None`: the launched process goes on.
    async fn until_over(
        &mut self,
        run: &mut RunLoop<'_>,
        child: &Child,
        loaded: &Loaded,
    ) -> Result<Option<Exit>, RunError> {
        let (mut ended, mut ending) = (None, None);
        loop {
            if ended.is_some() && (run.options.until == Until::RootEnds || self.have_all_ended()) {
                return Ok(ended);
            }
            let event = tokio::select! {
                // Its end comes first: a signal after that is for zctrace.
                biased;
                exit = child.wait(), if ended.is_none() => {
                    ended = Some(exit?);
                    if let Some(signal) = ending {
                        let pid = |task: zc_ebpf::Task| Pid::from_raw(task.pid.cast_signed());
                        let left = || Ok::<_, RunError>(loaded.maps.live_tasks()?.into_iter().map(pid).collect());
                        signal_all(signal, left).await?;
                    }
                    // What is left to wait for are the ends of tasks.
                    self.wakeups.await_each()?;
                    self.drain();
                    None
                }
                event = run.next(self, loaded) => event?,
            };
            match event {
                Some(RunEvent::Signal(signal)) if ended.is_some() => {
                    if signal.is_ending() {
                        return Ok(ended);
                    }
                }
                Some(RunEvent::Signal(signal)) => {
                    if signal.is_ending() {
                        self.note_open_ends(loaded)?;
                    }
                    if let Received::ToForward(number) = signal {
                        ending = signal.is_ending().then_some(number).or(ending);
                        child.forward(number);
                    }
                }
                Some(RunEvent::TimeOver) => match run.options.at_duration {
                    AtDuration::LeaveRunning => return Ok(ended),
                    AtDuration::Kill => {
                        self.note_open_ends(loaded)?;
                        kill_all(child, loaded).await?;
                    }
                },
                // The message of the last end may be lost.
                Some(RunEvent::LookAgain) if ended.is_some() => {
                    if loaded.maps.live_tasks()?.is_empty() {
                        return Ok(ended);
                    }
                }
                Some(RunEvent::LookAgain) | None => {}
            }
        }
    }
}
