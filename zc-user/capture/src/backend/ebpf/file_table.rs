//! [`FileTable`]: gives the files that the kernel side numbered their places in the trace. The kernel side may know one file by several
//! numbers; it is in the trace once.

use std::{
    collections::{HashMap, HashSet},
    mem,
};

use zc_ebpf::{CHANGED, Ends as NumberedEnds, FROM_BUFFER, FileNumber, MAPPED, UNSAMPLED};

use crate::{
    syscall::{Call, Fds},
    trace::{Ends, File, FileId, FileIdentity, Input, Streams},
};

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
}

impl FileTable {
    /// Records a message about a file. It replaces an earlier one about the same number: a socket may have got an address since.
    pub fn record(&mut self, number: FileNumber, file: File) {
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
    pub fn ends(&mut self, call: &Call, ends: NumberedEnds) -> Ends {
        let input = self.id(ends.input & !(MAPPED | FROM_BUFFER | CHANGED | UNSAMPLED)).map(|file| {
            if ends.input & MAPPED != 0 {
                Input::ByMapping(file)
            } else if ends.input & CHANGED != 0 {
                Input::ByChangedBuffer(file)
            } else if ends.input & UNSAMPLED != 0 {
                Input::ByUnsampledBuffer(file)
            } else if ends.input & FROM_BUFFER != 0 {
                Input::ByBuffer(file)
            } else if matches!(call.spec().fds, Fds::Writes(_)) {
                Input::ByOrder(file)
            } else {
                Input::Named(file)
            }
        });
        Ends { input, output: self.id(ends.output) }
    }

    /// What is known of the file with this number. `None`: there was no message about it.
    pub fn known(&self, number: FileNumber) -> Option<&File> {
        self.seen.get(&number).or_else(|| self.placed.get(index_of(*self.by_number.get(&number)?)))
    }

    /// The files of the trace so far.
    pub fn placed(&self) -> &[File] {
        &self.placed
    }

    /// Lends the files of the trace so far, until [`take_back`](Self::take_back).
    pub fn lend(&mut self) -> Vec<File> {
        mem::take(&mut self.placed)
    }

    /// Takes the files back that [`lend`](Self::lend) gave, without what was read and written of them.
    pub fn take_back(&mut self, files: Vec<File>) {
        self.placed = files;
        self.placed.iter_mut().for_each(|file| file.streams = Streams::default());
    }

    /// The files of the trace.
    pub fn into_placed(self) -> Vec<File> {
        self.placed
    }

    /// A note on files that nothing is known of because their messages were lost, if there are any.
    pub fn unknown_note(&self) -> Option<String> {
        let count = self.unknown.len();
        (count > 0).then(|| format!("nothing is known of {count} files: the kernel's messages did not fit into the buffer"))
    }

    /// Fills in what was read and written of each file that is `wanted`; `streams` looks it up by number.
    pub fn set_streams<E>(
        &mut self,
        wanted: impl Fn(FileId) -> bool,
        streams: impl Fn(FileNumber) -> Result<Streams, E>,
    ) -> Result<(), E> {
        let mut seen = HashSet::new();
        for (&number, id) in self.by_number.iter().filter(|(_, id)| wanted(**id)) {
            let Some(file) = self.placed.get_mut(index_of(*id)) else { continue };
            // If a file has two numbers, the order of their bytes is unknown.
            file.streams = if seen.insert(id) { streams(number)? } else { Streams::default() };
        }
        Ok(())
    }

    fn id(&mut self, number: FileNumber) -> Option<FileId> {
        if number == 0 {
            return None;
        }
        if let Some(&id) = self.by_number.get(&number) {
            return Some(id);
        }
        let id = self.place(number);
        self.by_number.insert(number, id);
        Some(id)
    }

    /// Adds a file, unless it is in the trace already under another number: the kernel may have dropped it from memory and read it again.
    /// It is the same file if path, device, inode and generation are the same. Without the path that is not certain: layers of an overlay,
    /// or a btrfs snapshot and its original, have the same numbers. So a file that comes back by another of its names counts as another
    /// file.
    fn place(&mut self, number: FileNumber) -> FileId {
        let next = FileId(u32::try_from(self.placed.len()).unwrap_or(u32::MAX));
        let file = self.seen.remove(&number).unwrap_or_else(|| {
            self.unknown.insert(next);
            File::default()
        });
        if let Some(identity) = file.identity {
            let id = *self.by_identity.entry((identity, file.path.clone())).or_insert(next);
            if id != next {
                return id;
            }
        }
        self.placed.push(file);
        next
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
            identity: Some(FileIdentity { device: 1, inode, generation: Some(3) }),
            filesystem: Some(filesystem.to_owned()),
            path: Some(path.to_owned()),
            ..File::default()
        }
    }

    fn ends(input: FileNumber, output: FileNumber) -> NumberedEnds {
        NumberedEnds { input, output }
    }

    #[test]
    fn an_input_is_named_by_the_call_or_known_from_what_was_read_before() {
        let mut files = FileTable::default();
        files.record(1, on("ext4", 10, "/a"));
        files.record(2, on("ext4", 20, "/b"));
        let (a, b) = (FileId(0), FileId(1));
        let copy = files.ends(&Call::native("sendfile"), ends(1, 2));
        assert_eq!(copy, Ends { input: Some(Input::Named(a)), output: Some(b) });
        let write = files.ends(&Call::native("write"), ends(1, 2));
        assert_eq!(write, Ends { input: Some(Input::ByOrder(a)), output: Some(b) });
        let held = files.ends(&Call::native("write"), ends(1 | FROM_BUFFER, 2));
        assert_eq!(held, Ends { input: Some(Input::ByBuffer(a)), output: Some(b) });
        let changed = files.ends(&Call::native("write"), ends(1 | FROM_BUFFER | CHANGED, 2));
        assert_eq!(changed, Ends { input: Some(Input::ByChangedBuffer(a)), output: Some(b) });
        let mapped = files.ends(&Call::native("write"), ends(1 | MAPPED, 2));
        assert_eq!(mapped, Ends { input: Some(Input::ByMapping(a)), output: Some(b) });
        assert_eq!(files.ends(&Call::native("write"), ends(0, 0)), Ends::default());
    }

    #[test]
    fn a_file_with_two_numbers_is_in_the_trace_once() {
        let mut files = FileTable::default();
        files.record(1, on("ext4", 10, "/a"));
        files.record(2, on("ext4", 10, "/a"));
        files.record(3, on("ext4", 11, "/b"));
        let read = Call::native("read");
        assert_eq!(files.ends(&read, ends(1, 0)), files.ends(&read, ends(2, 0)));
        assert_ne!(files.ends(&read, ends(1, 0)), files.ends(&read, ends(3, 0)));
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
            let read = Call::native("read");
            assert_ne!(files.ends(&read, ends(1, 0)), files.ends(&read, ends(2, 0)), "{filesystem}");
            assert_eq!(files.ends(&read, ends(1, 0)), files.ends(&read, ends(3, 0)), "{filesystem}");
        }
    }

    #[test]
    fn a_message_that_comes_after_the_first_row_counts() {
        let mut files = FileTable::default();
        let read = Call::native("read");
        let before = files.ends(&read, ends(1, 0));
        files.record(1, on("ext4", 10, "/a"));
        assert_eq!(files.ends(&read, ends(1, 0)), before);
        assert_eq!((files.unknown_note(), files.into_placed()), (None, vec![on("ext4", 10, "/a")]));
    }

    #[test]
    fn a_file_without_a_message_is_in_the_trace() {
        let mut files = FileTable::default();
        let read = Call::native("read");
        assert_ne!(files.ends(&read, ends(1, 0)), files.ends(&read, ends(2, 0)));
        assert!(files.unknown_note().is_some_and(|note| note.contains(" 2 files")));
        assert_eq!(files.into_placed(), vec![File::default(); 2]);
    }
}
