//! What has to be known of the running kernel before the programs are loaded: its types and fields,
//! and which programs suit it.

use std::{
    fs,
    io::{self, Read as _},
    ops::Deref,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use memmap2::MmapOptions;
use zc_ebpf::{
    ABSENT, KernelFields,
    programs::{self, Hooked},
};

use super::{
    btf::{self, Tracepoints},
    unavailable::{BTF_PATH, EbpfUnavailable},
};
use crate::{
    backend::ebpf::attach::hooks::{Hook, Preemption},
    privileges,
};

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
pub(crate) struct TypesFile {
    path: PathBuf,
    /// `None` for the kernel's own, which is read later.
    content: Option<TypesContent>,
}

/// The content of a file of type information: it was read, or is mapped.
type TypesContent = Box<dyn Deref<Target = [u8]> + Send>;

impl TypesFile {
    /// Finds the file, and reads it unless it is the kernel's own.
    pub(crate) fn find() -> Result<Self, EbpfUnavailable> {
        let named = named_file();
        let path = named.clone().unwrap_or_else(|| PathBuf::from(BTF_PATH));
        let content = named.map(|path| read_types(&path)).transpose()?;
        Ok(Self { path, content })
    }

    fn into_content(self) -> Result<(PathBuf, TypesContent), EbpfUnavailable> {
        let Self { path, content } = self;
        let kernels_own = || mapped_types(&path).or_else(|_| read_types(&path));
        let content = content.map_or_else(kernels_own, Ok)?;
        Ok((path, content))
    }
}

fn read_types(path: &Path) -> Result<TypesContent, EbpfUnavailable> {
    let path = path.to_owned();
    match read_file(&path) {
        Ok(content) => Ok(Box::new(content)),
        Err(cause) => Err(EbpfUnavailable::NoBtf { path, cause }),
    }
}

/// Maps the kernel's own types, where the kernel allows that (Linux 6.18 does). To read them takes
/// 5 ms, because the kernel hands out a page at a time.
fn mapped_types(path: &Path) -> io::Result<TypesContent> {
    let file = fs::File::open(path)?;
    // SAFETY: the kernel does not change its types.
    let mapped = unsafe { MmapOptions::new().map_copy_read_only(&file) }?;
    Ok(Box::new(mapped))
}

/// Reads a file of type information. Refuses anything but a regular file of limited length, and
/// does not wait for the writer of a FIFO.
pub(crate) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
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
    let room = usize::try_from(found.len().min(MAX_BTF_BYTES)).unwrap_or(0) + 1;
    let mut content = Vec::with_capacity(room);
    file.take(MAX_BTF_BYTES + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_BTF_BYTES {
        let most = MAX_BTF_BYTES >> 20;
        return Err(io::Error::other(format!("it is longer than {most} MiB")));
    }
    Ok(content)
}

/// What has to be known of the running kernel.
pub struct KernelFacts {
    /// The tracepoints that programs are attached to directly. aya looks up those of programs with
    /// typed arguments.
    pub tracepoints: Tracepoints,
    /// The offsets of its fields.
    pub fields: KernelFields,
    /// The programs for `io_uring`, each with its tracepoint on this kernel.
    pub rings: Vec<(Hooked, &'static str)>,
    /// Whether it may preempt programs.
    pub preemption: Preemption,
    /// What it lacks, each a sentence.
    pub notes: Vec<String>,
}

/// Finds out what has to be known of the kernel from this file of type information. `attaches`: also
/// to attach to running tasks.
pub(crate) fn examine(file: TypesFile, attaches: bool) -> Result<KernelFacts, EbpfUnavailable> {
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
    let hooks = Hook::choose(&rings, preemption);
    let mut tracepoints = types.tracepoints(hooks.iter().filter_map(Hook::tracepoint));
    if attaches {
        tracepoints.add_task_iterator(&types);
    }
    Ok(KernelFacts {
        tracepoints,
        fields,
        rings,
        preemption,
        notes,
    })
}

/// The programs for `io_uring`, all or none; adds a note if none.
fn ring_programs(types: &btf::Btf<'_>, notes: &mut Vec<String>) -> Vec<(Hooked, &'static str)> {
    let on_this_kernel = |hooked: Hooked| {
        let mut tracepoints = hooked.tracepoints.iter();
        let tracepoint = tracepoints.find(|tracepoint| types.has_tracepoint(tracepoint))?;
        Some((hooked, *tracepoint))
    };
    let found: Option<Vec<_>> = programs::RING.into_iter().map(on_this_kernel).collect();
    found.unwrap_or_else(|| {
        let note =
            "what io_uring operations move is unknown: this kernel lacks a tracepoint for it";
        notes.push(note.to_owned());
        Vec::new()
    })
}

#[cfg(test)]
mod tests {
    use std::{fs::File, process::Command};

    use super::*;

    #[test]
    fn only_a_regular_file_of_limited_length_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("types");
        let why = |path: &Path| read_file(path).expect_err("refused").to_string();
        let made = Command::new("mkfifo").arg(&path).status();
        assert!(made.is_ok_and(|status| status.success()));
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
    }
}
