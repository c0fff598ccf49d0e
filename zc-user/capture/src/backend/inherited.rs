//! Which pipes and sockets are open before the launch. The command may inherit them, and a closure
//! uses them as it likes.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::Path,
};

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
        // The descriptor of the directory itself is closed by the time that it is looked at, and
        // another thread may close others.
        let Ok(metadata) = fs::metadata(descriptor?.path()) else {
            continue;
        };
        if metadata.file_type().is_fifo() || metadata.file_type().is_socket() {
            found.insert(OpenBefore {
                device: metadata.dev(),
                inode: metadata.ino(),
            });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        os::{fd::OwnedFd, unix::net::UnixStream},
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
