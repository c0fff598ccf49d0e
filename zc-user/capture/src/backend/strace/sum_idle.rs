//! Sums up files that were not used for a while, so that the memory for a log does not grow with the
//! number of files in it.

use std::collections::VecDeque;

use zctrace_core::ended::{ComparedPairs, FileSumming};

use super::{
    count::Counter,
    file_table::FileTable,
    rows::{EndedCall, Rows},
    summed_files::Replacements,
    tasks::Task,
};
use crate::trace::Row;

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
            calls += sum_files_of(self.tasks.get(id), &replacements, &self.files);
        }
        self.files.calls_without_name += calls;
    }
}

/// Replaces files in all that is known of a task. Returns how many of its calls lose a name.
fn sum_files_of(task: &mut Task, replacements: &Replacements, files: &FileTable) -> u64 {
    for file in task.opened.values_mut() {
        *file = replacements.file(*file);
    }
    if let Some(EndedCall { from, to, .. }) = task.uncertain_call.as_deref_mut() {
        for file in [from, to].into_iter().flatten() {
            *file = replacements.file(*file);
        }
    }
    let runs = task.earlier.iter_mut().chain([&mut task.now]);
    runs.map(|run| run.rows.sum_files(replacements, files))
        .sum()
}

impl Rows {
    /// Replaces files, and adds rows up that are alike then. Returns how many calls lose a name.
    fn sum_files(&mut self, replacements: &Replacements, files: &FileTable) -> u64 {
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
            let was_counted = row.files().any(|file| files.is_sum(file));
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
