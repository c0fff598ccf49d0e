//! Finds the names at the end of files that the run renamed within their directories.
//!
//! A file keeps the name of its first use. Programs write to `out.8750` and rename that to `out`. If
//! nothing has the first name at the end, or another file has it, and a name in the same directory is
//! that of the same file (device, inode, and the generation that the kernel gives a new file of an old
//! inode number), then that is its name now.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::c_int,
    fs,
    os::{
        fd::AsRawFd as _,
        unix::fs::{DirEntryExt as _, MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

use zctrace_core::text::from_bytes;

use crate::trace::{FileIdentity, FileKind, Process, Trace};

/// How many files are looked for at most.
const MAX_FILES: usize = 4096;
/// How many names of directories are read at most.
const MAX_NAMES: usize = 65_536;
/// Calls that give a file another name.
const RENAMING: [&str; 3] = ["rename", "renameat", "renameat2"];

/// Notes the names at the end of the files of this trace that is over.
pub(super) fn note_names_at_end(trace: &mut Trace) {
    if !has_renamed(trace) {
        return;
    }
    let mut lost: BTreeMap<PathBuf, HashMap<u64, usize>> = BTreeMap::new();
    for (index, file) in trace.files.iter().enumerate().take(MAX_FILES) {
        let path = file.path.as_deref().map(Path::new);
        let path = path.filter(|path| path.is_absolute());
        let identity = file.identity.filter(|one| one.generation.is_some());
        let (Some(path), Some(identity)) = (path, identity) else {
            continue;
        };
        if file.kind == Some(FileKind::Regular) && !is_named(path, identity) {
            let directory = path.parent().unwrap_or(path).to_owned();
            let wanted = lost.entry(directory).or_default();
            wanted.insert(identity.inode, index);
        }
    }
    let mut room = MAX_NAMES;
    for (directory, wanted) in lost {
        let mut names: HashMap<usize, Vec<PathBuf>> = HashMap::new();
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if room == 0 {
                return;
            }
            room -= 1;
            if let Some(&index) = wanted.get(&entry.ino()) {
                names.entry(index).or_default().push(entry.path());
            }
        }
        for (index, paths) in names {
            let file = &mut trace.files[index];
            let is_it = |path: &Path| file.identity.is_some_and(|one| is_same(path, one));
            // Of several names, any may be the one that counts.
            if let [path] = paths.as_slice()
                && is_it(path)
            {
                file.path_at_end = Some(from_bytes(path.as_os_str().as_encoded_bytes()));
            }
        }
    }
}

/// Whether a call of the run renamed something.
fn has_renamed(trace: &Trace) -> bool {
    let is_renaming = |name: &str| RENAMING.contains(&name);
    let mut others = trace.other_calls.iter().flatten();
    let processes = trace.all_processes();
    let mut rows = processes.flat_map(Process::rows);
    others.any(|(call, sums)| is_renaming(&call.name) && sums.calls > sums.errors)
        || rows.any(|row| is_renaming(&row.call.name) && row.calls > row.errors)
}

/// Whether this path leads to a file with this device and inode number.
fn is_named(path: &Path, identity: FileIdentity) -> bool {
    let found = fs::symlink_metadata(path);
    found.is_ok_and(|found| (found.dev(), found.ino()) == (identity.device, identity.inode))
}

/// Whether this path leads to this regular file and to no later one with its inode number. `false` also
/// if the filesystem does not tell.
fn is_same(path: &Path, identity: FileIdentity) -> bool {
    if !is_named(path, identity) {
        return false;
    }
    let mut options = fs::OpenOptions::new();
    options.read(true);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let Ok(file) = options.open(path) else {
        return false;
    };
    let is_it = |found: &fs::Metadata| {
        found.is_file() && (found.dev(), found.ino()) == (identity.device, identity.inode)
    };
    file.metadata().is_ok_and(|found| is_it(&found))
        && inode_generation(&file) == identity.generation
}

/// The generation of a file's inode: `FS_IOC_GETVERSION`, see `ioctl_iflags(2)`.
fn inode_generation(file: &fs::File) -> Option<u32> {
    let mut generation: c_int = 0;
    // SAFETY: the kernel writes an int, as its filesystems do whatever the size in the request says.
    let result = unsafe {
        libc::ioctl(
            file.as_raw_fd(),
            libc::FS_IOC_GETVERSION,
            &raw mut generation,
        )
    };
    (result == 0).then(|| generation.cast_unsigned())
}
