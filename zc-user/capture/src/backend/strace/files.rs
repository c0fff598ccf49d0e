//! The files behind descriptors: which of their names stand for the same file, and what is known of each.

mod learn;

use std::{collections::HashMap, time::SystemTime};

pub use learn::{CALLS, Lesson};

use super::{
    descriptor::{DELETED, Descriptor},
    look::{Devices, Look, Seen, Sighting},
    name::{self, Told},
};
use crate::trace::{File, FileId, FileIdentity, FileKind};

/// What tells a file from all others, also from one that had its inode number before: device, inode, birth.
type Birth = (u64, u64, Option<SystemTime>);

/// All files of a log.
///
/// A log has names alone: there, a path is one file, whatever happens to it, and so is a connection between two addresses. A run can
/// look what a path stands for when it is opened. That comes a moment later, so that a file which is gone by then has a name alone, too.
#[derive(Default)]
pub struct Files<'a> {
    all: Vec<File>,
    /// By [`name::key`].
    by_name: HashMap<Box<[u8]>, FileId, foldhash::fast::RandomState>,
    by_birth: HashMap<Birth, FileId, foldhash::fast::RandomState>,
    look: Option<&'a mut dyn Look>,
    devices: Devices,
}

impl<'a> Files<'a> {
    /// Files at which somebody can look.
    pub fn looking(look: &'a mut dyn Look) -> Self {
        Self { devices: look.devices(), look: Some(look), ..Self::default() }
    }

    /// The file behind a descriptor of this thread.
    pub fn find(&mut self, tid: Option<u32>, descriptor: Descriptor<'_>) -> FileId {
        let key = name::key(descriptor.text, descriptor.name);
        if let Some(&id) = self.by_name.get(key) {
            return id;
        }
        let told = name::read(descriptor.name);
        let id = self.same(tid, descriptor, &told).or_else(|| self.before_it_was_deleted(descriptor, &told));
        let id = id.unwrap_or_else(|| self.add(told));
        self.by_name.insert(key.into(), id);
        id
    }

    /// The file that is known by what it is, and not by its name alone; from now on it is.
    fn same(&mut self, tid: Option<u32>, descriptor: Descriptor<'_>, told: &Told) -> Option<FileId> {
        let (file, born) = if let Some(inode) = told.inode {
            let device = if told.file.kind == Some(FileKind::Pipe) { self.devices.pipes } else { self.devices.sockets };
            (File { identity: Some(FileIdentity { device, inode, generation: None }), ..told.file.clone() }, None)
        } else {
            let seen = self.look(tid, descriptor, told)?;
            (seen.describe(told.file.clone()), seen.born)
        };
        let identity = file.identity?;
        let next = FileId(u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        let id = *self.by_birth.entry((identity.device, identity.inode, born)).or_insert(next);
        if id == next {
            self.all.push(file);
        } else {
            complete(&mut self.all[index(id)], file);
        }
        Some(id)
    }

    fn look(&mut self, tid: Option<u32>, descriptor: Descriptor<'_>, told: &Told) -> Option<Seen> {
        let path = told.path.as_deref()?;
        self.look.as_mut()?.look(&Sighting { tid, descriptor: descriptor.number, path, is_deleted: told.is_deleted })
    }

    /// The file that had this name last.
    fn before_it_was_deleted(&self, descriptor: Descriptor<'_>, told: &Told) -> Option<FileId> {
        let path = descriptor.name.strip_suffix(DELETED).filter(|_| told.file.kind != Some(FileKind::Memfd))?;
        self.by_name.get(path).copied()
    }

    fn add(&mut self, told: Told) -> FileId {
        self.all.push(told.file);
        FileId(u32::try_from(self.all.len() - 1).unwrap_or(u32::MAX))
    }

    /// All of them, by their ids. The address of a Unix socket is that of its peer, if it has none of its own.
    pub fn into_all(mut self) -> Vec<File> {
        let is_unix = |file: &File| file.filesystem.as_deref() == Some("sockfs") && file.path.is_some();
        let bound = self.all.iter().filter(|file| is_unix(file));
        let addresses: HashMap<u64, String> = bound.filter_map(|file| Some((file.identity?.inode, file.path.clone()?))).collect();
        for file in self.all.iter_mut().filter(|file| file.path.is_none()) {
            file.path = file.peer_inode.and_then(|peer| addresses.get(&peer).cloned());
        }
        self.all
    }
}

fn index(id: FileId) -> usize {
    usize::try_from(id.0).unwrap_or(usize::MAX)
}

/// What was not known of a file before, is now.
fn complete(file: &mut File, more: File) {
    let File { kind, identity, filesystem, path, size_bytes, local, peer, peer_inode, streams } = more;
    *file = File {
        kind: file.kind.or(kind),
        identity: file.identity.or(identity),
        filesystem: file.filesystem.take().or(filesystem),
        path: file.path.take().or(path),
        size_bytes: file.size_bytes.or(size_bytes),
        local: file.local.take().or(local),
        peer: file.peer.take().or(peer),
        peer_inode: file.peer_inode.or(peer_inode),
        streams,
    };
}

#[cfg(test)]
mod tests;
