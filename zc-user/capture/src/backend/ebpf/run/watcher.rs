//! [`TaskWatcher`]: reads the events of the kernel side while tasks count, empties the maps in time, and
//! makes the trace in the end.

use std::{mem, thread, time::Duration};

use aya::maps::{MapData, RingBuf};
use tokio::{
    io::unix::AsyncFd,
    time::{Instant, sleep},
};
use zc_ebpf::FileNumber;

use crate::{
    async_fd::watch_readable,
    backend::{
        Listed, Progress, Recorded, RunError, RunOptions, Until,
        control::TracePart,
        ebpf::{
            follow::{
                live_tasks::LiveTasks,
                seen::Seen,
                span::{PartEnd, RunningSpan, SpanReading},
            },
            load::object::{Loaded, Wakeups, Watched},
            read::{
                callers::Samples,
                drain::Rows,
                epochs::{Epochs, now_ns},
                events::{Message, TaskEvent},
                totals::Totals,
            },
        },
    },
    trace::{File, Loss, Trace},
};

/// How long a task may take to end after its process was reaped. It takes microseconds; on a loaded
/// machine, more.
pub(super) const EXIT_LIMIT: Duration = Duration::from_secs(2);
/// How often to check whether a task has ended, in case its message is lost.
pub(super) const EXIT_CHECK: Duration = Duration::from_millis(5);
/// How often messages are read for that of a file. Its message may be lost.
const FILE_ATTEMPTS: u32 = 100;
/// How often to check whether any task is alive, in case the message of the last end is lost.
pub(super) const LIVE_CHECK: Duration = Duration::from_millis(200);

/// Watches the tasks by their events.
pub struct TaskWatcher {
    pub(super) seen: Seen,
    events: AsyncFd<RingBuf<MapData>>,
    pub(super) wakeups: Wakeups,
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
    pub(super) fn interim_trace(
        &mut self,
        loaded: &Loaded,
        begun: &Trace,
    ) -> Result<Trace, RunError> {
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

    pub(super) fn have_all_ended(&self) -> bool {
        self.seen.task_table.not_ended().next().is_none()
    }

    /// How far the run is.
    pub(super) fn progress(
        &mut self,
        loaded: &Loaded,
        elapsed: Duration,
    ) -> std::io::Result<Progress> {
        self.drain();
        let (calls, bytes) = loaded.maps.calls_and_bytes(&self.seen.counts)?;
        Ok(Progress {
            elapsed,
            processes: self.seen.task_table.processes(),
            calls,
            bytes,
        })
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

    pub(super) fn drain(&mut self) {
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
    pub(super) fn empty_maps(
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
    pub(super) fn end_span(
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
