//! Looking at the files of a run while it goes on.

mod mounts;
mod proc;

use std::time::SystemTime;

pub use proc::Proc;

use crate::trace::{File, FileIdentity, FileKind};

/// Who can look at files.
pub trait Look {
    /// The devices that are the same for all.
    fn devices(&self) -> Devices;

    /// Looks at the file behind a descriptor, as it is by now. `None`: it cannot be seen any more, or is another one.
    fn look(&mut self, sighting: &Sighting<'_>) -> Option<Seen>;
}

/// Device numbers of the filesystems that the kernel has for its own use; 0: unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Devices {
    /// Of pipes without a path.
    pub pipes: u64,
    /// Of sockets.
    pub sockets: u64,
}

/// Where to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighting<'a> {
    /// Whose descriptor it is.
    pub tid: Option<u32>,
    /// Its number.
    pub descriptor: u32,
    /// The path of the file.
    pub path: &'a [u8],
    /// Whether the path is the file's no more.
    pub is_deleted: bool,
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// What it is.
    pub kind: Option<FileKind>,
    /// Device number of its filesystem.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// When the file came to be: an inode number may be used again.
    pub born: Option<SystemTime>,
    /// Its length, if that cannot have changed since the run began.
    pub size_bytes: Option<u64>,
    /// The type of its filesystem.
    pub filesystem: Option<String>,
}

impl Seen {
    /// What is known of a file, together with this.
    pub fn describe(&self, file: File) -> File {
        File {
            kind: file.kind.or(self.kind),
            identity: Some(FileIdentity { device: self.device, inode: self.inode, generation: None }),
            filesystem: self.filesystem.clone(),
            size_bytes: self.size_bytes,
            ..file
        }
    }
}
