//! [`Samples`] in a build without the feature `callers`: there are none.

use std::{future, io};

use aya::maps::{MapData, RingBuf};
use zc_ebpf::FileNumber;

use super::events::{ListedCallers, Message};
use crate::{
    backend::Recorded,
    trace::{File, SampledStack},
};

/// No messages about callers: [`LoadSettings`](crate::backend::ebpf::LoadSettings) never asks for any.
#[derive(Default)]
pub struct Samples;

#[expect(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "they are the functions of a build with callers"
)]
impl Samples {
    /// Opens nothing.
    pub fn open(_: Option<RingBuf<MapData>>, _: Recorded) -> io::Result<Self> {
        Ok(Self)
    }

    /// Reads nothing.
    pub fn note_found(&mut self, _: impl IntoIterator<Item = (u32, u32)>) {}

    /// Is never ready.
    pub async fn more(&mut self) -> io::Result<()> {
        future::pending().await
    }

    /// There is never more.
    pub fn has_more(&self) -> bool {
        false
    }

    /// Reads nothing.
    pub fn read_batch(&mut self, _: impl FnMut(FileNumber) -> Option<File>) -> u64 {
        0
    }

    /// Passes nothing on.
    pub fn take_task(&mut self, _: u32, _: &mut dyn FnMut(Message)) {}

    /// Passes nothing on.
    pub fn take_all(&mut self, _: &mut dyn FnMut(Message)) {}

    /// There are none.
    pub fn take_touch_callers(&mut self) -> ListedCallers {
        ListedCallers::new()
    }

    /// There are none.
    pub fn take_slow_callers(&mut self) -> ListedCallers {
        ListedCallers::new()
    }

    /// Nothing is missing that was asked for.
    pub fn note(&self) -> Option<String> {
        None
    }

    /// Callers are unknown.
    pub fn into_stacks(self, _notes: &mut Vec<String>) -> Option<Vec<SampledStack>> {
        None
    }
}
