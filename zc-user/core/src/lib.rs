//! The pure part of zctrace: what the record of a run says. It does no I/O, launches nothing and prints nothing.
//!
//! ```text
//! Trace ──transfer──▶ Report ──expect, check──▶ verdicts
//!                        └─────compare, verify──▶ comparisons
//! ```
//!
//! Use the crate `zctrace`: it has all of this that is meant for others, under the same names. What is public here besides
//! ([`errno`], [`options`], [`signal`], [`suggest`], [`text`], [`units`], [`words`]) is public for zctrace's own crates only.

pub mod check;
pub mod compare;
pub mod errno;
pub mod expect;
pub mod histogram;
pub mod options;
pub mod report;
pub mod signal;
pub mod suggest;
pub mod syscall;
pub mod text;
pub mod trace;
mod transfer;
pub mod units;
pub mod verify;
pub mod words;

pub use report::Report;
pub use syscalls::Sysno;
