//! What a report can be asked, and what differs between two reports.
//!
//! ```text
//! list ──reading──▶ value, unknown or lower bound ──comparison──▶ Difference ──▶ diff, baselines, compare, --verify
//!    └────────────▶ expectations
//! ```
//!
//! `list.rs` is the one list: each figure has a name (`write.calls`, `time.wall`), a unit, and how
//! it varies between runs of a command that always does the same. Expectations are made of it, and
//! every comparison of two reports.

mod arrival;
pub(crate) mod call_times;
pub(crate) mod comparison;
pub(crate) mod descriptor_flags;
pub(crate) mod diff;
pub(crate) mod list;
pub(crate) mod reading;
mod steady;
pub(crate) mod tolerance;
pub(crate) mod value;
