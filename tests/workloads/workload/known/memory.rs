//! Calls that map files, and one that would share their blocks.

use std::fs::File;
use std::io::Result;
use std::path::Path;
use std::ptr;

use rustix::fs::{MemfdFlags, ioctl_ficlone, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use zc_tests::Tally;

/// The size of a mapping.
const SIZE: usize = 8192;

/// A file to map, and two that cannot share blocks.
pub(super) struct Memory {
    mapped: File,
    clone_from: File,
    clone_to: File,
}

impl Memory {
    /// Makes the files.
    pub(super) fn new(dir: &Path) -> Result<Self> {
        let mapped = File::options().read(true).write(true).create_new(true).open(dir.join("mapped"))?;
        mapped.set_len(SIZE as u64)?;
        // In memory, because no filesystem in memory shares blocks, whatever the directory is on.
        let memfd = |name| memfd_create(name, MemfdFlags::CLOEXEC).map(File::from);
        Ok(Self { mapped, clone_from: memfd("zc-from")?, clone_to: memfd("zc-to")? })
    }

    /// Makes the calls.
    pub(super) fn call(&self, tally: &mut Tally) {
        for _ in 0..3 {
            self.map_sync_unmap(tally);
        }
        // SAFETY: an empty mapping is refused, so no memory changes.
        let got = unsafe { mmap(ptr::null_mut(), 0, ProtFlags::READ, MapFlags::SHARED, &self.mapped, 0) };
        tally.done("mmap", Some(0), Err(Errno::INVAL), got);
        for _ in 0..2 {
            tally.done("ioctl(FICLONE)", None, Err(Errno::OPNOTSUPP), ioctl_ficlone(&self.clone_to, &self.clone_from));
        }
    }

    /// One `mmap`, one `msync` of one written page, one `munmap`.
    fn map_sync_unmap(&self, tally: &mut Tally) {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
        let mapping = unsafe { mmap(ptr::null_mut(), SIZE, access, MapFlags::SHARED, &self.mapped, 0) };
        tally.done("mmap", Some(SIZE), Ok(()), mapping);
        let Ok(address) = mapping else { return };
        // SAFETY: the mapping is writable, longer than one byte, and known to nobody else.
        unsafe { address.cast::<u8>().write_volatile(b'w') };
        // SAFETY: the range is the mapping's first page.
        tally.done("msync", Some(4096), Ok(()), unsafe { msync(address, 4096, MsyncFlags::SYNC) });
        // SAFETY: the range is exactly the mapping, and `address` is not used any more.
        tally.done("munmap", Some(SIZE), Ok(()), unsafe { munmap(address, SIZE) });
    }
}
