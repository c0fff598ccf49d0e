//! Files with code: whether there is still the same at the path of a file that was mapped.
//!
//! A file can be written anew under the same device and inode: a compiler or `cp` overwrites it, or
//! a new file gets the inode of one that was removed. The kernel notes each change of the contents
//! in the time of change (`ctime`), which no program can set. So the contents are those that were
//! mapped if the file was last changed before it was mapped. Nothing else proves it: `cp -p` sets
//! `mtime` back, and the size may be the same. A later change may also be a new name, or
//! permissions. If there is a build ID, it tells.
//!
//! `ctime` is up to a tick of the kernel's clock too early (10 ms). What was mapped and overwritten
//! in the tick in which it was written is not noticed.

use std::{
    fs::{File, Metadata},
    io::{Read as _, Seek as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use object::{Object as _, ReadCache, read::elf::ElfFile64};
use rustix::fs::OFlags;

/// As a flag for `open`.
const NONBLOCK: i32 = OFlags::NONBLOCK.bits().cast_signed();

/// A file with code that was mapped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CodeFile {
    /// Its path.
    pub path: String,
    /// Its device, as in `stat`.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// The type of its filesystem, if it is known.
    pub filesystem: Option<String>,
}

/// Why a file cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unusable {
    /// It is gone, cannot be read, or is no program for this machine.
    Gone,
    /// At its path there is another file now, or it has been changed.
    Replaced,
}

/// The contents of a file between two changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileVersion {
    bytes: u64,
    modified_ns: i128,
    changed_ns: i128,
}

/// A file with code, and which contents of it were mapped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MappedFile {
    /// The file.
    pub file: CodeFile,
    /// The contents; or why they are unknown.
    pub version: Result<FileVersion, Unusable>,
}

impl CodeFile {
    /// Opens the file, if it is still the one that was mapped.
    pub fn open(&self) -> Result<File, Unusable> {
        let opened = open_regular(Path::new(&self.path)).ok_or(Unusable::Gone)?;
        let metadata = opened.metadata().map_err(|_| Unusable::Gone)?;
        if self.is_same_file(&metadata) {
            Ok(opened)
        } else {
            Err(Unusable::Replaced)
        }
    }

    /// Which contents were mapped, if they are still there. They were mapped so many ns after 1970;
    /// `None`: unknown.
    pub fn mapped_version(&self, mapped_ns: Option<i128>) -> Result<FileVersion, Unusable> {
        let metadata = std::fs::metadata(&self.path).map_err(|_| Unusable::Gone)?;
        let version = FileVersion::from_metadata(&metadata);
        let is_changed = mapped_ns.is_some_and(|mapped_ns| version.changed_ns > mapped_ns);
        if is_changed || !self.is_same_file(&metadata) {
            Err(Unusable::Replaced)
        } else {
            Ok(version)
        }
    }

    /// Whether this is the file that was mapped. For files of btrfs and overlay, the device that
    /// `stat` shows is not that of the filesystem, so it is not compared.
    fn is_same_file(&self, metadata: &Metadata) -> bool {
        let has_own_devices = matches!(self.filesystem.as_deref(), Some("btrfs" | "overlay"));
        metadata.ino() == self.inode && (metadata.dev() == self.device || has_own_devices)
    }
}

impl MappedFile {
    /// Opens the file, if its contents are still those that were mapped. `build_id` is what they
    /// had.
    pub fn open(&self, build_id: Option<&[u8]>) -> Result<File, Unusable> {
        let version = self.version?;
        let opened = self.file.open()?;
        let now = opened
            .metadata()
            .map(|metadata| FileVersion::from_metadata(&metadata))
            .map_err(|_| Unusable::Gone)?;
        let is_the_same = now == version
            // It may have got another name.
            || (now.bytes == version.bytes && build_id.is_some() && build_id_of(&opened).as_deref() == build_id);
        if is_the_same {
            Ok(opened)
        } else {
            Err(Unusable::Replaced)
        }
    }
}

impl FileVersion {
    fn from_metadata(metadata: &Metadata) -> Self {
        let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Self {
            bytes: metadata.len(),
            modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Opens a regular file that is an ELF file. Opening a pipe or a device could wait or have effects.
pub fn open_regular(path: &Path) -> Option<File> {
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    // It may have become a pipe since: then this does not wait.
    let mut opened = File::options()
        .read(true)
        .custom_flags(NONBLOCK)
        .open(path)
        .ok()?;
    let mut magic = [0; 4];
    opened.read_exact(&mut magic).ok()?;
    opened.rewind().ok()?;
    (magic == *b"\x7fELF" && opened.metadata().ok()?.is_file()).then_some(opened)
}

/// The build ID of a file.
pub fn build_id_of(file: &File) -> Option<Vec<u8>> {
    let cache = ReadCache::new(file.try_clone().ok()?);
    let elf = ElfFile64::<object::Endianness, _>::parse(&cache).ok()?;
    elf.build_id().ok().flatten().map(<[u8]>::to_vec)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{fs, os::unix::fs::FileExt as _, path::PathBuf, time::SystemTime};

    use super::*;

    /// The file at this path, as the kernel describes it.
    pub fn code_file(path: &Path) -> CodeFile {
        let metadata = path.metadata().ok();
        let (device, inode) = metadata.map_or((0, 0), |metadata| (metadata.dev(), metadata.ino()));
        CodeFile {
            path: path.to_str().expect("a plain name").into(),
            device,
            inode,
            filesystem: None,
        }
    }

    /// A copy of this test, in a folder that goes with it, and as a file that is mapped now.
    fn copy_of_this() -> (tempfile::TempDir, PathBuf, MappedFile) {
        let dir = tempfile::tempdir().expect("there is room");
        let path = dir.path().join("program");
        let this = std::env::current_exe().expect("this test is a program");
        fs::copy(this, &path).expect("there is room");
        let file = code_file(&path);
        let version = file.mapped_version(Some(now_ns()));
        (dir, path, MappedFile { file, version })
    }

    fn now_ns() -> i128 {
        let since = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .expect("after 1970");
        i128::try_from(since.as_nanos()).expect("a small number")
    }

    fn build_id(path: &Path) -> Option<Vec<u8>> {
        build_id_of(&File::open(path).expect("it is there"))
    }

    #[test]
    fn a_file_with_another_inode_or_device_is_not_the_one_that_was_mapped() {
        let (_dir, _, MappedFile { file: own, version }) = copy_of_this();
        assert!(version.is_ok());
        let mut other_inode = own.clone();
        other_inode.inode += 1;
        let mut other_device = own;
        other_device.device += 1;
        for other in [&other_inode, &other_device] {
            let found = (other.open().err(), other.mapped_version(None));
            let replaced = Unusable::Replaced;
            assert_eq!(found, (Some(replaced), Err(replaced)));
        }
        other_device.filesystem = Some("btrfs".into());
        assert!(
            other_device.open().is_ok(),
            "stat shows another device there"
        );
    }

    #[test]
    fn a_file_that_is_gone_or_no_program_is_not_used() {
        for path in ["/nowhere/at/all", "/etc/passwd", "/dev/null", "/proc"] {
            let found = code_file(Path::new(path)).open();
            assert_eq!(found.err(), Some(Unusable::Gone), "{path}");
        }
    }

    #[test]
    fn a_file_that_was_changed_after_it_was_mapped_is_not_used() {
        let (_dir, _, mapped) = copy_of_this();
        let version = mapped.file.mapped_version(Some(now_ns() - 60_000_000_000));
        assert_eq!(version, Err(Unusable::Replaced));
    }

    #[test]
    fn a_file_that_is_rewritten_in_place_with_its_old_times_is_not_used() {
        let (_dir, path, mapped) = copy_of_this();
        assert!(mapped.open(build_id(&path).as_deref()).is_ok());
        let file = File::options().write(true).open(&path).expect("it is ours");
        let metadata = || file.metadata().expect("it is ours");
        let before = metadata();
        let modified = before.modified().expect("it has a time");
        // Until the kernel's clock has moved on.
        while (metadata().ctime(), metadata().ctime_nsec()) == (before.ctime(), before.ctime_nsec())
        {
            file.write_at(&[1], 4096).expect("it is ours");
            file.set_modified(modified).expect("it is ours");
        }
        assert_eq!(mapped.open(None).err(), Some(Unusable::Replaced));
    }

    #[test]
    fn a_new_name_does_not_change_the_contents() {
        let (dir, path, mapped) = copy_of_this();
        fs::hard_link(&path, dir.path().join("other")).expect("it is ours");
        let build_id = build_id(&path);
        assert!(build_id.is_some() && mapped.open(build_id.as_deref()).is_ok());
    }

    /// Makes a pipe with a name.
    pub fn make_pipe(path: &Path) {
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
        rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).expect("it is ours");
    }

    #[test]
    fn a_pipe_in_the_place_of_a_file_is_not_opened() {
        let dir = tempfile::tempdir().expect("there is room");
        let pipe = dir.path().join("pipe");
        make_pipe(&pipe);
        assert!(open_regular(&pipe).is_none());
    }
}
