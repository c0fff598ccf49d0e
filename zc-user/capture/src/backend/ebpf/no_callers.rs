//! Takes the place of `callers.rs` if this zctrace is built without the feature `callers`: then no
//! caller is ever sampled, and `backend::run` says so if they are asked for.
#![expect(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "the interface is that of callers.rs"
)]

use std::io;

use aya::maps::{MapData, RingBuf};
use zc_ebpf::FileNumber;

use super::counts::KernelCounts;
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

impl Samples {
    pub fn open(_ring: Option<RingBuf<MapData>>, _recorded: Recorded) -> io::Result<Self> {
        Ok(Self(()))
    }

    pub async fn more(&mut self) -> io::Result<()> {
        std::future::pending().await
    }

    pub fn has_more(&self) -> bool {
        false
    }

    pub fn read_batch(&mut self, _file_of: impl FnMut(FileNumber) -> Option<File>) -> u64 {
        0
    }

    pub fn take_task(&mut self, _task: u32, _counts: &mut KernelCounts) {}

    pub fn take_all(&mut self, _counts: &mut KernelCounts) {}

    pub fn note(&self) -> Option<String> {
        None
    }

    pub fn into_stacks(self) -> Option<Vec<Stack>> {
        None
    }
}
