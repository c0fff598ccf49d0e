//! The files that are no longer told apart, and what takes their places.

use std::collections::HashMap;

use crate::trace::FileId;

/// How many files are told apart.
pub const MAX_APART: usize = 65_536;

/// A file that takes the place of another one.
#[derive(Debug, Clone, Copy)]
struct Replacement {
    sum: FileId,
    /// Whether the other one had a name, which its sum lacks.
    had_name: bool,
}

/// The files that are to be replaced.
#[derive(Debug, Default)]
pub struct Replacements(HashMap<FileId, Replacement>);

impl Replacements {
    /// Replaces a file by this sum.
    pub fn add(&mut self, id: FileId, sum: FileId, had_name: bool) {
        self.0.insert(id, Replacement { sum, had_name });
    }

    /// Whether this file is replaced.
    pub fn contains(&self, id: FileId) -> bool {
        self.0.contains_key(&id)
    }

    /// What takes the place of a file; itself, if it stays.
    pub fn file(&self, id: FileId) -> FileId {
        self.0.get(&id).map_or(id, |replacement| replacement.sum)
    }

    /// Whether a file is replaced that has a name.
    pub fn has_name(&self, id: FileId) -> bool {
        self.0.get(&id).is_some_and(|one| one.had_name)
    }
}
