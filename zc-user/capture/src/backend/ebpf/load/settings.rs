//! [`LoadSettings`]: what the object is loaded for.

use crate::{
    backend::{Limits, Recorded, RunOptions},
    syscalls::Selection,
};

/// What the object is loaded for.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadSettings {
    /// Which calls are counted.
    pub selection: Selection,
    /// How much is kept at once.
    pub limits: Limits,
    /// What is recorded of each call.
    pub recorded: Recorded,
    /// Whether tasks are followed that already run.
    pub attaches: bool,
    /// Whether the programs log what they do.
    pub verbose: bool,
}

impl LoadSettings {
    /// Whether programs that were loaded for these settings serve others as well: which calls are
    /// counted is set for each run.
    pub(super) fn can_serve(&self, others: &Self) -> bool {
        let has_rings = self.selection.contains_rings() == others.selection.contains_rings();
        let others = Self {
            selection: self.selection.clone(),
            ..others.clone()
        };
        has_rings && *self == others
    }
}

impl From<&RunOptions> for LoadSettings {
    fn from(options: &RunOptions) -> Self {
        let recorded = options.recorded;
        Self {
            selection: options.selection.clone(),
            limits: options.limits,
            recorded: if cfg!(feature = "callers") {
                recorded
            } else {
                recorded.without_callers()
            },
            attaches: options.attach.is_some(),
            verbose: options.verbose,
        }
    }
}
