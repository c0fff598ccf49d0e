//! zctrace runs a program, lets the kernel count what its system calls move, and reports it.
//!
//! # In Rust tests
//!
//! A server sends its files with `sendfile`, a copy is a reflink, a cache is read once: such
//! properties break easily without being noticed. A test can assert them. [`Command`] reports what
//! a program does; its interface is that of [`std::process::Command`]:
//!
//! ```
//! use zctrace::{Command, Sysno};
//!
//! # let dir = tempfile::tempdir()?;
//! # std::env::set_current_dir(&dir)?;
//! # std::fs::write("in.dat", "bytes".repeat(20_000))?;
//! let report = Command::new("cp").args(["in.dat", "out.dat"]).report()?;
//! let cp = report.process("cp")?;
//! assert_eq!(cp.syscall(Sysno::write)?.calls, 0);
//! assert_eq!(cp.syscall(Sysno::sendfile)?.calls, 0);
//! for transfer in &report.transfers {
//!     println!("{:?} -> {:?}: {}", transfer.from.path, transfer.to.path, transfer.verdict);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`trace()`] reports what a part of the test itself does: this thread and what it creates, not
//! the other threads of the test runner.
//!
//! ```
//! use std::{fs::File, io};
//! use zctrace::Sysno;
//!
//! # let dir = tempfile::tempdir()?;
//! # std::env::set_current_dir(&dir)?;
//! # std::fs::write("in.dat", "bytes".repeat(20_000))?;
//! let (mut from, mut to) = (File::open("in.dat")?, File::create("out.dat")?);
//! let (copied, report) = zctrace::trace(|| io::copy(&mut from, &mut to))?;
//! let copied = copied?;
//! assert_eq!(report.syscall(Sysno::copy_file_range)?.bytes, Some(copied));
//! assert_eq!(report.syscall(Sysno::write)?.calls, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A selected call that did not happen has zeroes; asking for a call that was not selected is an
//! error. If something was lost, figures are lower bounds, and [`Report::exact`] is false.
//!
//! ## Where nothing can be traced
//!
//! eBPF needs root, or the capabilities `CAP_BPF` and `CAP_PERFMON`; for a [`Command`], strace is
//! the fallback. [`macro@test`] skips a test where that is missing, visibly, and lets it fail where the
//! variable `CI` is set. [`RunError::is_unavailable`] tells it from other errors.
//!
//! ```
//! #[zctrace::test]
//! fn the_kernel_does_the_copying() -> Result<(), Box<dyn std::error::Error>> {
//!     let dir = tempfile::tempdir()?;
//!     let [from, to] = ["in", "out"].map(|name| dir.path().join(name));
//!     std::fs::write(&from, "bytes")?;
//!     let (_, report) = zctrace::trace(|| std::fs::copy(&from, &to))?;
//!     zctrace::assert_syscalls!(report, "write.calls == 0", "copy_file_range.bytes == 5");
//!     assert!(report.exact);
//!     Ok(())
//! }
//! ```
//!
//! # How it works
//!
//! ```text
//! command ──launch──▶ kernel ──probes──▶ maps/rows ──drain──▶ Trace ──analyse──▶ Report ──render──▶ person, file, exit code
//! ```
//!
//! Data flows one way, from left to right: [`backend`] records a [`trace::Trace`], [`report`]
//! derives a [`report::Report`] from it without any I/O (the private module `transfer` finds where
//! bytes went and why), and `render` shows it. [`syscalls`] is the one table of calls for all of
//! them. [`compare`] does this for several commands, and times them untraced. [`expect`] judges a
//! report, [`check`] runs commands and judges theirs.
//!
//! This crate is a facade of two others: `zctrace-core` is the part without I/O, `zctrace-capture`
//! runs commands and records them. The module `render` and the program are behind the feature
//! `cli`, which is on by default. A crate that only uses zctrace in tests builds faster without it:
//!
//! ```toml
//! [dev-dependencies]
//! zctrace = { version = "0.1", default-features = false }
//! ```

pub mod check;
mod closure;
mod command;
pub mod compare;
mod mark;
mod pool;
#[cfg(feature = "cli")]
pub mod render;
pub mod testing;
#[cfg(feature = "cli")]
pub mod top;

pub use closure::{Tracer, trace};
#[doc(hidden)]
pub use command::plain_run;
pub use command::{Command, Output};
pub use mark::mark;
pub use zctrace_capture::{
    attach,
    backend::{self, RunError},
    doctor, launch, privileges,
};
pub use zctrace_core::{
    Sysno, counts, diff, durable, expect, histogram, left_open, marked_spans, profile,
    report::{self, Report},
    slow_calls, syscalls, touched, trace,
};

pub use zctrace_macros::test;

use zctrace_capture::{descendants, toolchain};
#[cfg(feature = "cli")]
use zctrace_core::{signal, units};
