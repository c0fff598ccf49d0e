//! The sums over files that are no longer told apart.

use std::collections::{HashMap, HashSet};

use zctrace_core::text::plural;

use crate::trace::{File, FileId, FileKind, SummedContent};

/// How many files are told apart.
pub const MAX_APART: usize = 65_536;

/// The files that are no longer told apart, and the sums that take their places.
#[derive(Debug, Default)]
pub struct SummedFiles {
    by_kind: HashMap<FileSum, FileId>,
    ids: HashSet<FileId>,
    /// How many files were summed.
    files: u64,
    /// The calls on those of them that had a name.
    pub calls_without_name: u64,
}

/// What files that are summed have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileSum {
    kind: Option<FileKind>,
    filesystem: Option<String>,
}

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

impl SummedFiles {
    /// Finds the sums for these files, each with its id. `insert` adds a file to the table.
    pub fn replace(
        &mut self,
        idle: impl IntoIterator<Item = (FileId, File)>,
        mut insert: impl FnMut(File) -> FileId,
    ) -> Replacements {
        let mut replacements = HashMap::new();
        for (id, file) in idle {
            let key = FileSum {
                kind: file.kind,
                filesystem: file.filesystem,
            };
            let sum = *self.by_kind.entry(key).or_insert_with_key(|key| {
                insert(File {
                    kind: key.kind,
                    filesystem: key.filesystem.clone(),
                    sum: Some(SummedContent::Same),
                    ..File::default()
                })
            });
            self.ids.insert(sum);
            let had_name = file.path.is_some();
            replacements.insert(id, Replacement { sum, had_name });
        }
        self.files += replacements.len() as u64;
        Replacements(replacements)
    }

    /// Whether this is the sum of some files.
    pub fn has(&self, id: FileId) -> bool {
        self.ids.contains(&id)
    }

    /// A note on the files that were summed, if there are any.
    pub fn note(&self) -> Option<String> {
        let files = plural(self.files, "file", "files");
        (self.files > 0).then(|| {
            format!("there were more than {MAX_APART} files: {files} that had not been used for a while are shown as sums by kind, and ways through them from process to process are not followed")
        })
    }
}

impl Replacements {
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
