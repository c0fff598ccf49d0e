//! Where a file is written: its folder, which stays open, and its name there.
//!
//! What is there is replaced, never written into, and never through a link: links are followed
//! here, by the rules of the kernel's `protected_symlinks` and `protected_fifos`
//! (Documentation/admin-guide/sysctl/fs.rst), whether they are in force or not. A link or a FIFO in
//! a sticky directory that everybody can write to is used only if it belongs to this user or to the
//! owner of the directory. This is so for every part of the path, not only for the last.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io,
    os::{
        fd::{AsFd, AsRawFd as _, OwnedFd},
        unix::{ffi::OsStringExt as _, fs::PermissionsExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat},
    io::Errno,
    process::geteuid,
};
use tempfile::NamedTempFile;

/// The kernel's own limit: `MAXSYMLINKS` in include/linux/namei.h.
const MAX_LINKS: usize = 40;
/// To look at something without opening it.
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What is done with links in a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// They are followed.
    Followed,
    /// They are an error.
    Refused,
}

/// A file to be written.
pub struct OutputPlace {
    /// The path as it was given, for messages.
    pub path: PathBuf,
    folder: OwnedFd,
    name: OsString,
    /// What is there; `None` if nothing is. A link is one of the kernel's own, in `/proc`.
    pub kind: Option<FileType>,
}

impl OutputPlace {
    /// Walks this path. Its last part need not exist.
    pub fn find(path: &Path, links: Links) -> io::Result<Self> {
        let mut folder = rustix::fs::openat(CWD, ".", OFlags::PATH | OFlags::CLOEXEC, no_mode())?;
        let mut rest = parts(path);
        let mut followed = 0;
        while let Some(name) = rest.pop() {
            let is_last = rest.is_empty();
            let found = match rustix::fs::openat(&folder, &name, LOOK, no_mode()) {
                Err(Errno::NOENT) if is_last => None,
                found => Some(found?),
            };
            let kind = match &found {
                Some(found) => Some(checked_kind(&folder, &rustix::fs::fstat(found)?, is_last)?),
                None => None,
            };
            match (kind, found) {
                (Some(FileType::Symlink), _) if is_proc(&folder)? && !is_last => {
                    folder = rustix::fs::openat(&folder, name, LOOK - OFlags::NOFOLLOW, no_mode())?;
                }
                (Some(FileType::Symlink), Some(link)) if !is_proc(&folder)? => {
                    followed += 1;
                    if links == Links::Refused {
                        return Err(io::Error::other("its path has a symbolic link"));
                    }
                    if followed > MAX_LINKS {
                        return Err(Errno::LOOP.into());
                    }
                    let target = rustix::fs::readlinkat(link, "", Vec::new())?;
                    rest.extend(parts(Path::new(&OsString::from_vec(target.into_bytes()))));
                }
                (Some(FileType::Directory), _) if is_last => return Err(Errno::ISDIR.into()),
                (kind, _) if is_last => {
                    let path = path.to_owned();
                    return Ok(Self {
                        path,
                        folder,
                        name,
                        kind,
                    });
                }
                (_, Some(next)) => folder = next,
                (_, None) => break,
            }
        }
        Err(Errno::NOENT.into())
    }

    /// Whether both are the same file, which need not exist.
    pub fn is_same(&self, other: &Self) -> bool {
        let folder = |place: &Self| {
            let stat = rustix::fs::fstat(&place.folder).ok()?;
            Some((stat.st_dev, stat.st_ino))
        };
        self.name == other.name && folder(self) == folder(other)
    }

    /// Opens what is there and is no regular file, such as a FIFO.
    pub fn open_special(&self) -> io::Result<File> {
        let is_of_kernel = self.kind == Some(FileType::Symlink);
        let more = if is_of_kernel {
            OFlags::TRUNC
        } else {
            OFlags::NOFOLLOW
        };
        let file = self.open(OFlags::WRONLY | OFlags::NOCTTY | more)?;
        // It may have been replaced since.
        if !is_of_kernel && file.metadata()?.is_file() {
            return Err(Errno::ACCESS.into());
        }
        Ok(file)
    }

    /// Opens the file to append to it.
    pub fn open_to_append(&self) -> io::Result<File> {
        self.open(OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW)
    }

    fn open(&self, flags: OFlags) -> io::Result<File> {
        let mode = Mode::from_raw_mode(0o666);
        let opened = rustix::fs::openat(&self.folder, &self.name, flags | OFlags::CLOEXEC, mode)?;
        Ok(opened.into())
    }

    /// A temporary file in the same folder, with the permissions that this one has or would have.
    /// It is deleted unless it [takes its place](Self::put).
    pub fn temporary(&self) -> io::Result<NamedTempFile> {
        let there = rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW).ok();
        // The umask applies, as for any new file. A set-uid bit was for another program.
        let mode = there
            .filter(is_regular)
            .map_or(0o666, |stat| stat.st_mode & 0o777);
        let file = tempfile::Builder::new()
            .prefix(".zctrace-")
            .permissions(fs::Permissions::from_mode(mode))
            .tempfile_in(self.folder_path());
        // tempfile's own message names the temporary file, which means nothing to the user.
        file.map_err(|error| io::Error::from(error.kind()))
    }

    /// Puts a temporary file in the place of the file.
    pub fn put(&self, temporary: NamedTempFile) -> io::Result<File> {
        Ok(temporary.persist(self.folder_path().join(&self.name))?)
    }

    /// The folder that is open, whatever has its path by now.
    fn folder_path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.folder.as_raw_fd()))
    }
}

/// No file is created.
const fn no_mode() -> Mode {
    Mode::empty()
}

/// The parts of a path, the last first.
fn parts(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev();
    parts
        .map(|part| OsStr::to_owned(part.as_os_str()))
        .collect()
}

/// What this is, unless somebody else may have put it there for zctrace to use.
fn checked_kind(folder: &OwnedFd, found: &Stat, is_last: bool) -> io::Result<FileType> {
    let kind = FileType::from_raw_mode(found.st_mode);
    let is_used = kind == FileType::Symlink || (is_last && kind != FileType::RegularFile);
    let folder = rustix::fs::fstat(folder)?;
    let is_shared = Mode::from_raw_mode(folder.st_mode).contains(Mode::SVTX | Mode::WOTH);
    let is_known = [geteuid().as_raw(), folder.st_uid].contains(&found.st_uid);
    if is_used && is_shared && !is_known {
        let what = if kind == FileType::Symlink {
            "a symbolic link"
        } else {
            "a special file"
        };
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "it leads through {what} that another user owns, in a directory that everybody can write to"
            ),
        ));
    }
    Ok(kind)
}

fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// Whether this folder is in `/proc`, whose links the kernel makes: what they lead to may have no
/// path.
fn is_proc(folder: impl AsFd) -> io::Result<bool> {
    Ok(rustix::fs::fstatfs(folder)?.f_type == PROC_SUPER_MAGIC)
}
