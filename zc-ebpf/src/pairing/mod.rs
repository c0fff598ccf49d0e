//! Decides which bytes of a write came from which read. It is pure, and tested on the host.
//!
//! [`memory`] tracks where in an address space the bytes of files are; each such place is a
//! [`range`], and [`blocks`] of it have a checksum. [`order`] tracks what a thread read last, for
//! programs that copy the bytes between the read and the write. [`copy_loop`] tracks the same as
//! `memory` for a task that goes on and on with one buffer, and costs less. [`stream`] compares all
//! bytes read from one file with all bytes written to another, and [`marks`] finds what they have
//! in common if one of them lacks the beginning.

pub mod blocks;
pub mod copy_loop;
pub mod marks;
pub mod memory;
pub mod order;
pub mod range;
pub mod stream;

/// The factor of the hashes: 2^64 divided by the golden ratio, as an odd number.
pub const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Multiplied with this, numbers in a row are spread evenly: 2^32 divided by the golden ratio, as
/// an odd number.
const SPREAD: u32 = 0x9e37_79b1;

/// What a pointer argument of a global function points to. `None` if it is null, which the verifier
/// wants to be checked.
#[inline(always)]
fn argument<'a, T>(argument: *mut T) -> Option<&'a mut T> {
    // SAFETY: null, or what the caller of the global function has: the verifier lets no program
    // pass anything else.
    unsafe { argument.as_mut() }
}
