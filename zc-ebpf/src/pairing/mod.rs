//! What user space still uses of the former evidence. It goes with the transfers that use it.

pub mod marks;
pub mod order;

pub use crate::FACTOR;
