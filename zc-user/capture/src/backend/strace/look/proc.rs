//! Looking at files through `/proc`, and by their path.

use std::{
    ffi::OsStr,
    fs, io,
    os::{
        fd::{AsFd as _, AsRawFd as _},
        unix::{ffi::OsStrExt as _, fs::MetadataExt as _, net::UnixStream},
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, StatxTimestamp, statfs, statx};

use super::{Devices, Look, Seen, Sighting, mounts::Mounts};
use crate::{backend::strace::name::MEMFD, trace::FileKind};

/// How far the time of a change may lie before the change: a tick of the slowest kernel clock (100 Hz).
const TICK: Duration = Duration::from_millis(10);

/// Looks at the files of processes that run under the same kernel.
pub struct Proc {
    began_at: SystemTime,
    devices: Devices,
    mounts: Mounts,
}

impl Proc {
    /// To be made before the run begins.
    pub fn new() -> io::Result<Self> {
        let (pipe, _) = io::pipe()?;
        let (socket, _) = UnixStream::pair()?;
        let device = |fd: i32| fs::metadata(format!("/proc/self/fd/{fd}")).map(|metadata| metadata.dev());
        let devices = Devices { pipes: device(pipe.as_raw_fd())?, sockets: device(socket.as_fd().as_raw_fd())? };
        Ok(Self { began_at: SystemTime::now(), devices, mounts: Mounts::open()? })
    }

    fn seen(&mut self, stat: &Statx) -> Seen {
        let kind = kind(stat);
        let has_length = matches!(kind, Some(FileKind::Regular));
        let is_as_before = time(stat.stx_ctime).is_some_and(|changed| changed + TICK < self.began_at);
        Seen {
            kind,
            device: libc::makedev(stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            born: has(stat, StatxFlags::BTIME).then(|| time(stat.stx_btime)).flatten(),
            size_bytes: (has_length && is_as_before).then_some(stat.stx_size),
            filesystem: has(stat, StatxFlags::MNT_ID)
                .then(|| self.mounts.filesystem(stat.stx_mnt_id).map(str::to_owned))
                .flatten(),
        }
    }
}

impl Look for Proc {
    fn devices(&self) -> Devices {
        self.devices
    }

    /// Behind the descriptor is the file itself, also one that is deleted or in another mount namespace, as long as nobody has closed
    /// it; the path may be that of another file by now, or in another namespace.
    fn look(&mut self, sighting: &Sighting<'_>) -> Option<Seen> {
        let link = link(sighting);
        let behind = link.as_deref().and_then(|link| stat(link, AtFlags::empty()));
        let by_path = || stat(Path::new(OsStr::from_bytes(sighting.path)), AtFlags::SYMLINK_NOFOLLOW);
        let stat = if sighting.is_deleted { behind? } else { behind.or_else(by_path)? };
        let seen = self.seen(&stat);
        let is_memfd = sighting.is_deleted && sighting.path.starts_with(MEMFD);
        let filesystem = seen.filesystem.or_else(|| link.filter(|_| is_memfd).and_then(|link| filesystem_in_memory(&link)));
        Some(Seen { filesystem, ..seen })
    }
}

/// What leads to the file behind a descriptor, if its name is still the same.
fn link(sighting: &Sighting<'_>) -> Option<PathBuf> {
    let link = PathBuf::from(format!("/proc/{}/fd/{}", sighting.tid?, sighting.descriptor));
    let name = fs::read_link(&link).ok()?;
    let suffix: &[u8] = if sighting.is_deleted { b" (deleted)" } else { b"" };
    (name.as_os_str().as_bytes().strip_prefix(sighting.path) == Some(suffix)).then_some(link)
}

/// The type of the filesystem that a file of `memfd_create` is in, which is mounted nowhere.
fn filesystem_in_memory(link: &Path) -> Option<String> {
    match statfs(link).ok()?.f_type {
        libc::TMPFS_MAGIC => Some("tmpfs".to_owned()),
        libc::HUGETLBFS_MAGIC => Some("hugetlbfs".to_owned()),
        _ => None,
    }
}

fn stat(path: &Path, flags: AtFlags) -> Option<Statx> {
    let fields = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
    statx(CWD, path, flags | AtFlags::NO_AUTOMOUNT, fields).ok()
}

fn has(stat: &Statx, field: StatxFlags) -> bool {
    stat.stx_mask & field.bits() != 0
}

fn time(stamp: StatxTimestamp) -> Option<SystemTime> {
    let since = Duration::new(u64::try_from(stamp.tv_sec).ok()?, stamp.tv_nsec);
    SystemTime::UNIX_EPOCH.checked_add(since)
}

fn kind(stat: &Statx) -> Option<FileKind> {
    match u32::from(stat.stx_mode) & libc::S_IFMT {
        libc::S_IFREG => Some(FileKind::Regular),
        libc::S_IFDIR => Some(FileKind::Directory),
        libc::S_IFBLK => Some(FileKind::Block),
        libc::S_IFCHR => Some(FileKind::Char),
        libc::S_IFIFO => Some(FileKind::Pipe),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
