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
    pub fn file(&self) -> Option<FileNumber> {
        match self.0 {}
    }
}

impl Samples {
    pub fn open(loaded: &mut Loaded, _recorded: Recorded) -> io::Result<Self> {
        drop(loaded.take_samples());
        Ok(Self(()))
    }

    pub async fn more(&mut self) -> io::Result<()> {
        std::future::pending().await
    }

    pub fn begin_batch(&mut self) {}

    pub fn has_more(&self) -> bool {
        false
    }

    pub fn until_change(&mut self) -> Option<Change> {
        None
    }

    pub fn change(&mut self, change: Change, _file: Option<&File>) {
        match change.0 {}
    }

    pub fn take_unreadable(&mut self) -> u64 {
        0
    }

    pub fn take_task(&mut self, _task: u32, _counts: &mut Counts) {}

    pub fn take_all(&mut self, _counts: &mut Counts) {}

    pub fn note(&self) -> Option<String> {
        None
    }

    pub fn into_stacks(self) -> Option<Vec<Stack>> {
        None
    }
}
