//! What speaks for bytes having gone from a read to a write: where in memory they lay, and samples of them.
//!
//! What follows from that is pure, and in `zc_ebpf::pairing`.

pub mod buffers;
pub mod lock;
pub mod ranges;
pub mod streams;
pub mod sums;
