//! Finds the mapped file that written memory lies in.

use zc_ebpf::{
    ABSENT, FileNumber, NO_ROOM, Task,
    opaque::{if_set, is_not_zero, smaller},
    recorded,
    repeat::repeat,
};

use crate::{
    file::identify,
    kernel::argument,
    kernel::fields::{self, KernelPtr, TypedPtr, offset_of_field},
    kernel::helpers::current_task,
    kernel::registers::untagged,
    kernel::vma::{NoVma, Vma, vma_at, with_vma_at},
    maps::records,
    origin::calls::{self, ELEMENTS},
    request,
};
use aya_ebpf::bindings::task_struct;

/// `VM_EXEC` and `VM_SHARED` of the kernel's include/linux/mm.h.
const VM_EXEC: u64 = 4;
const VM_SHARED: u64 = 8;
/// `S_PRIVATE` of the kernel's include/linux/fs.h: a file that is internal to the kernel, such as
/// the one behind shared anonymous memory.
const S_PRIVATE: u32 = 512;
/// `S_IFMT`, `S_IFREG` and `S_IFBLK` of the kernel's include/uapi/linux/stat.h.
const S_IFMT: u16 = 0o17_0000;
const S_IFREG: u16 = 0o10_0000;
const S_IFBLK: u16 = 0o6_0000;

/// Notes how often the mappings of the current task have changed. To be called where few paths of a
/// program lead: for each load of a pointer from the current task the verifier searches all types.
#[inline(always)]
pub fn note_changes(task: &mut Task, current: TypedPtr) {
    if records(recorded::PAIRING) && offset_of_field!(mm_changes) != ABSENT {
        let mm: TypedPtr = current.load(offset_of_field!(task_mm));
        task.mapping_changes = mm.load(offset_of_field!(mm_changes));
    }
}

/// Finds the mapping of a file that a buffer of the call lies in which the current task enters: the
/// first one, if it has several. It is [`Task::mapping`] then; its file is 0 if there is none.
#[inline(always)]
pub fn find(task: &mut Task) {
    if offset_of_field!(vma_file) == ABSENT {
        return;
    }
    let (vector, count) = request::buffers(task).unwrap_or((0, 0));
    if vector == 0 {
        find_at(task, untagged(task.arguments.get(1)));
    } else {
        find_in_vector(task, vector, count);
    }
}

/// As [`find`], for a vector at this address with so many elements. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn find_in_vector(task: *mut Task, vector: u64, count: u64) -> u32 {
    let Some(task) = argument::as_mut(task) else {
        return 0;
    };
    let mut search = MappingSearch { task, vector };
    let count = smaller(count, ELEMENTS as u64);
    repeat(count as u32, look_at_element, &mut search);
    0
}

/// The state of the loop.
#[repr(C)]
struct MappingSearch<'t> {
    task: &'t mut Task,
    vector: u64,
}

/// One round of the loop: looks at an element. Returns 1 to end the loop: it is in a mapped file.
extern "C" fn look_at_element(index: u64, search: &mut MappingSearch<'_>) -> i64 {
    let task = &mut *search.task;
    let (address, _) = calls::piece_at(task, search.vector, index, 0);
    i64::from(find_at(task, address) != 0)
}

/// Finds the mapping that this address lies in. Returns its file; 0 if it has none.
#[inline(always)]
fn find_at(task: &mut Task, address: u64) -> FileNumber {
    if is_in_own_memory(task, address) {
        return 0;
    }
    let last = task.mapping;
    let file = look_up_mapping(task, address);
    let is_last = last.file == file
        && last.start == task.mapping.start
        && last.changes == task.mapping.changes;
    if file != 0 && file != NO_ROOM && !is_last && is_code(task.mapping.start) {
        task.mapping.file = 0;
    }
    task.mapping.file
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
    let mapping = &mut task.mapping;
    (mapping.start, mapping.end, mapping.changes) = (0, 0, task.mapping_changes);
    mapping.file = match vma_at(address) {
        Ok(vma) => {
            (mapping.start, mapping.end) = (vma.start, end_of_file(&vma).min(vma.end));
            file_of(&vma)
        }
        Err(NoVma::Busy) => NO_ROOM,
        Err(NoVma::Unmapped) => 0,
    };
    task.mapping.file
}

/// Where in memory a mapped file ends. The rest of its last page is zeroes, which are not bytes of
/// the file. The kernel counts a mapping's offset in pages. This takes them for 4 KiB also on arm64
/// kernels with larger pages, where the result is wrong unless the offset is 0.
#[inline(always)]
fn end_of_file(vma: &Vma) -> u64 {
    const PAGE_SHIFT: u64 = 12;
    let inode = fields::probe_pointer(vma.file, offset_of_field!(file_inode));
    let bytes: u64 = fields::probe_or_zero(inode, offset_of_field!(inode_size));
    // The inode of a block device's node has no size.
    if bytes == 0 {
        u64::MAX
    } else {
        vma.start
            .saturating_add(bytes.saturating_sub(vma.page << PAGE_SHIFT))
    }
}

/// The number of the mapped file. 0 if bytes from the mapping do not
/// count as coming from a file.
#[inline(always)]
fn file_of(vma: &Vma) -> FileNumber {
    // The process may change its private copy of the bytes, or may have done so before it made the
    // mapping read-only.
    let may_have_changed = vma.flags & VM_SHARED == 0 && vma.changed_pages != 0;
    if may_have_changed || !is_source(vma.file) {
        return 0;
    }
    match identify::number_of(vma.file) {
        0 | NO_ROOM => 0,
        number => number,
    }
}

/// Whether bytes that are written from a mapping of this file count as coming from it. The
/// constants of the program itself do not.
#[inline(always)]
fn is_source(file: KernelPtr) -> bool {
    let inode = fields::probe_pointer(file, offset_of_field!(file_inode));
    let mode: u16 = fields::probe_or_zero(inode, offset_of_field!(inode_mode));
    let flags: u32 = fields::probe_or_zero(inode, offset_of_field!(inode_flags));
    let mm = fields::probe_pointer(current_task(), offset_of_field!(task_mm));
    let program = fields::probe_pointer(mm, offset_of_field!(mm_exe_file));
    let program_inode = fields::probe_pointer(program, offset_of_field!(file_inode));
    matches!(mode & S_IFMT, S_IFREG | S_IFBLK) && flags & S_PRIVATE == 0 && inode != program_inode
}

/// How many mappings are looked at in either direction: a library has up to six.
const NEIGHBOURS: u32 = 6;

/// Whether the mapping that begins here, or one next to it, maps its file as code: so loaders map
/// programs and libraries.
#[inline(always)]
fn is_code(start: u64) -> bool {
    adjoins_code(start, 0, 0) != 0 || adjoins_code(start, 1, 0) != 0
}

/// Looks for code of the same file from this mapping on, to lower addresses if `goes_down` is 1. Returns
/// 1 if there is some. `zero` is 0, which the verifier does not know: of known numbers it would follow
/// every change.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn adjoins_code(start: u64, goes_down: u64, zero: u64) -> u32 {
    let mut walk = NeighbourWalk {
        next: start,
        goes_down,
        inode: zero,
        is_code: zero,
    };
    repeat(NEIGHBOURS, look_at_neighbour, &mut walk);
    walk.is_code as u32
}

/// The state of the loop.
#[repr(C)]
struct NeighbourWalk {
    /// An address in the next mapping.
    next: u64,
    goes_down: u64,
    /// The inode of the file. 0: that of the first mapping.
    inode: u64,
    /// 1: one of its mappings is executable.
    is_code: u64,
}

/// One round of the loop. Returns 1 to end it: there is no mapping, or one of another file.
extern "C" fn look_at_neighbour(_round: u64, walk: &mut NeighbourWalk) -> i64 {
    let is_there = with_vma_at(walk.next, meet, walk) == 0;
    i64::from(!is_there || walk.next == 0)
}

/// Called with a mapping.
extern "C" fn meet(_task: *mut task_struct, vma: TypedPtr, walk: &mut NeighbourWalk) -> i64 {
    let file = fields::probe_pointer(vma.address(), offset_of_field!(vma_file));
    let inode = fields::probe_or_zero(file, offset_of_field!(file_inode));
    let flags: u64 = vma.load(offset_of_field!(vma_flags));
    let (start, end): (u64, u64) = (
        vma.load(offset_of_field!(vma_start)),
        vma.load(offset_of_field!(vma_end)),
    );
    // Without branches: the verifier would follow each of them.
    walk.inode = if_set(is_not_zero(walk.inode), walk.inode, inode);
    let is_same = is_not_zero(inode) & (is_not_zero(inode ^ walk.inode) ^ 1);
    walk.is_code |= is_same & (flags / VM_EXEC);
    let next = if_set(walk.goes_down & 1, start.wrapping_sub(1), end);
    walk.next = if_set(is_same, next, 0);
    0
}
