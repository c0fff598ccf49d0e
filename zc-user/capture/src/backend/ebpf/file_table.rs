//! [`FileTable`]: gives the files that the kernel side numbered their places in the trace. The kernel side may know one file by several
//! numbers; it is in the trace once.

use std::collections::{HashMap, HashSet};

use zc_ebpf::{Ends as NumberedEnds, FileNumber, How};

use crate::trace::{Ends, File, FileId, FileIdentity, Input};

/// Gives each file its index in [`Trace::files`](crate::trace::Trace::files).
#[derive(Debug, Clone, Default)]
pub struct FileTable {
    /// The latest message about each number without a place.
    seen: HashMap<FileNumber, File>,
    placed: Vec<File>,
    by_number: HashMap<FileNumber, FileId>,
    by_identity: HashMap<(FileIdentity, Option<String>), FileId>,
    /// The placed files that nothing is known of.
    unknown: HashSet<FileId>,
    /// How many of those were forgotten.
    unknown_forgotten: usize,
    /// The highest number in any message.
    last_number: FileNumber,
    /// Numbers without an entry on the kernel side, and what may still name them.
    given_up: HashMap<FileNumber, GivenUp>,
    /// Places of files that were forgotten.
    free: Vec<FileId>,
}

/// What is known of a number that was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GivenUp {
    /// A task or memory may still name it.
    Lingering,
    /// Only rows that are still in the maps may name it.
    Unmentioned,
    /// Nothing names it any more.
    Dead,
}

impl FileTable {
    /// Records a message about a file. It replaces an earlier one about the same number: a socket
    /// may have got an address since.
    pub fn record(&mut self, number: FileNumber, file: File) {
        self.last_number = self.last_number.max(number);
        match self.by_number.get(&number) {
            None => drop(self.seen.insert(number, file)),
            Some(id) => {
                self.unknown.remove(id);
                if let Some(placed) = self.placed.get_mut(index_of(*id)) {
                    *placed = file;
                }
            }
        }
    }

    /// The files at the ends of a call. They become part of the trace.
    pub fn ends(&mut self, ends: NumberedEnds) -> Ends {
        let input = self.id(ends.input).map(|file| match ends.how {
            How::BUFFER => Input::Buffer(file),
            How::CHANGED => Input::ChangedBuffer(file),
            How::MAPPING => Input::Mapping(file),
            _ => Input::Named(file),
        });
        Ends {
            input,
            output: self.id(ends.output),
        }
    }

    /// What is known of the file with this number. `None`: there was no message about it.
    pub fn known(&self, number: FileNumber) -> Option<&File> {
        self.seen
            .get(&number)
            .or_else(|| self.placed.get(index_of(*self.by_number.get(&number)?)))
    }

    /// The files of the trace so far.
    pub fn placed(&self) -> &[File] {
        &self.placed
    }

    /// The files of the trace.
    pub fn into_placed(self) -> Vec<File> {
        self.placed
    }

    /// A note on files that nothing is known of because their messages were lost, if there are any.
    pub fn unknown_note(&self) -> Option<String> {
        let count = self.unknown.len() + self.unknown_forgotten;
        (count > 0).then(|| format!("nothing is known of {count} files: the kernel's messages did not fit into the buffer"))
    }

    fn id(&mut self, number: FileNumber) -> Option<FileId> {
        if number == 0 {
            return None;
        }
        if let Some(given_up @ GivenUp::Unmentioned) = self.given_up.get_mut(&number) {
            *given_up = GivenUp::Lingering;
        }
        if let Some(&id) = self.by_number.get(&number) {
            return Some(id);
        }
        let id = self.place(number);
        self.by_number.insert(number, id);
        Some(id)
    }

    /// Adds a file, unless it is in the trace already under another number: the kernel may have
    /// dropped it from memory and read it again. It is the same file if path, device, inode and
    /// generation are the same. Without the path that is not certain: layers of an overlay, or a
    /// btrfs snapshot and its original, have the same numbers. So a file that comes back by another
    /// of its names counts as another file.
    fn place(&mut self, number: FileNumber) -> FileId {
        let next = self.next();
        let file = self.seen.remove(&number).unwrap_or_else(|| {
            self.unknown.insert(next);
            File::default()
        });
        if let Some(identity) = file.identity {
            let id = *self
                .by_identity
                .entry((identity, file.path.clone()))
                .or_insert(next);
            if id != next {
                return id;
            }
        }
        self.insert(file)
    }

    /// Puts a file into the next place, without a number.
    pub fn insert(&mut self, file: File) -> FileId {
        if let Some(id) = self.free.pop() {
            self.placed[index_of(id)] = file;
            return id;
        }
        self.placed.push(file);
        FileId(u32::try_from(self.placed.len() - 1).unwrap_or(u32::MAX))
    }

    /// The next place.
    fn next(&self) -> FileId {
        self.free
            .last()
            .copied()
            .unwrap_or(FileId(u32::try_from(self.placed.len()).unwrap_or(u32::MAX)))
    }
}

/// Forgetting. A file that is used again afterwards is a new file.
impl FileTable {
    /// The highest number in any message.
    pub fn last_number(&self) -> FileNumber {
        self.last_number
    }

    /// How many files the table has.
    pub fn len(&self) -> usize {
        self.placed.len() - self.free.len()
    }

    /// The file with this number, if it is in the trace.
    pub fn placed_as(&self, number: FileNumber) -> Option<FileId> {
        self.by_number.get(&number).copied()
    }

    /// The kernel side no longer finds these numbers.
    pub fn give_up(&mut self, numbers: Vec<FileNumber>) {
        self.given_up.extend(
            numbers
                .into_iter()
                .map(|number| (number, GivenUp::Lingering)),
        );
    }

    /// `mentioned` are the numbers that tasks and memory name. Of the others that were given up,
    /// only rows in the maps can still name some.
    pub fn retain_mentioned(&mut self, mentioned: &HashSet<FileNumber>) {
        for (_, given_up) in self
            .given_up
            .iter_mut()
            .filter(|(number, _)| !mentioned.contains(number))
        {
            if *given_up == GivenUp::Lingering {
                *given_up = GivenUp::Unmentioned;
            }
        }
    }

    /// All rows that were in the maps at the last [`retain_mentioned`](Self::retain_mentioned) have
    /// been taken: a number that none of them named is dead.
    pub fn bury_unmentioned(&mut self) {
        for given_up in self
            .given_up
            .values_mut()
            .filter(|given_up| **given_up == GivenUp::Unmentioned)
        {
            *given_up = GivenUp::Dead;
        }
    }

    /// Forgets dead numbers, and files that have no other number and are not `used`. Returns the
    /// used files that have only dead numbers.
    pub fn forget(&mut self, used: impl Fn(FileId) -> bool) -> HashSet<FileId> {
        let is_dead = |number: &FileNumber| self.given_up.get(number) == Some(&GivenUp::Dead);
        self.seen.retain(|number, _| !is_dead(number));
        let living: HashSet<FileId> = self
            .by_number
            .iter()
            .filter(|(number, _)| !is_dead(number))
            .map(|(_, id)| *id)
            .collect();
        let (mut unused, mut nameless) = (HashSet::new(), HashSet::new());
        self.by_number.retain(|number, id| {
            if !is_dead(number) {
                return true;
            }
            if !living.contains(id) && !used(*id) {
                unused.insert(*id);
                return false;
            }
            // A used file keeps one number.
            !living.contains(id) && nameless.insert(*id)
        });
        self.given_up.retain(|number, given_up| {
            *given_up != GivenUp::Dead || self.by_number.contains_key(number)
        });
        self.remove(&unused);
        nameless
    }

    /// Forgets these files, which [`forget`](Self::forget) has returned.
    pub fn forget_nameless(&mut self, files: &HashSet<FileId>) {
        self.by_number.retain(|number, id| {
            let stays = !files.contains(id);
            if !stays {
                self.given_up.remove(number);
            }
            stays
        });
        self.remove(files);
    }

    fn remove(&mut self, ids: &HashSet<FileId>) {
        // By id, because a message may have changed the identity since.
        self.by_identity.retain(|_, id| !ids.contains(id));
        let before = self.unknown.len();
        self.unknown.retain(|id| !ids.contains(id));
        self.unknown_forgotten += before - self.unknown.len();
        for &id in ids {
            self.placed[index_of(id)] = File::default();
            self.free.push(id);
        }
    }
}

/// The index of a file in [`Trace::files`](crate::trace::Trace::files).
fn index_of(id: FileId) -> usize {
    usize::try_from(id.0).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(filesystem: &str, inode: u64, path: &str) -> File {
        File {
            identity: Some(FileIdentity {
                device: 1,
                inode,
                generation: Some(3),
            }),
            filesystem: Some(filesystem.to_owned()),
            path: Some(path.to_owned()),
            ..File::default()
        }
    }

    fn ends(input: FileNumber, output: FileNumber) -> NumberedEnds {
        NumberedEnds::named(input, output)
    }

    #[test]
    fn an_input_is_named_by_the_call_or_known_from_memory() {
        let mut files = FileTable::default();
        files.record(1, on("ext4", 10, "/a"));
        files.record(2, on("ext4", 20, "/b"));
        let (a, b) = (FileId(0), FileId(1));
        for (how, input) in [
            (How::NAMED, Input::Named(a)),
            (How::BUFFER, Input::Buffer(a)),
            (How::CHANGED, Input::ChangedBuffer(a)),
            (How::MAPPING, Input::Mapping(a)),
        ] {
            let found = files.ends(NumberedEnds { how, ..ends(1, 2) });
            assert_eq!(
                found,
                Ends {
                    input: Some(input),
                    output: Some(b)
                }
            );
        }
        assert_eq!(files.ends(ends(0, 0)), Ends::default());
    }

    #[test]
    fn a_file_with_two_numbers_is_in_the_trace_once() {
        let mut files = FileTable::default();
        files.record(1, on("ext4", 10, "/a"));
        files.record(2, on("ext4", 10, "/a"));
        files.record(3, on("ext4", 11, "/b"));
        assert_eq!(files.ends(ends(1, 0)), files.ends(ends(2, 0)));
        assert_ne!(files.ends(ends(1, 0)), files.ends(ends(3, 0)));
        assert_eq!(files.into_placed().len(), 2);
    }

    #[test]
    fn files_with_the_same_inode_and_different_paths_are_different_files() {
        for (filesystem, one, other) in [
            ("btrfs", "/pool/now/a", "/pool/before/a"),
            ("overlay", "/merged/upper", "/merged/lower"),
            ("fuse", "/mnt/a", "/mnt/b"),
        ] {
            let mut files = FileTable::default();
            for (number, path) in [(1, one), (2, other), (3, one)] {
                files.record(number, on(filesystem, 257, path));
            }
            assert_ne!(
                files.ends(ends(1, 0)),
                files.ends(ends(2, 0)),
                "{filesystem}"
            );
            assert_eq!(
                files.ends(ends(1, 0)),
                files.ends(ends(3, 0)),
                "{filesystem}"
            );
        }
    }

    #[test]
    fn a_message_that_comes_after_the_first_row_counts() {
        let mut files = FileTable::default();
        let before = files.ends(ends(1, 0));
        files.record(1, on("ext4", 10, "/a"));
        assert_eq!(files.ends(ends(1, 0)), before);
        assert_eq!(
            (files.unknown_note(), files.into_placed()),
            (None, vec![on("ext4", 10, "/a")])
        );
    }

    #[test]
    fn a_file_without_a_message_is_in_the_trace() {
        let mut files = FileTable::default();
        assert_ne!(files.ends(ends(1, 0)), files.ends(ends(2, 0)));
        assert!(
            files
                .unknown_note()
                .is_some_and(|note| note.contains(" 2 files"))
        );
        assert_eq!(files.into_placed(), vec![File::default(); 2]);
    }

    /// The file /a, which a call read under number 1 before that was given up. Only rows may still
    /// name it.
    fn given_up() -> (FileTable, Ends) {
        let mut files = FileTable::default();
        files.record(1, on("ext4", 10, "/a"));
        let a = files.ends(ends(1, 0));
        files.give_up(vec![1]);
        files.retain_mentioned(&HashSet::new());
        (files, a)
    }

    /// Forgets what is dead once all rows have been taken. Returns the used files that have only
    /// dead numbers.
    fn take_and_forget(files: &mut FileTable, is_used: bool) -> HashSet<FileId> {
        files.bury_unmentioned();
        files.forget(|_| is_used)
    }

    #[test]
    fn a_file_that_nothing_names_is_forgotten_and_another_one_gets_its_place() {
        let (mut files, a) = given_up();
        assert!(files.forget(|_| false).is_empty());
        assert_eq!(files.len(), 1, "a row may name it");
        take_and_forget(&mut files, false);
        assert_eq!((files.len(), files.known(1)), (0, None));
        files.record(2, on("ext4", 20, "/b"));
        assert_eq!(files.ends(ends(2, 0)), a, "the place is free");
        files.record(3, on("ext4", 10, "/a"));
        assert_ne!(
            files.ends(ends(3, 0)),
            a,
            "the first file is another one now"
        );
        assert_eq!(
            files.into_placed(),
            [on("ext4", 20, "/b"), on("ext4", 10, "/a")]
        );
    }

    #[test]
    fn a_number_that_something_names_is_not_forgotten() {
        let (mut files, a) = given_up();
        assert_eq!(
            files.ends(ends(1, 0)),
            a,
            "of a row that was still in the maps"
        );
        take_and_forget(&mut files, false);
        assert_eq!(files.len(), 1);
        files.retain_mentioned(&HashSet::from([1]));
        take_and_forget(&mut files, false);
        assert_eq!(files.len(), 1, "memory holds bytes of it");
        files.retain_mentioned(&HashSet::new());
        assert_eq!(
            take_and_forget(&mut files, true),
            HashSet::from([FileId(0)]),
            "a report names it"
        );
        assert_eq!((files.len(), files.ends(ends(1, 0))), (1, a));
    }

    #[test]
    fn a_file_that_got_another_number_stays_one_file() {
        let (mut files, a) = given_up();
        files.record(2, on("ext4", 10, "/a"));
        assert_eq!(files.ends(ends(2, 0)), a);
        assert!(
            take_and_forget(&mut files, true).is_empty(),
            "it has a number"
        );
        assert_eq!(
            (files.placed_as(1), files.placed_as(2)),
            (None, Some(FileId(0)))
        );
    }

    #[test]
    fn files_that_nothing_was_known_of_are_noted_when_they_are_forgotten() {
        let mut files = FileTable::default();
        files.ends(ends(1, 0));
        files.give_up(vec![1]);
        files.retain_mentioned(&HashSet::new());
        take_and_forget(&mut files, false);
        assert_eq!(files.len(), 0);
        assert!(
            files
                .unknown_note()
                .is_some_and(|note| note.contains(" 1 files"))
        );
    }
}
