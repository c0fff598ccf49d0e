//! [`KernelTracer`]: loads the programs once, for runs that follow each other.
//!
//! Programs serve again if nothing is left of the run before: every task that they followed has
//! ended, and it used no `io_uring`, whose operations may end later. Then nobody but this side writes
//! to their maps, which are emptied. Which calls are counted is set for each run. Otherwise they are
//! dropped, and the next run costs a load: also after a run that failed or timed out, that sampled
//! callers or logged, when other limits are asked for or more or less of each call is recorded
//! ([`LoadSettings`]), and on a machine where rows stay in the maps until the end
//! ([`Epochs`](crate::backend::ebpf::read::epochs::Epochs)).
//!
//! Between two runs they stay attached, and end at once for every task: a tracepoint that gets a
//! program soon after it lost its last one makes the kernel wait for a grace period of RCU
//! (`tracepoint_add_func` of its kernel/tracepoint.c), some 5 to 9 ms. Meanwhile all calls of the
//! machine run them, so whoever does not know when the next run comes [detaches](KernelTracer::detach)
//! them.

use std::thread::JoinHandle;

use super::{
    kernel::TypesFile,
    object::{Loaded, Watched},
    settings::LoadSettings,
};
use crate::backend::{RunError, ebpf::attach::idle_threads::own_thread};

/// Loads the programs at the first run, and again when it has to. Nothing of it is left in the kernel
/// after it is dropped.
#[derive(Default)]
pub struct KernelTracer {
    idle: Option<IdlePrograms>,
    /// Whether it keeps the programs of a run for the next one.
    keeps: bool,
    /// The thread that drops those of the last run.
    dropping: Option<JoinHandle<()>>,
}

/// Programs that are loaded, and follow no task.
struct IdlePrograms {
    settings: LoadSettings,
    loaded: Loaded,
    watched: Watched,
}

impl KernelTracer {
    /// One that keeps the programs of a run for the next one. The default one keeps nothing.
    pub fn for_many_runs() -> Self {
        let mut this = Self::default();
        this.keeps = true;
        this
    }

    /// Whether a run with these settings needs no load.
    pub fn is_ready_for(&self, settings: &LoadSettings) -> bool {
        let idle = self.idle.as_ref();
        idle.is_some_and(|idle| idle.settings.can_serve(settings))
    }

    /// Detaches the programs until the next run.
    pub fn detach(&mut self) {
        if let Some(idle) = &mut self.idle {
            idle.loaded.release();
        }
    }

    /// Programs with these settings, attached, with nothing in their maps.
    pub(in crate::backend::ebpf) fn attach(
        &mut self,
        settings: &LoadSettings,
        types: TypesFile,
    ) -> Result<(Loaded, Watched), RunError> {
        let idle = self
            .idle
            .take()
            .filter(|idle| idle.settings.can_serve(settings));
        if let Some(mut idle) = idle {
            let other = Some(&settings.selection).filter(|&new| *new != idle.settings.selection);
            if idle.loaded.restart(other, &mut idle.watched).is_ok() {
                return Ok((idle.loaded, idle.watched));
            }
        }
        let (mut loaded, watched) = Loaded::new(settings, types)?;
        loaded.serves_once = !self.keeps;
        loaded.attach()?;
        Ok((loaded, watched))
    }

    /// Keeps the programs of a run that has ended for the next one, if they can serve again.
    pub(in crate::backend::ebpf) fn keep_for_next_run(
        &mut self,
        settings: LoadSettings,
        loaded: Loaded,
        watched: Watched,
    ) {
        let serves_again = self.keeps
            && watched.serves_again
            && !settings.recorded.has_callers()
            && !settings.recorded.has_syncs()
            && !settings.recorded.has_touches()
            && !settings.verbose;
        let programs = IdlePrograms {
            settings,
            loaded,
            watched,
        };
        if serves_again {
            self.idle = Some(programs);
        } else {
            // To close everything takes a millisecond, in which the report is made. Without a thread it
            // happens at once.
            self.dropping = own_thread().spawn(move || drop(programs)).ok();
        }
    }
}

impl Drop for KernelTracer {
    fn drop(&mut self) {
        // A thread that only drops does not panic.
        let _ = self.dropping.take().map(JoinHandle::join);
    }
}
