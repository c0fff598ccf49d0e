//! The system call `bpf`, for what aya 0.14 has no function for.

use std::{ffi::c_int, io};

use nix::errno::Errno;

/// Calls it with these attributes: a member of the kernel's `union bpf_attr`, of
/// include/uapi/linux/bpf.h.
///
/// # Safety
///
/// The pointers in the attributes are valid for what the command reads and writes there.
pub unsafe fn bpf<Attributes>(command: c_int, attributes: &mut Attributes) -> io::Result<()> {
    // SAFETY: see above; the kernel does not access more than the size that it is told.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attributes),
            size_of::<Attributes>(),
        )
    };
    Ok(Errno::result(result).map(drop)?)
}
