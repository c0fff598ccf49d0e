//! [`RunLoop`]: what goes on while a trace runs, whether it launched a command or attached.

use tokio::time::{Interval, MissedTickBehavior, interval};

use super::{
    programs_log::ProgramsLog,
    watcher::{LIVE_CHECK, TaskWatcher},
};
use crate::{
    backend::{
        RunError, RunOptions,
        ebpf::load::object::Loaded,
        progress::Ticker,
        spans::{Due, TraceClock},
    },
    launch::{Received, Signals},
    trace::Trace,
};

/// A trace that has begun.
pub(super) struct RunLoop<'a> {
    pub options: &'a RunOptions,
    /// The trace, still without anything that happened.
    begun: &'a Trace,
    signals: &'a Signals,
    log: &'a mut ProgramsLog,
    ticker: Ticker,
    clock: TraceClock,
    look_again: Interval,
}

/// What the run itself has to act on.
pub(super) enum RunEvent {
    Signal(Received),
    /// The time of the trace is over.
    TimeOver,
    /// It is time to check which tasks are alive.
    LookAgain,
}

impl<'a> RunLoop<'a> {
    /// For a trace that begins now. To be called in a tokio runtime.
    pub fn new(
        options: &'a RunOptions,
        begun: &'a Trace,
        signals: &'a Signals,
        log: &'a mut ProgramsLog,
    ) -> Result<Self, RunError> {
        let mut look_again = interval(LIVE_CHECK);
        look_again.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            options,
            begun,
            signals,
            log,
            ticker: Ticker::new(options.on_progress.as_ref()),
            clock: TraceClock::new(options)?,
            look_again,
        })
    }

    /// Waits until something happens. `None`: it was dealt with, and tasks may have ended.
    pub async fn next(
        &mut self,
        watch: &mut TaskWatcher,
        loaded: &Loaded,
    ) -> Result<Option<RunEvent>, RunError> {
        let (options, begun) = (self.options, self.begun);
        tokio::select! {
            signal = self.signals.next() => match signal? {
                Received::ToForward(libc::SIGUSR1) if options.on_interim_trace.is_some() => {
                    watch.show_interim(options, loaded, begun);
                }
                signal => return Ok(Some(RunEvent::Signal(signal))),
            },
            due = self.clock.next() => match due? {
                Due::Part(next) => {
                    watch.end_span(next, loaded, begun, options.listed)?;
                    self.clock.confirm();
                }
                Due::End => return Ok(Some(RunEvent::TimeOver)),
            },
            more = watch.more() => {
                more?;
                watch.empty_maps(loaded, begun, options.listed)?;
            }
            more = self.log.more() => more?,
            () = self.ticker.tick() => {
                self.ticker.read(|elapsed| watch.progress(loaded, elapsed).ok());
            }
            _ = self.look_again.tick() => {
                watch.drain();
                watch.empty_maps(loaded, begun, options.listed)?;
                return Ok(Some(RunEvent::LookAgain));
            }
        }
        Ok(None)
    }
}
