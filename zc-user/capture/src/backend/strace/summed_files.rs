//! Sums up files that were not used for a while, so that the memory for a log does not grow with the
//! number of files in it.

use std::collections::{HashMap, HashSet, VecDeque};

use zctrace_core::{ended::ComparedPairs, ended::FileSumming, text::plural};

use super::{
    count::Counter,
    rows::{EndedCall, Rows},
    tasks::Task,
};
use crate::trace::{File, FileId, FileKind, Row, SummedContent};

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
    calls_without_name: u64,
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

    /// The calls whose rows lack the name of a file, because it was summed.
    pub const fn calls_without_name(&self) -> u64 {
        self.calls_without_name
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
    fn contains(&self, id: FileId) -> bool {
        self.0.contains_key(&id)
    }

    fn file(&self, id: FileId) -> FileId {
        self.0.get(&id).map_or(id, |replacement| replacement.sum)
    }

    fn has_name(&self, id: FileId) -> bool {
        self.0.get(&id).is_some_and(|one| one.had_name)
    }
}

impl Counter {
    /// Sums up files that were not used for a while, if there are too many. No call may be half
    /// counted.
    pub fn sum_idle_files(&mut self) {
        if !self.files.is_full() {
            return;
        }
        let replacements = self.files.sum_idle();
        let mut calls = 0;
        for id in 0..self.tasks.all().len() {
            let summed = &self.files.summed;
            calls += sum_files_of(self.tasks.get(id), &replacements, summed);
        }
        self.files.summed.calls_without_name += calls;
    }
}

/// Replaces files in all that is known of a task. Returns how many of its calls lose a name.
fn sum_files_of(task: &mut Task, replacements: &Replacements, summed: &SummedFiles) -> u64 {
    for file in task.opened.values_mut() {
        *file = replacements.file(*file);
    }
    if let Some(EndedCall { from, to, .. }) = task.uncertain_call.as_deref_mut() {
        for file in [from, to].into_iter().flatten() {
            *file = replacements.file(*file);
        }
    }
    let runs = task.earlier.iter_mut().chain([&mut task.now]);
    runs.map(|run| run.rows.sum_files(replacements, summed))
        .sum()
}

impl Rows {
    /// Replaces files, and adds rows up that are alike then. Returns how many calls lose a name.
    fn sum_files(&mut self, replacements: &Replacements, summed: &SummedFiles) -> u64 {
        if let Some(read) = &mut self.last_read {
            read.from = read.from.map(|file| replacements.file(file));
            for file in &mut read.written_to {
                *file = replacements.file(*file);
            }
        }
        let is_replaced = |file| replacements.contains(file);
        if !self.sums.iter().flat_map(Row::files).any(is_replaced) {
            return 0;
        }
        let mut calls = 0;
        let mut sum_of = |file, _| replacements.file(file);
        let mut summing = FileSumming {
            pairs: ComparedPairs::default(),
            sum_of: &mut sum_of,
        };
        let mut keys: Vec<_> = self.places.drain().map(|(key, at)| (at, key)).collect();
        keys.sort_unstable_by_key(|(at, _)| *at);
        let mut rows: VecDeque<_> = std::mem::take(&mut self.sums).into();
        for (_, (name, abi, ends)) in keys {
            let Some(mut row) = rows.pop_front() else {
                break;
            };
            let was_counted = row.files().any(|file| summed.has(file));
            if !was_counted && row.files().any(|file| replacements.has_name(file)) {
                calls += row.calls;
            }
            row.ends = summing.ends(ends);
            let next = self.sums.len();
            let place = *self.places.entry((name, abi, row.ends)).or_insert(next);
            match self.sums.get_mut(place) {
                Some(sum) => sum.add(&row),
                None => self.sums.push(row),
            }
        }
        calls
    }
}
