//! The types of mounted filesystems.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read as _, Seek as _},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What is mounted where this process is: `/proc/self/mountinfo`, of which proc(5) says that polling tells when it has changed.
pub(super) struct Mounts {
    file: File,
    types: HashMap<u64, String>,
}

impl Mounts {
    pub(super) fn open() -> io::Result<Self> {
        let mut mounts = Self { file: File::open("/proc/self/mountinfo")?, types: HashMap::new() };
        mounts.read()?;
        Ok(mounts)
    }

    /// The type of the filesystem that is mounted under this id; `None`: none is, here.
    pub(super) fn filesystem(&mut self, id: u64) -> Option<&str> {
        if self.has_changed() {
            self.read().ok()?;
        }
        self.types.get(&id).map(String::as_str)
    }

    fn has_changed(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.file, PollFlags::PRI)], Some(&now)).is_ok_and(|changed| changed > 0)
    }

    fn read(&mut self) -> io::Result<()> {
        let mut text = Vec::new();
        self.file.rewind()?;
        self.file.read_to_end(&mut text)?;
        self.types = String::from_utf8_lossy(&text).lines().filter_map(mount).collect();
        Ok(())
    }
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`: the id, and the type after the hyphen.
fn mount(line: &str) -> Option<(u64, String)> {
    let (id, rest) = line.split_once(' ')?;
    let (_, after_options) = rest.split_once(" - ")?;
    Some((id.parse().ok()?, after_options.split(' ').next()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_has_an_id_and_a_type() {
        let line = "36 35 98:0 /mnt1 /a\\040-\\040b rw,noatime master:1 - fuse.sshfs /dev/root rw,errors=continue";
        assert_eq!(mount(line), Some((36, "fuse.sshfs".to_owned())));
        assert_eq!(mount("36 35 98:0 /"), None);
    }
}
