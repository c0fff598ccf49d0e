//! [`Timelines`]: when each file was changed and synced, for a picture.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Judge,
    event::{SyncResult, SyncScope},
    names::NodeId,
};

/// So many files and directories have a timeline.
const MAX_FILES: usize = 10_000;
/// So many events of each are kept.
const MAX_EVENTS: usize = 50;

/// What happened to a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimelineEvent {
    /// When it was over, from the beginning of the run.
    pub at_ns: u64,
    /// What it was.
    pub what: TimelineKind,
    /// How long a sync took. Left out: unknown, or it is no sync.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ns: Option<u64>,
}

/// What an event of a timeline is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimelineKind {
    /// It, or a name in it, was changed, after all had been synced.
    Changed,
    /// A sync of it succeeded.
    Synced,
    /// A sync of it failed.
    SyncFailed,
    /// The change was undone before it was on disk, so it needs no sync.
    Clean,
    /// It was made, or got another name.
    Made,
    /// It was moved to its name.
    Moved,
    /// It lost a name.
    Removed,
}

impl TimelineKind {
    /// The kind in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Synced => "synced",
            Self::SyncFailed => "sync failed",
            Self::Clean => "nothing left to sync",
            Self::Made => "made",
            Self::Moved => "moved",
            Self::Removed => "removed",
        }
    }

    /// Whether it changed a name.
    pub fn is_of_name(self) -> bool {
        matches!(self, Self::Made | Self::Moved | Self::Removed)
    }
}

/// The timelines of all files and directories.
#[derive(Debug, Default)]
pub(super) struct Timelines(BTreeMap<NodeId, Timeline>);

/// The timeline of a file or directory.
#[derive(Debug, Default, Clone)]
pub(super) struct Timeline {
    pub(super) events: Vec<TimelineEvent>,
    /// How many events followed.
    pub(super) left_out: u64,
}

impl Timelines {
    /// Adds an event. One whose time is unknown is not kept.
    pub(super) fn add_event(
        &mut self,
        file: NodeId,
        what: TimelineKind,
        at_ns: Option<u64>,
        ns: Option<u64>,
    ) {
        let has_room = self.0.len() < MAX_FILES || self.0.contains_key(&file);
        let Some(at_ns) = at_ns.filter(|_| has_room) else {
            return;
        };
        let line = self.0.entry(file).or_default();
        if line.events.len() < MAX_EVENTS {
            line.events.push(TimelineEvent { at_ns, what, ns });
        } else {
            line.left_out += 1;
        }
    }

    /// A file is gone.
    pub(super) fn forget_file(&mut self, file: NodeId) {
        self.0.remove(&file);
    }

    /// The timeline of a file or directory.
    pub(super) fn of_file(&self, file: NodeId) -> Timeline {
        self.0.get(&file).cloned().unwrap_or_default()
    }
}

impl Judge {
    /// Adds an event to the timeline of a file or directory.
    pub(super) fn draw_event(&mut self, file: NodeId, what: TimelineKind, at_ns: Option<u64>) {
        self.timelines.add_event(file, what, at_ns, None);
    }

    /// A sync of these returned.
    pub(super) fn draw_sync(
        &mut self,
        synced: BTreeSet<NodeId>,
        result: SyncResult,
        at_ns: Option<u64>,
        ns: Option<u64>,
    ) {
        let has_succeeded = result == SyncResult::Succeeded;
        let what = if has_succeeded {
            TimelineKind::Synced
        } else {
            TimelineKind::SyncFailed
        };
        for file in synced {
            self.timelines.add_event(file, what, at_ns, ns);
            // It was changed while the sync ran.
            let is_changed = self.dirty.contains(&file) || self.has_changed_names(file);
            if has_succeeded && is_changed {
                self.draw_event(file, TimelineKind::Changed, at_ns);
            }
        }
    }

    /// The files and directories that a sync of this scope is asked to write for certain: the one that
    /// it names, and of many, those with changes.
    pub(super) fn surely_in(&self, scope: SyncScope) -> BTreeSet<NodeId> {
        match scope {
            SyncScope::Object(file) | SyncScope::Mapping(file) => BTreeSet::from([file]),
            SyncScope::FilesystemOf(_) | SyncScope::Everything => {
                let changed = self.changed_names.keys().map(|place| place.directory);
                let all = self.dirty.iter().copied().chain(changed);
                let is_in = |file: &NodeId| self.is_in(scope, *file) == Some(true);
                all.filter(is_in).collect()
            }
        }
    }
}
