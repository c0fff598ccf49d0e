//! zctrace launches a program, lets the kernel sum up what its system calls move, and reports it.
//!
//! ```text
//! command ──launch──▶ kernel ──probes──▶ maps/rows ──drain──▶ Trace ──analyse──▶ Report ──render──▶ person, file, exit code
//! ```
//!
//! Data flows one way, left to right: [`backend`] makes a [`trace::Trace`], [`report`] derives a [`report::Report`] from it
//! without any I/O (where bytes went and why, finds the private `transfer`), [`render`] shows that. [`syscall`] is the one table of calls that all of them read.
//! [`compare`] does this for several commands, and times them untraced.

pub mod backend;
mod closure;
mod command;
pub mod compare;
pub mod doctor;
mod errno;
pub mod histogram;
pub mod launch;
mod readable;
pub mod render;
pub mod report;
pub mod syscall;
mod toolchain;
pub mod trace;
mod transfer;
mod units;
pub mod verify;

pub use closure::{Tracer, trace};
pub use command::{Command, Output};
pub use syscalls::Sysno;
