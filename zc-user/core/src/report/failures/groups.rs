//! Failed calls of the same class, summed up by error and place.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    class::{FailureClass, directories_by_name},
    directory_of,
    facts::MISSING,
    last_part,
};
use crate::report::failed_paths::{FailedPath, PathBase};

/// Failed calls of one class with the same error, on one path, on one name or in one directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailedGroup<'a> {
    /// What they say about how the command ended.
    pub class: FailureClass,
    /// The error.
    pub errno: &'a str,
    /// Where.
    pub place: Place<'a>,
    /// Whether that is in an unknown directory that the calls named by a descriptor.
    pub is_below_descriptor: bool,
    /// The names of the calls.
    pub syscalls: BTreeSet<&'a str>,
    /// How many calls.
    pub calls: u64,
    /// What the error means of one of them.
    pub meaning: Option<&'a str>,
    /// Whether a connection failed later, and the program was told the error (`SO_ERROR`).
    pub is_socket_error: bool,
    /// Where the first of them is in the lists of the report.
    pub(super) index: usize,
}

/// Where calls failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place<'a> {
    /// On this path.
    Path(&'a str),
    /// On these two paths, and whether only their beginnings are known.
    Paths(&'a str, &'a str, bool),
    /// On a path that begins so; the rest was too long to be kept.
    LongPath(&'a str),
    /// On several paths in this directory.
    Directory(&'a str),
    /// On a file of this name, which is in none of so many directories; those with the shortest paths.
    Nowhere(&'a str, usize, [&'a str; 2]),
    /// On paths that are not known, or on none.
    #[default]
    Unknown,
}

/// A directory stands for its paths if calls failed on at least so many of them, with the same
/// error.
const MANY_PATHS: usize = 3;

/// Sums up failed calls by class, error and path; by name, if a file is missing in several directories; by
/// directory, if calls failed on many paths in it.
pub(super) fn by_place<'a>(calls: &[(FailureClass, &'a FailedPath)]) -> Vec<FailedGroup<'a>> {
    let places = Places::new(calls);
    let mut groups: BTreeMap<_, FailedGroup<'_>> = BTreeMap::new();
    for (index, &(class, one)) in calls.iter().enumerate() {
        let is_below_descriptor = one.base == PathBase::Descriptor;
        let place = places.place_of(class, one);
        // Without a place, different calls have nothing to do with each other.
        let syscall = (place == Place::Unknown).then_some(one.syscall.as_str());
        let key = (class, &one.errno, place, syscall, is_below_descriptor);
        let group = groups.entry(key).or_insert_with(|| FailedGroup {
            class,
            errno: &one.errno,
            place,
            is_below_descriptor,
            index,
            ..FailedGroup::default()
        });
        group.meaning = group.meaning.or(one.meaning.as_deref());
        group.calls += one.calls;
        group.syscalls.insert(&one.syscall);
    }
    groups.into_values().collect()
}

/// What tells whether a call has a place with others.
struct Places<'a> {
    /// The directories in which a name is missing.
    directories: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// The paths in a directory on which calls of a class failed with an error.
    paths: BTreeMap<(FailureClass, &'a str, &'a str), BTreeSet<&'a str>>,
}

impl<'a> Places<'a> {
    fn new(calls: &[(FailureClass, &'a FailedPath)]) -> Self {
        let missing = calls.iter().filter(|(class, one)| is_missing(*class, one));
        let mut paths: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
        for &(class, one) in calls {
            if let Some(path) = one.path.as_deref() {
                let key = (class, one.errno.as_str(), directory_of(path));
                paths.entry(key).or_default().insert(path);
            }
        }
        Self {
            directories: directories_by_name(missing.map(|(_, one)| *one)),
            paths,
        }
    }

    fn place_of(&self, class: FailureClass, one: &'a FailedPath) -> Place<'a> {
        let Some(path) = one.path.as_deref() else {
            return Place::Unknown;
        };
        if let Some(second) = &one.second_path {
            return Place::Paths(path, second, one.path_cut);
        }
        if one.path_cut {
            return Place::LongPath(path);
        }
        let (name, directory) = (last_part(path), directory_of(path));
        let directories = self.directories.get(name);
        let several = directories.filter(|_| is_missing(class, one));
        let in_directory = &self.paths[&(class, one.errno.as_str(), directory)];
        if class == FailureClass::Named {
            Place::Path(path)
        } else if let Some((several, shortest)) =
            several.and_then(|several| Some((several, two_shortest(several)?)))
        {
            Place::Nowhere(name, several.len(), shortest)
        } else if !matches!(directory, "" | "/") && in_directory.len() >= MANY_PATHS {
            Place::Directory(directory)
        } else {
            Place::Path(path)
        }
    }
}

/// Whether a file was not found that may be missing in other directories as well.
fn is_missing(class: FailureClass, one: &FailedPath) -> bool {
    let name = one.path.as_deref().map_or("", last_part);
    let is_name = !matches!(name, "" | "." | "..") && one.second_path.is_none();
    let is_elsewhere = !matches!(class, FailureClass::Named | FailureClass::Answer);
    is_name && is_elsewhere && one.errno == MISSING
}

/// The two shortest of these texts, if there are two.
fn two_shortest<'a>(texts: &BTreeSet<&'a str>) -> Option<[&'a str; 2]> {
    let mut texts: Vec<&str> = texts.iter().copied().collect();
    texts.sort_by_key(|text| text.len());
    texts.first_chunk().copied()
}
