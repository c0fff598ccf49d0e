//! The pure part of `zctrace check`: reads the file of checks, and judges the reports of their runs.
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

pub use baseline::{Difference, State as DifferenceState, Tolerance, ToleranceError, Tolerances};
pub use figures::{Repeatability, Varying, figures, is_time};
pub use file::{FileError, parse};
pub use judge::{Attempt, CheckResult, ExpectationResult, Results, SCHEMA, Status, judge};
pub use plan::{Baseline, Check, Content, PreparedFile, ReportCommand, choose, timeout};
