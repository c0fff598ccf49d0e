//! zctrace launches a program, lets the kernel sum up what its system calls move, and reports it.
//!
//! # In Rust tests
//!
//! That a server sends its files with `sendfile`, that a copy is a reflink, that a cache is read once: such promises are easily broken
//! without anybody seeing it. A test holds them. What a program does, [`Command`] tells, in the shape of [`std::process::Command`]:
//!
//! ```no_run
//! use zctrace::{Command, Sysno};
//!
//! let report = Command::new("cp").args(["--reflink=never", "in.dat", "out.dat"]).report()?;
//! let cp = report.process("cp")?;
//! assert!(cp.syscall(Sysno::copy_file_range)?.calls >= 1);
//! assert_eq!(cp.syscall(Sysno::sendfile)?.calls, 0);
//! for transfer in report.transfers() {
//!     println!("{:?} -> {:?}: {}", transfer.from.path, transfer.to.path, transfer.verdict);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What a piece of the test itself does, [`trace()`] tells: of this thread and what it creates, not of the test runner's other threads.
//!
//! ```no_run
//! use std::{fs::File, io};
//! use zctrace::Sysno;
//!
//! let (mut from, mut to) = (File::open("in.dat")?, File::create("out.dat")?);
//! let (copied, report) = zctrace::trace(|| io::copy(&mut from, &mut to))?;
//! let copied = copied?;
//! assert_eq!(report.syscall(Sysno::copy_file_range)?.bytes, Some(copied));
//! assert_eq!(report.syscall(Sysno::write)?.calls, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A call that was counted and did not happen has zeroes; to ask for one that was not counted is an error. Figures that are lower bounds,
//! because something was lost, are marked so in [`Report::exact`].
//!
//! ## Where nothing can be traced
//!
//! eBPF takes root, or the capabilities `CAP_BPF` and `CAP_PERFMON`; for a [`Command`] strace stands in where it can. An error that only says
//! that this machine or this user cannot trace is marked by [`RunError::is_unavailable`]. A test may be skipped then, for all to see
//! (libtest catches what `println!` and its kin write, but not this), and must not be where tracing is to work:
//!
//! ```no_run
//! use std::io::{Write as _, stderr};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (_, report) = match zctrace::trace(|| std::fs::copy("in.dat", "out.dat")) {
//!     Err(error) if error.is_unavailable() && std::env::var_os("CI").is_none() => {
//!         writeln!(stderr(), "SKIPPED: {error}")?;
//!         return Ok(());
//!     }
//!     traced => traced?,
//! };
//! assert!(report.exact);
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! ```text
//! command ──launch──▶ kernel ──probes──▶ maps/rows ──drain──▶ Trace ──analyse──▶ Report ──render──▶ person, file, exit code
//! ```
//!
//! Data flows one way, left to right: [`backend`] makes a [`trace::Trace`], [`report`] derives a [`report::Report`] from it
//! without any I/O (a private module `transfer` finds where bytes went and why), `render` shows that. [`syscall`] is the one table of
//! calls that all of them read. [`compare`] does this for several commands, and times them untraced. [`expect`] says whether a report is
//! as it should be, [`check`] whether commands are.
//!
//! This crate is a facade of two others: `zctrace-core` has what needs no I/O, `zctrace-capture` runs commands and records them. The
//! module `render` and the program are behind the feature `cli`, which is on by default. A crate that only tests with zctrace needs
//! neither, and is built faster without:
//!
//! ```toml
//! [dev-dependencies]
//! zctrace = { version = "0.1", default-features = false }
//! ```

pub mod check;
mod closure;
mod command;
pub mod compare;
#[cfg(feature = "cli")]
pub mod render;

pub use closure::{Tracer, trace};
pub use command::{Command, Output};
pub use zctrace_capture::{
    backend::{self, RunError},
    doctor, launch, privileges,
};
pub use zctrace_core::{
    Sysno, expect, histogram,
    report::{self, Report},
    syscall, trace, verify,
};

use zctrace_capture::{descendants, toolchain};
#[cfg(feature = "cli")]
use zctrace_core::signal;
use zctrace_core::{units, words};
