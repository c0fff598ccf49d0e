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
#[inline(always)]
pub fn number_of(file: KernelPtr) -> FileNumber {
    let known = key_of(file).and_then(|key| FILES.get_ptr(key));
    match known {
        // SAFETY: entries of FILES are never removed.
        Some(known) if unsafe { (*known).told } == told::ALL => unsafe { (*known).number },
        _ => look_closer(file as u64),
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

/// The number of a file that is seen for the first time, that there is more to tell of, or that shares its inode with others.
///
/// A global function: the verifier looks at it once, and not wherever a file is used.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn look_closer(file: u64) -> FileNumber {
    let file = file as KernelPtr;
    let Some(key) = key_of(file) else { return 0 };
    let Some(key) = key_of_its_own(file, key) else { return NO_ROOM };
    let Some(known) = FILES.get_ptr_mut(key).or_else(|| add(key)) else { return NO_ROOM };
    // SAFETY: entries of FILES are never removed. Two CPUs may tell the same at once, which does no harm.
    unsafe {
        if (*known).told != told::ALL {
            (*known).told = sight::tell(file, (*known).number, (*known).told);
        }
        (*known).number
    }
}

/// The key that no other file has, given that of its inode; `None` if there is no room to remember that the inode is shared.
#[inline(always)]
fn key_of_its_own(file: KernelPtr, key: FileKey) -> Option<FileKey> {
    match FILES.get_ptr(key) {
        // SAFETY: entries of FILES are never removed.
        Some(known) if unsafe { (*known).told } != told::SHARED => return Some(key),
        Some(_) => {}
        None if sight::shares_its_inode(file) => FILES.insert(key, KnownFile { number: 0, told: told::SHARED }, 0).ok()?,
        None => return Some(key),
    }
    Some(FileKey { address: file as u64, shared: 1, ..key })
}

/// Gives a file a number; `None` if there is no room for it.
#[inline(always)]
fn add(key: FileKey) -> Option<*mut KnownFile> {
    let control = CONTROL.get_ptr_mut(0)?;
    // SAFETY: CONTROL has one entry. The last number is compared first, so that it does not grow for ever.
    let number = unsafe {
        if (*control).last_file >= u64::from((*control).max_files) {
            return None;
        }
        fetch_add(&raw mut (*control).last_file, 1) as FileNumber + 1
    };
    // Another CPU may be faster: then the file has its number from there.
    let _ = FILES.insert(key, KnownFile { number, told: 0 }, BPF_NOEXIST.into());
    FILES.get_ptr_mut(key)
}
