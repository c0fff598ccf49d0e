//! [`KernelTracer`]: loads the programs once, for runs that follow each other.
//!
//! Between two runs no program is attached. Programs serve again if nothing is left of the run
//! before: every task that they followed has ended, and it used no `io_uring`, whose operations may
//! end later. Then nobody but this side writes to their maps, which are emptied. Otherwise they are
//! dropped, and the next run costs a load: also after a run that failed or timed out, that sampled
//! callers or logged, when other [settings](LoadSettings) are asked for, and on a machine where rows
//! stay in the maps until the end ([`Epochs`](super::epochs::Epochs)).

use super::{
    kernel::TypesFile,
    object::{LoadSettings, Loaded, Watched},
};
use crate::backend::RunError;

/// Loads the programs at the first run, and again when it has to.
#[derive(Default)]
pub struct KernelTracer(Option<IdlePrograms>);

/// Programs that are loaded, but not attached.
struct IdlePrograms {
    settings: LoadSettings,
    loaded: Loaded,
    watched: Watched,
}

impl KernelTracer {
    /// Whether a run with these settings needs no load.
    pub fn is_ready_for(&self, settings: &LoadSettings) -> bool {
        let idle = self.0.as_ref();
        idle.is_some_and(|idle| idle.settings == *settings)
    }

    /// Programs with these settings, attached, with nothing in their maps.
    pub(super) fn attach(
        &mut self,
        settings: &LoadSettings,
        types: TypesFile,
    ) -> Result<(Loaded, Watched), RunError> {
        let idle = self.0.take().filter(|idle| idle.settings == *settings);
        if let Some(mut idle) = idle
            && idle.loaded.restart(&mut idle.watched).is_ok()
        {
            return Ok((idle.loaded, idle.watched));
        }
        let (mut loaded, watched) = Loaded::new(settings, types)?;
        loaded.attach()?;
        Ok((loaded, watched))
    }

    /// Keeps the programs of a run that has ended for the next one; `watched` is `None` if they
    /// cannot serve again.
    pub(super) fn keep(
        &mut self,
        settings: LoadSettings,
        mut loaded: Loaded,
        watched: Option<Watched>,
    ) {
        loaded.release();
        let serves_again = !settings.recorded.has_callers() && !settings.verbose;
        self.0 = watched
            .filter(|_| serves_again)
            .map(|watched| IdlePrograms {
                settings,
                loaded,
                watched,
            });
    }
}
