//! What calls do to files, at their entry and their exit.

use core::ptr::null_mut;

use aya_ebpf::{bindings::BPF_F_NO_PREALLOC, macros::map, maps::HashMap};
use zc_ebpf::{
    Arguments, COMPAT, SPEC_SLOTS, SyncFile, SyncSpec, SyncTask, TABLE_SLOTS, Task, errno_of,
    opaque::opaque, phase, spec_slot, sync_class, sync_event, sync_file, sync_kind, zeroed,
};

use super::{
    files,
    send::{self, state, text_start},
};
use crate::{
    kernel::entries::{Entries as _, EntryPtr, field},
    kernel::fields::{self, TypedPtr, offset_of_field},
    kernel::helpers::{current_task, now_ns, read_user},
    kernel::registers::{Numbered, Registers, untagged},
    kernel::vma::{NoVma, Vma, vma_at},
    kernel::{AT_FDCWD, argument},
    maps::is_over,
    tasks,
};

/// The tasks, by the address of the `task_struct`. Only the task itself writes its entry, which stays
/// when the task ends. No task ends in one of these calls: a signal kills it after the return.
#[map]
static SYNC_TASKS: HashMap<u64, SyncTask> = HashMap::with_max_entries(1, BPF_F_NO_PREALLOC);

/// New entries are copied from this one, because one is too large for the stack.
static NEW_TASK: SyncTask = zeroed();

#[unsafe(no_mangle)]
#[unsafe(link_section = ".data.kinds")]
static mut SYNC_SPECS: [SyncSpec; SPEC_SLOTS as usize] = [zeroed(); SPEC_SLOTS as usize];

/// `ENOENT` of the kernel's include/uapi/asm-generic/errno-base.h.
const ENOENT: u32 = 2;
/// `RWF_DSYNC | RWF_SYNC` of the kernel's include/uapi/linux/fs.h.
const RWF_SYNCED: u64 = 6;
/// `O_CREAT`, `O_TRUNC` and `__O_TMPFILE` of the kernel's include/uapi/asm-generic/fcntl.h.
const O_CHANGES: u64 = 0o100 | 0o1000 | 0o20_000_000;
/// `FICLONE` and `FICLONERANGE` of the kernel's include/uapi/linux/fs.h, `FS_IOC_UNRESVSP`,
/// `FS_IOC_UNRESVSP64` and `FS_IOC_ZERO_RANGE` of its include/linux/falloc.h.
const CHANGING_IOCTLS: [u64; 5] = [
    0x4004_9409,
    0x4020_940d,
    0x4030_5829,
    0x4030_582b,
    0x4030_5839,
];
/// `PROT_WRITE` and `MAP_SHARED` of the kernel's include/uapi/asm-generic/mman-common.h.
const PROT_WRITE: u64 = 2;
const MAP_SHARED: u64 = 1;
/// `VM_SHARED` of the kernel's include/linux/mm.h: stores reach the file. A mapping of a file that is
/// open for reading alone does not have it.
const VM_SHARED: u64 = 8;
/// `O_ACCMODE` and `O_DSYNC`, which `O_SYNC` contains, of the kernel's
/// include/uapi/asm-generic/fcntl.h.
const O_ACCMODE: u32 = 3;
const O_DSYNC: u32 = 0o10000;

/// Where the flags are in `struct io_uring_params`, and `IORING_SETUP_SQPOLL`, of the kernel's
/// `include/uapi/linux/io_uring.h`.
const RING_FLAGS_AT: u64 = 8;
const SETUP_SQPOLL: u32 = 2;

/// It does not matter how much of a mapping a call is about.
const ANY_BYTES: u64 = u64::MAX;

/// What is done with the call in this slot.
#[inline(always)]
fn spec_of(slot: u32) -> SyncSpec {
    let slot = opaque(slot.into());
    if slot >= u64::from(SPEC_SLOTS) {
        return zeroed();
    }
    // SAFETY: within the array. Volatile because user space fills it in; eight bytes at once.
    let word = unsafe {
        (&raw const SYNC_SPECS)
            .cast::<u64>()
            .add(slot as usize)
            .read_volatile()
    };
    // SAFETY: any eight bytes are a spec.
    unsafe { core::mem::transmute::<u64, SyncSpec>(word) }
}

/// The slot of the current task's call.
#[inline(always)]
fn slot_of(registers: Registers, number: i64, current: TypedPtr) -> u32 {
    let Numbered { number, table } = registers.table(number, current);
    spec_slot(number, table & COMPAT != 0)
}

/// The current task, if it is in scope, and calls in this slot matter.
#[inline(always)]
fn task_with_sync_call(slot: u32, current: TypedPtr) -> Option<&'static mut Task> {
    if spec_of(slot).kind == sync_kind::NONE || is_over() {
        return None;
    }
    tasks::of_current(current).filter(|task| task.phase == phase::ACTIVE)
}

/// The current task enters the kernel for a call.
#[inline(always)]
pub fn entered(registers: Registers, number: i64, current: TypedPtr) {
    let slot = slot_of(registers, number, current);
    if let Some(task) = task_with_sync_call(slot, current) {
        begin_call(task, slot);
    }
}

/// A call returns to the current task.
#[inline(always)]
pub fn returned(registers: Registers, result: i64, current: TypedPtr) {
    let slot = slot_of(registers, registers.number(), current);
    if task_with_sync_call(slot, current).is_some() {
        end_call(slot, result);
    }
}

/// The entry of the current task.
#[inline(always)]
fn own_entry() -> Option<&'static mut SyncTask> {
    let entry = SYNC_TASKS.entry(current_task() as u64)?;
    // SAFETY: only the task itself uses it, until user space reads it at the end.
    Some(unsafe { entry.as_mut() })
}

/// The argument with this number from 1 on.
#[inline(always)]
fn value(arguments: &Arguments, number: u8) -> u64 {
    arguments.get(number.wrapping_sub(1))
}

/// A call in this slot begins. A global function, so that the verifier checks it once. The result
/// means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn begin_call(task: *mut Task, slot: u32) -> u32 {
    let Some(task) = argument::as_mut(task) else {
        return 0;
    };
    let address = current_task() as u64;
    let Some(own) = own_entry().or_else(|| {
        let new: &SyncTask = &NEW_TASK;
        let _ = SYNC_TASKS.insert(address, new, 0);
        own_entry()
    }) else {
        send::count_lost();
        return 0;
    };
    files::note_streams();
    end_write(own);
    let call = &mut own.call;
    (call.slot, call.tid, call.pid) = (slot, task.tid, task.pid);
    call.files = [0; sync_file::COUNT];
    (call.is_synced, call.is_created, call.is_written) = (0, 0, 0);
    call.arguments = Arguments {
        values: Registers::of_current().arguments_at_entry(slot >= TABLE_SLOTS),
    };
    own.is_under_way = u64::from(does_something(spec_of(slot), &call.arguments));
    if own.is_under_way != 0 {
        find_file(own);
        begin(own);
    }
    0
}

/// Whether a call with these arguments can do anything that matters.
#[inline(always)]
fn does_something(spec: SyncSpec, arguments: &Arguments) -> bool {
    match spec.kind {
        sync_kind::MAP => arguments.values[3] & MAP_SHARED != 0,
        sync_kind::PROTECT => {
            arguments.values[2] & PROT_WRITE != 0 && field!(state(), has_mappings).load() != 0
        }
        sync_kind::COMMAND => CHANGING_IOCTLS.contains(&u64::from(arguments.values[1] as u32)),
        sync_kind::SUBMIT => arguments.values[1] as u32 != 0,
        _ => true,
    }
}

/// Finds the file that a call is about.
#[inline(always)]
fn find_file(own: &mut SyncTask) {
    let spec = spec_of(own.call.slot);
    if spec.kind == sync_kind::SYNC_MAPPING {
        let [start, bytes, ..] = own.call.arguments.values;
        find_mapped(own, start, bytes.wrapping_add(4095) & !4095);
    }
    if spec.file == 0 {
        return;
    }
    let fd = value(&own.call.arguments, spec.file) as u32;
    let is_sync = matches!(spec.kind, sync_kind::SYNC | sync_kind::SYNC_MANY);
    let found = files::handle_behind(fd, 0, (!is_sync).into(), &raw mut own.key);
    own.call.files[sync_file::ABOUT] = found as u32;
    let opened_with = (found >> 32) as u32;
    if spec.kind == sync_kind::WRITE && own.key.shared == sync_class::FILE {
        let flags = value(&own.call.arguments, spec.flags);
        let is_flagged = spec.flags != 0 && flags & RWF_SYNCED != 0;
        own.call.is_synced = (is_flagged || opened_with & O_DSYNC != 0).into();
    } else if spec.kind == sync_kind::MAP && opened_with & O_ACCMODE == 0 {
        // No mapping of it can be written to.
        own.call.files[sync_file::ABOUT] = 0;
    }
}

/// Finds the file that is mapped at this address so that stores reach it. Unless `bytes` is
/// [`ANY_BYTES`], the range of this length must hold the whole file. Returns where its mapping ends,
/// or 0 if there is no mapping. A global function, so that the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn find_mapped(own: *mut SyncTask, address: u64, bytes: u64) -> u64 {
    let Some(own) = argument::as_mut(own) else {
        return 0;
    };
    own.call.files[sync_file::ABOUT] = 0;
    let address = untagged(address);
    match vma_at(address) {
        Ok(vma) => {
            let is_meant = bytes == ANY_BYTES || has_whole_file(&vma, address, bytes);
            if vma.flags & VM_SHARED != 0 && !vma.file.is_null() && is_meant {
                own.call.files[sync_file::ABOUT] =
                    files::handle_of(vma.file as u64, sync_class::FILE, &raw mut own.key);
            }
            vma.end
        }
        Err(NoVma::Unmapped) => 0,
        Err(NoVma::Busy) => {
            send::count_lost();
            0
        }
    }
}

/// Whether this range has the whole mapping, and that has the whole file.
#[inline(always)]
fn has_whole_file(vma: &Vma, address: u64, bytes: u64) -> bool {
    let inode = fields::probe_pointer(vma.file, offset_of_field!(file_inode));
    let size: u64 = fields::probe_or_zero(inode, offset_of_field!(inode_size));
    // A size of 0 is unknown.
    vma.page == 0
        && size != 0
        && size <= vma.end.wrapping_sub(vma.start)
        && address == vma.start
        && vma.end <= address.wrapping_add(bytes)
}

/// A call begins that may be a sync or a write.
#[inline(always)]
fn begin(own: &mut SyncTask) {
    let spec = spec_of(own.call.slot);
    let (is_of_file, state) = (own.call.files[sync_file::ABOUT] != 0, state());
    match spec.kind {
        sync_kind::WRITE => return begin_write(own),
        sync_kind::SYNC => {
            if !is_of_file {
                own.is_under_way = 0;
                return;
            }
            if let Some(file) = files::known(&own.key) {
                own.call.is_written = u16::from(field!(file, writers).load() != 0);
                // From now on a write sends a message, behind that of this sync.
                field!(file, stamp).exchange(0);
                send::counts(file);
            }
            if spec.flags != 0 {
                field!(state, generation).fetch_add(1);
            }
        }
        sync_kind::SYNC_MANY => {
            own.call.is_written = u16::from(field!(state, writers).load() != 0);
            field!(state, generation).fetch_add(1);
        }
        sync_kind::SYNC_MAPPING if is_of_file => {}
        sync_kind::SYNC_MAPPING | sync_kind::MAP if !is_of_file => {
            own.is_under_way = 0;
            return;
        }
        _ => return,
    }
    own.call.entered_ns = now_ns();
    send::call(&mut own.call, sync_event::ENTERED, true);
}

/// A write begins. A sync that is entered before it returns does not cover it, and is not wasted.
#[inline(always)]
fn begin_write(own: &mut SyncTask) {
    if own.call.files[sync_file::ABOUT] == 0 || own.key.shared != sync_class::FILE {
        return;
    }
    if let Some(file) = files::known(&own.key) {
        own.is_writing = 1;
        add_writers(file, 1);
    }
}

/// A write is over, if the call was one.
#[inline(always)]
fn end_write(own: &mut SyncTask) {
    if own.is_writing == 0 {
        return;
    }
    own.is_writing = 0;
    if let Some(file) = files::known(&own.key) {
        add_writers(file, u64::MAX);
    }
}

#[inline(always)]
fn add_writers(file: EntryPtr<SyncFile>, number: u64) {
    field!(file, writers).fetch_add(number);
    field!(state(), writers).fetch_add(number);
}

/// The call in this slot returns. A global function, so that the verifier checks it once. The result
/// means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn end_call(slot: u32, result: i64) -> u32 {
    let Some(own) = own_entry().filter(|own| own.is_under_way != 0) else {
        return 0;
    };
    own.is_under_way = 0;
    if own.call.slot == slot {
        own.call.result = result;
        note_result(own);
    }
    end_write(own);
    0
}

/// Handles the result of a call.
#[inline(always)]
fn note_result(own: &mut SyncTask) {
    let (spec, result) = (spec_of(own.call.slot), own.call.result);
    let errno = errno_of(result);
    match spec.kind {
        sync_kind::WRITE => {
            if result > 0 {
                note_write(own);
            }
        }
        sync_kind::SYNC | sync_kind::SYNC_MANY | sync_kind::SYNC_MAPPING => {
            send::call(&mut own.call, sync_event::RETURNED, true);
        }
        _ if errno == ENOENT && spec.says_absent != 0 => send_with_paths(own),
        _ if errno != 0 => {}
        sync_kind::LOOKUP => {}
        // The memory with its path is gone.
        sync_kind::EXECUTE => send::call(&mut own.call, sync_event::RETURNED, true),
        sync_kind::SETUP => {
            let flags: Option<u32> = read_user(own.call.arguments.values[1] + RING_FLAGS_AT);
            own.call.arguments.values[1] = flags.unwrap_or(SETUP_SQPOLL).into();
            send::call(&mut own.call, sync_event::RETURNED, true);
        }
        sync_kind::SUBMIT => {
            if field!(state(), has_submitted).exchange(1) == 0 {
                send::call(&mut own.call, sync_event::RETURNED, true);
            }
        }
        sync_kind::MAP => {
            field!(state(), has_mappings).store(1);
            if own.call.arguments.values[2] & PROT_WRITE != 0 {
                send::call(&mut own.call, sync_event::RETURNED, true);
            }
        }
        sync_kind::PROTECT => made_writable(own),
        sync_kind::OPEN | sync_kind::OPEN_HOW => opened(own),
        _ => send_with_paths(own),
    }
}

/// A call made memory writable, which may be the mapping of a file.
#[inline(always)]
fn made_writable(own: &mut SyncTask) {
    let arguments = &own.call.arguments;
    let start = untagged(arguments.values[0]);
    let range_end = start.wrapping_add(arguments.values[1]);
    let end = find_mapped(own, start, ANY_BYTES);
    if own.call.files[sync_file::ABOUT] != 0 {
        send::call(&mut own.call, sync_event::RETURNED, true);
    }
    // Several mappings, or another thread has removed it.
    if end < range_end {
        send::count_lost();
    }
}

/// A call wrote something.
#[inline(always)]
fn note_write(own: &mut SyncTask) {
    if own.call.files[sync_file::ABOUT] == 0 {
        return;
    }
    let Some(file) = files::known(&own.key) else {
        return send::count_lost();
    };
    let (is_file, is_synced) = (own.key.shared == sync_class::FILE, own.call.is_synced != 0);
    let now = if is_file {
        field!(state(), generation).load()
    } else {
        field!(state(), sequence).load()
    };
    let is_known = if is_synced {
        field!(file, has_changed).load() != 0
    } else {
        field!(file, stamp).load() == now
    };
    if is_known {
        return count_write(own, file);
    }
    send::counts(file);
    field!(file, has_changed).store(1);
    if !is_synced {
        field!(file, stamp).store(now);
    }
    send::call(&mut own.call, sync_event::RETURNED, is_file);
}

/// Counts a write of which there is no message.
#[inline(always)]
fn count_write(own: &SyncTask, file: EntryPtr<SyncFile>) {
    let (counts, bytes) = (field!(file, counts), own.call.result as u64);
    if own.call.is_synced != 0 {
        field!(counts, synced_calls).fetch_add(1);
        field!(counts, synced_bytes).fetch_add(bytes);
        return;
    }
    field!(counts, calls).fetch_add(1);
    field!(counts, bytes).fetch_add(bytes);
    field!(counts, last_ns).store(now_ns());
    field!(counts, last_slot).store(own.call.slot);
    if field!(counts, last_pid).load() != own.call.pid {
        field!(counts, last_pid).store(own.call.pid);
        field!(counts, last_comm).store(send::comm());
    }
}

/// A call opened a file.
#[inline(always)]
fn opened(own: &mut SyncTask) {
    let spec = spec_of(own.call.slot);
    let mut flags = value(&own.call.arguments, spec.flags);
    if spec.kind == sync_kind::OPEN_HOW {
        flags = read_user(flags).unwrap_or(O_CHANGES);
        own.call.arguments.values[2] = flags;
    } else if spec.flags == 0 {
        // `creat`
        flags = O_CHANGES;
    }
    let last_handle = field!(state(), last_handle).load();
    let found = files::handle_behind(own.call.result as u32, 1, 0, &raw mut own.key);
    let opened = found as u32;
    own.call.is_created = ((found >> 32) as u32 & files::FMODE_CREATED != 0).into();
    own.call.files[sync_file::OPENED] = opened;
    // User space knows it already, and nothing has changed. Of a file, the path may show which
    // directories are symbolic links.
    let is_file = opened != 0 && own.key.shared == sync_class::FILE;
    if flags & O_CHANGES == 0 && !is_file && u64::from(opened) <= last_handle {
        return;
    }
    send_with_paths(own);
}

/// Sends a call that returned, after its paths and the directories in which they start.
#[inline(always)]
fn send_with_paths(own: &mut SyncTask) {
    let spec = spec_of(own.call.slot);
    if spec.path != 0 {
        send_path(own, 0);
    }
    if spec.second != 0 {
        send_path(own, 1);
    }
    send::call(&mut own.call, sync_event::RETURNED, true);
}

/// Sends a path of a call, and finds the directory in which it starts. A global function, so that the
/// verifier checks it once. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn send_path(own: *mut SyncTask, index: u32) -> u32 {
    let Some(own) = argument::as_mut(own) else {
        return 0;
    };
    let (spec, call) = (spec_of(own.call.slot), &mut own.call);
    let (path, directory, place) = if index == 0 {
        (spec.path, spec.directory, sync_file::DIRECTORY)
    } else {
        (
            spec.second,
            spec.second_directory,
            sync_file::SECOND_DIRECTORY,
        )
    };
    let address = value(&call.arguments, path);
    if address == 0 {
        return 0;
    }
    let start = send::send_text(call.tid, index, address);
    match start as u32 & 3 {
        text_start::RELATIVE => {
            let fd = value(&call.arguments, directory) as u32;
            if directory != 0 && fd != AT_FDCWD {
                let handle = files::handle_behind(fd, 0, 0, null_mut()) as u32;
                if place == sync_file::DIRECTORY {
                    call.files[sync_file::DIRECTORY] = handle;
                } else {
                    call.files[sync_file::SECOND_DIRECTORY] = handle;
                }
            } else {
                call.files[sync_file::WORKING] = files::handle_of_working_directory();
            }
        }
        text_start::DESCRIPTOR if index == 0 => {
            let fd = (start >> 2) as u32;
            call.files[sync_file::ABOUT] = files::handle_behind(fd, 0, 0, null_mut()) as u32;
        }
        _ => {}
    }
    0
}
