//! [`Spans`]: a trace that is divided while it goes on, and [`TraceClock`], which says when.

use std::{collections::BTreeSet, io, sync::Arc, time::Duration};

use tokio::{
    sync::Notify,
    time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until},
};

use super::{
    Callback, RunOptions,
    control::{ControlLines, SpanControl, TracePart},
};
use crate::trace::{OpenBefore, Trace};

/// When a trace is divided, and who gets its spans.
#[derive(Debug, Clone)]
pub struct Spans {
    /// When spans begin and end.
    pub boundaries: Boundaries,
    /// Receives each of them when it has ended.
    pub on_span: OnSpan,
    /// What spans know of the counters of tasks.
    pub counters: SpanCounters,
}

/// What spans know of CPU times, context switches and page faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanCounters {
    /// They are read at the end of each span, from 3 files for each live task.
    Read,
    /// Nothing: with 500 tasks and spans of a second, to read them takes several percent of a CPU.
    Unknown,
}

/// When spans begin and end.
#[derive(Debug, Clone)]
pub enum Boundaries {
    /// They follow each other, each so long; the last one ends with the trace. Not 0.
    Every(Duration),
    /// Somebody says so. What is between them is in none. Calls on the files that the lines and their
    /// answers go through are in no span, either.
    Controlled(SpanControl),
}

/// Receives the trace of each span.
pub type OnSpan = Callback<Trace>;

impl Boundaries {
    /// What a trace begins with.
    pub(super) const fn first_part(&self) -> TracePart {
        match self {
            Self::Every(_) => TracePart::Span(None),
            Self::Controlled(_) => TracePart::Gap,
        }
    }

    /// The files of calls that are in no span.
    pub(super) fn files(&self) -> io::Result<BTreeSet<OpenBefore>> {
        match self {
            Self::Every(_) => Ok(BTreeSet::new()),
            Self::Controlled(control) => control.files(),
        }
    }
}

/// What is due.
#[derive(Debug)]
pub(super) enum Due {
    /// The running part of the trace ends, and this one begins.
    Part(TracePart),
    /// The trace ends.
    End,
}

/// Where boundaries come from.
enum BoundarySource {
    Nowhere,
    Ticks(Interval),
    Lines(ControlLines),
}

/// Says when a trace is divided, and when it ends although the command goes on.
pub(super) struct TraceClock {
    boundaries: BoundarySource,
    ends_at: Option<Instant>,
    stop: Option<Arc<Notify>>,
}

impl TraceClock {
    /// For a trace that begins now. To be called in a tokio runtime.
    pub(super) fn new(options: &RunOptions) -> io::Result<Self> {
        let now = Instant::now();
        let boundaries = match options.spans.as_ref().map(|spans| &spans.boundaries) {
            None => BoundarySource::Nowhere,
            Some(Boundaries::Every(length)) => {
                let mut ticks = interval_at(now + *length, *length);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
                BoundarySource::Ticks(ticks)
            }
            Some(Boundaries::Controlled(control)) => {
                BoundarySource::Lines(ControlLines::open(control)?)
            }
        };
        Ok(Self {
            boundaries,
            ends_at: options.duration.map(|duration| now + duration),
            stop: options.stop.clone(),
        })
    }

    /// Waits for what is due; for ever if nothing will be. The end of the trace is due once.
    pub(super) async fn next(&mut self) -> io::Result<Due> {
        let Self {
            boundaries,
            ends_at,
            stop,
        } = self;
        tokio::select! {
            biased;
            () = sleep_until_moment(*ends_at) => {
                *ends_at = None;
                Ok(Due::End)
            }
            () = wait_for_stop(stop.as_deref()) => Ok(Due::End),
            part = boundaries.next() => part.map(Due::Part),
        }
    }

    /// Tells who asked for the last part that it has begun.
    pub(super) fn confirm(&self) {
        if let BoundarySource::Lines(lines) = &self.boundaries {
            lines.confirm();
        }
    }
}

impl BoundarySource {
    /// Waits for the next boundary, and says what begins there.
    async fn next(&mut self) -> io::Result<TracePart> {
        match self {
            Self::Nowhere => std::future::pending().await,
            Self::Ticks(ticks) => {
                ticks.tick().await;
                Ok(TracePart::Span(None))
            }
            Self::Lines(lines) => lines.next().await,
        }
    }
}

/// Waits until this moment, if there is one.
async fn sleep_until_moment(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Waits until somebody asks for the end.
async fn wait_for_stop(stop: Option<&Notify>) {
    match stop {
        Some(stop) => stop.notified().await,
        None => std::future::pending().await,
    }
}
