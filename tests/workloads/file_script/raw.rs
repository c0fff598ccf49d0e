//! Calls for which there is no safe function.

use std::{
    ffi::{CString, c_void},
    io,
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    ptr,
};

use rustix::{fs::OFlags, io::Errno};

/// The result of a call.
fn checked(result: libc::c_long) -> Result<libc::c_long, Errno> {
    if result >= 0 {
        return Ok(result);
    }
    let error = io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// The descriptor that a call returned.
///
/// # Safety
///
/// Nothing else owns it.
unsafe fn opened(result: libc::c_long) -> Result<OwnedFd, Errno> {
    let fd = i32::try_from(checked(result)?).expect("is a descriptor");
    // SAFETY: the caller's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `struct file_handle` of the kernel's include/linux/fs.h, with room for the longest one.
#[repr(C)]
struct KernelFileHandle {
    bytes: u32,
    kind: i32,
    handle: [u8; 128],
}

/// Opens a file by a handle that is not its path.
pub fn open_by_handle(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = CString::new(path.as_os_str().as_bytes()).expect("has no NUL");
    let mut handle = KernelFileHandle {
        bytes: 128,
        kind: 0,
        handle: [0; 128],
    };
    let mut mount = 0;
    let flags = flags.bits().cast_signed();
    // SAFETY: the path ends with a NUL, and the handle has as much room as it says.
    unsafe {
        let found = libc::syscall(
            libc::SYS_name_to_handle_at,
            libc::AT_FDCWD,
            path.as_ptr(),
            &raw mut handle,
            &raw mut mount,
            0,
        );
        checked(found)?;
        let root = libc::open(c".".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        let root = opened(root.into())?;
        let call = libc::SYS_open_by_handle_at;
        let fd = libc::syscall(call, root.as_raw_fd(), &raw mut handle, flags);
        opened(fd)
    }
}

/// Makes memory writable by `pkey_mprotect` without a key.
///
/// # Safety
///
/// As of `mprotect`.
pub unsafe fn make_writable_by_key(memory: *mut c_void, bytes: usize) -> Result<(), Errno> {
    let flags = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the caller's.
    let done = unsafe { libc::syscall(libc::SYS_pkey_mprotect, memory, bytes, flags, -1) };
    checked(done).map(drop)
}

/// `sync_file_range` of all of a file.
pub fn sync_range(file: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: it names no memory.
    let done = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, 7) };
    checked(done.into()).map(drop)
}

/// `struct file_clone_range` of the kernel's include/uapi/linux/fs.h.
#[repr(C)]
struct CloneRange {
    from: i64,
    start: u64,
    bytes: u64,
    to: u64,
}

/// `FICLONERANGE` of all of a file, to the start of another one.
pub fn clone_range(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Errno> {
    const FICLONERANGE: libc::Ioctl = 0x4020_940d;
    let range = CloneRange {
        from: from.as_raw_fd().into(),
        start: 0,
        bytes: 0,
        to: 0,
    };
    // SAFETY: the structure outlives the call.
    let done = unsafe { libc::ioctl(to.as_raw_fd(), FICLONERANGE, &raw const range) };
    checked(done.into()).map(drop)
}

/// `struct iocb` of the kernel's `include/uapi/linux/aio_abi.h` on little-endian machines.
#[repr(C)]
#[derive(Default)]
struct Operation {
    data: u64,
    key: u32,
    flags: u32,
    opcode: u16,
    priority: i16,
    file: i32,
    memory: u64,
    bytes: u64,
    at: i64,
    reserved: u64,
    write_flags: u32,
    event_file: u32,
}

/// Writes by Linux AIO.
pub fn aio_write(file: BorrowedFd<'_>, content: &[u8], at: u64) -> Result<(), Errno> {
    const PWRITE: u16 = 1;
    let mut queue: u64 = 0;
    let mut operation = Operation {
        opcode: PWRITE,
        file: file.as_raw_fd(),
        memory: content.as_ptr() as u64,
        bytes: content.len() as u64,
        at: at.cast_signed(),
        ..Operation::default()
    };
    let mut operations = [&raw mut operation];
    let mut event = [0_u64; 4];
    // SAFETY: the content outlives the operation, for which this waits.
    unsafe {
        checked(libc::syscall(libc::SYS_io_setup, 1, &raw mut queue))?;
        let first = operations.as_mut_ptr();
        checked(libc::syscall(libc::SYS_io_submit, queue, 1, first))?;
        let event = event.as_mut_ptr();
        let none = ptr::null_mut::<c_void>();
        let waited = libc::syscall(libc::SYS_io_getevents, queue, 1, 1, event, none);
        checked(waited)?;
        checked(libc::syscall(libc::SYS_io_destroy, queue))?;
    }
    Ok(())
}
