//! [`FileSums`]: the sums over files that are no longer told apart, under both backends.

use std::collections::HashMap;

use zctrace_core::text::plural;

use crate::trace::{File, FileId, FileKind, SummedContent};

/// The sums over files that are no longer told apart, and their places among the files of the trace.
#[derive(Debug, Clone, Default)]
pub struct FileSums {
    places: HashMap<FileSum, FileId>,
    /// How many files were summed.
    files: usize,
}

/// What files that are summed have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileSum {
    kind: Option<FileKind>,
    filesystem: Option<String>,
    path: Option<String>,
    content: SummedContent,
}

impl FileSum {
    /// The sum that a file belongs to. It has a `path` if all its files have this one.
    pub fn new(file: &File, path: Option<String>, content: SummedContent) -> Self {
        Self {
            kind: file.kind,
            filesystem: file.filesystem.clone(),
            path,
            content,
        }
    }

    /// The sum as a file of the trace.
    pub fn file(&self) -> File {
        File {
            kind: self.kind,
            filesystem: self.filesystem.clone(),
            path: self.path.clone(),
            sum: Some(self.content),
            ..File::default()
        }
    }
}

impl FileSums {
    /// The place of a sum, if it has one.
    pub fn place_of(&self, sum: &FileSum) -> Option<FileId> {
        self.places.get(sum).copied()
    }

    /// Gives a sum its place.
    pub fn set_place(&mut self, sum: FileSum, place: FileId) {
        self.places.insert(sum, place);
    }

    /// Notes that so many files were summed.
    pub fn add_files(&mut self, files: usize) {
        self.files += files;
    }

    /// A note on the files that were summed, if there are any.
    pub fn summed_note(&self) -> Option<String> {
        let files = plural(self.files as u64, "file", "files");
        (self.files > 0).then(|| {
            format!("too many files to tell apart: {files} unused for a while, such as closed connections and pipes, are summed by kind; zctrace does not follow bytes through them")
        })
    }
}
