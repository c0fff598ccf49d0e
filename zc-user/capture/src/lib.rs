//! A command, or a closure, becomes a [`Trace`](zctrace_core::trace::Trace): zctrace launches it, has the kernel or strace count what it does,
//! and reads the counts.
//!
//! ```text
//! command ──launch──▶ kernel ──probes──▶ maps/rows ──drain──▶ Trace
//! ```
//!
//! [`backend`] has both ways to trace, [`doctor`] says which of them can run here and what is in the way. Use the crate `zctrace`: it has
//! these modules under the same names. [`descendants`] and [`toolchain`] are public for zctrace's own crates only.

mod async_fd;
pub mod backend;
pub mod descendants;
pub mod doctor;
pub mod launch;
mod machine;
pub mod privileges;
pub mod toolchain;

// The modules here know those of the core by `crate::trace` and so on.
#[cfg(test)]
use zctrace_core::report;
use zctrace_core::{errno, histogram, syscall, trace};
