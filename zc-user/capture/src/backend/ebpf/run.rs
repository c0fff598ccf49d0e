//! Runs a command: loads the programs, launches the command, waits for its end, and reads the maps.

pub(super) mod attach;

use std::{
    collections::HashSet,
    iter, mem, thread,
    time::{Duration, SystemTime},
};

use aya::maps::{MapData, RingBuf};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{
    io::unix::AsyncFd,
    time::{Instant, sleep},
};
use zc_ebpf::FileNumber;

use super::{
    callers::Samples,
    drain::Rows,
    epochs::{Epochs, now_ns},
    events::{Message, TaskEvent},
    kernel::TypesFile,
    live_tasks::LiveTasks,
    object::{LoadSettings, Loaded, Wakeups, Watched},
    programs_log::ProgramsLog,
    ring_memory::leave_out_of_forks,
    seen::Seen,
    span::{PartEnd, RunningSpan, SpanReading},
    totals::Totals,
    tracer::KernelTracer,
};
use crate::{
    async_fd::watch_readable,
    backend::{
        AtDuration, Listed, Progress, Recorded, RunError, RunOptions, Until, new_trace,
        progress::Ticker,
        spans::{Due, TraceClock, TracePart},
        within,
    },
    descendants::{own_descendants, signal_all},
    launch::{Child, OnTracerExit, Received, Signals, find_program},
    privileges,
    trace::{Exit, File, Loss, Trace},
};

/// How long a task may take to end after its process was reaped. It takes microseconds; on a loaded
/// machine, more.
const EXIT_LIMIT: Duration = Duration::from_secs(2);
/// How often to check whether a task has ended, in case its message is lost.
const EXIT_CHECK: Duration = Duration::from_millis(5);
/// How often messages are read for that of a file. Its message may be lost.
const FILE_ATTEMPTS: u32 = 100;
/// How often to check whether any task is alive, in case the message of the last end is lost.
const LIVE_CHECK: Duration = Duration::from_millis(200);

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
        sees_memory: loaded.sees_memory,
        ..new_trace(backend, options, SystemTime::now())?
    };
    watch.divide(options, &trace)?;
    let child = Child::start(&program, &options.command, &options.launch, &signals)?;
    let ticker = Ticker::new(options.on_progress.as_ref());
    let current_run = CurrentRun {
        options,
        begun: &trace,
        child: &child,
        loaded: &loaded,
        signals: &signals,
    };
    let Some(exit) = within(
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
    let watched = watch.conclude(until, &mut loaded, &mut trace).await?;
    log.flush();
    tracer.keep(settings, loaded, watched);
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

/// Watches the tasks by their events.
pub struct TaskWatcher {
    seen: Seen,
    events: AsyncFd<RingBuf<MapData>>,
    wakeups: Wakeups,
    samples: Samples,
    /// `None`: rows stay in the maps until the trace ends.
    epochs: Option<Epochs>,
    /// `None`: the trace is not divided.
    span: Option<RunningSpan>,
}

impl TaskWatcher {
    /// A watch that has seen nothing yet. To be called in a tokio runtime.
    pub fn new(watched: Watched, recorded: Recorded) -> std::io::Result<Self> {
        Ok(Self {
            seen: Seen::default(),
            events: watch_readable(watched.events)?,
            wakeups: watched.wakeups,
            samples: Samples::open(watched.samples, recorded)?,
            epochs: watched.epochs,
            span: None,
        })
    }

    /// Divides the trace if these options ask for that. It begins now; `begun` is all that is known.
    pub fn divide(&mut self, options: &RunOptions, begun: &Trace) -> Result<(), RunError> {
        let Some(spans) = &options.spans else {
            return Ok(());
        };
        if self.epochs.is_none() {
            return Err(RunError::NoSpans);
        }
        self.seen.counts.divide(spans.boundaries.files()?);
        let span = RunningSpan::new(spans, options.recorded, begun, now_ns());
        self.span = Some(span);
        Ok(())
    }

    /// Ends the trace: stops counting, waits for the tasks that are about to end, and fills in
    /// everything that was seen and counted. Returns what it watched.
    pub async fn conclude(
        mut self,
        until: Until,
        loaded: &mut Loaded,
        trace: &mut Trace,
    ) -> Result<Watched, RunError> {
        let stopped_ns = now_ns();
        loaded.stop_counting()?;
        let mut live = self.wait_for_exits(loaded).await?;
        if !live.tasks.is_empty() {
            // Programs may still be running for them, until they are detached.
            loaded.detach();
            live = self.wait_for_exits(loaded).await?;
        }
        loaded.detach_after_last_run();
        self.read_samples();
        while self.samples.has_more() {
            self.read_samples();
        }
        trace.wall_ns = self.seen.task_table.wall_ns(until, stopped_ns);
        trace.exit_ns = self.seen.task_table.exit_ns();
        let silent = self.seen.task_table.silent_program(trace.exit);
        let silent = silent.filter(|_| trace.attached.is_none());
        let may_go_on = self.seen.task_table.made_ring() || !loaded.maps.is_without_tasks();
        loaded.maps.read(Rows::All, &mut self.seen.counts)?;
        let totals = Totals::read(loaded, Rows::All)?;
        if let Some(mut span) = self.span {
            let (totals, live) = (totals.clone(), live.clone());
            let (reading, end) = (SpanReading { totals, live }, PartEnd::Over(trace.exit));
            span.end(&mut self.seen, loaded, reading, stopped_ns, end);
        }
        self.seen
            .describe(loaded, &totals, &live, trace, Some(self.samples));
        match silent {
            Some(program) if trace.losses[&Loss::LostEvents] == 0 => {
                return Err(RunError::SilentProgram(program));
            }
            _ => {}
        }
        Ok(Watched {
            events: self.events.into_inner(),
            wakeups: self.wakeups,
            samples: None,
            serves_again: !may_go_on && self.epochs.is_some(),
            epochs: self.epochs,
        })
    }

    /// The trace so far. Counting continues meanwhile, so the figures of a row may be of different
    /// moments.
    fn interim_trace(&mut self, loaded: &Loaded, begun: &Trace) -> Result<Trace, RunError> {
        self.drain();
        let mut trace = begun.clone();
        trace.wall_ns = self.seen.task_table.wall_ns(Until::AllEnd, now_ns());
        let (mut seen, live) = (self.seen.clone(), LiveTasks::now(loaded)?);
        loaded.maps.read(Rows::SoFar, &mut seen.counts)?;
        let totals = Totals::read(loaded, Rows::SoFar)?;
        seen.describe(loaded, &totals, &live, &mut trace, None);
        trace.losses.insert(Loss::ReadWhileRunning, 1);
        Ok(trace)
    }

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
                        if !self.sends_interim_trace(signal, run) && ended.is_none() {
                            run.child.forward(signal);
                            ending = Received::ToForward(signal).is_ending().then_some(signal).or(ending);
                        }
                    }
                    (Received::FromTerminal | Received::Own, _) => {}
                },
                due = clock.next() => match (due?, run.options.at_duration) {
                    (Due::Part(next), _) => {
                        self.end_span(next, run.loaded, run.begun, run.options.listed)?;
                        clock.confirm();
                    }
                    (Due::End, AtDuration::LeaveRunning) => return Ok(ended),
                    (Due::End, AtDuration::Kill) => kill_all(run.child, run.loaded).await?,
                },
                more = self.more() => {
                    more?;
                    self.empty_maps(run.loaded, run.begun, run.options.listed)?;
                }
                more = log.more() => more?,
                () = ticker.tick() => ticker.read(|elapsed| self.progress(run.loaded, elapsed)),
                // The message of the last end may be lost.
                () = sleep(LIVE_CHECK), if ended.is_some() => {
                    if run.loaded.maps.live_tasks()?.is_empty() {
                        return Ok(ended);
                    }
                }
            }
        }
    }

    fn have_all_ended(&self) -> bool {
        self.seen.task_table.not_ended().next().is_none()
    }

    /// How far the run is.
    fn progress(&mut self, loaded: &Loaded, elapsed: Duration) -> std::io::Result<Progress> {
        self.drain();
        let (calls, bytes) = loaded.maps.calls_and_bytes(&self.seen.counts)?;
        Ok(Progress {
            elapsed,
            processes: self.seen.task_table.processes(),
            calls,
            bytes,
        })
    }

    /// Shows the trace so far if this signal asks for it; returns whether it does.
    fn sends_interim_trace(&mut self, signal: i32, run: &CurrentRun<'_>) -> bool {
        let Some(on_interim_trace) = run
            .options
            .on_interim_trace
            .as_ref()
            .filter(|_| signal == libc::SIGUSR1)
        else {
            return false;
        };
        on_interim_trace.call(self.interim_trace(run.loaded, run.begun), run.options);
        true
    }

    /// Waits for the tasks that are about to end, so that their counters are final. Returns the
    /// tasks that are still alive.
    async fn wait_for_exits(&mut self, loaded: &Loaded) -> Result<LiveTasks, RunError> {
        let deadline = Instant::now() + EXIT_LIMIT;
        loop {
            let live = LiveTasks::now(loaded)?;
            self.drain();
            let alive = &live.counters;
            // A task whose counters can no longer be read is just ending.
            let all_live = alive.len() == live.tasks.len()
                && (!live.is_proc_ours || alive.values().all(Option::is_some));
            // The last event of a task that is neither alive nor known to have ended is to come.
            let mut is_complete = all_live;
            for serial in self.seen.task_table.not_ended() {
                is_complete &= alive.contains_key(&serial);
            }
            if is_complete || Instant::now() >= deadline {
                return Ok(live);
            }
            tokio::select! {
                more = self.more() => more?,
                () = sleep(EXIT_CHECK) => {}
            }
        }
    }

    /// Waits for events and records them.
    pub async fn more(&mut self) -> std::io::Result<()> {
        tokio::select! {
            ready = self.events.readable_mut() => {
                ready?.clear_ready();
                self.drain();
            }
            more = self.samples.more() => {
                more?;
                self.read_samples();
            }
        }
        Ok(())
    }

    fn drain(&mut self) {
        // Ends of tasks, and files.
        let mut occasions = 0;
        while let Some(bytes) = self.events.get_mut().next() {
            match Message::parse(&bytes) {
                Some(Message::Task(event)) => {
                    occasions += usize::from(matches!(event, TaskEvent::Ended(_)));
                    self.seen.task_table.record(&event);
                }
                Some(Message::File(number, file)) => {
                    occasions += 1;
                    self.seen.counts.files.record(number, file);
                }
                None => self.seen.unreadable += 1,
            }
        }
        if let Some(epochs) = &mut self.epochs {
            epochs.note_occasions(occasions);
        }
    }

    /// Reads a batch of the messages about callers. They name files, whose own messages have come
    /// before.
    fn read_samples(&mut self) {
        self.drain();
        let mut samples = mem::take(&mut self.samples);
        self.seen.unreadable += samples.read_batch(|number| self.await_file(number));
        self.samples = samples;
    }

    /// Reads messages until a file is known. Its own message has been sent, but may be behind one
    /// that a program on another processor has not finished.
    fn await_file(&mut self, number: FileNumber) -> Option<File> {
        for _ in 0..FILE_ATTEMPTS {
            if let Some(file) = self.seen.counts.files.known(number) {
                return Some(file.clone());
            }
            self.drain();
            thread::yield_now();
        }
        None
    }

    /// Moves what was counted out of the maps, if there may be much in them.
    fn empty_maps(
        &mut self,
        loaded: &Loaded,
        begun: &Trace,
        listed: Listed,
    ) -> Result<(), RunError> {
        let files = &self.seen.counts.files;
        match &self.epochs {
            Some(epochs) if epochs.is_due(files) => self.end_epoch(loaded, begun, listed).map(drop),
            _ => Ok(()),
        }
    }

    /// Ends the running part of the trace, and begins the next one.
    fn end_span(
        &mut self,
        next: TracePart,
        loaded: &Loaded,
        begun: &Trace,
        listed: Listed,
    ) -> Result<(), RunError> {
        self.drain();
        let Some(span) = &self.span else {
            return Ok(());
        };
        let reading = span.reading(loaded)?;
        let ended_ns = self.end_epoch(loaded, begun, listed)?;
        if let (Some(span), Some(ended_ns)) = (&mut self.span, ended_ns) {
            let end = PartEnd::Boundary(next);
            span.end(&mut self.seen, loaded, reading, ended_ns, end);
        }
        Ok(())
    }

    /// Moves what was counted so far out of the maps. Returns up to when that is (`CLOCK_MONOTONIC`);
    /// `None`: it stays there.
    fn end_epoch(
        &mut self,
        loaded: &Loaded,
        begun: &Trace,
        listed: Listed,
    ) -> Result<Option<u64>, RunError> {
        let Some(epochs) = &mut self.epochs else {
            return Ok(None);
        };
        // Of these, all rows are in this epoch or in earlier ones.
        let just_ended = self.seen.task_table.take_just_ended();
        let last_number = self.seen.counts.files.last_number();
        let (ended, ended_ns) = epochs.end()?;
        // The messages about the files in its rows.
        self.drain();
        if let Some(epochs) = &mut self.epochs {
            epochs.take(ended, &loaded.maps, &mut self.seen.counts)?;
        }
        self.read_samples();
        self.seen.set_ended_aside(
            just_ended,
            listed,
            begun,
            loaded,
            &mut self.samples,
            self.span.as_mut(),
        )?;
        let Seen { counts, ended, .. } = &mut self.seen;
        let epochs = self.epochs.as_mut();
        if let Some(forgetting) = epochs.and_then(|epochs| epochs.due_forgetting(&counts.files)) {
            let in_span = self.span.as_ref().map(RunningSpan::files);
            let in_span = in_span.unwrap_or_default();
            forgetting.forget(counts, ended, in_span, &loaded.maps, last_number)?;
        }
        Ok(Some(ended_ns))
    }
}
