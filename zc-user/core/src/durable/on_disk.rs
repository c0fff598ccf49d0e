//! [`DirectoriesOnDisk`]: which directories a crash now leaves for certain, and where.

use std::collections::BTreeMap;

use super::{
    Judge,
    judge::Before,
    names::{Names, NodeId, Place},
};

/// The directories that are on the disk as the syncs so far promise it.
pub(super) struct DirectoriesOnDisk<'a> {
    judge: &'a Judge,
    /// The changed names that lead to each of them on the disk.
    changed: BTreeMap<NodeId, Vec<&'a Place>>,
    /// What is known so far; while one is looked for, it is not there.
    known: BTreeMap<NodeId, Option<DirectoryFound<'a>>>,
}

#[derive(Clone, Copy)]
struct DirectoryFound<'a> {
    /// The name that leads there.
    place: &'a Place,
    /// Whether it is certain; otherwise it may be there.
    is_certain: bool,
}

impl<'a> DirectoriesOnDisk<'a> {
    /// Those that this judge knows.
    pub(super) fn new(judge: &'a Judge) -> Self {
        let mut changed: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (place, name) in &judge.changed_names {
            if let Before::Present(directory) = name.before
                && judge.names.has_names(directory)
            {
                changed.entry(directory).or_default().push(place);
            }
        }
        Self {
            judge,
            changed,
            known: BTreeMap::new(),
        }
    }

    /// Whether a changed name is on the disk. `Some(false)`: it may be; `None`: it is not.
    pub(super) fn has_name(&mut self, place: &Place) -> Option<bool> {
        let own = match self.judge.changed_names.get(place)?.before {
            Before::Present(_) => true,
            Before::Unknown => false,
            Before::Absent => return None,
        };
        Some(self.has_directory(place.directory)? && own)
    }

    /// The path of a name: the one that it has, or that the disk has if its directory was removed.
    pub(super) fn path_on_disk(&mut self, place: &Place) -> String {
        let is_linked = self.judge.names.is_linked(place.directory);
        match self.find_directory(place.directory).filter(|_| !is_linked) {
            Some(found) => format!("{}/{}", self.path_on_disk(found.place), place.name),
            None => self.judge.names.path_of_place(place),
        }
    }

    fn has_directory(&mut self, directory: NodeId) -> Option<bool> {
        if Names::is_start(directory) {
            return Some(true);
        }
        self.find_directory(directory).map(|found| found.is_certain)
    }

    fn find_directory(&mut self, directory: NodeId) -> Option<DirectoryFound<'a>> {
        if let Some(known) = self.known.get(&directory) {
            return *known;
        }
        self.known.insert(directory, None);
        let Judge {
            names,
            changed_names,
            ..
        } = self.judge;
        let before = |place| changed_names.get(place).map(|name| name.before);
        let changed = self.changed.get(&directory).cloned().unwrap_or_default();
        let changed = changed.into_iter().map(|place| (place, true));
        let last = names.place_above(directory).into_iter();
        let others = names.places(directory).iter().chain(last);
        let others = others.filter_map(|place| match before(place) {
            None => names.has_node_at(place, directory).then_some((place, true)),
            Some(Before::Unknown) => Some((place, false)),
            Some(Before::Present(_) | Before::Absent) => None,
        });
        let places: Vec<(&Place, bool)> = changed.chain(others).collect();
        let found = places.into_iter().filter_map(|(place, is_certain)| {
            let is_certain = self.has_directory(place.directory)? && is_certain;
            Some(DirectoryFound { place, is_certain })
        });
        let found = found.max_by_key(|found| found.is_certain);
        self.known.insert(directory, found);
        found
    }
}
