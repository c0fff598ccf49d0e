//! What the kernel's verifier limits in our eBPF object, computed from the object itself: no kernel
//! is needed.

mod object;
mod rows;
mod stack;

pub use object::{Function, programs_of};
pub use rows::ProgramRows;
pub use stack::{Chain, LIMIT_BYTES, deepest_chain, rounded};
