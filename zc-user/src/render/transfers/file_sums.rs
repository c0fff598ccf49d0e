//! Bytes by file, and in a few words: the largest file, or the folder that most of them are in.

use std::{cmp::Reverse, collections::BTreeMap};

use super::ends::{end_label, unusual_nature};
use crate::{render::text, report::End, units};

/// A folder stands for its files if it has at least this share of the bytes.
const MIN_FOLDER_PERCENT: u64 = 90;

/// How many files are named.
const MAX_NAMED: usize = 2;

/// Bytes by file.
#[derive(Debug, Default)]
pub(in crate::render) struct ShownFileSums<'a>(BTreeMap<&'a End, u64>);

impl<'a> ShownFileSums<'a> {
    pub(in crate::render) fn add(&mut self, file: &'a End, bytes: u64) {
        let sum = self.0.entry(file).or_default();
        *sum = sum.saturating_add(bytes);
    }

    pub(in crate::render) fn add_all(&mut self, more: Self) {
        for (file, bytes) in more.0 {
            self.add(file, bytes);
        }
    }

    pub(in crate::render) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(in crate::render) fn clear(&mut self) {
        self.0.clear();
    }

    pub(in crate::render) fn largest(&self) -> u64 {
        self.0.values().copied().max().unwrap_or(0)
    }

    /// Leaves out other files than those that are meant.
    pub(in crate::render) fn retain(&mut self, is_meant: impl Fn(&End, u64) -> bool) {
        self.0.retain(|file, bytes| is_meant(file, *bytes));
    }

    pub(in crate::render) fn sum(&self) -> u64 {
        self.0.values().copied().fold(0, u64::saturating_add)
    }

    /// The file with at least half of the bytes, or else what they have in common, and its bytes: `200
    /// files in tree/`.
    pub(in crate::render) fn label(&self) -> Option<(String, u64)> {
        let (file, &largest) = self.0.iter().max_by_key(|(_, bytes)| **bytes)?;
        if largest >= self.sum() / 2 {
            return Some((end_label(file), largest));
        }
        Some(match self.folder() {
            Some((folder, bytes, files)) => {
                (format!("{files} files in {}", text::escape(folder)), bytes)
            }
            None => (format!("{} files", self.0.len()), self.sum()),
        })
    }

    /// `3.0 MiB of in and 1.0 MiB of 3 others`; of many files, `3.8 MiB of 201 files
    /// in tree/`. Files with a third of the bytes are named. `None`: of none.
    pub(in crate::render) fn in_words(&self, way: &str) -> Option<String> {
        let (all, folder) = (self.sum(), self.folder());
        let largest = self.largest();
        let is_large = largest >= all / 2 || folder.is_none() && largest >= all / 3;
        let (mut parts, shown_bytes, shown_files) = if self.is_empty() {
            return None;
        } else if is_large {
            let mut large: Vec<(&End, u64)> =
                self.0.iter().map(|(file, sum)| (*file, *sum)).collect();
            large.retain(|&(_, bytes)| bytes == largest || bytes >= all / 3);
            large.sort_by_key(|&(_, bytes)| Reverse(bytes));
            large.truncate(MAX_NAMED);
            let bytes: u64 = large.iter().map(|(_, bytes)| bytes).sum();
            let named = large.iter().map(|(file, bytes)| {
                let name = format!("{} {}", end_label(file), unusual_nature(file));
                format!("{} {way} {}", units::bytes(*bytes), name.trim_end())
            });
            (named.collect::<Vec<String>>(), bytes, large.len())
        } else if let Some((folder, bytes, files)) = folder {
            let name = text::escape(folder);
            let files_there = format!("{} {way} {files} files in {name}", units::bytes(bytes));
            (vec![files_there], bytes, files)
        } else {
            let has_name = |end: &&End| end.path.is_some();
            let kind = match self.0.keys().filter(|end| has_name(end)).count() {
                0 => "pipes and connections",
                named if named < self.0.len() => "files, pipes and connections",
                _ => "files",
            };
            let files = format!("{} {way} {} {kind}", units::bytes(all), self.0.len());
            (vec![files], all, self.0.len())
        };
        if let others @ 1.. = self.0.len() - shown_files {
            let rest = units::bytes(all.saturating_sub(shown_bytes));
            let others = text::plural(others as u64, "other", "others");
            parts.push(format!("{rest} {way} {others}"));
        }
        let last = parts.pop()?;
        Some(if parts.is_empty() {
            last
        } else {
            format!("{} and {last}", parts.join(", "))
        })
    }

    /// The innermost folder with nearly all bytes, these, and the number of its files.
    fn folder(&self) -> Option<(&'a str, u64, usize)> {
        let mut folders: BTreeMap<&str, u64> = BTreeMap::new();
        for (file, bytes) in &self.0 {
            for folder in folders_of(file) {
                let sum = folders.entry(folder).or_default();
                *sum = sum.saturating_add(*bytes);
            }
        }
        let least = u128::from(self.sum()) * u128::from(MIN_FOLDER_PERCENT);
        let has_most = |(_, bytes): &(&str, u64)| u128::from(*bytes) * 100 >= least;
        let folders = folders.into_iter().filter(has_most);
        let (folder, bytes) = folders.max_by_key(|(folder, _)| folder.len())?;
        Some((folder, bytes, self.in_folder(folder).count()))
    }

    fn in_folder(&self, folder: &str) -> impl Iterator<Item = &End> {
        let files = self.0.keys().copied();
        files.filter(move |file| folders_of(file).any(|one| one == folder))
    }
}

/// The folders that a file is in, each with a slash at its end, without the root.
fn folders_of(file: &End) -> impl Iterator<Item = &str> {
    let path = file.path.as_deref().unwrap_or_default();
    let slashes = path.match_indices('/').filter(|(place, _)| *place > 0);
    slashes.map(|(place, _)| &path[..=place])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of files with these bytes.
    fn in_words(files: &[(&str, u64)]) -> Option<String> {
        let ends: Vec<End> = files
            .iter()
            .map(|(path, _)| End {
                path: Some((*path).to_owned()),
                ..End::default()
            })
            .collect();
        let mut sums = ShownFileSums::default();
        for (end, (_, bytes)) in ends.iter().zip(files) {
            sums.add(end, *bytes);
        }
        sums.in_words("of")
    }

    #[test]
    fn many_files_are_told_by_the_innermost_folder_that_has_nearly_all_bytes() {
        let said = |files| in_words(files).expect("some files");
        assert_eq!(in_words(&[]), None);
        assert_eq!(said(&[("in", 5)]), "5 B of in");
        let two = [("/a/in", 6), ("/a/b", 5)];
        assert_eq!(said(&two), "6 B of /a/in and 5 B of /a/b");
        let alike = [("t/a/1", 40), ("t/a/2", 40), ("t/b/3", 40), ("/etc/x", 4)];
        assert_eq!(said(&alike), "120 B of 3 files in t/ and 4 B of 1 other");
        let inner = [("t/a/1", 40), ("t/a/2", 40), ("t/a/3", 40), ("t/x", 8)];
        assert_eq!(said(&inner), "120 B of 3 files in t/a/ and 8 B of 1 other");
        let apart = [("a/1", 4), ("b/2", 4), ("3", 4), ("4", 4)];
        assert_eq!(said(&apart), "16 B of 4 files");
        let two = [("db", 12), ("db-journal", 12), ("log", 2)];
        assert_eq!(
            said(&two),
            "12 B of db, 12 B of db-journal and 2 B of 1 other"
        );
    }
}
