//! An independent model of a kernel and its disk: what a crash may leave of the files of a script
//! (`tests/workloads/file_script.rs`). `tests/suite/durable_truth` uses it as well.
//!
//! It has a [`CrashDisk`], and knows no rule of `docs/durability.md`.

use std::collections::{BTreeMap, BTreeSet};

use super::crash_disk::{CrashDisk, Disk, Inode, ROOT, Update};

/// More changes without a promise have too many subsets.
pub const MAX_OPEN: usize = 9;
/// How many descriptors a script has.
pub const SLOTS: usize = 4;

#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent flag of a call"
)]
pub(super) struct ModelFile {
    pub(super) file: Inode,
    is_synced: bool,
    is_writable: bool,
    /// Whether it is only a place (`O_PATH`), which cannot be synced.
    is_path: bool,
    /// Whether it writes to the end alone.
    is_append: bool,
}

impl ModelFile {
    pub(super) const fn new_writable(file: Inode) -> Self {
        Self {
            file,
            is_synced: false,
            is_writable: true,
            is_path: false,
            is_append: false,
        }
    }
}

/// What a process has.
#[derive(Debug, Clone)]
pub(super) struct ModelProcess {
    pub(super) slots: [Option<ModelFile>; SLOTS],
    pub(super) directory: Inode,
    /// What its standard output and error were redirected to.
    streams: [Option<ModelFile>; 2],
}

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelOutcome {
    /// It succeeds.
    Done,
    /// It fails, and changes nothing.
    Fails,
    /// A program does not make it, or the model does not know.
    Skipped,
}

/// What a crash at some moment may lose.
pub type Lost = BTreeSet<String>;

/// The kernel and its disk.
pub struct FileModel {
    pub(super) disk: CrashDisk,
    pub(super) directories: BTreeSet<Inode>,
    pub(super) links: BTreeMap<Inode, String>,
    /// The lengths of files, and which may still get their first name.
    pub(super) lengths: BTreeMap<Inode, u64>,
    pub(super) nameless: BTreeSet<Inode>,
    pub(super) next: Inode,
    pub(super) process: ModelProcess,
    parent: Option<ModelProcess>,
    is_in_thread: bool,
    can_clone: bool,
    /// The files and directories of a second filesystem, mounted on [`DIRECTORY`].
    pub(super) mounted: BTreeSet<Inode>,
    /// Syncs that run: what they cover, and how many changes there were when they were entered.
    running: BTreeMap<String, (Inode, usize)>,
    /// The numbers of the changes that were stores to a mapping, and their files.
    stores: BTreeMap<usize, Inode>,
    lost_by_move: Lost,
    /// What was lost at each mark.
    pub marks: BTreeMap<String, Lost>,
    /// What was lost at any time when the script told others something.
    pub told: Option<Lost>,
}

/// Where a script begins: a file with content, an empty one, a directory, and a file in it.
pub const INITIAL: [(&str, u64); 3] = [("a", 20), ("z", 0), ("d/b", 20)];
/// A symbolic link to that directory, and its name.
pub const INITIAL_LINK: (&str, &str) = ("d", "l");
/// The directory of [`INITIAL`], and the file in it.
pub(super) const DIRECTORY: Inode = 3;
pub(super) const FILE_IN_DIRECTORY: Inode = 4;
/// How much a script writes to a stream.
const TOLD_BYTES: u64 = 6;

impl FileModel {
    /// `can_clone`: the filesystem has `FICLONE`.
    pub fn new(can_clone: bool) -> Self {
        let (target, link) = INITIAL_LINK;
        let names = [
            (ROOT, "a", 1),
            (ROOT, "z", 2),
            (ROOT, "d", DIRECTORY),
            (DIRECTORY, "b", FILE_IN_DIRECTORY),
            (ROOT, link, 5),
        ];
        Self {
            disk: CrashDisk {
                initial: Disk::with_names(&names),
                updates: Vec::new(),
            },
            directories: [ROOT, DIRECTORY].into(),
            links: [(5, target.to_owned())].into(),
            lengths: [(1, 20), (2, 0), (FILE_IN_DIRECTORY, 20)].into(),
            nameless: BTreeSet::new(),
            next: 6,
            process: ModelProcess {
                slots: [None; SLOTS],
                directory: ROOT,
                streams: [None; 2],
            },
            parent: None,
            is_in_thread: false,
            can_clone,
            mounted: BTreeSet::new(),
            running: BTreeMap::new(),
            stores: BTreeMap::new(),
            lost_by_move: Lost::new(),
            marks: BTreeMap::new(),
            told: None,
        }
    }

    /// Whether a further change would make too many subsets.
    pub fn is_full(&self) -> bool {
        self.disk.count_open() >= MAX_OPEN
    }

    /// Whether the steps that follow are made by a child or a thread.
    pub fn is_apart(&self) -> bool {
        self.parent.is_some() || self.is_in_thread
    }

    /// Where a crash now may lose what the script left, or it was lost by a move.
    pub fn lost_files(&self) -> Lost {
        let mut lost = self.disk.lost_paths();
        lost.extend(self.lost_by_move.iter().cloned());
        lost
    }

    /// A file was moved to a path. Notes it if a crash may leave it there without its data.
    pub(super) fn note_move(&mut self, file: Inode, directory: Inode, name: &str) {
        let Some(path) = self.disk.live_disk().path_of_entry(directory, name) else {
            return;
        };
        if self.disk.may_be_cut_off(&path, file) {
            self.lost_by_move.insert(path);
        }
    }

    pub(super) fn change_length(&mut self, file: Inode, length: u64, is_synced: bool) {
        let is_cut = length == 0;
        self.disk.add_update(Update::Data { file, is_cut });
        self.lengths.insert(file, length);
        if let Some(entry) = self.disk.updates.last_mut() {
            entry.is_promised = is_synced;
        }
    }

    pub(super) fn promise_object(&mut self, object: Inode) {
        self.disk
            .promise_updates(|_, update| update.changed_object() == object);
    }

    /// Performs a step.
    pub fn perform_step(&mut self, words: &[&str], written: u64) -> ModelOutcome {
        match *words {
            ["fork"] if !self.is_apart() => self.parent = Some(self.process.clone()),
            ["thread"] if !self.is_apart() => self.is_in_thread = true,
            ["join"] if self.is_apart() => {
                if let Some(parent) = self.parent.take() {
                    self.process = parent;
                }
                self.is_in_thread = false;
            }
            ["sync"] => self.disk.promise_updates(|_, _| true),
            ["mark", name] => {
                let lost = self.lost_files();
                self.marks.insert(name.to_owned(), lost);
            }
            ["tell"] if self.process.streams[0].is_some() => self.write_to_stream(0),
            ["complain"] if self.process.streams[1].is_some() => self.write_to_stream(1),
            ["fsync-stderr"] => {
                let Some(open) = self.process.streams[1] else {
                    return ModelOutcome::Skipped;
                };
                self.promise_object(open.file);
            }
            ["!fsync-stderr"] => {
                let Some(open) = self.process.streams[1] else {
                    return ModelOutcome::Skipped;
                };
                self.disk.fail_object(open.file);
            }
            ["begin", number, slot] if !self.running.contains_key(number) => {
                let Some(open) = self.process.slots[slot_index(slot)] else {
                    return ModelOutcome::Skipped;
                };
                let running = (open.file, self.disk.updates.len());
                self.running.insert(number.to_owned(), running);
            }
            ["begin", ..] => return ModelOutcome::Skipped,
            ["end", number] => {
                let Some((object, until)) = self.running.remove(number) else {
                    return ModelOutcome::Skipped;
                };
                let is_of = |update: &Update| update.changed_object() == object;
                let is_covered = |number, update: &Update| number < until && is_of(update);
                self.disk.promise_updates(is_covered);
            }
            // It is open on the first of the initial files.
            ["take", slot] => {
                self.process.slots[slot_index(slot)] = Some(ModelFile::new_writable(1));
            }
            ["redirect", stream, slot] => {
                let open = self.process.slots[slot_index(slot)];
                let Some(open) = open.filter(|open| open.is_writable) else {
                    return ModelOutcome::Skipped;
                };
                self.process.streams[slot_index(stream) - 1] = Some(open);
            }
            ["tell"] => {
                let lost = self.lost_files();
                self.told.get_or_insert_default().extend(lost);
            }
            ["close", slot] => {
                let slot = &mut self.process.slots[slot_index(slot)];
                if slot.take().is_none() {
                    return ModelOutcome::Skipped;
                }
            }
            ["open", slot, path, flags] => return self.open_file(slot_index(slot), path, flags),
            ["handle", slot, path, flags] => {
                return self.open_by_handle(slot_index(slot), path, flags);
            }
            ["truncate", path, bytes] => return self.truncate_file(path, bytes),
            [call, slot, ref rest @ ..] if slot.parse::<usize>().is_ok() => {
                let Some(open) = self.process.slots[slot_index(slot)] else {
                    return ModelOutcome::Skipped;
                };
                return self.step_on(call, open, rest, written);
            }
            _ => return self.step_on_names(words),
        }
        ModelOutcome::Done
    }

    fn open_file(&mut self, slot: usize, path: &str, flags: &str) -> ModelOutcome {
        let is_path = flags.contains('p');
        // With `O_PATH`, the kernel ignores the others.
        let has = |letter| flags.contains(letter) && !is_path;
        let live = self.disk.live_disk();
        let follows = !has('x');
        let Some(place) = self.walk_path(&live, path, follows) else {
            return ModelOutcome::Skipped;
        };
        if has('D') {
            let directory = place.file.filter(|file| self.directories.contains(file));
            let Some(file) = directory else {
                return ModelOutcome::Skipped;
            };
            self.process.slots[slot] = Some(ModelFile {
                is_writable: false,
                ..ModelFile::new_writable(file)
            });
            return ModelOutcome::Done;
        }
        let file = match place.file {
            Some(_) if has('x') => return ModelOutcome::Fails,
            Some(file) if self.directories.contains(&file) || self.links.contains_key(&file) => {
                return ModelOutcome::Skipped;
            }
            Some(file) => file,
            None if !has('c') => return ModelOutcome::Fails,
            None if !Self::is_alive(&live, place.directory) => return ModelOutcome::Skipped,
            None => {
                let file = self.create_file(&place);
                self.lengths.insert(file, 0);
                file
            }
        };
        if has('t') && self.lengths[&file] > 0 {
            self.change_length(file, 0, false);
        }
        self.process.slots[slot] = Some(ModelFile {
            file,
            is_synced: has('s') || has('d'),
            is_writable: has('w'),
            is_path,
            is_append: has('a'),
        });
        ModelOutcome::Done
    }

    fn open_by_handle(&mut self, slot: usize, path: &str, flags: &str) -> ModelOutcome {
        let live = self.disk.live_disk();
        let place = self
            .walk_path(&live, path, false)
            .filter(|_| !path.contains(':'));
        let Some(file) = place.and_then(|place| place.file) else {
            return ModelOutcome::Skipped;
        };
        let Some(length) = self.lengths.get(&file).copied() else {
            return ModelOutcome::Skipped;
        };
        if flags.contains('t') && length > 0 {
            self.change_length(file, 0, false);
        }
        self.process.slots[slot] = Some(ModelFile {
            is_synced: flags.contains('s'),
            ..ModelFile::new_writable(file)
        });
        ModelOutcome::Done
    }

    fn write_to_stream(&mut self, stream: usize) {
        if let Some(open) = self.process.streams[stream] {
            let length = self.lengths[&open.file];
            self.change_length(open.file, length + TOLD_BYTES, open.is_synced);
        }
    }

    fn truncate_file(&mut self, path: &str, bytes: &str) -> ModelOutcome {
        let spot = self.walk_path(&self.disk.live_disk(), path, true);
        let Some(spot) = spot.filter(|_| !path.contains(':')) else {
            return ModelOutcome::Skipped;
        };
        let Some(file) = spot.file else {
            return ModelOutcome::Fails;
        };
        let Some(length) = self.lengths.get(&file).copied() else {
            return ModelOutcome::Skipped;
        };
        self.resize_file(file, length, bytes);
        ModelOutcome::Done
    }

    /// Performs a step on an open file.
    fn step_on(
        &mut self,
        call: &str,
        open: ModelFile,
        rest: &[&str],
        written: u64,
    ) -> ModelOutcome {
        let ModelFile {
            file, is_synced, ..
        } = open;
        let length = self.lengths.get(&file).copied();
        match (call, rest, length) {
            ("fsync" | "fdatasync" | "syncfs" | "ring-fsync" | "ring-fdatasync", [], _)
                if open.is_path =>
            {
                return ModelOutcome::Fails;
            }
            ("fsync" | "fdatasync" | "ring-fsync" | "ring-fdatasync", [], _) => {
                self.promise_object(file);
            }
            ("!fsync" | "!fdatasync", [], _) if !open.is_path => self.disk.fail_object(file),
            ("syncfs", [], _) => {
                let is_mounted = |object: Inode| self.mounted.contains(&object);
                let is_covered =
                    |update: &Update| is_mounted(update.changed_object()) == is_mounted(file);
                self.disk.promise_updates(|_, update| is_covered(update));
            }
            ("dup", [to], _) => self.process.slots[slot_index(to)] = Some(open),
            ("linkfd" | "linkempty", [path], Some(_)) => {
                let live = self.disk.live_disk();
                let is_linkable = live.first_place(file).is_some() || self.nameless.contains(&file);
                let Some(spot) = self.walk_path(&live, path, false) else {
                    return ModelOutcome::Skipped;
                };
                if !is_linkable || !Self::is_alive(&live, spot.directory) || spot.name.is_empty() {
                    return ModelOutcome::Skipped;
                }
                if spot.file.is_some() || self.is_elsewhere(file, spot.directory) {
                    return ModelOutcome::Fails;
                }
                self.nameless.remove(&file);
                self.disk.add_name(spot.directory, &spot.name, Some(file));
            }
            ("clone" | "clone-range", [to], Some(length)) => {
                return self.clone_file(open, length, slot_index(to));
            }
            _ if !open.is_writable => return ModelOutcome::Skipped,
            (
                "write" | "writev" | "append-write" | "ring-write" | "aio-write",
                [],
                Some(length),
            ) => {
                self.change_length(file, length + written, is_synced);
            }
            ("dsync-write" | "sync-write", [], Some(length)) => {
                self.change_length(file, length + written, true);
            }
            ("pwrite", [], Some(length)) => {
                let end = if open.is_append {
                    length + written
                } else {
                    length.max(written)
                };
                self.change_length(file, end, is_synced);
            }
            ("splice", [], Some(length)) if !open.is_append => {
                self.change_length(file, length + 10, is_synced);
            }
            ("copy" | "sendfile", [to], Some(10..)) => {
                let Some(to) = self.process.slots[slot_index(to)] else {
                    return ModelOutcome::Skipped;
                };
                let Some(length) = self.lengths.get(&to.file).copied() else {
                    return ModelOutcome::Skipped;
                };
                if !to.is_writable || to.is_append || to.file == file {
                    return ModelOutcome::Skipped;
                }
                self.change_length(to.file, length + 10, to.is_synced);
            }
            ("store", flags, Some(length @ 10..)) => {
                let has = |flag| flags.contains(&flag);
                let is_whole = !has("cut") && !has("elsewhere");
                self.stores.insert(self.disk.updates.len(), file);
                self.change_length(file, length, false);
                // All stores are to the first page, and msync(2) writes pages, whoever changed them.
                if has("msync") && is_whole {
                    let stores = &self.stores;
                    let is_store = |number, _: &Update| stores.get(&number) == Some(&file);
                    self.disk.promise_updates(is_store);
                }
            }
            ("ftruncate", [bytes], Some(length)) => self.resize_file(file, length, bytes),
            ("fallocate", ["grow"], Some(length)) => self.change_length(file, length + 20, false),
            ("fallocate", ["within"], Some(1..))
            | ("fallocate", ["keep"], Some(_))
            | ("range-sync", [], Some(_)) => {}
            ("fallocate", ["punch"], Some(length)) => {
                if length > 0 {
                    self.change_length(file, length, false);
                }
            }
            _ => return ModelOutcome::Skipped,
        }
        ModelOutcome::Done
    }

    /// `FICLONE` of a whole file, at the start of another one: `vfs_clone_file_range` of the kernel's
    /// `fs/remap_range.c`.
    fn clone_file(&mut self, from: ModelFile, length: u64, to: usize) -> ModelOutcome {
        let Some(to) = self.process.slots[to].filter(|to| to.file != from.file) else {
            return ModelOutcome::Skipped;
        };
        let Some(to_length) = self.lengths.get(&to.file).copied() else {
            return ModelOutcome::Skipped;
        };
        if from.is_path || to.is_path || !to.is_writable {
            return ModelOutcome::Skipped;
        }
        if !self.can_clone || to.is_append {
            return ModelOutcome::Fails;
        }
        // Otherwise nothing happens.
        if length > 0 {
            // No file here has whole blocks.
            if to_length > length {
                return ModelOutcome::Fails;
            }
            self.change_length(to.file, length, false);
        }
        ModelOutcome::Done
    }

    fn resize_file(&mut self, file: Inode, length: u64, bytes: &str) {
        let bytes = bytes.parse().expect("is a number");
        if bytes != length {
            self.change_length(file, bytes, false);
        }
    }
}

pub(super) fn slot_index(slot: &str) -> usize {
    slot.parse().expect("is the number of a slot")
}
