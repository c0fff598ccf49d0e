//! What happens at each hook: a call begins and ends, a task comes and goes, `io_uring` does something.

pub mod count;
pub mod follow;
pub mod ring;
pub mod scope;
mod undisturbed;
