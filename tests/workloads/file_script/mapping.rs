//! Stores through shared mappings.

use std::{ffi::c_void, os::fd::BorrowedFd, ptr};

use rustix::{
    io::Errno,
    mm::{
        MapFlags, MprotectFlags, MremapFlags, MsyncFlags, ProtFlags, mmap, mmap_anonymous,
        mprotect, mremap_fixed, msync, munmap,
    },
};

use crate::raw;

const PAGE_BYTES: usize = 4096;

/// Stores to the first page of a file. The flags:
///
/// - `wide`: two pages are mapped
/// - `late`, `key`: they become writable afterwards, by `mprotect` or `pkey_mprotect`
/// - `moved`: they are moved before that
/// - `cut`: the first page is unmapped first, and only the second one is synced
/// - `msync`: they are synced; with `part` only the first page, with `elsewhere` only the second one
pub fn store(file: BorrowedFd<'_>, content: &[u8], flags: &[&str]) -> Result<(), Errno> {
    let has = |flag| flags.contains(&flag);
    let bytes = PAGE_BYTES * (1 + usize::from(has("wide")));
    let both = ProtFlags::READ | ProtFlags::WRITE;
    let is_late = has("late") || has("key");
    let first = if is_late { ProtFlags::READ } else { both };
    // SAFETY: the kernel chooses the address, and nothing else uses it.
    let mut pages = unsafe { mmap(ptr::null_mut(), bytes, first, MapFlags::SHARED, file, 0)? };
    // SAFETY: these are that mapping, and later what is left of it. The file has at least one byte, so
    // its first page can be written to, and the content is shorter than a page.
    unsafe {
        if has("moved") {
            pages = moved(pages, bytes)?;
        }
        if has("key") {
            raw::make_writable_by_key(pages, bytes)?;
        } else if is_late {
            mprotect(pages, bytes, MprotectFlags::READ | MprotectFlags::WRITE)?;
        }
        pages.cast::<u8>().copy_from(content.as_ptr(), 10);
        let second = pages.wrapping_byte_add(PAGE_BYTES);
        if has("cut") {
            munmap(pages, PAGE_BYTES)?;
        }
        if has("msync") {
            let (start, bytes) = match () {
                () if has("cut") || has("elsewhere") => (second, PAGE_BYTES),
                () if has("part") => (pages, PAGE_BYTES),
                () => (pages, bytes),
            };
            msync(start, bytes, MsyncFlags::SYNC)?;
        }
        // What is not mapped any more does no harm.
        munmap(pages, bytes)
    }
}

/// Moves a mapping to where nothing else is.
///
/// # Safety
///
/// Nothing else uses it.
unsafe fn moved(pages: *mut c_void, bytes: usize) -> Result<*mut c_void, Errno> {
    // SAFETY: the kernel chooses the address, and the caller owns the mapping.
    unsafe {
        let free = mmap_anonymous(
            ptr::null_mut(),
            bytes,
            ProtFlags::empty(),
            MapFlags::PRIVATE,
        )?;
        mremap_fixed(pages, bytes, bytes, MremapFlags::MAYMOVE, free)
    }
}
