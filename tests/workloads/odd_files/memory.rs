//! Writes from memory that no random program makes.

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    ptr, slice,
};

use anyhow::Result;
use rustix::mm::{MapFlags, ProtFlags, mmap};

/// Writes two pages of a mapping of `mapped.so` to `out`, shortens the file to a page and four bytes,
/// and writes the same memory again.
pub(crate) fn mapping_shortened() -> Result<()> {
    fs::write("mapped.so", &fs::read("in")?[..8192])?;
    let (mapped, mut to) = (
        File::options().read(true).write(true).open("mapped.so")?,
        File::create("out")?,
    );
    let (access, flags) = (ProtFlags::READ, MapFlags::PRIVATE);
    // SAFETY: the new mapping has two pages, is never unmapped, and only the kernel reads it.
    let memory = unsafe {
        let start = mmap(ptr::null_mut(), 8192, access, flags, &mapped, 0)?;
        slice::from_raw_parts(start.cast(), 8192)
    };
    to.write_all(memory)?;
    mapped.set_len(4100)?;
    Ok(to.write_all(memory)?)
}

/// Maps `stored` shared and writable and stores a byte there, and maps a private copy of `in`.
pub(crate) fn stored() -> Result<()> {
    let stored = File::create_new("stored")?;
    stored.set_len(8192)?;
    let stored = File::options().read(true).write(true).open("stored")?;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: both mappings are new and never unmapped; the byte is within the file.
    unsafe {
        let start = mmap(ptr::null_mut(), 8192, access, MapFlags::SHARED, &stored, 0)?;
        start.cast::<u8>().write(1);
        mmap(
            ptr::null_mut(),
            8192,
            access,
            MapFlags::PRIVATE,
            File::open("in")?,
            0,
        )?;
    }
    Ok(())
}

/// Reads eight files into one buffer, and writes the buffer to each of ten other files.
pub(crate) fn several_to_several() -> Result<()> {
    let mut buffer = [0; 8000];
    for (number, piece) in buffer.chunks_exact_mut(1000).enumerate() {
        let name = format!("from{number}");
        fs::copy("in", &name)?;
        File::open(name)?.read_exact(piece)?;
    }
    (0..10).try_for_each(|number| Ok(File::create(format!("to{number}"))?.write_all(&buffer)?))
}
