//! The files that calls are about. Each has a handle, and one message tells user space what it is.

use core::ptr::{copy_nonoverlapping, null_mut};

use aya_ebpf::{
    bindings::{BPF_F_NO_PREALLOC, BPF_NOEXIST},
    macros::map,
    maps::HashMap,
};
use zc_ebpf::{ABSENT, FileKey, FileSeen, SyncFile, sync_class, sync_event, zeroed};

use super::send::{self, SyncMessages, state};
use crate::{
    file::{
        file_info::{ANON_INODE_FS_MAGIC, filesystem_magic},
        identify, path, socket,
    },
    kernel::argument,
    kernel::entries::{Entries as _, EntryPtr, field},
    kernel::fields::{self, KernelPtr, offset_of_field},
    kernel::helpers::current_task,
    kernel::scratch::Scratch,
    maps::SEEN_FILE,
};

/// The kernel allocates entries one by one, because their number is not known in advance.
#[map]
static SYNC_FILES: HashMap<FileKey, SyncFile> = HashMap::with_max_entries(1, BPF_F_NO_PREALLOC);

/// `S_IFMT` and the types in it, of the kernel's include/uapi/linux/stat.h.
pub const TYPE: u16 = 0xf000;
pub const PIPE: u16 = 0x1000;
const CHARACTERS: u16 = 0x2000;
const DIRECTORY: u16 = 0x4000;
const REGULAR: u16 = 0x8000;
pub const SOCKET: u16 = 0xc000;

/// `FMODE_CREATED` of the kernel's include/linux/fs.h: the open that made this `struct file` created the
/// file. No flag of an open has this bit.
pub const FMODE_CREATED: u32 = 0x10_0000;

/// What is known of the file with this key.
#[inline(always)]
pub fn known(key: &FileKey) -> Option<EntryPtr<SyncFile>> {
    SYNC_FILES.entry(key)
}

/// Notes which streams the command was given, at its first call.
#[inline(always)]
pub fn note_streams() {
    let state = state();
    // The command makes the first call, and is the only task then.
    if field!(state, has_streams).load() == 0 {
        let stream = |fd| identify::open_file(fd).map_or(0, |file| file as u64);
        field!(state, stdout).store(stream(1));
        field!(state, stderr).store(stream(2));
        field!(state, has_streams).store(1);
    }
}

/// The handle of the file behind a descriptor of the current task, in the lower half, and the flags
/// with which it was opened, perhaps with [`FMODE_CREATED`]; stores its key. Handle 0: there is none,
/// or nobody needs what is written there. `is_opened`: 1 if a call has just opened it. `is_output`: 1
/// if a stream that the command was given is output, and no file. A global function, so that the
/// verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn handle_behind(fd: u32, is_opened: u32, is_output: u32, key: *mut FileKey) -> u64 {
    let Some(file) = identify::open_file(fd).filter(|file| !file.is_null()) else {
        return 0;
    };
    let flags: u32 = fields::probe_or_zero(file, offset_of_field!(file_flags));
    let mode: u32 = fields::probe_or_zero(file, offset_of_field!(file_mode));
    let flags = flags & !FMODE_CREATED | mode & FMODE_CREATED;
    let class = if is_output == 0 {
        sync_class::FILE
    } else {
        stream_class(file, fd)
    };
    let handle = handle_of(file as u64, class | (is_opened * sync_class::OPENED), key);
    u64::from(handle) | u64::from(flags) << 32
}

/// The working directory of the current task, as [`describe`] wants it. `None`: this kernel does not
/// show it.
#[inline(always)]
pub fn working_directory() -> Option<u64> {
    let (working, path) = (
        offset_of_field!(fs_working_mount),
        offset_of_field!(file_mount),
    );
    if working == ABSENT || path == ABSENT {
        return None;
    }
    // A `struct file` has the same `struct path`, and nothing else of it is read.
    let fs = fields::probe_pointer(current_task(), offset_of_field!(task_fs)) as u64;
    Some(fs.wrapping_add(working.into()).wrapping_sub(path.into()))
}

/// The handle of the working directory of the current task.
#[inline(always)]
pub fn handle_of_working_directory() -> u32 {
    working_directory().map_or(0, |file| handle_of(file, sync_class::FILE, null_mut()))
}

/// The class of a file that is one of the streams the command was given, else
/// [`sync_class::FILE`].
#[inline(always)]
fn stream_class(file: KernelPtr, fd: u32) -> u32 {
    let file = file as u64;
    let stdout = field!(state(), stdout).load();
    if file == field!(state(), stderr).load() && (fd == 2 || file != stdout) {
        sync_class::STDERR
    } else if file == stdout {
        sync_class::STDOUT
    } else {
        sync_class::FILE
    }
}

/// The class of an inode, by its type alone.
#[inline(always)]
fn class_of(inode: KernelPtr) -> u32 {
    let mode: u16 = fields::probe_or_zero(inode, offset_of_field!(inode_mode));
    match mode & TYPE {
        REGULAR | DIRECTORY => sync_class::FILE,
        PIPE | CHARACTERS | SOCKET => sync_class::OTHERS,
        _ => sync_class::IGNORED,
    }
}

/// The handle of a file. Stores its key unless `key` is null. `stream` is a class, perhaps with
/// [`sync_class::OPENED`]. A global function, so that the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn handle_of(file: u64, stream: u32, key: *mut FileKey) -> u32 {
    let dentry = fields::probe_pointer(file as KernelPtr, offset_of_field!(file_dentry));
    let inode = fields::probe_pointer(dentry, offset_of_field!(dentry_inode));
    let class = if stream & !sync_class::OPENED == sync_class::FILE {
        stream | class_of(inode)
    } else {
        stream
    };
    if inode.is_null() || class & !sync_class::OPENED == sync_class::IGNORED {
        return 0;
    }
    let Some(scratch) = send::take_scratch() else {
        send::count_lost();
        return 0;
    };
    scratch.key = FileKey {
        address: inode as u64,
        inode: fields::probe_or_zero(inode, offset_of_field!(inode_number)),
        generation: fields::probe_or_zero(inode, offset_of_field!(inode_generation)),
        shared: class & !sync_class::OPENED,
    };
    if let Some(key) = argument::as_mut(key) {
        // SAFETY: the scratch is not the caller's.
        unsafe { copy_nonoverlapping(&raw const scratch.key, key, 1) };
    }
    let known = known(&scratch.key);
    // Nobody needs what is written to eventfds and the like. Some kernels give their inode the type of
    // a file.
    let is_ignored = known.is_none()
        && scratch.key.shared == sync_class::FILE
        && filesystem_magic(inode) == ANON_INODE_FS_MAGIC;
    let known = known.or_else(|| if is_ignored { None } else { add(scratch) });
    scratch.release();
    let Some(known) = known else {
        if !is_ignored {
            send::count_lost();
        }
        return 0;
    };
    let handle = field!(known, counts.handle).load();
    // Two CPUs may report the same file at once, which does no harm.
    if field!(known, is_reported).load() == 0 {
        if report_handle(file, handle, class) == 0 {
            send::count_lost();
        } else {
            field!(known, is_reported).store(1);
        }
    }
    handle
}

/// Gives the file with this key a handle. `None` if there is no room for it.
#[inline(always)]
fn add(scratch: &mut SyncMessages) -> Option<EntryPtr<SyncFile>> {
    scratch.file = zeroed();
    scratch.file.counts.handle = field!(state(), last_handle).fetch_add(1) as u32 + 1;
    // If another CPU was faster, the file has the handle from there.
    let (key, file) = (&scratch.key, &scratch.file);
    let _ = SYNC_FILES.insert(key, file, BPF_NOEXIST.into());
    known(key)
}

/// Sends what a file is. Returns 1, or 0 if that failed. A global function, so that the verifier
/// checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn report_handle(file: u64, handle: u32, class: u32) -> u32 {
    let Some(seen) = Scratch::take(&SEEN_FILE) else {
        return 0;
    };
    describe(seen, file);
    (seen.kind, seen.number) = (sync_event::FILE, handle);
    seen.open_flags = class;
    let is_sent = send::file(seen);
    seen.release();
    is_sent.into()
}

/// Writes what a file is into this CPU's scratch, which is `seen`. The caller has taken it.
#[inline(always)]
pub fn describe(seen: &mut FileSeen, file: u64) {
    let file_pointer = file as KernelPtr;
    let dentry = fields::probe_pointer(file_pointer, offset_of_field!(file_dentry));
    let inode = fields::probe_pointer(dentry, offset_of_field!(dentry_inode));
    let sb = fields::probe_pointer(inode, offset_of_field!(inode_sb));
    seen.inode = fields::probe_or_zero(inode, offset_of_field!(inode_number));
    seen.generation = fields::probe_or_zero(inode, offset_of_field!(inode_generation));
    seen.mode = fields::probe_or_zero(inode, offset_of_field!(inode_mode));
    seen.device = fields::probe_or_zero(sb, offset_of_field!(sb_device));
    (seen.size, seen.names_length) = (0, 0);
    (seen.family, seen.is_deleted, seen.path_end) = (0, 0, 0);
    (seen.filesystem[0], seen.subtype[0]) = (0, 0);
    if seen.mode & TYPE == SOCKET {
        socket::describe_socket(file);
    } else {
        seen.path_end = path::describe_path(file) as u16;
        seen.is_deleted = path::is_deleted(file_pointer).into();
    }
}
