//! Runs a command: loads the programs, launches the command, waits for its end, and reads the maps.

use std::{collections::HashSet, iter, time::SystemTime};

use super::{
    programs_log::ProgramsLog,
    ring_memory::leave_out_of_forks,
    watcher::{EXIT_CHECK, EXIT_LIMIT, LIVE_CHECK, TaskWatcher},
};
use crate::{
    backend::{
        AtDuration, RunError, RunOptions, Until,
        ebpf::load::{
            kernel::TypesFile, object::Loaded, settings::LoadSettings, tracer::KernelTracer,
        },
        new_trace,
        progress::Ticker,
        spans::{Due, TraceClock},
        within_limit,
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
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

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
    let ticker = Ticker::new(options.on_progress.as_ref());
    let current_run = CurrentRun {
        options,
        begun: &trace,
        child: &child,
        loaded: &loaded,
        signals: &signals,
    };
    let Some(exit) = within_limit(
        options.timeout,
        watch.until_over(&current_run, &mut log, ticker),
    )
    .await
    else {
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

/// A run that has started.
struct CurrentRun<'a> {
    options: &'a RunOptions,
    /// Its trace, still without anything that happened.
    begun: &'a Trace,
    child: &'a Child,
    loaded: &'a Loaded,
    signals: &'a Signals,
}

impl TaskWatcher {
    /// Waits until the run is over: the launched process has ended, and its descendants if they are
    /// waited for and no signal ends the trace before. `None`: the launched process goes on.
    async fn until_over(
        &mut self,
        run: &CurrentRun<'_>,
        log: &mut ProgramsLog,
        mut ticker: Ticker,
    ) -> Result<Option<Exit>, RunError> {
        let (mut ended, mut ending) = (None, None);
        let mut clock = TraceClock::new(run.options)?;
        let mut look_again = interval(LIVE_CHECK);
        look_again.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if let Some(exit) = ended
                && (run.options.until == Until::RootEnds || self.have_all_ended())
            {
                return Ok(Some(exit));
            }
            tokio::select! {
                // Its end comes first: a signal after that is for zctrace.
                biased;
                exit = run.child.wait(), if ended.is_none() => {
                    ended = Some(exit?);
                    if let Some(signal) = ending {
                        let pid = |task: zc_ebpf::Task| Pid::from_raw(task.pid.cast_signed());
                        let left = || Ok::<_, RunError>(run.loaded.maps.live_tasks()?.into_iter().map(pid).collect());
                        signal_all(signal, left).await?;
                    }
                    // What is left to wait for are the ends of tasks.
                    self.wakeups.await_each()?;
                    self.drain();
                }
                signal = run.signals.next() => match (signal?, ended) {
                    (signal, Some(exit)) if signal.is_ending() => return Ok(Some(exit)),
                    (Received::ToForward(signal), _) => {
                        if signal == libc::SIGUSR1 && run.options.on_interim_trace.is_some() {
                            self.show_interim(run.options, run.loaded, run.begun);
                        } else if ended.is_none() {
                            if Received::ToForward(signal).is_ending() {
                                self.note_open_ends(run.loaded)?;
                                ending = Some(signal);
                            }
                            run.child.forward(signal);
                        }
                    }
                    (Received::FromTerminal, _) => self.note_open_ends(run.loaded)?,
                    (Received::Own, _) => {}
                },
                due = clock.next() => match (due?, run.options.at_duration) {
                    (Due::Part(next), _) => {
                        self.end_span(next, run.loaded, run.begun, run.options.listed)?;
                        clock.confirm();
                    }
                    (Due::End, AtDuration::LeaveRunning) => return Ok(ended),
                    (Due::End, AtDuration::Kill) => {
                        self.note_open_ends(run.loaded)?;
                        kill_all(run.child, run.loaded).await?;
                    }
                },
                more = self.more() => {
                    more?;
                    self.empty_maps(run.loaded, run.begun, run.options.listed)?;
                }
                more = log.more() => more?,
                () = ticker.tick() => ticker.read(|elapsed| self.progress(run.loaded, elapsed).ok()),
                _ = look_again.tick() => {
                    self.drain();
                    self.empty_maps(run.loaded, run.begun, run.options.listed)?;
                }
                // The message of the last end may be lost.
                () = sleep(LIVE_CHECK), if ended.is_some() => {
                    if run.loaded.maps.live_tasks()?.is_empty() {
                        return Ok(ended);
                    }
                }
            }
        }
    }
}
