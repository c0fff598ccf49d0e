//! Where paths lead, and what steps do to names, in the model.

use super::{
    crash_disk::{Disk, Inode, ROOT, Update},
    file_model::{DIRECTORY, FileModel, ModelFile, ModelOutcome, slot_index},
};

/// Where a path leads.
#[derive(Debug, Clone)]
pub(super) struct Spot {
    pub(super) directory: Inode,
    /// Empty if the path leads to the directory itself.
    pub(super) name: String,
    pub(super) file: Option<Inode>,
}

impl FileModel {
    /// Where a path leads; `None`: a directory on the way is not there.
    pub(super) fn walk_path(&self, live: &Disk, path: &str, follows: bool) -> Option<Spot> {
        let (mut at, path) = match path.strip_prefix('/') {
            Some(path) => (ROOT, path),
            None => match path.split_once(':') {
                Some((slot, path)) => (self.process.slots[slot_index(slot)]?.file, path),
                None => (self.process.directory, path),
            },
        };
        let mut spot = Spot {
            directory: at,
            name: String::new(),
            file: Some(at),
        };
        let mut parts = path.split('/').peekable();
        while let Some(part) = parts.next() {
            if !self.directories.contains(&at) {
                return None;
            }
            spot = match part {
                "." => Spot {
                    directory: at,
                    name: String::new(),
                    file: Some(at),
                },
                ".." => {
                    let above = live.first_place(at)?.0;
                    Spot {
                        directory: above,
                        name: String::new(),
                        file: Some(above),
                    }
                }
                name => Spot {
                    directory: at,
                    name: name.to_owned(),
                    file: live.entry_at(at, name),
                },
            };
            let is_last = parts.peek().is_none();
            if let Some(target) = spot.file.and_then(|file| self.links.get(&file))
                && (follows || !is_last)
            {
                // Links of the generator are to names in the same directory.
                let target = target.clone();
                let directory = spot.directory;
                spot = Spot {
                    directory,
                    file: live.entry_at(directory, &target),
                    name: target,
                };
                if spot.file.is_some_and(|file| self.links.contains_key(&file)) {
                    return None;
                }
            }
            if !is_last {
                at = spot.file?;
            }
        }
        Some(spot)
    }

    /// Whether names can be made in a directory.
    pub(super) fn is_alive(live: &Disk, directory: Inode) -> bool {
        directory == ROOT || live.first_place(directory).is_some()
    }

    pub(super) fn create_file(&mut self, spot: &Spot) -> Inode {
        let file = self.next;
        self.next += 1;
        self.disk.add_name(spot.directory, &spot.name, Some(file));
        if self.mounted.contains(&spot.directory) {
            self.mounted.insert(file);
        }
        file
    }

    /// Performs a step that takes paths.
    pub(super) fn step_on_names(&mut self, words: &[&str]) -> ModelOutcome {
        let live = self.disk.live_disk();
        match *words {
            ["rename" | "exchange", from, to] => {
                let is_exchange = words[0] == "exchange";
                let spots = self
                    .walk_path(&live, from, false)
                    .zip(self.walk_path(&live, to, false));
                return spots.map_or(ModelOutcome::Skipped, |(from, to)| {
                    self.rename_file(&live, &from, &to, is_exchange)
                });
            }
            ["link", from, to] => {
                let spots = self
                    .walk_path(&live, from, false)
                    .zip(self.walk_path(&live, to, false));
                let Some((from, to)) = spots else {
                    return ModelOutcome::Skipped;
                };
                return self.link_file(&live, &from, &to);
            }
            ["tmpfile", slot, path] => {
                let Some(place) = self.walk_path(&live, path, true) else {
                    return ModelOutcome::Skipped;
                };
                let directory = place.file.filter(|file| self.directories.contains(file));
                if directory.is_none_or(|directory| !Self::is_alive(&live, directory)) {
                    return ModelOutcome::Skipped;
                }
                let file = self.next;
                self.next += 1;
                self.lengths.insert(file, 0);
                self.nameless.insert(file);
                self.process.slots[slot_index(slot)] = Some(ModelFile::new_writable(file));
                return ModelOutcome::Done;
            }
            _ => {}
        }
        let Some(spot) = words.last().and_then(|path| {
            let follows = matches!(words[0], "syncdir" | "!syncdir" | "chdir");
            self.walk_path(&live, path, follows)
        }) else {
            return ModelOutcome::Skipped;
        };
        let is_free = spot.file.is_none() && Self::is_alive(&live, spot.directory);
        match (words, spot.file) {
            (["mkdir", _], None) if is_free => {
                let directory = self.create_file(&spot);
                self.directories.insert(directory);
            }
            (["symlink", target, _], None) if is_free && *target != spot.name => {
                let link = self.create_file(&spot);
                self.links.insert(link, (*target).to_owned());
            }
            (["mkdir", _] | ["symlink", ..], Some(_))
            | (["unlink" | "rmdir" | "syncdir" | "chdir", _], None) => return ModelOutcome::Fails,
            (["unlink", _], Some(file)) if !self.directories.contains(&file) => {
                self.disk.add_name(spot.directory, &spot.name, None);
            }
            (["rmdir", _], Some(file)) if self.directories.contains(&file) => {
                let is_empty = live.names.keys().all(|(at, _)| *at != file);
                if spot.name.is_empty() || !is_empty || self.is_mount(file) {
                    return ModelOutcome::Skipped;
                }
                self.disk.add_name(spot.directory, &spot.name, None);
            }
            (["syncdir", _], Some(directory)) if self.directories.contains(&directory) => {
                self.promise_object(directory);
            }
            (["!syncdir", _], Some(directory)) if self.directories.contains(&directory) => {
                self.disk.fail_object(directory);
            }
            (["chdir", _], Some(directory)) if self.directories.contains(&directory) => {
                self.process.directory = directory;
            }
            _ => return ModelOutcome::Skipped,
        }
        ModelOutcome::Done
    }

    fn link_file(&mut self, live: &Disk, from: &Spot, to: &Spot) -> ModelOutcome {
        let Some(file) = from.file else {
            return ModelOutcome::Fails;
        };
        if self.directories.contains(&file) || !Self::is_alive(live, to.directory) {
            return ModelOutcome::Skipped;
        }
        if to.file.is_some() || self.is_elsewhere(file, to.directory) {
            return ModelOutcome::Fails;
        }
        self.disk.add_name(to.directory, &to.name, Some(file));
        ModelOutcome::Done
    }

    /// Whether a file is not in the filesystem of this directory.
    pub(super) fn is_elsewhere(&self, file: Inode, directory: Inode) -> bool {
        self.mounted.contains(&file) != self.mounted.contains(&directory)
    }

    fn is_mount(&self, file: Inode) -> bool {
        file == DIRECTORY && self.mounted.contains(&file)
    }

    /// Whether a directory is another one, or below that.
    fn is_below(live: &Disk, directory: Inode, other: Inode) -> bool {
        let mut at = Some(directory);
        while let Some(here) = at.filter(|here| *here != other) {
            at = live.first_place(here).map(|(above, _)| above);
        }
        at == Some(other)
    }

    fn rename_file(
        &mut self,
        live: &Disk,
        from: &Spot,
        to: &Spot,
        is_exchange: bool,
    ) -> ModelOutcome {
        let Some(file) = from.file else {
            return ModelOutcome::Fails;
        };
        let has_names = !from.name.is_empty() && !to.name.is_empty();
        let is_directory = |file| self.directories.contains(&file);
        let is_possible = match to.file {
            None => !is_exchange,
            Some(other) if other == file => false,
            Some(_) if is_exchange => true,
            Some(other) => {
                let is_empty = live.names.keys().all(|(at, _)| *at != other);
                is_directory(file) == is_directory(other) && is_empty
            }
        };
        // No directory goes below itself.
        let is_above = is_directory(file) && Self::is_below(live, to.directory, file)
            || to.file.is_some_and(|other| {
                is_directory(other) && Self::is_below(live, from.directory, other)
            });
        if !is_possible || !has_names || is_above || !Self::is_alive(live, to.directory) {
            return ModelOutcome::Skipped;
        }
        let is_busy = self.is_mount(file) || to.file.is_some_and(|other| self.is_mount(other));
        if is_busy || self.is_elsewhere(file, to.directory) {
            return ModelOutcome::Fails;
        }
        let left = to.file.filter(|_| is_exchange);
        if from.directory == to.directory {
            let names = vec![(from.name.clone(), left), (to.name.clone(), Some(file))];
            let directory = from.directory;
            self.disk.add_update(Update::Names { directory, names });
        } else {
            self.disk.add_name(from.directory, &from.name, left);
            self.disk.add_name(to.directory, &to.name, Some(file));
        }
        self.note_move(file, to.directory, &to.name);
        if let Some(left) = left {
            self.note_move(left, from.directory, &from.name);
        }
        ModelOutcome::Done
    }
}
