//! Records what a command or a closure does as a [`Trace`](zctrace_core::trace::Trace): launches
//! it, has the kernel or strace count its system calls, and reads the counts.
//!
//! ```text
//! command ──launch──▶ kernel ──probes──▶ maps/rows ──drain──▶ Trace
//! ```
//!
//! [`backend`] has both ways to trace; [`doctor`] says which of them can run here, and what keeps
//! the other from running. Use the crate `zctrace`, which has these modules under the same names.
//! [`descendants`] and [`toolchain`] are public for zctrace's own crates only.

mod async_fd;
pub mod attach;
pub mod backend;
pub mod descendants;
pub mod doctor;
pub mod launch;
mod machine;
pub mod privileges;
pub mod proc_stat;
pub mod toolchain;

// So that the modules here can name those of the core as `crate::trace` and so on.
#[cfg(test)]
use zctrace_core::report;
use zctrace_core::{errno, histogram, signal, syscalls, text, trace};
