//! What happens at each hook: a call begins or returns, a task starts, executes or ends, `io_uring`
//! does something.

pub mod at_calls;
pub mod attach;
pub mod caller_samples;
pub mod count;
mod descriptors;
mod failed_paths;
pub mod follow;
mod followed;
pub mod not_preempted;
mod others;
pub mod ring;
pub mod ring_buffers;
pub mod scope;
mod sizes;
mod slow_calls;
pub mod wakes;
