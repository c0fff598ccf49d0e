//! What the kernel side has seen of files, and what is known of the handles that it gave them.

use std::collections::{HashMap, HashSet};

use zc_ebpf::{SyncSpec, sync_file};
use zctrace_core::durable::NodeId;

use super::{calls::NamedFile, descriptors::Target};

/// The number of a file that the kernel side gave out. 0: no file, or one that nobody needs.
pub type FileHandle = u32;

/// The files that a call names, as the kernel side saw them.
#[derive(Debug, Clone, Copy)]
pub struct SeenFiles {
    /// Which arguments name files.
    pub spec: SyncSpec,
    /// The files: see [`sync_file`].
    pub files: [FileHandle; sync_file::COUNT],
    /// Whether what it wrote was on the disk when it returned.
    pub is_synced: bool,
    /// Whether a write was under way, when this sync was entered, to what it syncs.
    pub is_written: bool,
}

impl SeenFiles {
    /// The file of the descriptor in this argument, from 0 on.
    pub(super) fn of_argument(&self, index: u8) -> FileHandle {
        let spec = &self.spec;
        let places = [
            (spec.file, sync_file::ABOUT),
            (spec.directory, sync_file::DIRECTORY),
            (spec.second_directory, sync_file::SECOND_DIRECTORY),
        ];
        let found = places.iter().find(|(argument, _)| *argument == index + 1);
        found.map_or(0, |(_, place)| self.files[*place])
    }

    /// The working directory.
    pub(super) fn working_directory(&self) -> FileHandle {
        self.files[sync_file::WORKING]
    }

    /// The file that `linkat` names by `/proc/self/fd`.
    pub(super) fn linked(&self) -> FileHandle {
        self.files[sync_file::ABOUT]
    }

    /// The file that is mapped where the call is about memory.
    pub(super) fn mapped(&self) -> FileHandle {
        self.files[sync_file::ABOUT]
    }

    /// The file that was opened.
    pub(super) fn opened(&self) -> FileHandle {
        self.files[sync_file::OPENED]
    }
}

/// What is known of handles.
#[derive(Debug, Default)]
pub struct Handles {
    /// What they stand for.
    pub(super) known: HashMap<FileHandle, Target>,
    /// Files that a call has opened whose own message is to come.
    pub(super) opened: HashMap<FileHandle, NamedFile>,
    /// Those of them that another call used before that message.
    pub(super) used_early: HashSet<FileHandle>,
    /// The file that the stream with this handle is.
    pub(super) streams: HashMap<FileHandle, NodeId>,
    /// The files that have a handle.
    files: HashSet<NodeId>,
    /// Whether a file has several.
    pub(super) has_aliases: bool,
}

impl Handles {
    /// A handle stands for this.
    pub(super) fn insert(&mut self, handle: FileHandle, target: Target) {
        self.known.insert(handle, target);
        if let Some(file) = target.file() {
            self.has_aliases |= !self.files.insert(file);
        }
    }
}
