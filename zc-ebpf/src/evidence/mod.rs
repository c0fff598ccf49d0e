//! Collects the evidence that bytes of a read went into a write: where they were in memory, and
//! samples of them.
//!
//! What is concluded from the evidence is in `zc_ebpf::pairing`, which is pure.

pub mod buffers;
pub mod copy_loop;
pub mod lock;
pub mod marks;
pub mod ranges;
pub mod streams;
pub mod sums;
