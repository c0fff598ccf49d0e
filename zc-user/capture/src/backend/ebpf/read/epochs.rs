//! [`Epochs`]: moves what was counted out of the kernel's maps while tasks count, so that what has
//! ended does not fill them.
//!
//! An epoch ends when user space changes the global of [`zc_ebpf::maps::EPOCH`]: from then on,
//! programs count in other rows. Programs that ran at that moment may still write to the old ones.
//! They have ended after a grace period of RCU, which every program runs under, so the rows are
//! final then, also those of tasks that go on.

use std::{
    io,
    time::{Duration, Instant},
};

use aya::maps::{Array, MapData, MapError};
use nix::unistd::{SysconfVar, sysconf};
use rustix::thread::{MembarrierCommand, membarrier_query};
use zc_ebpf::{CallId, Epoch, ODD_EPOCH};

use super::{
    drain::{Maps, ReadRows, wait_for_programs},
    events::Message,
    file_table::NumberedFiles,
    forgetting::Forgetting,
};
use crate::backend::RunError;

/// How many rows may pile up in the maps. A row takes up to 2 KiB there.
const ROWS: usize = 2048;
/// After how many ended tasks and new files the maps are emptied, at least and at most.
const MIN_OCCASIONS: usize = 32;
const MAX_OCCASIONS: usize = 1024;
/// How long an epoch goes on at most. This also makes room if something else fills the maps, such as
/// calls on ever-new paths.
const MAX_AGE: Duration = Duration::from_secs(1);

/// The epochs of a trace.
pub struct Epochs {
    map: Array<MapData, Epoch>,
    /// The one that tasks count in: 0 or [`ODD_EPOCH`].
    current: CallId,
    begun_at: Instant,
    /// How many tasks have ended in it, and how many files were seen.
    occasions: usize,
    /// After how many of both it ends.
    most: usize,
    /// What gives up the numbers of files; `None`: they keep their numbers.
    forgetting: Option<Forgetting>,
}

impl Epochs {
    /// The first one. `None` if this machine does not say when the programs of an epoch have ended;
    /// then rows stay in the maps until the trace ends.
    pub fn new(map: Array<MapData, Epoch>, forgetting: Option<Forgetting>) -> Option<Self> {
        // On a machine with one CPU, the barrier does not wait for a grace period.
        let has_several = sysconf(SysconfVar::_NPROCESSORS_ONLN)
            .ok()
            .flatten()
            .is_some_and(|count| count > 1);
        // This only asks, because one wait needs some milliseconds. The kernel does not list the
        // command if it refuses it (`nohz_full`).
        let can_wait = membarrier_query().contains_command(MembarrierCommand::Global);
        (has_several && can_wait).then_some(Self {
            map,
            current: 0,
            begun_at: Instant::now(),
            occasions: 0,
            most: MIN_OCCASIONS,
            forgetting,
        })
    }

    /// Begins the first epoch of another run. The maps are empty but for the files.
    pub fn restart(&mut self) -> Result<(), RunError> {
        (self.occasions, self.most) = (0, MIN_OCCASIONS);
        self.begin(0)?;
        self.forgetting.as_mut().map_or(Ok(()), Forgetting::restart)
    }

    /// Has tasks count in this epoch.
    fn begin(&mut self, current: CallId) -> Result<(), MapError> {
        (self.current, self.begun_at) = (current, Instant::now());
        let epoch = Epoch {
            current,
            is_near_full: 0,
        };
        self.map.set(0, epoch, 0)
    }

    /// Notes that so many tasks have ended or files were seen. There may be new rows then.
    pub fn note_occasions(&mut self, count: usize) {
        self.occasions += count;
        if let Some(forgetting) = &mut self.forgetting {
            forgetting.note_occasions(count);
        }
    }

    /// Whether it is time to end the epoch: there may be many rows, or little room for files, or it is
    /// old.
    pub fn is_due(&self, files: &NumberedFiles) -> bool {
        let forgetting = self.forgetting.as_ref();
        self.occasions >= self.most
            || self.begun_at.elapsed() >= MAX_AGE
            || forgetting.is_some_and(|forgetting| forgetting.is_urgent(files))
    }

    /// What gives up the numbers of files, if it is time for that.
    pub fn due_forgetting(&mut self, files: &NumberedFiles) -> Option<&mut Forgetting> {
        let forgetting = self.forgetting.as_mut();
        forgetting.filter(|forgetting| forgetting.is_due(files))
    }

    /// Ends the epoch, and waits until its rows are final. Returns the one that has ended, and when:
    /// `CLOCK_MONOTONIC`.
    pub fn end(&mut self) -> Result<(CallId, u64), RunError> {
        let ended = self.current;
        self.begin(ended ^ ODD_EPOCH)?;
        let ended_ns = now_ns();
        wait_for_programs()?;
        Ok((ended, ended_ns))
    }

    /// Moves the rows of an ended epoch out of the maps.
    pub fn take_rows(
        &mut self,
        epoch: CallId,
        maps: &Maps,
        apply: impl FnMut(Message),
    ) -> io::Result<()> {
        let rows = maps.read(ReadRows::Epoch(epoch), apply)?;
        self.most = (ROWS * self.occasions / rows.max(1)).clamp(MIN_OCCASIONS, MAX_OCCASIONS);
        self.occasions = 0;
        Ok(())
    }
}

/// The time of `CLOCK_MONOTONIC`, as the kernel side uses it.
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(Duration::try_from(now).unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}
