//! The copiers by themselves: that they copy what they say, to and from everything, and that nothing stops or outlives them.

mod apis;
mod buffered;
mod endings;
mod ends;
mod errors;
mod expected;
mod interruptions;
mod lists;
mod support;

pub use support::{Side, copy, in_rust};
