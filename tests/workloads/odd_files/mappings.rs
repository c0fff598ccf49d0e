//! Writes from memory that is a mapping of a file, but does not hold, or not only, the bytes of
//! that file.

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    ptr, slice,
};

use anyhow::{Result, ensure};
use rustix::mm::{MapFlags, ProtFlags, mmap};

/// The size of the mappings.
const MAPPED_BYTES: usize = 65_536;

/// Maps the beginning of a file, to be read and written.
fn map(file: &File, flags: MapFlags) -> Result<&'static mut [u8]> {
    // SAFETY: a new mapping, at an address that the kernel chooses. It is never unmapped.
    unsafe {
        let start = mmap(
            ptr::null_mut(),
            MAPPED_BYTES,
            ProtFlags::READ | ProtFlags::WRITE,
            flags,
            file,
            0,
        )?;
        Ok(slice::from_raw_parts_mut(start.cast(), MAPPED_BYTES))
    }
}

/// Copies `in` to `out` through a buffer that is a shared mapping of a third file.
pub(crate) fn read_into() -> Result<()> {
    let (mut from, mut to) = (File::open("in")?, File::create("out")?);
    let buffer = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open("buffer")?;
    buffer.set_len(MAPPED_BYTES.try_into()?)?;
    let mapped = map(&buffer, MapFlags::SHARED)?;
    loop {
        let read = from.read(mapped)?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&mapped[..read])?;
    }
}

/// Has a child map `in` privately, to be read and written, and write it to `out` without having
/// read anything.
pub(crate) fn by_a_child() -> Result<()> {
    let (from, to) = (File::open("in")?, File::create("out")?);
    // SAFETY: there is one thread.
    match unsafe { libc::fork() } {
        0 => {
            let is_written =
                map(&from, MapFlags::PRIVATE).is_ok_and(|mapped| (&to).write_all(mapped).is_ok());
            // SAFETY: the child ends without the destructors of its parent.
            unsafe { libc::_exit(i32::from(!is_written)) }
        }
        child => {
            let mut status = 0;
            // SAFETY: `status` is an int.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            ensure!(waited == child && status == 0, "the child failed");
            Ok(())
        }
    }
}

/// Writes two pages of a mapping of `mapped` to `out`, shortens the file to a page and four bytes,
/// and writes the same memory again.
pub(crate) fn shortened() -> Result<()> {
    fs::write("mapped", &fs::read("in")?[..8192])?;
    let (mapped, mut to) = (
        File::options().read(true).write(true).open("mapped")?,
        File::create("out")?,
    );
    let memory = map(&mapped, MapFlags::SHARED)?;
    to.write_all(&memory[..8192])?;
    mapped.set_len(4100)?;
    Ok(to.write_all(&memory[..8192])?)
}
