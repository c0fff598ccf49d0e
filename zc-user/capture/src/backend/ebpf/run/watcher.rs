//! [`TaskWatcher`]: reads the events of the kernel side while tasks count, empties the maps in
//! time, and makes the trace in the end.

use std::{mem, thread, time::Duration};

use aya::maps::{MapData, RingBuf};
use tokio::{
    io::unix::AsyncFd,
    time::{Instant, sleep},
};
use zc_ebpf::FileNumber;

use super::renamed::note_names_at_end;
use crate::{
    async_fd::watch_readable,
    backend::{
        Listed, Progress, Recorded, RunError, RunOptions, SpanCounters, Until, complete_trace,
        control::TracePart,
        ebpf::{
            follow::{
                live_tasks::LiveTasks,
                reading::Reading,
                span::{PartEnd, RunningSpan},
                store::Store,
                totals::KernelTotals,
                view::Merging,
            },
            load::object::{Loaded, Wakeups, Watched},
            read::{
                call_messages::CallMessages,
                caller_samples::Samples,
                drain::{Maps, ReadRows},
                epochs::{Epochs, now_ns},
                events::{Message, TaskEvent},
                syncs::SyncWatch,
                touches::TouchWatch,
            },
        },
    },
    trace::{Exit, File, Loss, OpenEnd, Trace},
};
use zctrace_core::report::Files;

/// How long a task may take to end after its process was reaped. It takes microseconds; on a loaded
/// machine, more.
pub(super) const EXIT_LIMIT: Duration = Duration::from_secs(2);
/// How often to check whether a task has ended, in case its message is lost.
pub(super) const EXIT_CHECK: Duration = Duration::from_millis(5);
/// How many connections, pipes and the like a trace tells apart. Beyond that, it sums the ones that
/// are no longer used by kind.
const MAX_APART: usize = 4096;
/// How often messages are read for that of a file. Its message may be lost.
const FILE_ATTEMPTS: u32 = 100;
/// How often to check whether any task is alive, in case the message of the last end is lost.
pub(super) const LIVE_CHECK: Duration = Duration::from_millis(200);

/// If one of these happened, calls may be missing that change, sync or touch files.
const MISSING: [Loss; 3] = [Loss::UnfollowedTasks, Loss::LostEvents, Loss::MissedProbes];

/// Watches the tasks by their events.
pub struct TaskWatcher {
    pub(super) store: Store,
    events: AsyncFd<RingBuf<MapData>>,
    pub(super) wakeups: Wakeups,
    pub(super) samples: Samples,
    /// `None`: the order of changes and syncs is not recorded.
    syncs: Option<SyncWatch>,
    /// `None`: what calls touch is not recorded.
    touches: Option<TouchWatch>,
    /// `None`: rows stay in the maps until the trace ends.
    epochs: Option<Epochs>,
    /// `None`: the trace is not divided.
    span: Option<RunningSpan>,
    /// As [`Trace::open_ends`].
    pub(super) open_ends: Vec<OpenEnd>,
}

impl TaskWatcher {
    /// A watch that has seen nothing yet. To be called in a tokio runtime.
    pub fn new(watched: Watched, recorded: Recorded) -> std::io::Result<Self> {
        Ok(Self {
            store: Store::default(),
            events: watch_readable(watched.events)?,
            wakeups: watched.wakeups,
            samples: Samples::open(watched.samples, recorded)?,
            syncs: watched.syncs.map(SyncWatch::new).transpose()?,
            touches: watched.touches.map(TouchWatch::new).transpose()?,
            epochs: watched.epochs,
            span: None,
            open_ends: Vec::new(),
        })
    }

    /// The command begins in this directory.
    pub fn begin_in(&mut self, directory: Option<&str>) {
        if let (Some(syncs), Some(directory)) = (&mut self.syncs, directory) {
            syncs.begin_in(directory);
        }
        if let (Some(touches), Some(directory)) = (&mut self.touches, directory) {
            touches.begin_in(directory);
        }
    }

    /// Divides the trace if these options ask for that. It begins now; `begun` is all that is known.
    pub fn divide(&mut self, options: &RunOptions, begun: &Trace) -> Result<(), RunError> {
        let Some(spans) = &options.spans else {
            return Ok(());
        };
        if self.epochs.is_none() {
            return Err(RunError::NoSpans);
        }
        self.store.divide(spans.boundaries.files()?);
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
        self.note_open_ends(loaded)?;
        trace.open_ends = mem::take(&mut self.open_ends);
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
        self.drain();
        trace.wall_ns = self.store.tasks.wall_ns(until, stopped_ns);
        trace.exit_ns = self.store.tasks.exit_ns();
        let silent = self.store.tasks.silent_program(trace.exit);
        let silent = silent.filter(|_| trace.attached.is_none());
        let may_go_on = self.store.tasks.made_ring() || !loaded.maps.is_without_tasks();
        let store = &mut self.store;
        loaded.maps.read(ReadRows::All, |row| store.apply(row))?;
        let totals = KernelTotals::read(loaded)?;
        let reading = Reading { totals, live };
        if let Some(mut span) = self.span {
            let end = PartEnd::Over(trace.exit);
            let moment = (stopped_ns, reading.live.tasks.as_slice());
            span.end(store, &loaded.sight, reading.clone(), moment, end);
        }
        let callers = self.samples.take_touch_callers();
        self.store
            .finish(&reading, &loaded.sight, trace, Some(self.samples));
        let is_whole = MISSING
            .iter()
            .all(|loss| trace.losses.get(loss).is_none_or(|count| *count == 0));
        if let Some(touches) = self.touches {
            trace.touched = Some(touches.finish(&reading.live.tasks, is_whole, &callers)?);
        }
        note_names_at_end(trace);
        if let Some(syncs) = self.syncs {
            let is_success = trace.exit == Some(Exit::Code(0));
            trace.syncs = Some(syncs.finish(trace.wall_ns, is_success, is_whole)?);
        }
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
            syncs: None,
            touches: None,
            serves_again: !may_go_on && self.epochs.is_some(),
            epochs: self.epochs,
        })
    }

    /// The trace so far. Counting continues meanwhile, so the figures of a row may be of different
    /// moments.
    fn interim_trace(&mut self, loaded: &Loaded, begun: &Trace) -> Result<Trace, RunError> {
        self.drain();
        let mut trace = begun.clone();
        trace.wall_ns = self.store.tasks.wall_ns(Until::AllEnd, now_ns());
        let mut store = self.store.clone();
        let live = LiveTasks::now(loaded, SpanCounters::Read)?;
        loaded.maps.read(ReadRows::SoFar, |row| store.apply(row))?;
        let totals = KernelTotals::read(loaded)?;
        let reading = Reading { totals, live };
        store.finish(&reading, &loaded.sight, &mut trace, None);
        trace.losses.insert(Loss::ReadWhileRunning, 1);
        Ok(trace)
    }

    /// Shows the trace so far, if somebody wants it.
    pub(super) fn show_interim(&mut self, options: &RunOptions, loaded: &Loaded, begun: &Trace) {
        if let Some(show) = &options.on_interim_trace {
            let trace = self.interim_trace(loaded, begun);
            show.call(trace.map(|trace| complete_trace(trace, options.recorded)));
        }
    }

    pub(super) fn have_all_ended(&self) -> bool {
        self.store.tasks.not_ended().next().is_none()
    }

    /// How far the run is.
    pub(super) fn progress(
        &mut self,
        loaded: &Loaded,
        elapsed: Duration,
    ) -> std::io::Result<Progress> {
        self.drain();
        let (calls, bytes) = loaded.maps.calls_and_bytes(self.store.calls_and_bytes())?;
        Ok(Progress {
            elapsed,
            processes: self.store.tasks.processes(),
            calls,
            bytes,
        })
    }

    /// Waits for the tasks that are about to end, so that their counters are final. Returns the
    /// tasks that are still alive.
    async fn wait_for_exits(&mut self, loaded: &Loaded) -> Result<LiveTasks, RunError> {
        let deadline = Instant::now() + EXIT_LIMIT;
        loop {
            let live = LiveTasks::now(loaded, SpanCounters::Read)?;
            self.drain();
            let alive = &live.counters;
            // A task whose counters can no longer be read is just ending.
            let all_live = alive.len() == live.tasks.len()
                && (!live.is_proc_ours || alive.values().all(Option::is_some));
            // The last event of a task that is neither alive nor known to have ended is to come.
            let mut is_complete = all_live;
            for serial in self.store.tasks.not_ended() {
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
            more = more_calls(self.syncs.as_mut().map(|watch| &mut watch.messages)) => {
                more?;
                self.drain();
            }
            more = more_calls(self.touches.as_mut().map(|watch| &mut watch.messages)) => {
                more?;
                self.drain();
            }
        }
        Ok(())
    }

    pub(super) fn drain(&mut self) {
        // Ends of tasks, and files.
        let mut occasions = 0;
        while let Some(bytes) = self.events.get_mut().next() {
            let message = Message::parse(&bytes);
            occasions += usize::from(matches!(
                message,
                Message::Task(TaskEvent::Ended(_)) | Message::File(..)
            ));
            self.store.apply(message);
        }
        if let Some(epochs) = &mut self.epochs {
            epochs.note_occasions(occasions);
        }
        if let Some(syncs) = &mut self.syncs {
            syncs.drain(self.store.tasks.began_ns());
        }
        if let Some(touches) = &mut self.touches {
            touches.drain(self.store.tasks.began_ns());
        }
    }

    /// Reads a batch of the messages about callers. They name files, whose own messages have come
    /// before.
    fn read_samples(&mut self) {
        self.drain();
        let mut samples = mem::take(&mut self.samples);
        let unreadable = samples.read_batch(|number| self.await_file(number));
        (0..unreadable).for_each(|_| self.store.apply(Message::Unreadable));
        self.samples = samples;
    }

    /// Reads messages until a file is known. Its own message has been sent, but may be behind one
    /// that a program on another processor has not finished.
    fn await_file(&mut self, number: FileNumber) -> Option<File> {
        for _ in 0..FILE_ATTEMPTS {
            if let Some(file) = self.store.files.known(number) {
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
        let files = &self.store.files;
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
        let reading = Reading::now(loaded, span.counters)?;
        let ended_ns = self.end_epoch(loaded, begun, listed)?;
        if let (Some(span), Some(ended_ns)) = (&mut self.span, ended_ns) {
            let end = PartEnd::Boundary(next);
            let later = loaded.maps.live_tasks()?;
            let moment = (ended_ns, later.as_slice());
            span.end(&mut self.store, &loaded.sight, reading, moment, end);
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
        let mut just_ended = self.store.tasks.take_just_ended();
        if loaded.maps.loss_count(zc_ebpf::KernelLoss::LostEvent)? > 0 {
            let live = loaded.maps.live_tasks()?;
            let alive = live.iter().map(|task| task.serial).collect();
            just_ended.extend(self.store.tasks.note_alive(&alive));
        }
        let last_number = self.store.files.last_number();
        let (ended, ended_ns) = epochs.end()?;
        // The messages about the files in its rows.
        self.drain();
        let store = &mut self.store;
        if let Some(epochs) = &mut self.epochs {
            epochs.take_rows(ended, &loaded.maps, |row| store.apply(row))?;
        }
        self.read_samples();
        let samples = &mut self.samples;
        self.store
            .set_ended_aside(just_ended, |task, apply| samples.take_task(task, apply));
        self.merge_ended(begun, listed);
        self.forget_files(&loaded.maps, last_number, listed)?;
        Ok(Some(ended_ns))
    }

    /// Forgets files that nothing needs, if there are many. The rows of those up to `last_number` were
    /// taken.
    fn forget_files(
        &mut self,
        maps: &Maps,
        last_number: FileNumber,
        listed: Listed,
    ) -> Result<(), RunError> {
        let store = &mut self.store;
        let epochs = self.epochs.as_mut();
        let Some(forgetting) = epochs.and_then(|epochs| epochs.due_forgetting(&store.files)) else {
            return Ok(());
        };
        let most = match listed {
            Listed::All => usize::MAX,
            Listed::Busiest { .. } => MAX_APART,
        };
        store.sum_idle_files(most, forgetting.max_living());
        let named = store.forget_unused_files();
        store.files.begin_round();
        forgetting.forget(&mut store.files, named, maps, last_number)
    }

    /// Sums processes that have ended, if there are many and not all are listed.
    fn merge_ended(&mut self, begun: &Trace, listed: Listed) {
        if let Listed::Busiest { most, files } = listed {
            let merging = |begun| Merging {
                most,
                begun,
                tells_files_apart: files == Files::Listed,
            };
            let span = self.span.as_ref().map(|span| merging(&span.begun));
            self.store.sum_most(merging(begun), span);
        }
    }
}

/// Waits for messages about calls on files; never ready if there are none.
async fn more_calls(messages: Option<&mut CallMessages>) -> std::io::Result<()> {
    match messages {
        Some(messages) => messages.more().await,
        None => std::future::pending().await,
    }
}
