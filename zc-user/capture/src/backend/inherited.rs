//! Which pipes and sockets are open before the launch. The command may inherit them, and a closure
//! uses them as it likes.

use std::{collections::BTreeSet, fs, io, os::fd::BorrowedFd, path::Path};

use rustix::fs::{FileType, fstat};

use crate::trace::OpenBefore;

/// The pipes and sockets of this process. `None` if `/proc` does not show them.
///
/// Those that the command does not inherit are among them. They do no harm: it has no other way to
/// use them.
pub(super) fn open_pipes_and_sockets() -> Option<BTreeSet<OpenBefore>> {
    open_in(Path::new("/proc/self/fd")).ok()
}

fn open_in(descriptors: &Path) -> io::Result<BTreeSet<OpenBefore>> {
    let mut found = BTreeSet::new();
    for descriptor in fs::read_dir(descriptors)? {
        let name = descriptor?.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // SAFETY: it is only asked what it is. Another thread may close it meanwhile, or open another
        // file as it, which then is open before the launch.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        let Ok(file) = fstat(descriptor) else {
            continue;
        };
        let kind = FileType::from_raw_mode(file.st_mode);
        if [FileType::Fifo, FileType::Socket].contains(&kind) {
            found.insert(OpenBefore {
                device: file.st_dev,
                inode: file.st_ino,
            });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        os::{
            fd::OwnedFd,
            unix::{fs::MetadataExt as _, net::UnixStream},
        },
    };

    use super::*;

    #[test]
    fn open_pipes_and_sockets_are_found() {
        let (reader, _writer) = io::pipe().expect("makes a pipe");
        let (near, far) = UnixStream::pair().expect("makes sockets");
        let regular = File::open("/proc/self/exe").expect("opens");
        let found = open_pipes_and_sockets().expect("has /proc");
        let files: [(OwnedFd, bool); 4] = [
            (reader.into(), true),
            (near.into(), true),
            (far.into(), true),
            (regular.into(), false),
        ];
        for (file, is_found) in files {
            let metadata = File::from(file).metadata().expect("is open");
            let (device, inode) = (metadata.dev(), metadata.ino());
            assert_eq!(found.contains(&OpenBefore { device, inode }), is_found);
        }
        assert!(open_in(Path::new("/proc/self/no such directory")).is_err());
    }
}
