//! Sees the order in which files change and are synced, for `--syncs`. What it sends is judged in
//! user space.
//!
//! Messages are sent when something changes its state: a clean file is written to, a sync begins or
//! returns, a name is made, moved, removed or not found. Further writes to a file that is dirty are
//! only counted, until it is synced.
//!
//! The calls may have returned in the order of their messages: each is sent when its call is about to
//! return. The message about the entry of a sync is sent when the call is about to begin.

mod calls;
pub mod files;
mod programs;
pub mod send;
