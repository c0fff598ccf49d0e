//! Signs of life: how far a run is, about every second.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Callback;

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The time since the command was started.
    pub elapsed: Duration,
    /// How many processes there were so far.
    pub processes: u64,
    /// How many calls returned so far, of all that are counted.
    pub calls: u64,
    /// How many bytes they moved: those of every read and every write, so that a copy counts twice.
    pub bytes: u64,
}

/// Receives how far a run is, first after a second, and then about once a second.
pub type OnProgress = Callback<Progress>;

/// How long to wait between two readings at least.
const INTERVAL: Duration = Duration::from_secs(1);
/// A reading may take this fraction of the time (1/50): many rows take long to read, and the
/// machine is busy with what is traced.
const SHARE: u32 = 50;

/// Says when to read how far a run is.
pub(super) struct Ticker {
    on_progress: Option<OnProgress>,
    began: Instant,
    due: Instant,
}

impl Ticker {
    /// For a run that begins now.
    pub(super) fn new(on_progress: Option<&OnProgress>) -> Self {
        let began = Instant::now();
        Self {
            on_progress: on_progress.cloned(),
            began,
            due: began + INTERVAL,
        }
    }

    /// Waits until a reading is due; for ever if nobody wants one.
    pub(super) async fn tick(&self) {
        match self.on_progress {
            Some(_) => sleep_until(self.due).await,
            None => std::future::pending().await,
        }
    }

    /// Passes on what `read` says of a run that has lasted so long. `None`: there is no sign of life.
    pub(super) fn read(&mut self, read: impl FnOnce(Duration) -> Option<Progress>) {
        let now = Instant::now();
        if let (Some(on_progress), Some(progress)) = (&self.on_progress, read(now - self.began)) {
            on_progress.call(progress);
        }
        self.due = Instant::now() + INTERVAL.max(now.elapsed() * SHARE);
    }
}
