//! What the kernel's verifier limits in our eBPF object, computed from the object itself: no kernel is needed.

mod instruction;
mod object;
mod stack;

pub use object::{Function, Object};
pub use stack::{Chain, LIMIT_BYTES, deepest_chain, rounded};
