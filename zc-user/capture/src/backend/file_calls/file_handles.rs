//! What is known of the handles that the kernel side gave files.

use std::collections::{HashMap, HashSet};

use zctrace_core::durable::NodeId;

use super::{call::FileHandle, descriptors::Target, shown::NamedFile};

/// What is known of handles.
#[derive(Debug, Default)]
pub struct Handles {
    /// What they stand for.
    pub(super) known: HashMap<FileHandle, Target>,
    /// Files that a call has opened whose own message is to come.
    pub(super) opened: HashMap<FileHandle, NamedFile>,
    /// Of these, the ones that another call used before that message.
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
