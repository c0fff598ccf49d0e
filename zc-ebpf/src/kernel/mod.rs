//! What the programs read from the kernel: fields of its structs, and the registers of a caller.
//! And what makes that safe.
//!
//! Comments name the source of a kernel fact by its path in the source of Linux 6.12, unless they
//! say another version:
//! `https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git/tree/PATH?h=v6.12`.

pub mod entries;
pub mod fields;
pub mod helpers;
pub mod registers;
pub mod scratch;
pub mod vma;

pub use zc_ebpf::argument;

/// `AT_FDCWD` of the kernel's include/uapi/linux/fcntl.h: a relative path starts in the working
/// directory.
pub const AT_FDCWD: u32 = -100_i32 as u32;
