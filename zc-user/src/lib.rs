//! zctrace launches a program, lets the kernel sum up what its system calls move, and reports it.
//!
//! ```text
//! command ──launch──▶ kernel ──probes──▶ maps/rows ──drain──▶ Trace ──analyse──▶ Report ──render──▶ person, file, exit code
//! ```
//!
//! Data flows one way, left to right: [`backend`] makes a [`trace::Trace`], [`report`] derives a [`report::Report`] from it
//! without any I/O (where bytes went and why, finds the private `transfer`), [`render`] shows that. [`syscall`] is the one table of calls that all of them read.
//! [`compare`] does this for several commands, and times them untraced. [`expect`] says whether a report is as it should be,
//! [`check`] whether commands are.

pub mod backend;
pub mod check;
pub mod compare;
mod descendants;
pub mod doctor;
mod errno;
pub mod expect;
#[cfg(test)]
mod golden;
pub mod histogram;
pub mod launch;
mod readable;
pub mod render;
pub mod report;
mod suggest;
pub mod syscall;
mod toolchain;
pub mod trace;
mod transfer;
mod units;
pub mod verify;
