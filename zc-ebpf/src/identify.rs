//! From a descriptor to the number of its file.

use aya_ebpf::{bindings::BPF_NOEXIST, helpers::generated::bpf_get_current_task_btf};
use zc_ebpf::{FileKey, FileNumber, KnownFile, NO_ROOM, told};

use crate::{
    fields::{self, KernelPtr, offset_of_field},
    maps::{CONTROL, FILES, fetch_add},
    sight,
};

/// The number of the file that this descriptor of the current task stands for; 0: for none.
#[inline(always)]
pub fn number(fd: u64) -> FileNumber {
    let file = open_file(fd);
    if file.is_null() { 0 } else { number_of(file) }
}

/// The `struct file` behind a descriptor of the current task; null: it stands for none.
#[inline(always)]
pub fn open_file(fd: u64) -> KernelPtr {
    // To the kernel, a descriptor is an unsigned int: what stands above it in the register is nothing.
    let fd = fd as u32;
    // SAFETY: the current task is a typed pointer to the verifier, and so is what its typed fields point to. A null pointer on the
    // way reads as zeroes, so that there are no descriptors.
    let table = unsafe {
        let files: KernelPtr = fields::load(bpf_get_current_task_btf().cast(), offset_of_field!(task_files));
        let fdt: KernelPtr = fields::load(files, offset_of_field!(files_fdt));
        let max_fds: u32 = fields::load(fdt, offset_of_field!(fdt_max_fds));
        if fd >= max_fds {
            return core::ptr::null();
        }
        fields::load::<KernelPtr>(fdt, offset_of_field!(fdt_fd))
    };
    fields::probe_at(table.wrapping_add(fd as usize * size_of::<KernelPtr>())).unwrap_or(core::ptr::null())
}

/// The number of an open file.
#[inline(never)]
pub fn number_of(file: KernelPtr) -> FileNumber {
    let Some(key) = key_of(file) else { return 0 };
    match FILES.get_ptr_mut(key) {
        // SAFETY: entries of FILES are never removed.
        Some(known) if unsafe { (*known).told } == told::ALL => unsafe { (*known).number },
        Some(known) => look_again(file, key, known),
        None => first_sight(file, key),
    }
}

#[inline(always)]
fn key_of(file: KernelPtr) -> Option<FileKey> {
    let inode: KernelPtr = fields::probe(file, offset_of_field!(file_inode))?;
    Some(FileKey {
        address: inode as u64,
        inode: fields::probe(inode, offset_of_field!(inode_number))?,
        generation: fields::probe(inode, offset_of_field!(inode_generation))?,
        shared: 0,
    })
}

/// A file that there is, or was, more to tell of.
#[inline(always)]
fn look_again(file: KernelPtr, key: FileKey, known: *mut KnownFile) -> FileNumber {
    // SAFETY: entries of FILES are never removed. Two CPUs may tell the same at once, which does no harm.
    unsafe {
        if (*known).told == told::SHARED {
            let key = FileKey { address: file as u64, shared: 1, ..key };
            return match FILES.get_ptr_mut(key) {
                Some(known) => tell(file, known),
                None => add(file, key),
            };
        }
        tell(file, known)
    }
}

fn first_sight(file: KernelPtr, key: FileKey) -> FileNumber {
    if sight::shares_its_inode(file) {
        let shared = KnownFile { number: 0, told: told::SHARED };
        if FILES.insert(key, shared, 0).is_err() {
            return NO_ROOM;
        }
        return add(file, FileKey { address: file as u64, shared: 1, ..key });
    }
    add(file, key)
}

/// Gives a file a number and tells user space of it.
#[inline(never)]
fn add(file: KernelPtr, key: FileKey) -> FileNumber {
    let Some(control) = CONTROL.get_ptr_mut(0) else { return NO_ROOM };
    // SAFETY: CONTROL has one entry. The number is compared first, so that it does not grow for ever.
    let number = unsafe {
        let max_files = u64::from((*control).max_files);
        if (*control).last_file >= max_files {
            return NO_ROOM;
        }
        fetch_add(&raw mut (*control).last_file, 1) as FileNumber + 1
    };
    let known = KnownFile { number, told: 0 };
    // Another CPU may be faster: then the file has its number from there.
    let _ = FILES.insert(key, known, BPF_NOEXIST.into());
    match FILES.get_ptr_mut(key) {
        Some(known) => tell(file, known),
        None => NO_ROOM,
    }
}

/// Tells user space what it does not know yet of a file.
#[inline(never)]
fn tell(file: KernelPtr, known: *mut KnownFile) -> FileNumber {
    // SAFETY: entries of FILES are never removed.
    unsafe {
        (*known).told = sight::tell(file, (*known).number, (*known).told);
        (*known).number
    }
}
