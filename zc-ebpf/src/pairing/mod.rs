//! Which bytes of a write came from which read: pure, and tested on the host.
//!
//! [`memory`] knows where in an address space the bytes of files lie, each in a [`range`]. [`order`] knows what a thread read last, for programs that copy
//! or change the bytes between the read and the write. [`stream`] tells whether all that was read from one file can be what was written
//! to another.

pub mod memory;
pub mod order;
pub mod range;
pub mod stream;

/// What numbers are multiplied with so that few look alike: 2^64 divided by the golden ratio, an odd number.
pub const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
