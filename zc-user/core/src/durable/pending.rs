//! [`Pending`]: the changes of one file or one name that no sync has covered.

use super::{
    event::{Doubt, ProgramId},
    names::NodeId,
};

/// One change, or the last of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastChange {
    /// The call.
    pub call: &'static str,
    /// Which program made it.
    pub by: ProgramId,
    /// When; `None`: unknown.
    pub at_ns: Option<u64>,
}

/// Changes between which no sync was entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// The number of the last event.
    pub last: u64,
    /// When the first one was made; `None`: unknown.
    pub since_ns: Option<u64>,
    /// The last change, of those that certainly need a sync if there are any.
    pub change: LastChange,
    /// How many calls changed it.
    pub calls: u64,
    /// How many bytes these wrote.
    pub bytes: u64,
    /// `None`: at least one of these certainly needs a sync.
    pub doubt: Option<Doubt>,
    /// The errno of the first sync of these that failed, and the number of that event.
    pub failed: Option<(u32, u64)>,
    /// Of a name: what had it after these.
    pub entry: Option<NodeId>,
}

/// What no sync has covered, in the order in which it was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pending(Vec<Group>);

/// A change to be added.
#[derive(Debug, Clone, Copy)]
pub struct NewChange {
    /// The number of its event.
    pub number: u64,
    /// The change.
    pub change: LastChange,
    /// How many bytes it wrote.
    pub bytes: u64,
    /// Why it may need no sync.
    pub doubt: Option<Doubt>,
    /// Of a name: what has it now.
    pub entry: Option<NodeId>,
}

impl Pending {
    /// Whether every change was covered by a sync.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The groups, the oldest first.
    pub fn groups(&self) -> &[Group] {
        &self.0
    }

    /// Adds a change. `running` are the numbers of the events in which the syncs that have not
    /// returned were entered: they tell earlier changes from later ones.
    pub fn add_change(&mut self, new: NewChange, mut running: impl Iterator<Item = u64>) {
        let group = self.0.last_mut().filter(|group| group.failed.is_none());
        let Some(group) = group.filter(|group| running.all(|entered| entered < group.last)) else {
            self.0.push(Group {
                last: new.number,
                since_ns: new.change.at_ns,
                change: new.change,
                calls: 1,
                bytes: new.bytes,
                doubt: new.doubt,
                failed: None,
                entry: new.entry,
            });
            return;
        };
        group.last = new.number;
        // It names what certainly needs a sync, if there is that.
        if group.doubt.is_some() || new.doubt.is_none() {
            group.change = new.change;
        }
        group.calls += 1;
        group.bytes = group.bytes.saturating_add(new.bytes);
        group.doubt = doubt_of_both(group.doubt, new.doubt);
        group.entry = new.entry;
    }

    /// Adds further changes to the last group, if there is one. The last of them may have been made
    /// before the last change that is known.
    pub fn extend_last_group(&mut self, change: LastChange, calls: u64, bytes: u64) {
        if let Some(group) = self.0.last_mut() {
            if change.at_ns >= group.change.at_ns {
                group.change = change;
            }
            group.calls += calls;
            group.bytes = group.bytes.saturating_add(bytes);
        }
    }

    /// A sync of a file succeeded that was entered in the event of this number.
    pub fn file_synced(&mut self, entered: u64) {
        self.0
            .retain(|group| group.last > entered || group.failed.is_some());
    }

    /// A sync of a directory succeeded. Returns the last change of a name that it covered: that
    /// makes up for earlier ones, even if a sync of them failed.
    pub fn name_synced(&mut self, entered: u64) -> Option<Group> {
        let is_covered = |group: &Group| group.last < entered && group.failed.is_none();
        let last = self.0.iter().rposition(is_covered)?;
        self.0.drain(..=last).next_back()
    }

    /// A sync of a mapping succeeded.
    pub fn mapping_synced(&mut self, entered: u64) {
        let is_mapped = |group: &Group| group.doubt == Some(Doubt::Mapped);
        self.0
            .retain(|group| group.last > entered || !is_mapped(group) || group.failed.is_some());
    }

    /// A sync of a filesystem succeeded, which may be that of this file.
    pub fn maybe_synced(&mut self, entered: u64) {
        for group in self.0.iter_mut().filter(|group| group.last < entered) {
            group.doubt = group.doubt.or(Some(Doubt::OtherFilesystem));
        }
    }

    /// A sync failed with this errno.
    pub fn sync_failed(&mut self, entered: u64, errno: u32, number: u64) {
        for group in self.0.iter_mut().filter(|group| group.last < entered) {
            group.failed = group.failed.or(Some((errno, number)));
        }
        self.0.dedup_by(|later, earlier| {
            let are_failed = later.failed.is_some() && earlier.failed.is_some();
            if are_failed {
                *earlier = Group {
                    since_ns: earlier.since_ns,
                    calls: earlier.calls + later.calls,
                    bytes: earlier.bytes.saturating_add(later.bytes),
                    doubt: doubt_of_both(earlier.doubt, later.doubt),
                    failed: earlier.failed,
                    ..*later
                };
            }
            are_failed
        });
    }

    /// What could not be written is of no use any more, unless nothing was cut. `None`: something was.
    pub fn content_emptied(&mut self, doubt: Option<Doubt>) {
        self.0
            .retain(|group| group.failed.is_none() || doubt.is_some());
        for group in self.0.iter_mut().filter(|group| group.failed.is_some()) {
            group.doubt = group.doubt.or(doubt);
        }
    }
}

/// Why two changes together may need no sync; `None`: one of them certainly does. Only mappings
/// together are synced with a mapping.
fn doubt_of_both(one: Option<Doubt>, other: Option<Doubt>) -> Option<Doubt> {
    match (one?, other?) {
        (Doubt::Mapped, other) => Some(other),
        (one, _) => Some(one),
    }
}
