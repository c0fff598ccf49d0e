//! [`NumberedFiles`]: gives the files that the kernel side numbered their places in the trace. The
//! kernel side may know one file by several numbers; it is in the trace once.

use std::{
    collections::{HashMap, HashSet},
    mem,
};

use zc_ebpf::{FileNumber, How, NumberedEnds};

use zctrace_core::text::plural;

use crate::{
    backend::file_sums::{FileSum, FileSums},
    trace::{Content, Ends, File, FileId, FileIdentity, Input, SummedContent},
};

/// Gives each file its index in [`Trace::files`](crate::trace::Trace::files).
#[derive(Debug, Clone, Default)]
pub struct NumberedFiles {
    /// The latest message about each number without a place.
    seen: HashMap<FileNumber, File>,
    placed: Vec<File>,
    by_number: HashMap<FileNumber, FileId>,
    by_identity: HashMap<(FileIdentity, Option<String>), FileId>,
    /// How many files were forgotten that nothing was known of.
    unknown_forgotten: usize,
    /// The highest number in any message.
    last_number: FileNumber,
    /// Numbers without an entry on the kernel side that a task, memory or a row may still name.
    lingering: HashSet<FileNumber>,
    /// Numbers without an entry on the kernel side that only rows may still name which were in the
    /// maps when tasks and memory were last looked at.
    unmentioned: HashSet<FileNumber>,
    /// Places of files that were forgotten.
    free: Vec<FileId>,
    /// In which round a row last named each file, but for sums.
    used_in: HashMap<FileId, u32>,
    round: u32,
    sums: FileSums,
    /// The paths that sums have.
    summed_paths: HashSet<String>,
}

/// How many paths are kept of the files that are summed.
const MAX_SUMMED_PATHS: usize = 64;

impl NumberedFiles {
    /// Records a message about a file. It replaces an earlier one about the same number: a socket
    /// may have got an address since.
    pub fn record(&mut self, number: FileNumber, file: File) {
        self.last_number = self.last_number.max(number);
        match self.by_number.get(&number) {
            None => drop(self.seen.insert(number, file)),
            Some(id) => self.placed[index_of(*id)] = file,
        }
    }

    /// The files at the ends of a call. They become part of the trace.
    pub fn ends_of(&mut self, ends: NumberedEnds) -> Ends {
        let input = self.id(ends.input).map(|file| match ends.how {
            How::SAME => Input::Buffer(file, Content::Same),
            How::ZEROS => Input::Buffer(file, Content::Zeros),
            How::CHANGED => Input::Buffer(file, Content::Changed),
            How::OTHER_USE => Input::Buffer(file, Content::OtherUse),
            How::UNCOMPARED => Input::Buffer(file, Content::Uncompared),
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
        let unknown = self.placed.iter().filter(|file| **file == File::default());
        let count = self.unknown_forgotten + unknown.count() - self.free.len();
        let files = plural(count as u64, "unknown file", "unknown files");
        (count > 0).then(|| format!("{files}: the buffer for the kernel's messages was full"))
    }

    fn id(&mut self, number: FileNumber) -> Option<FileId> {
        if number == 0 {
            return None;
        }
        if self.unmentioned.remove(&number) {
            self.lingering.insert(number);
        }
        let id = if let Some(&id) = self.by_number.get(&number) {
            id
        } else {
            let id = self.place_of(number);
            self.by_number.insert(number, id);
            id
        };
        self.used_in.insert(id, self.round);
        Some(id)
    }

    /// Adds a file, unless it is in the trace already under another number: the kernel may have
    /// dropped it from memory and read it again. It is the same file if path, device, inode and
    /// generation are the same. Without the path that is not certain: layers of an overlay, or a
    /// btrfs snapshot and its original, have the same numbers. So a file that comes back by another
    /// of its names counts as another file.
    fn place_of(&mut self, number: FileNumber) -> FileId {
        // Without a message, nothing is known of it.
        let file = self.seen.remove(&number).unwrap_or_default();
        let Some(identity) = file.identity else {
            return self.insert(file);
        };
        let key = (identity, file.path.clone());
        if let Some(&id) = self.by_identity.get(&key) {
            return id;
        }
        let id = self.insert(file);
        self.by_identity.insert(key, id);
        id
    }

    /// A note on files that were summed, if there are any.
    pub fn summed_note(&self) -> Option<String> {
        self.sums.summed_note()
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
}

/// Forgetting. A file that is used again afterwards is a new file.
impl NumberedFiles {
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
        self.lingering.extend(numbers);
    }

    /// `mentioned` are the numbers that tasks and memory name. Of the others that were given up,
    /// only rows in the maps can still name some.
    pub fn retain_mentioned(&mut self, mentioned: &HashSet<FileNumber>) {
        let unmentioned = self
            .lingering
            .extract_if(|number| !mentioned.contains(number));
        self.unmentioned.extend(unmentioned);
    }

    /// Forgets numbers that nothing names, and files that have no other number and are not `used`.
    /// All rows must have been taken that were in the maps at the last
    /// [`retain_mentioned`](Self::retain_mentioned).
    pub fn forget(&mut self, used: impl Fn(FileId) -> bool) {
        let dead = mem::take(&mut self.unmentioned);
        self.seen.retain(|number, _| !dead.contains(number));
        let living: HashSet<FileId> = self
            .by_number
            .iter()
            .filter(|(number, _)| !dead.contains(number))
            .map(|(_, id)| *id)
            .collect();
        let (mut unused, mut kept) = (HashSet::new(), HashSet::new());
        self.by_number.retain(|number, id| {
            if !dead.contains(number) {
                return true;
            }
            if !living.contains(id) && !used(*id) {
                unused.insert(*id);
                return false;
            }
            // A used file keeps one number.
            let is_kept = !living.contains(id) && kept.insert(*id);
            if is_kept {
                self.unmentioned.insert(*number);
            }
            is_kept
        });
        self.remove(&unused);
    }

    fn remove(&mut self, ids: &HashSet<FileId>) {
        // By id, because a message may have changed the identity since.
        self.by_identity.retain(|_, id| !ids.contains(id));
        for &id in ids {
            self.used_in.remove(&id);
            let file = mem::take(&mut self.placed[index_of(id)]);
            self.unknown_forgotten += usize::from(file == File::default());
            self.free.push(id);
        }
    }
}

/// Summing. Rows that name files then name sums instead, so that they can be forgotten.
impl NumberedFiles {
    /// Begins the next round.
    pub fn begin_round(&mut self) {
        self.round += 1;
    }

    /// Of the files of this sort, if they are more than `most`: those that no row has named in this
    /// round, the longest unused first, until half of `most` remain.
    pub fn idle(&self, most: usize, is_of_sort: impl Fn(FileId, &File) -> bool) -> HashSet<FileId> {
        let of_sort = self.used_in.iter();
        let of_sort = of_sort.filter(|(id, _)| is_of_sort(**id, &self.placed[index_of(**id)]));
        let mut files: Vec<(u32, FileId)> = of_sort.map(|(id, round)| (*round, *id)).collect();
        if files.len() <= most {
            return HashSet::new();
        }
        files.sort_unstable();
        let surplus = files.len() - most / 2;
        let idle = files.into_iter().take(surplus);
        idle.filter(|(round, _)| *round < self.round)
            .map(|(_, id)| id)
            .collect()
    }

    /// Of these files, those whose sums will not have their paths, because there is no room for more
    /// paths.
    pub fn without_path_in_sum(&mut self, files: &HashSet<FileId>) -> HashSet<FileId> {
        let lacks_room = |id: &&FileId| {
            let Some(path) = &self.placed[index_of(**id)].path else {
                return false;
            };
            let paths = &mut self.summed_paths;
            let has_room = paths.contains(path)
                || (paths.len() < MAX_SUMMED_PATHS && paths.insert(path.clone()));
            !has_room
        };
        files.iter().filter(lacks_room).copied().collect()
    }

    /// The sum that this file belongs to.
    pub fn sum_of(&mut self, file: FileId, content: SummedContent) -> FileId {
        let file = &self.placed[index_of(file)];
        let path = file.path.clone();
        let path = path.filter(|path| self.summed_paths.contains(path));
        let sum = FileSum::new(file, path, content);
        self.sums.place_of(&sum).unwrap_or_else(|| {
            let place = self.insert(sum.file());
            self.sums.set_place(sum, place);
            place
        })
    }

    /// Forgets files that no row names any more, since rows name their sums. Their numbers may still
    /// come up: then the file is another one.
    pub fn forget_summed(&mut self, files: &HashSet<FileId>) {
        let placed = &self.placed;
        let numbers = self.by_number.extract_if(|_, id| files.contains(id));
        self.seen
            .extend(numbers.map(|(number, id)| (number, placed[index_of(id)].clone())));
        self.sums.add_files(files.len());
        self.remove(files);
    }
}

/// The index of a file in [`Trace::files`](crate::trace::Trace::files).
fn index_of(id: FileId) -> usize {
    usize::try_from(id.0).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::FileKind;

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

    fn read(files: &mut NumberedFiles, number: FileNumber) -> Option<FileId> {
        let ends = files.ends_of(NumberedEnds::named(number, 0));
        ends.input.map(Input::file)
    }

    #[test]
    fn numbers_of_the_same_inode_and_path_are_one_file() {
        for (filesystem, path, inode, other, is_same) in [
            ("ext4", "/a", 257, "/a", true),
            ("ext4", "/a", 258, "/b", false),
            ("btrfs", "/pool/now/a", 257, "/pool/before/a", false),
            ("overlay", "/merged/upper", 257, "/merged/lower", false),
            ("fuse", "/mnt/a", 257, "/mnt/b", false),
        ] {
            let mut files = NumberedFiles::default();
            files.record(1, on(filesystem, 257, path));
            files.record(2, on(filesystem, inode, other));
            files.record(3, on(filesystem, 257, path));
            let found = [1, 2, 3].map(|number| read(&mut files, number));
            assert_eq!(found[0] == found[1], is_same, "{path} {other}");
            assert_eq!(found[0], found[2]);
            assert_eq!(files.into_placed().len(), if is_same { 1 } else { 2 });
        }
    }

    #[test]
    fn a_file_without_a_message_is_in_the_trace_and_one_that_comes_later_counts() {
        let mut files = NumberedFiles::default();
        let found = [1, 2].map(|number| read(&mut files, number));
        assert_ne!(found[0], found[1]);
        let unknown = |files: &NumberedFiles| files.unknown_note().unwrap_or_default();
        assert!(unknown(&files).starts_with("2 unknown files:"));
        files.record(1, on("ext4", 10, "/a"));
        assert_eq!(read(&mut files, 1), found[0]);
        assert!(unknown(&files).starts_with("1 unknown file:"));
        assert_eq!(files.placed(), [on("ext4", 10, "/a"), File::default()]);
        files.give_up(vec![1, 2]);
        files.retain_mentioned(&HashSet::new());
        files.forget(|_| false);
        assert_eq!(files.len(), 0);
        assert!(
            unknown(&files).starts_with("1 unknown file:"),
            "it was forgotten"
        );
    }

    /// The file /a, which a call read under number 1 before that was given up. Only rows may still
    /// name it.
    fn given_up() -> (NumberedFiles, Option<FileId>) {
        let mut files = NumberedFiles::default();
        files.record(1, on("ext4", 10, "/a"));
        let a = read(&mut files, 1);
        files.give_up(vec![1]);
        files.retain_mentioned(&HashSet::new());
        (files, a)
    }

    #[test]
    fn a_file_that_nothing_names_is_forgotten_and_another_one_gets_its_place() {
        let (mut files, a) = given_up();
        files.forget(|_| false);
        assert_eq!((files.len(), files.known(1)), (0, None));
        files.record(2, on("ext4", 20, "/b"));
        assert_eq!(read(&mut files, 2), a, "the place is free");
        files.record(3, on("ext4", 10, "/a"));
        assert_ne!(read(&mut files, 3), a, "the first file is another one now");
        assert_eq!(
            files.into_placed(),
            [on("ext4", 20, "/b"), on("ext4", 10, "/a")]
        );
    }

    #[test]
    fn a_number_that_something_names_is_not_forgotten() {
        let (mut files, a) = given_up();
        assert_eq!(
            read(&mut files, 1),
            a,
            "of a row that was still in the maps"
        );
        files.forget(|_| false);
        assert_eq!(files.len(), 1);
        files.retain_mentioned(&[1].into());
        files.forget(|_| false);
        assert_eq!(files.len(), 1, "memory holds bytes of it");
        files.retain_mentioned(&HashSet::new());
        files.forget(|_| true);
        let found = (files.len(), read(&mut files, 1));
        assert_eq!(found, (1, a), "a report names it");
    }

    #[test]
    fn a_file_that_got_another_number_stays_one_file() {
        let (mut files, a) = given_up();
        files.record(2, on("ext4", 10, "/a"));
        assert_eq!(read(&mut files, 2), a);
        files.forget(|_| true);
        assert_eq!(
            (files.placed_as(1), files.placed_as(2)),
            (None, Some(FileId(0)))
        );
    }

    fn connection(inode: u64) -> File {
        File {
            kind: Some(FileKind::Tcp),
            path: None,
            ..on("sockfs", inode, "")
        }
    }

    #[test]
    fn files_that_are_idle_for_the_longest_time_are_summed_by_kind() {
        let mut files = NumberedFiles::default();
        let id = |files: &mut NumberedFiles, number: FileNumber| {
            read(files, number).expect("it has a file")
        };
        let mut connections = Vec::new();
        for number in 1..=4 {
            files.record(number, connection(number.into()));
            connections.push(id(&mut files, number));
            files.begin_round();
        }
        let in_use = id(&mut files, 1);
        files.record(9, on("ext4", 9, "/a"));
        let named = id(&mut files, 9);
        let idle = |files: &NumberedFiles, most| files.idle(most, |_, file| file.path.is_none());
        assert_eq!(idle(&files, 4), HashSet::new(), "there is room");
        let most_idle = idle(&files, 3);
        assert_eq!(most_idle, connections[1..].iter().copied().collect());
        assert!(!most_idle.contains(&in_use) && !most_idle.contains(&named));

        assert_eq!(files.without_path_in_sum(&most_idle), HashSet::new());
        let sum = files.sum_of(connections[1], SummedContent::Same);
        assert_eq!(files.sum_of(connections[2], SummedContent::Same), sum);
        assert_ne!(files.sum_of(connections[2], SummedContent::Own), sum);
        files.forget_summed(&most_idle);
        assert!(
            files
                .summed_note()
                .is_some_and(|note| note.contains(" 3 files"))
        );
        // A row that comes late names another file.
        let late = id(&mut files, 2);
        assert_ne!(late, sum);
        assert_eq!(files.placed()[index_of(late)], connection(2));
    }

    #[test]
    fn sums_have_the_paths_that_there_is_room_for() {
        let mut files = NumberedFiles::default();
        let many = FileNumber::try_from(MAX_SUMMED_PATHS + 3).expect("few");
        for number in 1..=many {
            files.record(number, on("ext4", number.into(), &format!("/{number}")));
            read(&mut files, number);
        }
        files.begin_round();
        let idle = files.idle(0, |_, _| true);
        let nameless = files.without_path_in_sum(&idle);
        assert_eq!(nameless.len(), 3);
        let has_path = |files: &mut NumberedFiles, file: FileId| {
            let sum = files.sum_of(file, SummedContent::Same);
            files.placed()[index_of(sum)].path.is_some()
        };
        for file in idle {
            assert_eq!(has_path(&mut files, file), !nameless.contains(&file));
        }
    }
}
