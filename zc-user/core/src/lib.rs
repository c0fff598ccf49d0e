//! The pure part of zctrace, which analyses the record of a run. It does no I/O, launches nothing
//! and prints nothing.
//!
//! ```text
//! Trace ──transfer──▶ Report ──expect, check──▶ verdicts
//!                        └─────diff, compare────▶ comparisons
//! ```
//!
//! Depend on the crate `zctrace` instead: it re-exports everything that is meant for others under
//! the same names. The modules [`ended`], [`errno`], [`options`], [`signal`], [`text`], [`units`]
//! and [`words`] are public for zctrace's own crates only.

pub mod check;
pub mod compare;
pub mod counts;
pub mod durable;
pub mod ended;
mod ends;
pub mod errno;
pub mod expect;
mod figures;
#[cfg(any(test, feature = "samples"))]
pub mod golden;
pub mod histogram;
pub mod left_open;
pub mod marked_spans;
pub mod options;
pub mod profile;
pub mod report;
pub mod signal;
pub mod slow_calls;
pub mod syscalls;
pub mod text;
pub mod touched;
pub mod trace;
mod transfer;
pub mod units;
mod verdict_words;
#[cfg(test)]
mod wording_tests;
pub mod words;

pub use ::syscalls::Sysno;
pub mod diff {
    //! What changed between two reports.

    pub use crate::figures::call_times::CallTimes;
    pub use crate::figures::descriptor_flags::DescriptorFlags;
    pub use crate::figures::diff::{Diff, DiffOutcome, SCHEMA, Side, WayDifference, WaySums};
}

pub use report::Report;
