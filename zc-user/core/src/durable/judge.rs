//! [`Judge`]: what has been synced, event by event.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use super::{
    event::{Change, Doubt, FileAction, FileEvent, ProgramId, SyncId, SyncResult, SyncScope},
    moments::Moments,
    names::{Names, NodeId, Place, Presence, Resolved},
    pending::{LastChange, NewChange, Pending},
    syncs::SyncSums,
    timeline::{TimelineKind, Timelines},
};

/// What is known of one file or directory.
#[derive(Debug, Default)]
pub(super) struct FileContent {
    /// How many calls changed it.
    pub calls: u64,
    /// How many bytes these wrote.
    pub bytes: u64,
    /// Its last change, synced or not.
    pub last: Option<LastChange>,
    /// Its changes that no sync covered.
    pub pending: Pending,
    length: Length,
    /// Whether it was made, linked or moved.
    pub is_named: bool,
    /// The syncs of it.
    pub syncs: SyncSums,
}

/// How long a file is, as far as the calls show it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Length {
    #[default]
    Unknown,
    Zero,
    NotZero,
}

/// What is known of a name that changed since its directory was synced.
#[derive(Debug)]
pub(super) struct ChangedName {
    /// What was there when the directory was synced last.
    pub before: Before,
    /// Its changes since then.
    pub pending: Pending,
}

/// What the disk has of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// This file or directory.
    Present(NodeId),
    /// Nothing.
    Absent,
    /// It is unknown.
    Unknown,
}

/// A file that was moved to a name while its data were not on the disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Breach {
    /// The call that changed it before that.
    pub call: &'static str,
    /// The move.
    pub moved: LastChange,
    /// `None`: it certainly was.
    pub doubt: Option<Doubt>,
    /// How often.
    pub count: u64,
}

#[derive(Debug)]
struct RunningSync {
    scope: SyncScope,
    entered: u64,
    by: ProgramId,
    is_wasted: bool,
}

impl Length {
    /// The length after a change that wrote this many bytes.
    fn after_change(self, how: Change, bytes: Option<u64>) -> Self {
        match how {
            // Later writes may be told late, or run meanwhile. The first one to a new file is an event.
            Change::Emptied if self != Self::Zero => Self::Unknown,
            Change::Resized => Self::NotZero,
            Change::Emptied | Change::Mapped => self,
            Change::Cached | Change::Synced if bytes > Some(0) => Self::NotZero,
            Change::Cached | Change::Synced | Change::Maybe(_) => Self::Unknown,
        }
    }
}

/// Judges the order of changes and syncs, by the rules of [this module](super).
///
/// Its memory grows with files, not with calls.
#[derive(Debug, Default)]
pub struct Judge {
    /// The names as they are now.
    pub names: Names,
    pub(super) programs: Vec<String>,
    pub(super) contents: BTreeMap<NodeId, FileContent>,
    /// Those with changes that no sync covered.
    pub(super) dirty: BTreeSet<NodeId>,
    /// Those whose attributes changed since their last sync.
    touched: BTreeSet<NodeId>,
    /// Those that were also written to as output.
    pub(super) outputs: BTreeSet<NodeId>,
    pub(super) changed_names: BTreeMap<Place, ChangedName>,
    pub(super) breaches: BTreeMap<String, Breach>,
    running: BTreeMap<SyncId, RunningSync>,
    pub(super) by_program: BTreeMap<ProgramId, SyncSums>,
    pub(super) of_everything: SyncSums,
    /// The syncs of files that have no name any more, by the last one.
    pub(super) of_removed: BTreeMap<String, SyncSums>,
    pub(super) unseen: BTreeSet<Doubt>,
    /// Whether something was synced by an absolute path that had not changed.
    pub(super) has_strange_sync: bool,
    /// The number of the event.
    pub(super) number: u64,
    /// The number of the last event that told others something.
    pub(super) last_told: u64,
    /// The number of the last event that may have added to what is not synced.
    pub(super) last_unsynced: u64,
    pub(super) moments: Moments,
    pub(super) timelines: Timelines,
}

impl Judge {
    /// The program of this name.
    pub fn program_id(&mut self, name: &str) -> ProgramId {
        let known = self.programs.iter().position(|other| other == name);
        ProgramId(known.unwrap_or_else(|| {
            self.programs.push(name.to_owned());
            self.programs.len() - 1
        }))
    }

    /// Adds an event.
    pub fn push_event(&mut self, event: FileEvent) {
        self.number += 1;
        let FileEvent { at_ns, by, what } = event;
        let change = |call| LastChange { call, by, at_ns };
        match what {
            FileAction::Changed {
                file,
                call,
                bytes,
                how,
            } => self.record_change(file, change(call), bytes, how),
            FileAction::ChangedAgain {
                file,
                call,
                calls,
                bytes,
                how,
            } => self.changed_again(file, change(call), [calls, bytes], how),
            FileAction::Touched(file) => {
                self.touched.insert(file);
            }
            FileAction::WrittenAsOutput(file) => {
                self.touched.insert(file);
                self.outputs.insert(file);
                self.last_unsynced = self.number;
            }
            FileAction::SyncEntered(sync, scope) => self.sync_entered(sync, scope, by),
            FileAction::SyncReturned { sync, result, ns } => {
                self.sync_returned(sync, result, ns, at_ns);
            }
            FileAction::Made { place, file, call } => {
                let before = self.presence_before(&place);
                if before == Before::Absent
                    && self.names.places(file).is_empty()
                    && !self.contents.contains_key(&file)
                {
                    self.content_of(file).length = Length::Zero;
                }
                self.names.join_filesystems(file, place.directory);
                self.names.add_name(place.clone(), file);
                self.content_of(file).is_named = true;
                self.draw_event(file, TimelineKind::Made, at_ns);
                let doubt = (before == Before::Unknown).then_some(Doubt::MayHaveExisted);
                self.name_changed(place, before, change(call), doubt, Some(file));
            }
            FileAction::Moved {
                from,
                to,
                is_exchange,
                call,
            } => self.record_move(from, to, is_exchange, change(call)),
            FileAction::Removed { place, call } => {
                let removed = self.names.node_at(Resolved::Place(place.clone()));
                self.names.remove_name(&place);
                self.draw_event(removed, TimelineKind::Removed, at_ns);
                self.forget_if_nameless(removed, &place);
                self.name_changed(place, Before::Present(removed), change(call), None, None);
            }
            FileAction::Told { to } => {
                self.last_told = self.number;
                self.record_told(to, at_ns);
            }
            FileAction::ToldAgain { to, calls } => self.record_told_again(to, calls),
            FileAction::Marked(name) => {
                self.last_told = self.number;
                self.record_mark(&name, at_ns);
            }
            FileAction::Unseen(doubt) => {
                self.unseen.insert(doubt);
            }
        }
    }

    /// What was changed, named or synced, the directories of these names, and an absolute path of each.
    pub fn changed_paths(&self) -> BTreeMap<NodeId, String> {
        let mut paths = BTreeMap::new();
        let names = &self.names;
        let mut add = |id: NodeId| {
            let place = names.places(id).first()?;
            paths.insert(id, names.absolute_path(place)?);
            Some(place.directory)
        };
        for file in self.contents.keys() {
            add(*file).and_then(&mut add);
        }
        for place in self.changed_names.keys() {
            add(place.directory);
        }
        paths
    }

    pub(super) fn content_of(&mut self, file: NodeId) -> &mut FileContent {
        self.contents.entry(file).or_default()
    }

    fn record_change(&mut self, file: NodeId, change: LastChange, bytes: Option<u64>, how: Change) {
        let number = self.number;
        let running = self.running.values().map(|sync| sync.entered);
        let content = self.contents.entry(file).or_default();
        content.calls += 1;
        content.bytes = content.bytes.saturating_add(bytes.unwrap_or(0));
        content.last = Some(change);
        let length = content.length;
        content.length = length.after_change(how, bytes);
        let was_clean = content.pending.is_empty();
        let doubt = match (how, length) {
            // What was cut before may be what failed to be written.
            (Change::Synced, _) | (Change::Emptied, Length::Zero) => return,
            (Change::Emptied, _) => {
                let doubt = (length == Length::Unknown).then_some(Doubt::MayHaveBeenEmpty);
                content.pending.content_emptied(doubt);
                doubt
            }
            (Change::Cached, _) | (Change::Resized, Length::Zero) => None,
            (Change::Resized, _) => Some(Doubt::MayHaveHadLength),
            (Change::Mapped, _) => Some(Doubt::Mapped),
            (Change::Maybe(doubt), _) => Some(doubt),
        };
        let new = NewChange {
            number,
            change,
            bytes: bytes.unwrap_or(0),
            doubt,
            entry: None,
        };
        content.pending.add_change(new, running);
        if was_clean {
            self.draw_event(file, TimelineKind::Changed, change.at_ns);
        }
        self.dirty.insert(file);
        self.last_unsynced = number;
    }

    fn changed_again(
        &mut self,
        file: NodeId,
        change: LastChange,
        [calls, bytes]: [u64; 2],
        how: Change,
    ) {
        let content = self.content_of(file);
        content.calls += calls;
        content.bytes = content.bytes.saturating_add(bytes);
        content.length = Length::Unknown;
        if how != Change::Synced {
            content.last = Some(change);
            content.pending.extend_last_group(change, calls, bytes);
        }
    }

    fn presence_before(&self, place: &Place) -> Before {
        match self.names.presence_at(place) {
            Presence::Present(file) => Before::Present(file),
            Presence::Absent => Before::Absent,
            Presence::Unknown => Before::Unknown,
        }
    }

    /// A name changed; `before` is what was there until now, and `entry` what is there now.
    fn name_changed(
        &mut self,
        place: Place,
        before: Before,
        change: LastChange,
        doubt: Option<Doubt>,
        entry: Option<NodeId>,
    ) {
        let number = self.number;
        let directory = place.directory;
        if !self.has_changed_names(directory) {
            self.draw_event(directory, TimelineKind::Changed, change.at_ns);
        }
        let running = self.running.values().map(|sync| sync.entered);
        let mut changed = match self.changed_names.entry(place) {
            Entry::Occupied(changed) => changed,
            Entry::Vacant(place) => place.insert_entry(ChangedName {
                before,
                pending: Pending::default(),
            }),
        };
        let new = NewChange {
            number,
            change,
            bytes: 0,
            doubt,
            entry,
        };
        changed.get_mut().pending.add_change(new, running);
        // A name that was never on the disk, and is not to be there.
        let was_absent = changed.get().before == Before::Absent;
        if entry.is_none() && was_absent && self.running.is_empty() {
            changed.remove();
            if !self.has_changed_names(directory) {
                self.draw_event(directory, TimelineKind::Clean, change.at_ns);
            }
        }
        self.last_unsynced = number;
    }

    pub(super) fn has_changed_names(&self, directory: NodeId) -> bool {
        self.names_in(SyncScope::Object(directory)).next().is_some()
    }

    /// A file without a name needs nothing. Its syncs are kept under the name that it had.
    fn forget_if_nameless(&mut self, file: NodeId, place: &Place) {
        if !self.names.places(file).is_empty() || self.names.has_names(file) {
            return;
        }
        self.dirty.remove(&file);
        self.touched.remove(&file);
        self.timelines.forget_file(file);
        if let Some(content) = self
            .contents
            .remove(&file)
            .filter(|one| one.syncs.count > 0)
        {
            let sums = self
                .of_removed
                .entry(self.names.path_of_place(place))
                .or_default();
            sums.add_sums(&content.syncs);
        }
    }

    fn record_move(&mut self, from: Place, to: Place, is_exchange: bool, change: LastChange) {
        let moved = self.names.node_at(Resolved::Place(from.clone()));
        let to_before = self.presence_before(&to);
        if self.names.presence_at(&to) == Presence::Present(moved) {
            // Two names of one file: rename(2) does nothing.
            return;
        }
        self.names.remove_name(&from);
        let mut other = self.names.remove_name(&to);
        self.put_moved(moved, &to, change);
        if is_exchange {
            let other = *other.get_or_insert_with(|| self.names.add_unnamed());
            self.put_moved(other, &from, change);
        } else if let Some(replaced) = other.take() {
            self.forget_if_nameless(replaced, &to);
        }
        self.name_changed(to, to_before, change, None, Some(moved));
        self.name_changed(from, Before::Present(moved), change, None, other);
    }

    fn put_moved(&mut self, file: NodeId, to: &Place, change: LastChange) {
        self.names.join_filesystems(file, to.directory);
        self.names.add_name(to.clone(), file);
        self.content_of(file).is_named = true;
        self.draw_event(file, TimelineKind::Moved, change.at_ns);
        self.note_breach(file, to, change);
    }

    /// Notes it if a file has just been moved to a place while its data were not on the disk.
    fn note_breach(&mut self, file: NodeId, to: &Place, moved: LastChange) {
        let Some(content) = self.contents.get(&file) else {
            return;
        };
        let groups = content.pending.groups();
        let certain = groups.iter().rfind(|group| group.doubt.is_none());
        let Some(group) = certain.or(groups.last()) else {
            return;
        };
        let breach = Breach {
            call: group.change.call,
            moved,
            doubt: group.doubt,
            count: 0,
        };
        let noted = self
            .breaches
            .entry(self.names.path_of_place(to))
            .or_insert(breach);
        if noted.doubt.is_some() {
            *noted = Breach {
                count: noted.count,
                ..breach
            };
        }
        noted.count += 1;
        self.last_unsynced = self.number;
    }

    fn sync_entered(&mut self, sync: SyncId, scope: SyncScope, by: ProgramId) {
        let is_wasted = !self.has_pending(scope);
        let running = RunningSync {
            scope,
            entered: self.number,
            by,
            is_wasted,
        };
        self.running.insert(sync, running);
    }

    /// Whether there is something to sync.
    fn has_pending(&self, scope: SyncScope) -> bool {
        let is_changed = match scope {
            SyncScope::Object(file) => self.dirty.contains(&file) || self.touched.contains(&file),
            SyncScope::Mapping(file) => self.dirty.contains(&file),
            SyncScope::FilesystemOf(_) | SyncScope::Everything => {
                let mut all = self.dirty.union(&self.touched);
                all.any(|file| self.is_in(scope, *file) != Some(false))
            }
        };
        is_changed || self.names_in(scope).next().is_some()
    }

    /// Whether a sync of this scope is one of this file or directory; `None`: it may be.
    pub(super) fn is_in(&self, scope: SyncScope, file: NodeId) -> Option<bool> {
        match scope {
            SyncScope::Object(one) | SyncScope::Mapping(one) => Some(one == file),
            SyncScope::FilesystemOf(one) => {
                let is_known = self.names.are_in_one_filesystem(one, file);
                is_known.then_some(true)
            }
            SyncScope::Everything => Some(true),
        }
    }

    /// The changed names that a sync of this scope may cover.
    fn names_in(&self, scope: SyncScope) -> Box<dyn Iterator<Item = &Place> + '_> {
        let names = &self.changed_names;
        match scope {
            SyncScope::Object(directory) => {
                let name = "".into();
                let first = Place { directory, name };
                let names = names.range(first..).map(|(place, _)| place);
                Box::new(names.take_while(move |place| place.directory == directory))
            }
            SyncScope::Mapping(_) => Box::new(std::iter::empty()),
            SyncScope::FilesystemOf(_) | SyncScope::Everything => Box::new(names.keys()),
        }
    }

    fn sync_returned(
        &mut self,
        sync: SyncId,
        result: SyncResult,
        ns: Option<u64>,
        at_ns: Option<u64>,
    ) {
        let Some(running) = self.running.remove(&sync) else {
            return;
        };
        let sums = SyncSums::of_one_sync(running.is_wasted, result, ns);
        self.by_program
            .entry(running.by)
            .or_default()
            .add_sums(&sums);
        match running.scope {
            SyncScope::Object(file) | SyncScope::Mapping(file) | SyncScope::FilesystemOf(file) => {
                self.content_of(file).syncs.add_sums(&sums);
                self.has_strange_sync |= running.is_wasted && self.names.is_below_root(file);
            }
            SyncScope::Everything => self.of_everything.add_sums(&sums),
        }
        let RunningSync { scope, entered, .. } = running;
        if result == SyncResult::Refused {
            return;
        }
        let synced = self.surely_in(scope);
        let files = match scope {
            SyncScope::Object(file) | SyncScope::Mapping(file) => vec![file],
            _ => self.dirty.iter().copied().collect(),
        };
        for file in files {
            let is_in = self.is_in(scope, file);
            let number = self.number;
            let content = self.content_of(file);
            let pending = &mut content.pending;
            match (result, is_in, scope) {
                (SyncResult::Succeeded, _, SyncScope::Mapping(_)) => {
                    pending.mapping_synced(entered);
                }
                (SyncResult::Succeeded, Some(true), _) => pending.file_synced(entered),
                _ => partly_synced(pending, is_in, entered, result, number),
            }
            if self.contents[&file].pending.is_empty() {
                self.dirty.remove(&file);
            }
        }
        let is_in = |file: &NodeId| self.is_in(scope, *file) == Some(true);
        let touched: Vec<NodeId> = self.touched.iter().copied().filter(is_in).collect();
        for file in touched {
            self.touched.remove(&file);
        }
        let places: Vec<Place> = self.names_in(scope).cloned().collect();
        for place in places {
            self.name_synced(&place, scope, entered, result);
        }
        self.draw_sync(synced, result, at_ns, ns);
    }

    fn name_synced(&mut self, place: &Place, scope: SyncScope, entered: u64, result: SyncResult) {
        let is_in = self.is_in(scope, place.directory);
        let number = self.number;
        let Some(name) = self.changed_names.get_mut(place) else {
            return;
        };
        if (result, is_in) != (SyncResult::Succeeded, Some(true)) {
            partly_synced(&mut name.pending, is_in, entered, result, number);
            if result == SyncResult::Succeeded {
                name.before = Before::Unknown;
            }
        } else if let Some(group) = name.pending.name_synced(entered) {
            name.before = group.entry.map_or(Before::Absent, Before::Present);
        }
        if name.pending.is_empty() {
            self.changed_names.remove(place);
        }
    }
}

/// A sync returned that was entered in the event of this number, and did not cover all for certain.
fn partly_synced(
    pending: &mut Pending,
    is_in: Option<bool>,
    entered: u64,
    result: SyncResult,
    number: u64,
) {
    match (result, is_in) {
        (SyncResult::Succeeded, None) => pending.maybe_synced(entered),
        (SyncResult::Failed(errno), Some(true)) => pending.sync_failed(entered, errno, number),
        _ => {}
    }
}
