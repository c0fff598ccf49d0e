//! A disk that a crash may leave without every change that no sync promised, and with any of them
//! without the others. It knows no rule. The models of core and of `tests/suite/durable_truth` use it.

use std::collections::{BTreeMap, BTreeSet};

/// A file, a directory or a symbolic link.
pub type Inode = usize;

/// The directory in which a program begins.
pub const ROOT: Inode = 0;

/// A change.
#[derive(Debug, Clone)]
pub enum Update {
    /// A write, or a cut to nothing.
    Data { file: Inode, is_cut: bool },
    /// Names in one directory that change at once.
    Names {
        directory: Inode,
        names: Vec<(String, Option<Inode>)>,
    },
}

impl Update {
    /// The file or directory that it changes.
    pub fn changed_object(&self) -> Inode {
        match self {
            Self::Data { file, .. } => *file,
            Self::Names { directory, .. } => *directory,
        }
    }
}

/// A change, and what syncs made of it.
#[derive(Debug, Clone)]
pub struct Entry {
    pub update: Update,
    pub is_promised: bool,
    /// Whether a sync failed that was to write it: the disk may never get it.
    pub is_cursed: bool,
}

/// What a disk has: the names, and of each file the numbers of the changes that it has.
#[derive(Debug, Default, Clone)]
pub struct Disk {
    pub names: BTreeMap<(Inode, String), Inode>,
    pub data: BTreeMap<Inode, BTreeSet<usize>>,
}

impl Disk {
    /// One with these names, and files without changes.
    pub fn with_names(names: &[(Inode, &str, Inode)]) -> Self {
        let names = names.iter();
        let names = names.map(|(directory, name, file)| ((*directory, (*name).to_owned()), *file));
        Self {
            names: names.collect(),
            data: BTreeMap::new(),
        }
    }

    fn apply_update(&mut self, number: usize, update: &Update) {
        match update {
            Update::Data { file, is_cut } => {
                let data = self.data.entry(*file).or_default();
                if *is_cut {
                    data.clear();
                }
                data.insert(number);
            }
            Update::Names { directory, names } => {
                for (name, file) in names {
                    let place = (*directory, name.clone());
                    match file {
                        Some(file) => self.names.insert(place, *file),
                        None => self.names.remove(&place),
                    };
                }
            }
        }
    }

    /// What has this name in a directory.
    pub fn entry_at(&self, directory: Inode, name: &str) -> Option<Inode> {
        self.names.get(&(directory, name.to_owned())).copied()
    }

    /// What a path without symbolic links leads to.
    pub fn find_path(&self, path: &str) -> Option<Inode> {
        let mut parts = path.split('/');
        parts.try_fold(ROOT, |at, name| self.entry_at(at, name))
    }

    /// The first directory and name of a file.
    pub fn first_place(&self, file: Inode) -> Option<(Inode, &str)> {
        let mut names = self.names.iter();
        let found = names.find(|(_, other)| **other == file);
        found.map(|((directory, name), _)| (*directory, name.as_str()))
    }

    /// The path of a name in a directory; `None`: the directory cannot be reached.
    pub fn path_of_entry(&self, directory: Inode, name: &str) -> Option<String> {
        if directory == ROOT {
            return Some(name.to_owned());
        }
        let (above, own) = self.first_place(directory)?;
        Some(format!("{}/{name}", self.path_of_entry(above, own)?))
    }

    /// All paths, and what they lead to.
    pub fn all_paths(&self) -> BTreeMap<String, Inode> {
        let names = self.names.iter();
        let paths =
            names.filter_map(|((at, name), file)| Some((self.path_of_entry(*at, name)?, *file)));
        paths.collect()
    }
}

/// A disk as it was, and the changes since.
#[derive(Debug, Clone, Default)]
pub struct CrashDisk {
    pub initial: Disk,
    pub updates: Vec<Entry>,
}

impl CrashDisk {
    /// Adds a change that no sync has covered.
    pub fn add_update(&mut self, update: Update) {
        self.updates.push(Entry {
            update,
            is_promised: false,
            is_cursed: false,
        });
    }

    /// Adds a change of one name.
    pub fn add_name(&mut self, directory: Inode, name: &str, file: Option<Inode>) {
        let names = vec![(name.to_owned(), file)];
        self.add_update(Update::Names { directory, names });
    }

    /// With the changes of these numbers.
    fn with_updates(&self, is_there: impl Fn(usize) -> bool) -> Disk {
        let mut disk = self.initial.clone();
        for (number, entry) in self.updates.iter().enumerate() {
            if is_there(number) {
                disk.apply_update(number, &entry.update);
            }
        }
        disk
    }

    /// As the program sees it.
    pub fn live_disk(&self) -> Disk {
        self.with_updates(|_| true)
    }

    /// How many changes no sync has promised.
    pub fn count_open(&self) -> usize {
        self.updates.iter().filter(|one| !one.is_promised).count()
    }

    /// Every disk that may be there after a crash now.
    fn crashed_disks(&self) -> impl Iterator<Item = Disk> + '_ {
        let all = 0..self.updates.len();
        let open: Vec<usize> = all
            .filter(|number| !self.updates[*number].is_promised)
            .collect();
        (0_u32..1 << open.len()).map(move |subset| {
            self.with_updates(|number| {
                let at = open.iter().position(|other| *other == number);
                at.is_none_or(|at| subset & (1 << at) != 0)
            })
        })
    }

    /// A sync of these changes succeeded.
    pub fn promise_updates(&mut self, is_covered: impl Fn(usize, &Update) -> bool) {
        for (number, entry) in self.updates.iter_mut().enumerate() {
            entry.is_promised |= is_covered(number, &entry.update) && !entry.is_cursed;
        }
    }

    /// A sync of a file or directory failed.
    pub fn fail_object(&mut self, object: Inode) {
        for entry in &mut self.updates {
            entry.is_cursed |= entry.update.changed_object() == object && !entry.is_promised;
        }
    }

    /// Where a crash now may lose what the program left: a file is not there with all its changes, or
    /// one is there that was on the disk and had been removed.
    pub fn lost_paths(&self) -> BTreeSet<String> {
        let live = self.live_disk();
        let promised = self.with_updates(|number| self.updates[number].is_promised);
        let paths = live.all_paths();
        let mut lost = BTreeSet::new();
        for disk in self.crashed_disks() {
            for (path, file) in &paths {
                let is_whole = disk.find_path(path) == Some(*file)
                    && disk.data.get(file) == live.data.get(file);
                if !is_whole && !lost.contains(path) {
                    lost.insert(path.clone());
                }
            }
        }
        for at @ (directory, name) in promised.names.keys() {
            if !live.names.contains_key(at) {
                let path = live.path_of_entry(*directory, name);
                lost.extend(path.or(promised.path_of_entry(*directory, name)));
            }
        }
        lost
    }

    /// Whether a crash may leave a file at a path without all its changes.
    pub fn may_be_cut_off(&self, path: &str, file: Inode) -> bool {
        let live = self.live_disk();
        self.crashed_disks().any(|disk| {
            disk.find_path(path) == Some(file) && disk.data.get(&file) != live.data.get(&file)
        })
    }
}
