//! Finds the mapped file that written memory lies in.

use core::ffi::c_void;

use aya_ebpf::{bindings::task_struct, helpers::generated::bpf_find_vma};
use zc_ebpf::{ABSENT, FileNumber, NO_ROOM, Task, opaque::rounds};

use crate::{
    file::identify,
    kernel::argument,
    kernel::fields::{self, KernelPtr, TypedPtr, offset_of_field},
    kernel::helpers::current_task,
    kernel::registers::untagged,
    origin::calls::{self, ELEMENTS},
};

/// `VM_WRITE` and `VM_SHARED` of the kernel's include/linux/mm.h.
const VM_WRITE: u64 = 2;
const VM_SHARED: u64 = 8;
/// `S_PRIVATE` of the kernel's include/linux/fs.h: a file that is internal to the kernel, such as
/// the one behind shared anonymous memory.
const S_PRIVATE: u32 = 512;
/// `S_IFMT`, `S_IFREG` and `S_IFBLK` of the kernel's include/uapi/linux/stat.h.
const S_IFMT: u16 = 0o17_0000;
const S_IFREG: u16 = 0o10_0000;
const S_IFBLK: u16 = 0o6_0000;

/// `-EBUSY` of the kernel's include/uapi/asm-generic/errno-base.h: another thread changes the
/// mappings.
const BUSY: i64 = -16;

/// Finds the mapping of a file that a buffer of the call lies in which the current task enters: the
/// first one, if it has several. It is [`Task::mapping`] then; its file is 0 if there is none.
#[inline(always)]
pub fn find(task: &mut Task, current: TypedPtr) {
    if offset_of_field!(vma_file) == ABSENT {
        return;
    }
    if offset_of_field!(mm_changes) != ABSENT {
        let mm: TypedPtr = current.load(offset_of_field!(task_mm));
        task.mapping_changes = mm.load(offset_of_field!(mm_changes));
    }
    let (element, count) = calls::buffers(task);
    if element == 0 {
        if !is_in_own_memory(task, untagged(task.arguments.get(1))) {
            look_up_mapping(task, untagged(task.arguments.get(1)));
        }
    } else {
        find_in_vector(task, element, count);
    }
}

/// As [`find`], for a vector at this address with so many elements. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn find_in_vector(task: *mut Task, vector: u64, count: u64) -> u32 {
    let Some(task) = argument::as_mut(task) else {
        return 0;
    };
    let mut element = vector;
    for index in rounds(ELEMENTS) {
        if u64::from(index) >= count {
            break;
        }
        let address = untagged(calls::word_or_zero(element, task.compat));
        if !is_in_own_memory(task, address) && look_up_mapping(task, address) != 0 {
            break;
        }
        element = element.wrapping_add(2 * calls::word_bytes(task));
    }
    0
}

/// Whether it is known that this address lies in memory that is no mapping of a file.
#[inline(always)]
fn is_in_own_memory(task: &Task, address: u64) -> bool {
    let last = &task.mapping;
    // Where a mapped file ends may change without a change of the mappings.
    offset_of_field!(mm_changes) != ABSENT
        && last.file == 0
        && last.changes == task.mapping_changes
        && last.start <= address
        && address < last.end
}

/// Looks up the mapping at this address, and remembers it for this call and, if it is of no file,
/// for the next ones. Returns its file; 0 if it has none. A global function, so that the verifier
/// checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn look_up_mapping(task: *mut Task, address: u64) -> FileNumber {
    let Some(task) = argument::as_mut(task) else {
        return 0;
    };
    if offset_of_field!(vma_file) == ABSENT {
        return 0;
    }
    let mut found = Found {
        start: 0,
        end: 0,
        flags: 0,
        changed_pages: 0,
        file: core::ptr::null(),
    };
    let current = TypedPtr::current_task().address().cast_mut().cast();
    // SAFETY: `take` has the signature that the helper calls, and `found` lives longer than the
    // call.
    let result = unsafe {
        bpf_find_vma(
            current,
            address,
            take as *mut c_void,
            (&raw mut found).cast(),
            0,
        )
    };
    (task.mapping.start, task.mapping.end) = (found.start, found.end);
    task.mapping.changes = task.mapping_changes;
    // If nothing was found, the mapping is empty.
    task.mapping.file = match result {
        0 => file_of(&found),
        BUSY => NO_ROOM,
        _ => 0,
    };
    task.mapping.file
}

/// The mapping that was found.
#[repr(C)]
struct Found {
    start: u64,
    end: u64,
    flags: u64,
    /// Not 0: a private mapping may have pages of its own, because the process has changed some.
    /// The kernel sets this before it makes the first.
    changed_pages: u64,
    /// It may be freed as soon as the helper has returned, if another thread unmaps the memory that
    /// this one is writing from.
    file: KernelPtr,
}

/// Called by the helper: copies what is needed of the mapping that was found.
extern "C" fn take(_task: *mut task_struct, vma: TypedPtr, found: &mut Found) -> i64 {
    let (start, end): (u64, u64) = (
        vma.load(offset_of_field!(vma_start)),
        vma.load(offset_of_field!(vma_end)),
    );
    let end_of_file = end_of_file(vma.address(), start);
    *found = Found {
        start,
        end: if end_of_file < end { end_of_file } else { end },
        flags: vma.load(offset_of_field!(vma_flags)),
        changed_pages: fields::probe_or_zero(vma.address(), offset_of_field!(vma_anon)),
        // Read with a helper, so that it is a number: a typed pointer could not be passed to a
        // global function.
        file: fields::probe_pointer(vma.address(), offset_of_field!(vma_file)),
    };
    0
}

/// Where in memory a mapped file ends. The rest of its last page is zeroes, which are not bytes of
/// the file. The kernel counts a mapping's offset in pages. This takes them for 4 KiB also on arm64
/// kernels with larger pages, where the result is wrong unless the offset is 0.
#[inline(always)]
fn end_of_file(vma: KernelPtr, start: u64) -> u64 {
    const PAGE_SHIFT: u64 = 12;
    let file = fields::probe_pointer(vma, offset_of_field!(vma_file));
    let inode = fields::probe_pointer(file, offset_of_field!(file_inode));
    let bytes: u64 = fields::probe_or_zero(inode, offset_of_field!(inode_size));
    let pages: u64 = fields::probe_or_zero(vma, offset_of_field!(vma_page));
    // The inode of a block device's node has no size.
    if bytes == 0 {
        u64::MAX
    } else {
        start.saturating_add(bytes.saturating_sub(pages << PAGE_SHIFT))
    }
}

/// The number of the mapped file. 0 if bytes from the mapping do not count as
/// coming from a file.
#[inline(always)]
fn file_of(found: &Found) -> FileNumber {
    // The process may change its private copy of the bytes, or may have done so before it made the
    // mapping read-only.
    let has_changed = if offset_of_field!(vma_anon) == ABSENT {
        found.flags & VM_WRITE
    } else {
        found.changed_pages
    };
    let may_have_changed = found.flags & VM_SHARED == 0 && has_changed != 0;
    if may_have_changed || is_source(found.file) != Some(true) {
        return 0;
    }
    match identify::number_of(found.file) {
        0 | NO_ROOM => 0,
        number => number,
    }
}

/// Whether bytes that are written from a mapping of this file count as coming from it. The
/// constants of the program itself do not.
#[inline(always)]
fn is_source(file: KernelPtr) -> Option<bool> {
    let inode: KernelPtr = fields::probe(file, offset_of_field!(file_inode))?;
    let mode: u16 = fields::probe_or_zero(inode, offset_of_field!(inode_mode));
    let flags: u32 = fields::probe_or_zero(inode, offset_of_field!(inode_flags));
    let mm = fields::probe_pointer(current_task(), offset_of_field!(task_mm));
    let program = fields::probe_pointer(mm, offset_of_field!(mm_exe_file));
    let program_inode = fields::probe_pointer(program, offset_of_field!(file_inode));
    Some(
        matches!(mode & S_IFMT, S_IFREG | S_IFBLK)
            && flags & S_PRIVATE == 0
            && inode != program_inode,
    )
}
