//! Names on the paths of calls that may have been symbolic links: what is there when the run has ended
//! tells only if the run has neither moved nor removed them.

use std::{collections::BTreeSet, ops::Bound};

/// Names on the paths of calls.
#[derive(Debug, Default)]
pub struct PassedNames {
    /// Those that are no link, or one that the run made, which was followed at once.
    known: BTreeSet<Box<str>>,
    /// Others that a call has passed.
    passed: BTreeSet<Box<str>>,
    /// Those that the run moved, removed or replaced.
    moved: BTreeSet<Box<str>>,
    /// Whether a call passed a name that may have been a link, and that can no longer be looked up.
    pub is_unsure: bool,
}

/// The most names of each kind that are kept.
const MAX_NAMES: usize = 1 << 20;

impl PassedNames {
    /// What is there is no link, or one that the run made.
    pub fn know_no_link(&mut self, path: &str) {
        if self.known.len() < MAX_NAMES && !self.known.contains(path) {
            self.known.insert(path.into());
        }
    }

    /// The kernel shows this path: no name on it is a link.
    pub fn know_no_links(&mut self, path: &str) {
        prefixes(path).for_each(|name| self.know_no_link(name));
    }

    /// A call followed links on this path; `follows` says whether also one at its end.
    pub fn pass(&mut self, path: &str, follows: bool) {
        for name in prefixes(path).filter(|name| follows || *name != path) {
            if !self.known.contains(name) {
                self.is_unsure |= self.moved.contains(name) || self.passed.len() >= MAX_NAMES;
                self.passed.insert(name.into());
            }
        }
    }

    /// The run removed this name.
    pub fn remove(&mut self, path: &str) {
        let is_passed = self.passed.contains(path) && !self.known.contains(path);
        let below: Vec<Box<str>> = names_below(&self.passed, path).collect();
        let mut below = below.iter();
        self.is_unsure |= is_passed
            || below.any(|name| !self.known.contains(name))
            || self.moved.len() >= MAX_NAMES;
        self.take_known(path);
        self.moved.insert(path.into());
    }

    /// The run moved what has this name.
    pub fn rename(&mut self, from: &str, to: &str) {
        let below: Vec<Box<str>> = names_below(&self.known, from).collect();
        let is_known = self.known.contains(from);
        self.remove(from);
        self.remove(to);
        for name in below {
            self.know_no_link(&format!("{to}{}", &name[from.len()..]));
        }
        if is_known {
            self.know_no_link(to);
        }
    }

    /// A file has got a second name.
    pub fn link(&mut self, from: &str, to: &str) {
        if self.known.contains(from) {
            self.know_no_link(to);
        }
    }

    fn take_known(&mut self, path: &str) {
        let below: Vec<Box<str>> = names_below(&self.known, path).collect();
        self.known.remove(path);
        for name in below {
            self.known.remove(&name);
        }
    }

    /// Whether the run moved, removed or replaced this name.
    pub fn was_moved(&self, path: &str) -> bool {
        self.moved.contains(path)
    }

    /// The start of a path up to the first name that the run moved; `None`: it moved none.
    pub fn until_moved<'a>(&self, path: &'a str) -> Option<&'a str> {
        prefixes(path).find(|name| self.moved.contains(*name))
    }
}

/// Each name on a path, as the path that leads to it.
fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').map(|(at, _)| at);
    let names = ends.chain([path.len()]).map(|end| &path[..end]);
    names.filter(|name| !name.is_empty())
}

/// The names below a directory.
fn names_below(names: &BTreeSet<Box<str>>, path: &str) -> impl Iterator<Item = Box<str>> {
    let start: Box<str> = format!("{path}/").into();
    let from = (Bound::Included(start.clone()), Bound::Unbounded);
    let all = names.range::<Box<str>, _>(from);
    all.take_while(move |name| name.starts_with(&*start))
        .cloned()
}
