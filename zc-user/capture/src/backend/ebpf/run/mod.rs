//! Running: what a trace is of, and when it is over.
//!
//! [`command`] launches a command and waits for its end, [`attached`] watches what already runs,
//! [`closure`] calls a function in this process. The first two wait in a [`run_loop`]. Each has a
//! [`watcher`], which reads what the kernel side sends meanwhile and makes the trace.

pub mod attached;
pub mod closure;
pub mod command;
mod open_ends;
pub mod programs_log;
mod renamed;
pub mod ring_memory;
mod run_loop;
pub mod watcher;
