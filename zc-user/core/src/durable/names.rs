//! [`Names`]: the names of files and directories, as the calls so far have left them.

use std::collections::{BTreeSet, HashMap};

/// A file or a directory, whatever names it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(usize);

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The directory.
    pub directory: NodeId,
    /// The name.
    pub name: Box<str>,
}

/// What is at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// This file or directory.
    Present(NodeId),
    /// Nothing.
    Absent,
    /// No call so far has shown what is there.
    Unknown,
}

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// To a name in a directory, whether it is there or not.
    Place(Place),
    /// To a directory itself, as `.`, `..` and `/` do.
    Directory(NodeId),
}

#[derive(Debug, Default)]
struct Node {
    places: Vec<Place>,
    /// The place that it had last, for one without any.
    last_place: Option<Place>,
    /// Whether a name was seen in it.
    has_names: bool,
    /// Whether it is a directory that was made while the calls were seen, so that all its names are
    /// known.
    is_new_directory: bool,
    /// Where it leads, if it is a symbolic link.
    link_target: Option<Box<str>>,
    /// Whether it is certainly no symbolic link.
    is_confirmed: bool,
    /// Another node of the same filesystem; itself for one of each set.
    filesystem: usize,
}

/// The names of files and directories.
///
/// A name that no call has shown is unknown until a path leads through it: then it had been there
/// before.
#[derive(Debug)]
pub struct Names {
    nodes: Vec<Node>,
    /// `None`: nothing is there.
    entries: HashMap<Place, Option<NodeId>>,
    /// How many entries say that nothing is there because a call failed.
    absent: usize,
    /// Whether paths are told from the directory in which the program began although it is known.
    is_told_from_start: bool,
    /// The directories on the path that was resolved last.
    walked: Vec<NodeId>,
    /// What changed by paths through it, and may be a symbolic link.
    doubtful: BTreeSet<NodeId>,
    /// Whether calls have shown paths without symbolic links.
    shows_paths: bool,
}

/// So many symbolic links are followed on one path (`MAXSYMLINKS` of the kernel's
/// include/linux/namei.h).
const MAX_LINKS: usize = 40;
/// So many names are kept that a call did not find.
const MAX_ABSENT: usize = 100_000;
/// No path has more directories (`PATH_MAX` bytes).
const MAX_DEPTH: usize = 4096;

impl Default for Names {
    fn default() -> Self {
        let mut names = Self {
            nodes: Vec::new(),
            entries: HashMap::new(),
            absent: 0,
            is_told_from_start: false,
            walked: Vec::new(),
            doubtful: BTreeSet::new(),
            shows_paths: false,
        };
        names.add_unnamed();
        names.add_unnamed();
        names
    }
}

impl Names {
    /// The directory `/`.
    pub const ROOT: NodeId = NodeId(0);
    /// The working directory in which a program began, if that is unknown.
    pub const START: NodeId = NodeId(1);

    /// The program begins in the directory of this path. Paths below it are told from there.
    pub fn begin_in(&mut self, directory: &str) {
        if let Resolved::Place(place) = self.resolve_path(Self::ROOT, directory, false) {
            self.add_name(place, Self::START);
            self.is_told_from_start = true;
        }
    }

    /// A file or directory that has no name so far.
    pub fn add_unnamed(&mut self) -> NodeId {
        let filesystem = self.nodes.len();
        self.nodes.push(Node {
            filesystem,
            ..Node::default()
        });
        NodeId(filesystem)
    }

    /// A directory that was made just now, without a name so far.
    pub fn add_directory(&mut self) -> NodeId {
        let id = self.add_unnamed();
        let node = &mut self.nodes[id.0];
        (node.is_new_directory, node.is_confirmed) = (true, true);
        id
    }

    /// A symbolic link that was made just now, without a name so far.
    pub fn add_link(&mut self, target: &str) -> NodeId {
        let id = self.add_unnamed();
        self.nodes[id.0].link_target = Some(target.into());
        id
    }

    /// A directory turned out to be a symbolic link to the directory of this path.
    pub fn note_link(&mut self, directory: NodeId, path: &str) {
        let node = &mut self.nodes[directory.0];
        if !Self::is_start(directory) && !node.is_new_directory {
            node.link_target = Some(path.into());
            node.is_confirmed = false;
        }
    }

    /// Where a path leads that a call showed: it is absolute and has no symbolic links.
    pub fn resolve_shown(&mut self, path: &str) -> Resolved {
        let at = self.resolve_path(Self::ROOT, path, false);
        self.shows_paths = true;
        for id in std::mem::take(&mut self.walked) {
            self.confirm_no_link(id);
        }
        at
    }

    /// It is certainly no symbolic link.
    pub fn confirm_no_link(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.0];
        if node.link_target.is_none() {
            node.is_confirmed = true;
            self.doubtful.remove(&id);
        }
    }

    /// Something changed by the path that was resolved last. If it has an unknown symbolic link, that
    /// was elsewhere.
    pub fn rely_on_path(&mut self) {
        for id in std::mem::take(&mut self.walked) {
            self.rely_on(id);
        }
    }

    /// Something changed that this is, unless it is a symbolic link.
    pub fn rely_on(&mut self, id: NodeId) {
        if !self.is_confirmed(id) {
            self.doubtful.insert(id);
        }
    }

    /// Whether it is certainly no symbolic link, as far as calls show that.
    pub fn is_confirmed(&self, id: NodeId) -> bool {
        self.nodes[id.0].is_confirmed || Self::is_start(id)
    }

    /// Whether no directory above this place may be a symbolic link.
    pub fn is_real(&self, place: &Place) -> bool {
        let above = |directory: &NodeId| Some(self.place_above(*directory)?.directory);
        let mut above = std::iter::successors(Some(place.directory), above).take(MAX_DEPTH);
        above.all(|directory| self.is_confirmed(directory))
    }

    /// What changed unless it is a symbolic link, and its absolute path.
    pub fn doubtful_paths(&self) -> Vec<(NodeId, String)> {
        let path = |id: NodeId| match self.places(id) {
            [place] => Some((id, self.absolute_path(place)?)),
            _ => None,
        };
        self.doubtful.iter().copied().filter_map(path).collect()
    }

    /// Whether something may have changed elsewhere.
    pub fn has_doubtful(&self) -> bool {
        self.shows_paths && !self.doubtful.is_empty()
    }

    /// Where a path leads that starts in `base` unless it is absolute. `follows` says whether a
    /// symbolic link at its end is followed.
    pub fn resolve_path(&mut self, base: NodeId, path: &str, follows: bool) -> Resolved {
        self.walked.clear();
        self.resolve_within(base, path, follows, &mut 0)
    }

    fn resolve_within(
        &mut self,
        base: NodeId,
        path: &str,
        follows: bool,
        links: &mut usize,
    ) -> Resolved {
        let start = if path.starts_with('/') {
            Self::ROOT
        } else {
            base
        };
        let mut at = Resolved::Directory(start);
        let mut parts = path.split('/').filter(|part| !part.is_empty()).peekable();
        while let Some(part) = parts.next() {
            let directory = self.node_at(at);
            self.walked.push(directory);
            at = match part {
                "." => Resolved::Directory(directory),
                ".." if !self.is_above_start(directory) => {
                    Resolved::Directory(self.parent_directory(directory))
                }
                name => Resolved::Place(Place {
                    directory,
                    name: name.into(),
                }),
            };
            let is_last = parts.peek().is_none();
            if let Resolved::Place(place) = &at
                && (follows || !is_last)
                && *links < MAX_LINKS
                && let Some(target) = self.link_target(place)
            {
                *links += 1;
                at = self.resolve_within(directory, &target, true, links);
            }
        }
        at
    }

    /// What a path led to. A name that was unknown had been there before.
    pub fn node_at(&mut self, resolved: Resolved) -> NodeId {
        match resolved {
            Resolved::Directory(id) => id,
            Resolved::Place(place) => match self.presence_at(&place) {
                Presence::Present(id) => id,
                Presence::Absent | Presence::Unknown => {
                    let id = self.add_unnamed();
                    self.add_name(place, id);
                    id
                }
            },
        }
    }

    /// What is at a place.
    pub fn presence_at(&self, place: &Place) -> Presence {
        match self.entries.get(place) {
            Some(Some(id)) => Presence::Present(*id),
            Some(None) => Presence::Absent,
            None if self.nodes[place.directory.0].is_new_directory => Presence::Absent,
            None => Presence::Unknown,
        }
    }

    /// Whether this is what is at a place.
    pub fn has_node_at(&self, place: &Place, id: NodeId) -> bool {
        self.presence_at(place) == Presence::Present(id)
    }

    fn link_target(&self, place: &Place) -> Option<Box<str>> {
        match self.presence_at(place) {
            Presence::Present(id) => self.nodes[id.0].link_target.clone(),
            Presence::Absent | Presence::Unknown => None,
        }
    }

    fn parent_directory(&self, directory: NodeId) -> NodeId {
        let place = self.nodes[directory.0].places.first();
        place.map_or(directory, |place| place.directory)
    }

    /// Whether this is the directory in which a program began, or one of those above it: what is
    /// above that is unknown, so `..` is a name there.
    fn is_above_start(&self, directory: NodeId) -> bool {
        let place = self.nodes[directory.0].places.first();
        directory == Self::START || place.is_some_and(|place| &*place.name == "..")
    }

    /// A call did not find this name.
    pub fn note_absent(&mut self, place: Place) {
        let is_known = self.presence_at(&place) != Presence::Unknown;
        if self.absent < MAX_ABSENT && !is_known {
            self.absent += 1;
            self.entries.insert(place, None);
        }
    }

    /// Gives a file or directory this name, which nothing else has.
    pub fn add_name(&mut self, place: Place, id: NodeId) {
        self.nodes[id.0].places.push(place.clone());
        self.nodes[place.directory.0].has_names = true;
        if self.entries.insert(place, Some(id)) == Some(None) {
            self.absent = self.absent.saturating_sub(1);
        }
    }

    /// Takes a name away; returns what had it.
    pub fn remove_name(&mut self, place: &Place) -> Option<NodeId> {
        let id = self.entries.remove(place).flatten();
        self.note_absent(place.clone());
        let id = id?;
        let node = &mut self.nodes[id.0];
        node.places.retain(|other| other != place);
        node.last_place = Some(place.clone());
        Some(id)
    }

    /// Whether its path is absolute.
    pub fn is_below_root(&self, id: NodeId) -> bool {
        let mut at = id;
        for _ in 0..MAX_DEPTH {
            match self.place_above(at) {
                Some(place) => at = place.directory,
                None => break,
            }
        }
        at == Self::ROOT
    }

    /// Whether a path leads to it.
    pub fn is_linked(&self, id: NodeId) -> bool {
        let mut at = id;
        for _ in 0..MAX_DEPTH {
            match self.places(at).first() {
                _ if Self::is_start(at) => return true,
                Some(place) => at = place.directory,
                None => return false,
            }
        }
        false
    }

    /// Whether paths start there.
    pub fn is_start(id: NodeId) -> bool {
        [Self::ROOT, Self::START].contains(&id)
    }

    /// Whether a name was seen in it, so that it is a directory.
    pub fn has_names(&self, id: NodeId) -> bool {
        self.nodes[id.0].has_names
    }

    /// The names that a file or directory has.
    pub fn places(&self, id: NodeId) -> &[Place] {
        &self.nodes[id.0].places
    }

    /// Two files or directories are known to be in one filesystem: one was made in the other, or
    /// moved there.
    pub fn join_filesystems(&mut self, one: NodeId, other: NodeId) {
        let (one, other) = (self.filesystem_of(one), self.filesystem_of(other));
        self.nodes[one].filesystem = other;
    }

    /// Whether they are known to be in one filesystem.
    pub fn are_in_one_filesystem(&self, one: NodeId, other: NodeId) -> bool {
        self.filesystem_of(one) == self.filesystem_of(other)
    }

    fn filesystem_of(&self, id: NodeId) -> usize {
        let mut at = id.0;
        while self.nodes[at].filesystem != at {
            at = self.nodes[at].filesystem;
        }
        at
    }

    /// The path of a place, as the names are now; relative to the directory in which the program
    /// began if that is unknown, or [the first one](Self::begin_in).
    pub fn path_of_place(&self, place: &Place) -> String {
        let start = self.is_told_from_start.then_some(Self::START);
        self.path_from(place, start).1
    }

    /// The path of a place from the root; `None`: it is unknown.
    pub fn absolute_path(&self, place: &Place) -> Option<String> {
        let (top, path) = self.path_from(place, None);
        (top == Self::ROOT).then_some(path)
    }

    /// The path of a place from this directory, or from the highest one that is known above it, and
    /// the directory in which it begins.
    fn path_from(&self, place: &Place, start: Option<NodeId>) -> (NodeId, String) {
        let mut parts = vec![&*place.name];
        let mut directory = place.directory;
        while start != Some(directory)
            && let Some(place) = self.place_above(directory)
            && parts.len() < MAX_DEPTH
        {
            parts.push(&place.name);
            directory = place.directory;
        }
        parts.reverse();
        let path = parts.join("/");
        let slash = if directory == Self::ROOT { "/" } else { "" };
        (directory, format!("{slash}{path}"))
    }

    /// The place of a directory, or the one that it had last.
    pub fn place_above(&self, directory: NodeId) -> Option<&Place> {
        let node = &self.nodes[directory.0];
        node.places.first().or(node.last_place.as_ref())
    }
}
