//! Looks at the files of a command while it runs, through `/proc` and by their path.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs::{self, File as OpenFile},
    io::{self, Read as _, Seek as _},
    os::{
        fd::{AsFd, AsRawFd as _, OwnedFd},
        unix::{ffi::OsStrExt as _, fs::MetadataExt as _, net::UnixStream},
    },
    path::Path,
    time::{Duration, SystemTime},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{AtFlags, CWD, Mode, OFlags, Statx, StatxFlags, StatxTimestamp, open, statx},
};

use super::file_name::{DELETED_INSIDE, Devices, ParsedName, identity};
use crate::trace::{File, FileKind};

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inspected {
    /// What is known of the file but its path. It has an identity, and a size only if that cannot
    /// have changed since the run began.
    pub file: File,
    /// The time of birth, since an inode number may be used again.
    pub born: Option<SystemTime>,
}

/// How much earlier than the change its timestamp may be: a tick of the slowest kernel clock (100
/// Hz).
const TICK: Duration = Duration::from_millis(10);

/// Inspects the files of processes on this machine.
pub struct ProcInspector {
    began_at: SystemTime,
    /// The devices of the kernel's internal filesystems.
    pub devices: Devices,
    mounts: Mounts,
}

impl ProcInspector {
    /// To be created before the run begins.
    pub fn new() -> io::Result<Self> {
        let (pipe, _) = io::pipe()?;
        let (socket, _) = UnixStream::pair()?;
        let device =
            |fd: i32| fs::metadata(format!("/proc/self/fd/{fd}")).map(|metadata| metadata.dev());
        let devices = Devices {
            pipes: device(pipe.as_raw_fd())?,
            sockets: device(socket.as_fd().as_raw_fd())?,
        };
        Ok(Self {
            began_at: SystemTime::now(),
            devices,
            mounts: Mounts::open()?,
        })
    }

    fn seen(&mut self, stat: &Statx) -> Inspected {
        let kind = file_kind(stat);
        let is_as_before =
            system_time(stat.stx_ctime).is_some_and(|changed| changed + TICK < self.began_at);
        let has_size = kind == Some(FileKind::Regular) && is_as_before;
        let device = libc::makedev(stat.stx_dev_major, stat.stx_dev_minor);
        let file = File {
            kind,
            identity: Some(identity(device, stat.stx_ino)),
            size_bytes: has_size.then_some(stat.stx_size),
            filesystem: has_field(stat, StatxFlags::MNT_ID)
                .then(|| self.mounts.filesystem(stat.stx_mnt_id).map(str::to_owned))
                .flatten(),
            ..File::default()
        };
        let has_birth = has_field(stat, StatxFlags::BTIME);
        let born = has_birth.then(|| system_time(stat.stx_btime)).flatten();
        Inspected { file, born }
    }

    /// Looks at the file of this name behind a descriptor of a thread. `None` if it is gone or is
    /// another file by now.
    ///
    /// The descriptor leads to the file itself until it is closed, even if the file was deleted or
    /// is in another mount namespace. The path may belong to another file by now, or to another
    /// namespace.
    pub fn inspect(
        &mut self,
        tid: Option<u32>,
        descriptor: u32,
        name: &ParsedName,
    ) -> Option<Inspected> {
        let path = name.path.as_deref()?;
        let held = tid.and_then(|tid| open_if_unchanged(tid, descriptor, path, name.is_deleted));
        let behind = held.and_then(|held| stat(held, Path::new(""), AtFlags::EMPTY_PATH));
        let path = Path::new(OsStr::from_bytes(path));
        let by_path = || stat(CWD, path, AtFlags::SYMLINK_NOFOLLOW);
        let stat = if name.is_deleted {
            behind?
        } else {
            behind.or_else(by_path)?
        };
        Some(self.seen(&stat))
    }
}

/// The file behind a descriptor, if it still has the same name. The descriptor may be another file's
/// at any moment, so the file is held before its name is read.
fn open_if_unchanged(tid: u32, descriptor: u32, path: &[u8], is_deleted: bool) -> Option<OwnedFd> {
    let link = format!("/proc/{tid}/fd/{descriptor}");
    let held = open(link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let name = fs::read_link(format!("/proc/self/fd/{}", held.as_raw_fd())).ok()?;
    let suffix: &[u8] = if is_deleted { DELETED_INSIDE } else { b"" };
    (name.as_os_str().as_bytes().strip_prefix(path) == Some(suffix)).then_some(held)
}

fn stat(at: impl AsFd, path: &Path, flags: AtFlags) -> Option<Statx> {
    let fields = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
    statx(at, path, flags | AtFlags::NO_AUTOMOUNT, fields).ok()
}

fn has_field(stat: &Statx, field: StatxFlags) -> bool {
    stat.stx_mask & field.bits() != 0
}

fn system_time(stamp: StatxTimestamp) -> Option<SystemTime> {
    let since = Duration::new(u64::try_from(stamp.tv_sec).ok()?, stamp.tv_nsec);
    SystemTime::UNIX_EPOCH.checked_add(since)
}

fn file_kind(stat: &Statx) -> Option<FileKind> {
    match u32::from(stat.stx_mode) & libc::S_IFMT {
        libc::S_IFREG => Some(FileKind::Regular),
        libc::S_IFDIR => Some(FileKind::Directory),
        libc::S_IFBLK => Some(FileKind::Block),
        libc::S_IFCHR => Some(FileKind::Char),
        libc::S_IFIFO => Some(FileKind::Pipe),
        _ => None,
    }
}

/// The types of mounted filesystems, from `/proc/self/mountinfo`. Polling that file reports changes
/// (proc(5)).
struct Mounts {
    file: OpenFile,
    types: HashMap<u64, String>,
}

impl Mounts {
    fn open() -> io::Result<Self> {
        let mut mounts = Self {
            file: OpenFile::open("/proc/self/mountinfo")?,
            types: HashMap::new(),
        };
        mounts.read()?;
        Ok(mounts)
    }

    /// The type of the filesystem with this mount id; `None` if this mount namespace does not have
    /// it.
    fn filesystem(&mut self, id: u64) -> Option<&str> {
        if self.has_changed() {
            self.read().ok()?;
        }
        self.types.get(&id).map(String::as_str)
    }

    fn has_changed(&self) -> bool {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut [PollFd::new(&self.file, PollFlags::PRI)], Some(&now))
            .is_ok_and(|changed| changed > 0)
    }

    fn read(&mut self) -> io::Result<()> {
        let mut text = Vec::new();
        self.file.rewind()?;
        self.file.read_to_end(&mut text)?;
        self.types = String::from_utf8_lossy(&text)
            .lines()
            .filter_map(mounted_device)
            .collect();
        Ok(())
    }
}

/// Parses `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`: the id, and the type
/// after the hyphen.
fn mounted_device(line: &str) -> Option<(u64, String)> {
    let (id, rest) = line.split_once(' ')?;
    let (_, after_options) = rest.split_once(" - ")?;
    Some((
        id.parse().ok()?,
        after_options.split(' ').next()?.to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write as _};

    use super::*;

    /// An inspector of a run that began this long after now, so that all existing files are older;
    /// zero: they may have changed since.
    fn proc(began_after: Duration) -> ProcInspector {
        ProcInspector {
            began_at: SystemTime::now() + began_after,
            ..ProcInspector::new().expect("has /proc")
        }
    }

    fn inspect(
        proc: &mut ProcInspector,
        path: &Path,
        descriptor: i32,
        is_deleted: bool,
    ) -> Option<Inspected> {
        let name = ParsedName {
            path: Some(path.as_os_str().as_bytes().to_vec()),
            is_deleted,
            ..ParsedName::default()
        };
        let descriptor = u32::try_from(descriptor).expect("is open");
        proc.inspect(Some(std::process::id()), descriptor, &name)
    }

    /// A descriptor that is not open, so that only the path can lead to the file.
    const CLOSED: i32 = i32::MAX;

    #[test]
    fn a_file_is_seen_behind_its_descriptor_and_by_its_path() {
        let mut file = tempfile::NamedTempFile::new().expect("has room");
        file.write_all(b"12345").expect("has room");
        let metadata = file.as_file().metadata().expect("is there");
        let mut proc = proc(Duration::from_secs(1));
        let behind = inspect(&mut proc, file.path(), file.as_raw_fd(), false).expect("is open");
        let by_path = inspect(&mut proc, file.path(), CLOSED, false);
        assert_eq!(Some(&behind), by_path.as_ref());
        assert_eq!(behind.born, metadata.created().ok());
        let identity = behind.file.identity.expect("has one");
        let found = (behind.file.kind, identity.device, identity.inode);
        let expected = (Some(FileKind::Regular), metadata.dev(), metadata.ino());
        assert_eq!((found, behind.file.size_bytes), (expected, Some(5)));
        let mounts = fs::read_to_string("/proc/mounts").expect("has mounts");
        let mut types = mounts.lines().map(|mount| mount.split(' ').nth(2));
        let filesystem = behind.file.filesystem.expect("is mounted");
        assert!(
            types.any(|mounted| mounted == Some(&filesystem)),
            "{filesystem}"
        );
    }

    #[test]
    fn a_file_that_may_have_changed_has_no_size() {
        let file = tempfile::NamedTempFile::new().expect("has room");
        let mut proc = proc(Duration::ZERO);
        let seen = inspect(&mut proc, file.path(), CLOSED, false).expect("is there");
        assert_eq!(seen.file.size_bytes, None);
    }

    #[test]
    fn a_deleted_file_is_only_found_by_its_descriptor() {
        let file = tempfile::NamedTempFile::new().expect("has room");
        let (file, path) = file.into_parts();
        let path = path.keep().expect("is there");
        fs::remove_file(&path).expect("is ours");
        File::create(&path).expect("another file of this name");
        let mut proc = proc(Duration::ZERO);
        let seen = inspect(&mut proc, &path, file.as_raw_fd(), true).expect("is open");
        let inode = seen.file.identity.map(|identity| identity.inode);
        assert_eq!(inode, Some(file.metadata().expect("is open").ino()));
        assert_eq!(inspect(&mut proc, &path, CLOSED, true), None);
        fs::remove_file(&path).expect("is ours");
    }

    #[test]
    fn another_file_behind_the_descriptor_is_not_used() {
        let file = tempfile::NamedTempFile::new().expect("has room");
        let mut proc = proc(Duration::ZERO);
        let (fd, nowhere) = (file.as_raw_fd(), Path::new("/no/such/file"));
        assert_eq!(inspect(&mut proc, nowhere, fd, false), None);
        // One that becomes another file while it is inspected.
        let other = tempfile::tempfile().expect("has room");
        let mut shared = OwnedFd::from(other.try_clone().expect("has room"));
        let (own, fd) = (file.reopen().expect("is there"), shared.as_raw_fd());
        let expected = Some(own.metadata().expect("is open").ino());
        let changing = std::thread::spawn(move || {
            for end in [&other, &own].iter().cycle().take(500_000) {
                rustix::io::dup2(end, &mut shared).expect("both are open");
            }
        });
        while !changing.is_finished() {
            let seen = inspect(&mut proc, file.path(), fd, false).expect("is there");
            assert_eq!(seen.file.identity.map(|found| found.inode), expected);
        }
    }

    #[test]
    fn a_mount_has_an_id_and_a_type() {
        let line = "36 35 98:0 /mnt1 /a\\040-\\040b rw,noatime master:1 - fuse.sshfs /dev/root rw,errors=continue";
        assert_eq!(mounted_device(line), Some((36, "fuse.sshfs".to_owned())));
        assert_eq!(mounted_device("36 35 98:0 /"), None);
    }
}
