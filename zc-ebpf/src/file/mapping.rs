//! Finds the mapped file that written memory lies in.

use zc_ebpf::{ABSENT, FileNumber, NO_ROOM, Task, opaque::smaller, recorded, repeat::repeat};

use crate::{
    file::identify,
    kernel::argument,
    kernel::fields::{self, KernelPtr, TypedPtr, offset_of_field},
    kernel::helpers::current_task,
    kernel::registers::untagged,
    kernel::vma::{NoVma, Vma, vma_at},
    maps::records,
    origin::calls::{self, ELEMENTS},
};

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
    let (vector, count) = calls::buffers(task);
    if vector == 0 {
        if !is_in_own_memory(task, untagged(task.arguments.get(1))) {
            look_up_mapping(task, untagged(task.arguments.get(1)));
        }
    } else {
        find_in_vector(task, vector, count);
    }
}

/// How often a mapping is looked up while other threads change mappings: for some microseconds. Those
/// that wait for the lock may wait for this CPU, so more hardly help.
const ATTEMPTS: u32 = 64;

/// Finds the mapping when the call returns, if that was not possible before.
#[inline(always)]
pub fn find_later(task: &mut Task) {
    let (vector, count) = calls::buffers(task);
    if vector == 0 {
        let mut search = LaterSearch { task };
        repeat(ATTEMPTS, find_now, &mut search);
    } else {
        find_in_vector(task, vector, count);
    }
}

/// The state of the loop.
#[repr(C)]
struct LaterSearch<'t> {
    task: &'t mut Task,
}

/// One round of the loop. Returns 1 to end it: the mapping was found.
extern "C" fn find_now(_round: u64, search: &mut LaterSearch<'_>) -> i64 {
    let task = &mut *search.task;
    let address = untagged(task.arguments.get(1));
    (look_up_mapping(task, address) != NO_ROOM).into()
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
    (!is_in_own_memory(task, address) && look_up_mapping(task, address) != 0).into()
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
    let last = task.mapping;
    let mapping = &mut task.mapping;
    (mapping.start, mapping.end, mapping.changes) = (0, 0, task.mapping_changes);
    mapping.file = match vma_at(address) {
        Ok(vma) => {
            (mapping.start, mapping.end) = (vma.start, end_of_file(&vma).min(vma.end));
            let is_last = last.changes == task.mapping_changes && last.start == vma.start;
            file_of(&vma, if is_last { last.file } else { 0 })
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

/// The number of the mapped file, which is `known` unless that is 0. 0 if bytes from the mapping do not
/// count as coming from a file.
#[inline(always)]
fn file_of(vma: &Vma, known: FileNumber) -> FileNumber {
    // The process may change its private copy of the bytes, or may have done so before it made the
    // mapping read-only.
    let may_have_changed = vma.flags & VM_SHARED == 0 && vma.changed_pages != 0;
    if may_have_changed {
        return 0;
    }
    if known != 0 && offset_of_field!(mm_changes) != ABSENT {
        return known;
    }
    if !is_source(vma.file) || adjoins_code(vma.start) != 0 {
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

/// How many mappings are looked at on either side: a library has up to six.
const NEIGHBOURS: u32 = 6;

/// 1 if the mapping that begins here, or one next to it on either side, maps its file as code: so loaders
/// map programs and libraries. Else 0.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn adjoins_code(start: u64) -> u32 {
    let mut walk = NeighbourWalk {
        next: start,
        goes_down: 0,
        inode: 0,
        is_code: 0,
    };
    repeat(1 + NEIGHBOURS, look_at_neighbour, &mut walk);
    if walk.is_code == 0 {
        (walk.next, walk.goes_down) = (start.wrapping_sub(1), 1);
        repeat(NEIGHBOURS, look_at_neighbour, &mut walk);
    }
    walk.is_code as u32
}

/// The state of the loop.
#[repr(C)]
struct NeighbourWalk {
    /// An address in the next mapping.
    next: u64,
    /// 1: it goes to lower addresses.
    goes_down: u64,
    /// The inode of the file. 0: that of the first mapping.
    inode: u64,
    /// 1: one of the mappings is executable.
    is_code: u64,
}

/// One round of the loop. Returns 1 to end it: the mapping is of another file, or decides.
extern "C" fn look_at_neighbour(_round: u64, walk: &mut NeighbourWalk) -> i64 {
    let Ok(vma) = vma_at(walk.next) else {
        return 1;
    };
    let inode = fields::probe_pointer(vma.file, offset_of_field!(file_inode)) as u64;
    if walk.inode == 0 {
        walk.inode = inode;
    }
    if inode == 0 || inode != walk.inode {
        return 1;
    }
    walk.is_code = u64::from(vma.flags & VM_EXEC != 0);
    walk.next = if walk.goes_down == 0 {
        vma.end
    } else {
        vma.start.wrapping_sub(1)
    };
    walk.is_code as i64
}
