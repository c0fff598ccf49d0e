//! Finds the number of the file behind a descriptor.

use aya_ebpf::bindings::BPF_NOEXIST;
use zc_ebpf::{
    ABSENT, Descriptor, FileKey, FileNumber, KnownFile, NO_ROOM, Task, recorded, reported,
};

use crate::{
    file::file_info,
    kernel::argument,
    kernel::entries::{Entries as _, EntryPtr, field},
    kernel::fields::{self, KernelPtr, offset_of_field},
    kernel::helpers::current_task,
    maps::{CONTROL, FILES, file_generation, numbers_given_up, records},
};

/// No descriptor.
pub const NO_FD: u64 = u64::MAX;

/// The number of the file behind a descriptor of the current task, whose entry is `task`. 0: there
/// is no file.
#[inline(always)]
pub fn number(task: &mut Task, fd: u64, side: u32) -> FileNumber {
    if fd == NO_FD {
        return 0;
    }
    // To the kernel a descriptor is an unsigned int: it ignores the upper half of the register.
    let fd = fd as u32;
    let last = if side == OUTPUT {
        task.last_output
    } else {
        task.last_input
    };
    let is_last = task.shares_files == 0 && side != PIPE && last.file != 0 && last.fd == fd;
    if is_last {
        last.file
    } else {
        file_behind(task, fd, side)
    }
}

/// Side for [`number`]: the file that bytes come from.
pub const INPUT: u32 = 0;
/// Side for [`number`]: the file that bytes go to.
pub const OUTPUT: u32 = 1;
/// Side for [`number`]: a pipe. The result has [`FOR_WRITING`] if it is open for that.
pub const PIPE: u32 = 2;
/// In the result for a [`PIPE`].
pub const FOR_WRITING: FileNumber = 1 << 31;

/// As [`number`]. A global function, so that the verifier checks it once, and not wherever a call
/// names a file.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn file_behind(task: *mut Task, fd: u32, side: u32) -> FileNumber {
    // Verifiers before 6.8 check a global function even if nothing calls it. This shows them that
    // the load below cannot happen.
    if offset_of_field!(task_files) == ABSENT || !records(recorded::FILES) {
        return 0;
    }
    let task = argument::as_mut(task)
        .filter(|task| side != PIPE && task.has_ring | task.shares_files == 0);
    let last = task.map(|task| {
        if side == OUTPUT {
            &mut task.last_output
        } else {
            &mut task.last_input
        }
    });
    let Some(file) = open_file(fd).filter(|file| !file.is_null()) else {
        return 0;
    };
    let known = known_number(file);
    if let (Some(last), Some(file)) = (last, known) {
        *last = Descriptor { fd, file };
    }
    let number = known.unwrap_or_else(|| look_closer(file as u64));
    if side == PIPE && is_for_writing(file) {
        number | FOR_WRITING
    } else {
        number
    }
}

/// `FMODE_WRITE` of the kernel's include/linux/fs.h: the file is open for writing.
const FMODE_WRITE: u32 = 2;

/// Whether a pipe is open for writing: `vmsplice` moves bytes into a pipe through one descriptor,
/// and out of it through the other.
#[inline(always)]
fn is_for_writing(file: KernelPtr) -> bool {
    let mode: Option<u32> = fields::probe(file, offset_of_field!(file_mode));
    mode.is_some_and(|mode| mode & FMODE_WRITE != 0)
}

/// The `struct file` behind a descriptor of the current task. It is read without typed
/// pointers: where a program loads one from the current task, the verifier searches all of the
/// kernel's types, which takes a millisecond.
#[inline(always)]
pub fn open_file(fd: u32) -> Option<KernelPtr> {
    let files: KernelPtr = fields::probe(current_task(), offset_of_field!(task_files))?;
    let fdt: KernelPtr = fields::probe(files, offset_of_field!(files_fdt))?;
    let max_fds: u32 = fields::probe(fdt, offset_of_field!(fdt_max_fds))?;
    let table: KernelPtr = fields::probe(fdt, offset_of_field!(fdt_fd))?;
    if fd >= max_fds {
        return None;
    }
    fields::probe_at(table.wrapping_add(fd as usize * size_of::<KernelPtr>()))
}

/// How many places the table of descriptors of the current task has.
#[inline(always)]
pub fn descriptors() -> u32 {
    let files = fields::probe_pointer(current_task(), offset_of_field!(task_files));
    let fdt = fields::probe_pointer(files, offset_of_field!(files_fdt));
    fields::probe_or_zero(fdt, offset_of_field!(fdt_max_fds))
}

/// The number of the file at this address, which the current task has open.
#[inline(always)]
pub fn number_of_open(file: u64) -> FileNumber {
    known_number(file as KernelPtr).unwrap_or_else(|| look_closer(file))
}

/// The number of a file that was open with this key. By now it may be closed, and its memory may be
/// in use for another file.
#[inline(always)]
pub fn number_of_former(file: KernelPtr, key: FileKey) -> FileNumber {
    if key_of(file) == Some(key) {
        return number_of(file);
    }
    FILES
        .entry(in_map(key))
        .map_or(NO_ROOM, |known| field!(known, number).load())
}

/// The number of an open file.
#[inline(always)]
pub fn number_of(file: KernelPtr) -> FileNumber {
    known_number(file).unwrap_or_else(|| look_closer(file as u64))
}

/// The number of an open file. `None` unless everything about it has been reported to user space.
#[inline(always)]
fn known_number(file: KernelPtr) -> Option<FileNumber> {
    let known = FILES.entry(in_map(key_of(file)?))?;
    let is_reported = field!(known, reported).load() == reported::ALL;
    is_reported.then(|| field!(known, number).load())
}

/// The key of a file, if it does not share its inode with others. It is valid as long as the file
/// is open.
#[inline(always)]
pub fn key_of(file: KernelPtr) -> Option<FileKey> {
    let inode: KernelPtr = fields::probe(file, offset_of_field!(file_inode))?;
    Some(FileKey {
        address: inode as u64,
        inode: fields::probe(inode, offset_of_field!(inode_number))?,
        generation: fields::probe(inode, offset_of_field!(inode_generation))?,
        shared: 0,
    })
}

/// The key that a file has in the map now. To be asked for once: a moment later it may be another.
#[inline(always)]
fn in_map(key: FileKey) -> FileKey {
    FileKey {
        shared: key.shared | file_generation(),
        ..key
    }
}

/// The number of a file that is seen for the first time, that is not completely reported yet, or
/// that shares its inode with others.
///
/// A global function, so that the verifier checks it once, and not wherever a file is used.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn look_closer(file: u64) -> FileNumber {
    let file = file as KernelPtr;
    let Some(key) = key_of(file) else { return 0 };
    let Some(key) = key_of_its_own(file, in_map(key)) else {
        return NO_ROOM;
    };
    let Some(known) = FILES.entry(key).or_else(|| add(&key)) else {
        return NO_ROOM;
    };
    // Two CPUs may report the same at once, which does no harm.
    if field!(known, reported).load() != reported::ALL {
        file_info::report(file as u64, known.address());
    }
    field!(known, number).load()
}

/// The key that no other file has, from the key of its inode. `None` if there is no room to
/// remember that the inode is shared.
#[inline(always)]
fn key_of_its_own(file: KernelPtr, key: FileKey) -> Option<FileKey> {
    match FILES.entry(key) {
        Some(known) if field!(known, reported).load() != reported::SHARED => return Some(key),
        Some(_) => {}
        None if file_info::shares_its_inode(file) => {
            FILES
                .insert(
                    key,
                    KnownFile {
                        number: 0,
                        reported: reported::SHARED,
                    },
                    0,
                )
                .ok()?;
        }
        None => return Some(key),
    }
    Some(FileKey {
        address: file as u64,
        shared: key.shared | 1,
        ..key
    })
}

/// Gives a file a number. `None` if there is no room for it.
#[inline(always)]
fn add(key: &FileKey) -> Option<EntryPtr<KnownFile>> {
    let control = CONTROL.entry(0)?;
    // The last number is compared first, so that it does not grow for ever.
    let (last, max) = (
        field!(control, last_file),
        field!(control, max_files).load(),
    );
    if last.load() >= u64::from(max) + u64::from(numbers_given_up()) {
        return None;
    }
    let number = last.fetch_add(1) as FileNumber + 1;
    // Another CPU may have been faster. Then the file has the number that it got there.
    let _ = FILES.insert(
        key,
        KnownFile {
            number,
            reported: 0,
        },
        BPF_NOEXIST.into(),
    );
    FILES.entry(key)
}
