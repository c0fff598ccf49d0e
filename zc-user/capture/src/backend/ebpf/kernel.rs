//! What has to be known of the running kernel before the programs are loaded: its types and fields,
//! and which programs suit it.

use std::{
    ffi::c_void,
    fs::{self, File},
    io::{self, Read as _},
    ops::Deref,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    ptr::{self, NonNull},
    slice,
};

use rustix::{
    fs::fstatfs,
    mm::{MapFlags, ProtFlags, mmap, munmap},
};
use zc_ebpf::{ABSENT, KernelFields, programs};

use super::{
    btf::{self, Tracepoints},
    hooks::{Hook, Preemption},
    unavailable::EbpfUnavailable,
};

use crate::privileges;

/// The kernel's own type information.
pub(crate) const BTF_PATH: &str = "/sys/kernel/btf/vmlinux";
/// The environment variable that names another file of type information. It is ignored if zctrace
/// has more privileges than its caller: whoever chooses the offsets of kernel fields chooses which
/// kernel memory the programs read.
pub const BTF_PATH_VARIABLE: &str = "ZCTRACE_BTF";
/// The longest file of type information that is read. Those of distribution kernels have 5 to 15
/// MB.
const MAX_BTF_BYTES: u64 = 64 << 20;

/// The file that the environment names, unless it is ignored.
pub(crate) fn named_file() -> Option<PathBuf> {
    named_in_environment().filter(|_| !privileges::is_secure())
}

/// The file that the environment names, if it is ignored.
pub(crate) fn ignored_file() -> Option<PathBuf> {
    named_in_environment().filter(|_| privileges::is_secure())
}

fn named_in_environment() -> Option<PathBuf> {
    std::env::var_os(BTF_PATH_VARIABLE).map(PathBuf::from)
}

/// A file of type information.
pub(crate) enum TypesFile {
    /// The kernel's own. It is read later.
    Kernel,
    /// The one that the environment names, with its content.
    Named(PathBuf, Vec<u8>),
}

impl TypesFile {
    /// Finds the file, and reads it unless it is the kernel's own.
    pub(crate) fn find() -> Result<Self, EbpfUnavailable> {
        let Some(path) = named_file() else {
            return Ok(Self::Kernel);
        };
        match read_file(&path) {
            Ok(content) => Ok(Self::Named(path, content)),
            Err(cause) => Err(EbpfUnavailable::NoBtf { path, cause }),
        }
    }

    fn into_content(self) -> Result<(PathBuf, Content), EbpfUnavailable> {
        let path = match self {
            Self::Named(path, content) => return Ok((path, Content::Read(content))),
            Self::Kernel => PathBuf::from(BTF_PATH),
        };
        match Content::of_kernel(&path) {
            Ok(content) => Ok((path, content)),
            Err(cause) => Err(EbpfUnavailable::NoBtf { path, cause }),
        }
    }
}

/// The content of a file of type information.
enum Content {
    /// Pages of the kernel, which are never written.
    Mapped(NonNull<c_void>, usize),
    Read(Vec<u8>),
}

impl Content {
    /// The kernel's own file at this path. It can be mapped since 6.16 (the kernel's commit
    /// a539e2a6d51d); else it is read, a page at a time.
    fn of_kernel(path: &Path) -> io::Result<Self> {
        let file = open(path)?;
        match Self::map(&file) {
            Some(mapped) => Ok(mapped),
            None => read(file).map(Self::Read),
        }
    }

    /// Maps the file if it is in sysfs. One that is mounted in its place could be shortened while
    /// it is mapped.
    fn map(file: &File) -> Option<Self> {
        const SYSFS_MAGIC: i64 = 0x6265_6572;
        let length = usize::try_from(file.metadata().ok()?.len())
            .ok()
            .filter(|&length| length > 0)?;
        if fstatfs(file).ok()?.f_type != SYSFS_MAGIC {
            return None;
        }
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start = unsafe {
            mmap(
                ptr::null_mut(),
                length,
                ProtFlags::READ,
                MapFlags::PRIVATE,
                file,
                0,
            )
        }
        .ok()?;
        NonNull::new(start).map(|start| Self::Mapped(start, length))
    }
}

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            // SAFETY: mapped with this length until it is dropped; nobody writes these pages.
            Self::Mapped(start, length) => unsafe {
                slice::from_raw_parts(start.as_ptr().cast(), *length)
            },
            Self::Read(content) => content,
        }
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        if let Self::Mapped(start, length) = *self {
            // SAFETY: it is mapped, and no reference to it is left. This does not fail.
            let _ = unsafe { munmap(start.as_ptr(), length) };
        }
    }
}

/// Reads a file of type information. Refuses anything but a regular file of limited length, and
/// does not wait for the writer of a FIFO.
pub(crate) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    read(open(path)?)
}

fn open(path: &Path) -> io::Result<File> {
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    let found = file.metadata()?;
    if found.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    if !found.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(file)
}

fn read(file: File) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    let mut content =
        Vec::with_capacity(usize::try_from(length.min(MAX_BTF_BYTES)).unwrap_or(0) + 1);
    file.take(MAX_BTF_BYTES + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_BTF_BYTES {
        return Err(io::Error::other(format!(
            "it is longer than {} MiB",
            MAX_BTF_BYTES >> 20
        )));
    }
    Ok(content)
}

/// What has to be known of the running kernel.
pub struct Kernel {
    /// The tracepoints that programs are attached to directly. aya looks up those of programs with
    /// typed arguments.
    pub tracepoints: Tracepoints,
    /// The offsets of its fields.
    pub fields: KernelFields,
    /// The programs for `io_uring`, each with its tracepoint on this kernel.
    pub rings: Vec<(&'static str, &'static str)>,
    /// Whether it may preempt programs.
    pub(super) preemption: Preemption,
    /// What it lacks, each a sentence.
    pub notes: Vec<String>,
}

/// Finds out what has to be known of the kernel from this file of type information.
pub(crate) fn describe(file: TypesFile) -> Result<Kernel, EbpfUnavailable> {
    let (path, data) = file.into_content()?;
    let bad = |cause| EbpfUnavailable::BadBtf {
        path: path.clone(),
        cause,
    };
    let types = btf::Btf::parse(&data).map_err(bad)?;
    let (fields, mut notes) = btf::kernel_fields(&types)?;
    let rings = if fields.request_file == ABSENT {
        Vec::new()
    } else {
        ring_programs(&types, &mut notes)
    };
    let preemption = Preemption::find(&types);
    notes.extend(preemption.note());
    let tracepoints = types.tracepoints(
        Hook::choose(&rings, preemption)
            .iter()
            .filter_map(Hook::tracepoint),
    );
    Ok(Kernel {
        tracepoints,
        fields,
        rings,
        preemption,
        notes,
    })
}

/// The programs for `io_uring`, all or none; adds a note if none.
fn ring_programs(
    types: &btf::Btf<'_>,
    notes: &mut Vec<String>,
) -> Vec<(&'static str, &'static str)> {
    let found = |(program, tracepoints): (&'static str, &'static [&'static str])| {
        Some((
            program,
            *tracepoints
                .iter()
                .find(|tracepoint| types.has_tracepoint(tracepoint))?,
        ))
    };
    programs::RING
        .into_iter()
        .map(found)
        .collect::<Option<_>>()
        .unwrap_or_else(|| {
            notes.push(
                "what io_uring operations move is unknown: this kernel lacks a tracepoint for it"
                    .to_owned(),
            );
            Vec::new()
        })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::backend::ebpf::unavailable;

    #[test]
    fn only_a_regular_file_of_limited_length_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("types");
        let why = |path: &Path| {
            read_file(path)
                .map_err(|error| error.to_string())
                .expect_err("refused")
        };
        assert!(
            Command::new("mkfifo")
                .arg(&path)
                .status()
                .is_ok_and(|status| status.success())
        );
        assert_eq!(why(&path), "it is not a regular file");
        assert_eq!(why(Path::new("/dev/zero")), "it is not a regular file");
        assert_eq!(why(folder.path()), "Is a directory (os error 21)");
        fs::remove_file(&path).expect("ours");
        let file = File::create(&path).expect("ours");
        file.set_len(MAX_BTF_BYTES + 1)
            .expect("a hole needs no room");
        assert_eq!(why(&path), "it is longer than 64 MiB");
        file.set_len(3).expect("shorter");
        assert_eq!(read_file(&path).expect("readable"), [0; 3]);
        let content = Content::of_kernel(&path).expect("readable");
        assert!(
            matches!(&content, Content::Read(content) if *content == [0; 3]),
            "a file outside of sysfs is not mapped"
        );
    }

    #[test]
    fn the_kernels_own_file_is_the_same_whether_it_is_mapped_or_read() {
        let content = Content::of_kernel(Path::new(BTF_PATH)).expect("needs a kernel with BTF");
        assert!(content[..] == read_file(Path::new(BTF_PATH)).expect("readable")[..]);
        let can_be_mapped = unavailable::version(&unavailable::release()) >= Some((6, 16));
        assert!(matches!(content, Content::Mapped(..)) || !can_be_mapped);
    }
}
