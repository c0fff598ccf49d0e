//! Sees the order in which files change and are synced, for `--syncs`. What it sends is judged in
//! user space.
//!
//! Messages are sent when something changes its state: a clean file is written to, a sync begins or
//! returns, a name is made, moved, removed or not found. Further writes to a file that is dirty are
//! only counted, until it is synced.
//!
//! The order of the messages in the ring buffer is one in which the calls may have returned: each is
//! put there while its call is about to return, or, of the entry of a sync, is about to begin.

mod calls;
pub mod files;
mod programs;
pub mod send;
