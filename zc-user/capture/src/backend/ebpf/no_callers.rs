//! Takes the place of `callers.rs` if this zctrace is built without the feature `callers`: then no
//! caller is ever sampled, and `backend::run` says so if they are asked for.
#![expect(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    clippy::needless_pass_by_value,
    reason = "the interface is that of callers.rs"
)]

use std::{convert::Infallible, io};

use zc_ebpf::FileNumber;

use super::{counts::Counts, object::Loaded};
use crate::{
    backend::Recorded,
    trace::{File, Stack},
};

/// What can be recorded of these: all but callers.
pub const fn possible(recorded: Recorded) -> Recorded {
    recorded.without_callers()
}

/// No messages.
#[derive(Default)]
pub struct Samples(());

/// There is none.
pub struct Change(Infallible);

impl Change {
    /// Never called.
    pub fn file(&self) -> Option<FileNumber> {
        match self.0 {}
    }
}

impl Samples {
    /// None: `loaded` does not record any.
    pub fn open(loaded: &mut Loaded, _recorded: Recorded) -> io::Result<Self> {
        drop(loaded.take_samples());
        Ok(Self(()))
    }

    /// Never ready.
    pub async fn more(&mut self) -> io::Result<()> {
        std::future::pending().await
    }

    /// Does nothing.
    pub fn begin_batch(&mut self) {}

    /// Never.
    pub fn has_more(&self) -> bool {
        false
    }

    /// Always `None`.
    pub fn until_change(&mut self) -> Option<Change> {
        None
    }

    /// Never called.
    pub fn change(&mut self, change: Change, _file: Option<&File>) {
        match change.0 {}
    }

    /// Always 0.
    pub fn take_unreadable(&mut self) -> u64 {
        0
    }

    /// Does nothing: no row has callers.
    pub fn take_task(&mut self, _task: u32, _counts: &mut Counts) {}

    /// Does nothing: no row has callers.
    pub fn take_all(&mut self, _counts: &mut Counts) {}

    /// Always `None`: nothing was to be kept.
    pub fn note(&self) -> Option<String> {
        None
    }

    /// Always `None`: unknown.
    pub fn into_stacks(self) -> Option<Vec<Stack>> {
        None
    }
}
