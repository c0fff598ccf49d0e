//! Finds out from `/proc` who has the other ends of the pipes and Unix sockets that calls wait on.

use std::{
    collections::{BTreeSet, HashSet},
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use super::watcher::TaskWatcher;
use crate::{
    backend::{
        RunError,
        ebpf::{load::object::Loaded, read::epochs::now_ns},
    },
    descendants::is_proc_ours,
    trace::{EndInode, OpenEnd},
};

/// Calls that have lasted less are not looked at.
const MIN_WAIT_NS: u64 = 100_000_000;

impl TaskWatcher {
    /// Notes who has the other ends of what calls wait on. To be called before these calls end; if
    /// nothing is found, what was found before remains.
    pub(super) fn note_open_ends(&mut self, loaded: &Loaded) -> Result<(), RunError> {
        self.drain();
        let found = open_ends(&self.awaited_ends(loaded)?);
        if !found.is_empty() {
            self.open_ends = found;
        }
        Ok(())
    }

    /// The other ends of what calls have waited on for a while.
    fn awaited_ends(&self, loaded: &Loaded) -> Result<HashSet<EndInode>, RunError> {
        let now_ns = now_ns();
        let mut ends = HashSet::new();
        for task in loaded.maps.live_tasks()? {
            let lasted_ns = now_ns.saturating_sub(task.entered_ns);
            if task.has_row == 0 || !task.is_in_call() || lasted_ns < MIN_WAIT_NS {
                continue;
            }
            let end = |number, is_written| {
                let file = self.store.files.known(number)?;
                file.other_end(is_written)
            };
            ends.extend(end(task.ends.input, false));
            ends.extend(end(task.ends.output, true));
        }
        Ok(ends)
    }
}

/// The processes that have one of these ends open, in the order of their ids. Those whose descriptors
/// this process may not see are left out.
fn open_ends(wanted: &HashSet<EndInode>) -> Vec<OpenEnd> {
    let mut found = BTreeSet::new();
    if wanted.is_empty() || !is_proc_ours() {
        return Vec::new();
    }
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|id| id.parse().ok()) else {
            continue;
        };
        let descriptors = fs::read_dir(process.path().join("fd"));
        for descriptor in descriptors.into_iter().flatten().flatten() {
            let ends = ends_of(&descriptor.path()).into_iter();
            found.extend(
                ends.filter(|end| wanted.contains(end))
                    .map(|end| (pid, end)),
            );
        }
    }
    let open = |(pid, inode): (u32, EndInode)| OpenEnd {
        inode,
        pid,
        name: fs::read_to_string(format!("/proc/{pid}/comm"))
            .ok()
            .map(|name| name.trim_end().to_owned()),
    };
    found.into_iter().map(open).collect()
}

/// Which ends a descriptor is, by its link in `/proc/PID/fd` (`man 5 proc_pid_fd`): the mode of the
/// link says whether it can be read and written. Following the link might wait for a filesystem.
fn ends_of(link: &Path) -> Vec<EndInode> {
    /// The owner may read, or write.
    const READ: u32 = 0o400;
    const WRITE: u32 = 0o200;
    let inode = |text: &str, kind: &str| {
        let number = text.strip_prefix(kind)?.strip_suffix(']')?;
        number.parse::<u64>().ok()
    };
    let Ok(target) = fs::read_link(link) else {
        return Vec::new();
    };
    let target = target.to_string_lossy();
    if let Some(inode) = inode(&target, "socket:[") {
        return vec![EndInode::Socket(inode)];
    }
    let (Some(inode), Ok(metadata)) = (inode(&target, "pipe:["), fs::symlink_metadata(link)) else {
        return Vec::new();
    };
    let mode = metadata.permissions().mode();
    let ends = [
        (READ, EndInode::PipeToRead(inode)),
        (WRITE, EndInode::PipeToWrite(inode)),
    ];
    let ends = ends.into_iter().filter(|(bit, _)| mode & bit != 0);
    ends.map(|(_, end)| end).collect()
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        os::{
            fd::AsRawFd as _,
            unix::{fs::MetadataExt as _, net::UnixStream},
        },
    };

    use super::*;

    #[test]
    fn the_ends_that_this_process_has_are_found() {
        let (reader, writer) = io::pipe().expect("makes a pipe");
        let (near, _far) = UnixStream::pair().expect("makes sockets");
        let inode = |fd: i32| {
            let file = fs::metadata(format!("/proc/self/fd/{fd}"));
            file.expect("is open").ino()
        };
        let pipe = inode(reader.as_raw_fd());
        let wanted = [
            EndInode::PipeToRead(pipe),
            EndInode::Socket(inode(near.as_raw_fd())),
        ];
        let ours = |wanted: &[EndInode]| -> Vec<EndInode> {
            let found = open_ends(&wanted.iter().copied().collect());
            let ours = found.iter().filter(|one| one.pid == std::process::id());
            ours.map(|one| one.inode).collect()
        };
        assert_eq!(ours(&wanted), wanted);
        assert_eq!(ours(&[EndInode::PipeToWrite(pipe)]).len(), 1);
        drop(writer);
        assert_eq!(ours(&[EndInode::PipeToWrite(pipe)]), []);
    }
}
