//! What the kernel's verifier limits in our eBPF object, computed from the object itself: no kernel
//! is needed.

mod object;
mod rows;
mod stack;

pub use object::{Function, LOOP, programs_of};
pub use rows::{Row, Rows};
pub use stack::{Chain, LIMIT_BYTES, deepest_chain, deepest_chain_with, rounded};
