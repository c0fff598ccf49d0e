//! The pure part of `zctrace check`: reads the file of checks, and judges the reports of their
//! runs.
//!
//! ```text
//! zctrace.toml ──parse──▶ Check     Check, Attempts ──judge──▶ CheckResult
//! ```

mod baseline;
mod figures;
mod file;
mod judge;
mod plan;
#[cfg(any(test, feature = "samples"))]
pub mod sample;

pub use baseline::{
    Difference, State as DifferenceState, Tolerance, ToleranceError, Tolerances, differences,
};
pub use figures::{Repeatability, Varying, figures, is_time};
pub use file::{FileError, FileErrors, parse};
pub use judge::{Attempt, CheckResult, ExpectationResult, Results, SCHEMA, Status, judge};
pub use plan::{Baseline, Check, Content, Place, PreparedFile, ReportCommand, choose, timeout};
